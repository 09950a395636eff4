"""One client of HTTP/1.1: its requests are passed on one after the other, in the order they came."""

from collections.abc import Callable

import trio

from loadgen.servers.recorder.client import Client
from loadgen.servers.recorder.message import Headers, Request, failure, response_head
from loadgen.servers.recorder.reader import Refusal, RequestReader
from loadgen.servers.recorder.reply import Attendant, Reply

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_NO_BODY = (204, 304)


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
        self.write = self._outbox.write
        self._serve = serve
        self._refused = refused
        self._common_turn = turn
        self._reader = RequestReader()
        self._reply: PlainReply | None = None
        self._attendant: Attendant | None = None
        self._turn = trio.Event()
        self._is_advancing = False
        self._is_ending = False
        self._is_stopping = False

    async def run(self, data: bytes, at_ns: int) -> None:
        """Serve the client, whose first bytes are these, until it or an answer closes the connection."""
        try:
            with self._client.scope:
                while data:
                    async with self._common_turn:
                        if not self._is_ending:
                            self._reader.feed(data, at_ns)
                            self._advance()
                        await trio.lowlevel.checkpoint()
                    # Nothing is read while requests wait: a client that pipelines must not fill our memory.
                    while self._reader.ready and not self._is_ending:
                        self._turn = trio.Event()
                        await self._turn.wait()
                    data, at_ns = await self._client.read()
        finally:
            self.close()

    def stop(self) -> None:
        """Close as soon as no answer is in progress."""
        self._is_stopping = True
        if self._reply is None and not self._is_ending:
            self.close()

    def close(self, *, reset: bool = False) -> None:
        """Close now, whatever is unsent."""
        self._is_ending = True
        self._client.close(reset=reset)
        self._reader.close()
        self._turn.set()
        attendant, self._attendant, self._reply = self._attendant, None, None
        if attendant is not None:
            attendant.left()

    def _drained(self) -> None:
        if self._attendant is not None:
            self._attendant.drained()

    # -- the reply's side ----------------------------------------------------

    @property
    def waiting_bytes(self) -> int:
        return self._outbox.kept_bytes

    @property
    def is_closed(self) -> bool:
        return self._client.is_closed

    def answered(self, *, is_last: bool) -> None:
        """End the answer in progress."""
        self._reply = self._attendant = None
        if is_last or self._is_stopping:
            self._end()
        else:
            self._advance()

    def cut(self, *, reset: bool) -> None:
        """End the answer in progress, and the connection with it."""
        self._reply = self._attendant = None
        self._is_ending = True
        if reset:
            self._outbox.once_sent(lambda: self.close(reset=True))
        else:
            self._end()

    def _advance(self) -> None:
        if self._is_advancing:  # an answer that was given at once: the loop below goes on
            return
        self._is_advancing = True
        reader = self._reader
        while self._reply is None and not self._is_ending:
            if reader.ready:
                request = reader.ready.popleft()
                self._reply = PlainReply(self, request, keep_alive=request.keep_alive and not self._is_stopping)
                self._attendant = self._serve(request, self._reply)
            elif reader.refusal is not None:
                self._refuse(reader.refusal)
            elif reader.awaits_continue:
                reader.awaits_continue = False
                self.write(_CONTINUE)
            else:
                break
        self._is_advancing = False
        self._turn.set()

    def _refuse(self, refusal: Refusal) -> None:
        self._refused(refusal)
        headers, body = failure(refusal.status, refusal.kind, str(refusal))
        self.write(response_head(refusal.status, [*headers, (b"connection", b"close")]) + body)
        self._end()

    def _end(self) -> None:
        self._is_ending = True
        self._turn.set()
        self._client.linger()


class PlainReply:
    """One answer in the framing that its client understands."""

    def __init__(self, connection: Connection, request: Request, *, keep_alive: bool) -> None:
        self._connection = connection
        self._write = connection.write
        self._is_old = request.version == "1.0"
        self._is_head = request.method == "HEAD"
        self._keep_alive = keep_alive
        self._has_body = True
        self._is_chunked = False
        self._until_close = False

    @property
    def is_gone(self) -> bool:
        return self._connection.is_closed

    @property
    def waiting_bytes(self) -> int:
        return self._connection.waiting_bytes

    def interim(self, status: int, headers: Headers) -> None:
        if not self._is_old and status != 100:  # a 100 is between the two who speak of it: ours is sent long since
            self._write(response_head(status, headers))

    def head(self, status: int, headers: Headers) -> bool:
        headers = list(headers)
        self._has_body = not (self._is_head or status in _NO_BODY)
        if self._has_body and not any(name.lower() == b"content-length" for name, _ in headers):
            # Chunks also where the upstream ends its body by closing: so a cut cannot be taken for an end.
            self._is_chunked = not self._is_old
            self._until_close = self._is_old
            if self._is_chunked:
                headers.append((b"transfer-encoding", b"chunked"))
        if not self._keep_alive or self._until_close:
            headers.append((b"connection", b"close"))
        elif self._is_old:
            headers.append((b"connection", b"keep-alive"))
        return self._write(response_head(status, headers))

    def body(self, data: bytes) -> bool:
        if self._is_chunked:
            return self._write(b"%x\r\n%b\r\n" % (len(data), data))
        return not self._has_body or self._write(data)

    def end(self) -> None:
        if self._is_chunked:
            self._write(b"0\r\n\r\n")
        self._connection.answered(is_last=self._until_close or not self._keep_alive)

    def cut(self, *, reset: bool) -> None:
        # Where only the close says that the body is over, a close would be a lie.
        self._connection.cut(reset=reset or self._until_close)
