"""One client of HTTP/2, by prior knowledge: its requests are passed on side by side."""

from collections.abc import Callable

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import trio
from h2.errors import ErrorCodes
from h2.settings import SettingCodes

from loadgen.servers.recorder.client import Client
from loadgen.servers.recorder.message import Headers, Request, failure
from loadgen.servers.recorder.reader import BODY_MOST_BYTES, Refusal
from loadgen.servers.recorder.reply import Attendant, Reply

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# What a client may send us without waiting, of one request and of all.
_STREAM_WINDOW = 1 << 20
_WINDOW = 1 << 24
_STREAMS_MOST = 1000


class Connection:
    """`serve` starts an exchange and returns who attends to it; `refused` is told of what is not passed on."""

    def __init__(
        self,
        client: Client,
        *,
        serve: Callable[[Request, Reply], Attendant],
        refused: Callable[[Refusal], None],
        turn: trio.Semaphore,
    ) -> None:
        self._client = client
        self._outbox = client.outbox(on_gone=self.close, on_drained=self._drained)
        self._serve = serve
        self._refused = refused
        self._common_turn = turn
        # Answers go on as they came, whatever this library thinks of their headers.
        config = h2.config.H2Configuration(client_side=False, header_encoding=None, validate_outbound_headers=False)
        self.h2 = h2.connection.H2Connection(config)
        self._streams: dict[int, Stream] = {}
        self._is_stopping = False
        self._is_ending = False

    async def run(self, data: bytes, at_ns: int) -> None:
        """Serve the client, whose first bytes are these, until it leaves."""
        self.h2.initiate_connection()
        self.h2.update_settings(
            {SettingCodes.INITIAL_WINDOW_SIZE: _STREAM_WINDOW, SettingCodes.MAX_CONCURRENT_STREAMS: _STREAMS_MOST}
        )
        self.h2.increment_flow_control_window(_WINDOW)
        try:
            with self._client.scope:
                while data:
                    async with self._common_turn:
                        if not self._is_ending:
                            self._take(data, at_ns)
                        await trio.lowlevel.checkpoint()
                    data, at_ns = await self._client.read()
        finally:
            self.close()

    def stop(self) -> None:
        """Take no new request, and close as soon as no answer is in progress."""
        self._is_stopping = True
        self._end_if_idle()

    def close(self, *, reset: bool = False) -> None:
        """Close now, whatever is unsent."""
        self._is_ending = True
        self._client.close(reset=reset)
        for stream in list(self._streams.values()):
            self._drop(stream)

    # -- the client's side ---------------------------------------------------

    def _take(self, data: bytes, at_ns: int) -> None:
        try:
            for event in self.h2.receive_data(data):
                self._heed(event, at_ns)
        except h2.exceptions.ProtocolError as error:
            self._refused(Refusal(400, "malformed_request", f"malformed HTTP/2: {error}"))
            self.flush()  # the library has said why
            self._end()
            return
        self.flush()
        self._end_if_idle()

    def _heed(self, event: h2.events.Event, at_ns: int) -> None:
        match event:
            case h2.events.RequestReceived():
                if self._is_stopping:
                    self.h2.reset_stream(event.stream_id, ErrorCodes.REFUSED_STREAM)
                    return
                stream = Stream(self, event.stream_id, list(event.headers), at_ns)
                self._streams[event.stream_id] = stream
                stream.greet()
            case h2.events.DataReceived():
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                if (found := self._streams.get(event.stream_id)) is not None:
                    self._grow(found, event.data)
            case h2.events.StreamEnded():
                if (found := self._streams.get(event.stream_id)) is not None:
                    self._pass_on(found, at_ns)
            case h2.events.StreamReset():
                if (found := self._streams.get(event.stream_id)) is not None:
                    self._drop(found)
            case h2.events.WindowUpdated() | h2.events.RemoteSettingsChanged():
                self._let_go()

    def _grow(self, stream: "Stream", data: bytes) -> None:
        stream.received += data
        if len(stream.received) > BODY_MOST_BYTES:
            self._refuse(stream, Refusal(413, "body_too_large", f"the body is longer than {BODY_MOST_BYTES} bytes"))

    def _pass_on(self, stream: "Stream", at_ns: int) -> None:
        if not stream.path.startswith(b"/"):
            self._refuse(stream, Refusal(400, "malformed_request", "the request's target is no path"))
        else:
            stream.attendant = self._serve(stream.request(at_ns), stream)

    def _refuse(self, stream: "Stream", refusal: Refusal) -> None:
        self._refused(refusal)
        headers, body = failure(refusal.status, refusal.kind, str(refusal))
        stream.head(refusal.status, headers)
        stream.received = bytearray()
        stream.body(body)
        stream.end()

    def _let_go(self) -> None:
        """Send what waited for the client's window."""
        for stream in list(self._streams.values()):
            stream.push()

    def _drained(self) -> None:
        for stream in list(self._streams.values()):
            stream.drained()

    def _drop(self, stream: "Stream") -> None:
        self._streams.pop(stream.id, None)
        stream.is_gone = True
        attendant, stream.attendant = stream.attendant, None
        if attendant is not None:
            attendant.left()

    # -- the replies' side ---------------------------------------------------

    @property
    def kept_bytes(self) -> int:
        return self._outbox.kept_bytes

    def flush(self) -> bool:
        """Write what the library has to send; return whether all of it is with the kernel."""
        data = self.h2.data_to_send()
        return self._outbox.write(data) if data else not self._outbox.kept_bytes

    def answered(self, stream: "Stream") -> None:
        """End an answer."""
        self._streams.pop(stream.id, None)
        stream.attendant = None
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self._is_stopping and not self._streams and not self._is_ending:
            # Only now: there are clients that take a farewell for the end of what is in progress, too.
            self.h2.close_connection()
            self.flush()
            self._end()

    def _end(self) -> None:
        self._is_ending = True
        self._client.linger()


