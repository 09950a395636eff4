"""One exchange on its way: the request to the upstream, the answer to the client as it comes, a note of both."""

from typing import TYPE_CHECKING

from loadgen.net.exchange import Exchange
from loadgen.servers.recorder.message import Headers, Request, end_to_end, failure, upstream_head
from loadgen.servers.recorder.note import Note
from loadgen.servers.recorder.reply import WAITING_MOST_BYTES, Reply
from loadgen.wire.ending import COMPLETE, Ending

if TYPE_CHECKING:
    from loadgen.servers.recorder.room import Room

_LEFT = Ending("abandoned", "client_left")
_TIMEOUTS = ("timeout", "tls_timeout", "proxy_timeout")


class _Exchange(Exchange):
    """An exchange that says at once that its answer is whole: a task that waits would say it late."""

    __slots__ = ("_passage",)

    def __init__(self, head: bytes, body: bytes, passage: "Passage", *, is_head: bool) -> None:
        super().__init__(head, body, passage, passage, is_head=is_head)
        self._passage = passage
        self.on_interim = passage.interim

    def conclude(self, ending: Ending, at_ns: int) -> None:
        if self.ending is None and ending is COMPLETE:
            self._passage.whole()
        super().conclude(ending, at_ns)


class Passage:
    """What reads the answer (a Sink), owns the exchange, and attends to the client's reply."""

    ended = False  # every byte is wanted
    broken = False

    def __init__(self, room: "Room", request: Request, reply: Reply, note: Note | None) -> None:
        self._room = room
        self._reply = reply
        self._note = note
        self._exchange: _Exchange | None = None
        self._request = request
        self._status: int | None = None  # of the answer, once it has begun

    async def run(self) -> None:
        """Pass the request on and its answer back; returns when both are over and noted."""
        request, room = self._request, self._room
        head = upstream_head(request, authority=room.authority, prefix=room.prefix)
        exchange = _Exchange(head, request.body, self, is_head=request.method == "HEAD")
        self._exchange = exchange
        try:
            if self._reply.is_gone:
                self.left()
            else:
                await room.network.perform(exchange)
        finally:
            self._exchange = None  # or the two would hold each other
            self._finish(exchange.ending or Ending("abandoned"))

    def abandon(self) -> None:
        """Cut it off on both sides."""
        if self._exchange is not None:
            self._exchange.abandon(Ending("abandoned", "stopped"), self._room.network.now())

    # -- the upstream's side -------------------------------------------------

    def sent(self, exchange: Exchange) -> None:
        if exchange.reused and exchange.sent_ns is not None:
            self._room.request_delays.note(exchange.sent_ns - self._request.whole_ns)
        if self._note is not None:
            self._note.sent_ns = exchange.sent_ns

    def lingers(self, exchange: Exchange) -> None:
        """Never: the end marker of a stream is nothing to a proxy."""

    def interim(self, status: int, headers: Headers) -> None:
        self._reply.interim(status, end_to_end(headers))

    def head(self, status: int, headers: Headers, at_ns: int) -> None:
        self._status = status
        passed = end_to_end(headers)
        at_once = self._reply.head(status, passed)
        self._room.passed(at_ns, at_once=at_once)
        if self._note is not None:
            self._note.head(status, passed)

    def body(self, data: bytes, at_ns: int, floor_ns: int) -> None:
        at_once = self._reply.body(data)
        self._room.passed(at_ns, len(data), at_once=at_once)
        if self._note is not None:
            self._note.body(data, at_ns)
        if not at_once and self._reply.waiting_bytes > WAITING_MOST_BYTES and self._exchange is not None:
            self._exchange.hold()

    def whole(self) -> None:
        """Take that the answer came whole."""
        if not self._reply.is_gone:
            self._reply.end()

    # -- the client's side ---------------------------------------------------

    def left(self) -> None:
        """Take that the client is gone: the upstream is closed, too."""
        if self._exchange is not None:
            self._exchange.abandon(_LEFT, self._room.network.now())

    def drained(self) -> None:
        """Take that the client has caught up."""
        if self._exchange is not None:
            self._exchange.release()

    # -- the end -------------------------------------------------------------

    def _finish(self, ending: Ending) -> None:
        clean = ending is COMPLETE
        if not clean:
            if self._status is None and ending.how in ("connect", "limit", "malformed"):
                self._explain(ending)
                clean = True
            elif not self._reply.is_gone:
                self._reply.cut(reset=ending.detail in ("reset", "stopped"))
        self._room.finished(self, self._note, ending, clean=clean)

    def _explain(self, ending: Ending) -> None:
        """Answer in the upstream's place: what a client of its own would have seen cannot be passed on."""
        detail = ending.detail or "error"
        at_ns = self._room.network.now()
        if ending.how == "malformed":
            kind, status, words = "upstream_malformed", 502, f"the upstream's answer is no HTTP ({detail})"
        elif detail in _TIMEOUTS:
            kind, status, words = "upstream_timeout", 504, f"no connection to the upstream in time ({detail})"
        elif ending.how == "limit":
            kind, status, words = "limit", 502, f"the recorder has reached a limit of its machine ({detail})"
        else:
            kind, status, words = "upstream_unreachable", 502, f"no connection to the upstream ({detail})"
        headers, body = failure(status, kind, words)
        if self._note is not None:
            self._note.head(status, headers)
            self._note.body(body, at_ns)
        if not self._reply.is_gone:
            self._reply.head(status, headers)
            self._reply.body(body)
            self._reply.end()