class Stream:
    """One request as it comes, and the reply to it."""

    def __init__(self, connection: Connection, stream_id: int, headers: Headers, at_ns: int) -> None:
        pseudo = {name: value for name, value in headers if name.startswith(b":")}
        self.id = stream_id
        self.received = bytearray()  # the body of the request
        self.path = pseudo.get(b":path", b"").partition(b"#")[0]
        self.attendant: Attendant | None = None
        self.is_gone = False
        self._connection = connection
        self._method = pseudo.get(b":method", b"GET").decode("latin-1")
        self._headers = _plain(headers)
        self._arrived_ns = at_ns
        self._has_body = True
        self._waiting = bytearray()  # of the answer, for the client's window
        self._is_whole = False

    def request(self, at_ns: int) -> Request:
        """Return the request, which came whole at `at_ns`."""
        body, self.received = bytes(self.received), bytearray()
        return Request(
            method=self._method,
            path=self.path,
            version="2",
            headers=self._headers,
            body=body,
            keep_alive=True,
            arrived_ns=self._arrived_ns,
            whole_ns=at_ns,
        )

    def greet(self) -> None:
        """Tell a client to go on that holds its body back until it is told."""
        if any(name == b"expect" for name, _ in self._headers):
            self._connection.h2.send_headers(self.id, [(b":status", b"100")])

    @property
    def waiting_bytes(self) -> int:
        return len(self._waiting) + self._connection.kept_bytes

    def interim(self, status: int, headers: Headers) -> None:
        if not self.is_gone and status != 100:
            self._send_head(status, headers, is_all=False)

    def head(self, status: int, headers: Headers) -> bool:
        if self.is_gone:
            return True
        self._has_body = not (self._method == "HEAD" or status in (204, 304))
        return self._send_head(status, headers, is_all=not self._has_body)

    def _send_head(self, status: int, headers: Headers, *, is_all: bool) -> bool:
        lines = [(b":status", b"%d" % status), *((name.lower(), value) for name, value in headers)]
        self._connection.h2.send_headers(self.id, lines, end_stream=is_all)
        return self._connection.flush()

    def body(self, data: bytes) -> bool:
        if self.is_gone or not self._has_body:
            return True
        self._waiting += data
        return self.push()

    def push(self) -> bool:
        """Send what the client's window takes; return whether nothing waits."""
        wire, waiting = self._connection.h2, self._waiting
        had = bool(waiting)
        while waiting and (room := min(wire.local_flow_control_window(self.id), wire.max_outbound_frame_size)) > 0:
            wire.send_data(self.id, bytes(waiting[:room]))
            del waiting[:room]
        if waiting:
            self._connection.flush()
            return False
        if self._is_whole and self._has_body:
            self._has_body = False
            wire.end_stream(self.id)
        at_once = self._connection.flush()
        if self._is_whole:
            self._connection.answered(self)
        elif had and at_once:
            self.drained()
        return at_once

    def drained(self) -> None:
        """Tell who attends that the client has caught up, if it has."""
        if self.attendant is not None and not self._waiting:
            self.attendant.drained()

    def end(self) -> None:
        if not self.is_gone:
            self._is_whole = True
            self.push()

    def cut(self, *, reset: bool) -> None:
        if not self.is_gone:
            self._connection.h2.reset_stream(self.id, ErrorCodes.CANCEL if reset else ErrorCodes.INTERNAL_ERROR)
            self._connection.flush()
            self._connection.answered(self)


def _plain(headers: Headers) -> Headers:
    """Return the headers as HTTP/1.1 has them: no pseudo ones, the cookie in one piece."""
    cookies = [value for name, value in headers if name == b"cookie"]
    plain = [(name, value) for name, value in headers if not name.startswith(b":") and name != b"cookie"]
    return [*plain, (b"cookie", b"; ".join(cookies))] if cookies else plain
