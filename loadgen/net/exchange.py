"""One request and what becomes of it on the network: the value that connections, the pump and the driver share."""

from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

import trio

from loadgen.wire.ending import Ending

Stamps: TypeAlias = Literal[
    "kernel",  # every read so far had the kernel's stamp
    "read",  # one had none: the moment we read it stands in
    "chunk",  # the moment at which a library delivered it: the second transport
]


class Sink(Protocol):
    """Who reads the response. Nothing here may raise: the caller is the loop that reads every socket."""

    @property
    def ended(self) -> bool:
        """No more frames are wanted: the rest of the message is awaited for a second at most."""

    @property
    def broken(self) -> bool:
        """Nothing more can be trusted: the connection is closed at once."""

    def head(self, status: int, headers: list[tuple[bytes, bytes]], at_ns: int) -> None: ...

    def body(self, data: bytes, at_ns: int, floor_ns: int) -> None: ...


class Owner(Protocol):
    """Who started the exchange and sets its deadlines."""

    def sent(self, exchange: "Exchange") -> None:
        """The request's first bytes were written, just now: `exchange.sent_ns`."""

    def lingers(self, exchange: "Exchange") -> None:
        """The end marker came and the message's end did not, so far."""


class Exchange:
    """A request ready to be written, and the moments that only the sockets know (ns since the run's start)."""

    __slots__ = (
        "body",
        "connected_ns",
        "done",
        "end_ns",
        "ending",
        "first_sent_ns",
        "head",
        "held",
        "is_head",
        "lingering",
        "on_interim",
        "owner",
        "reads",
        "resent",
        "reused",
        "scope",
        "sent_ns",
        "sink",
        "stamps",
        "transport",
        "untaken",
        "wire",
    )

    def __init__(self, head: bytes, body: bytes, sink: Sink, owner: Owner, *, is_head: bool = False) -> None:
        self.head = head
        self.body = body
        self.sink = sink
        self.owner = owner
        self.is_head = is_head  # a HEAD request: its response has no body, whatever its headers say
        self.done = trio.Event()
        self.ending: Ending | None = None
        self.connected_ns: int | None = None
        self.sent_ns: int | None = None
        self.first_sent_ns: int | None = None
        self.end_ns: int | None = None
        self.reused = False
        self.resent = False
        self.untaken = False  # its connection died before the server took the request
        self.lingering = False
        self.reads = 0
        self.stamps: Stamps = "kernel"
        self.transport: str | None = None  # "http/1.1" or "http/2", once it is sent
        self.scope: trio.CancelScope | None = None  # while connecting or writing
        self.wire: Wire | None = None  # what carries it now
        self.held: trio.Event | None = None  # while no more of the answer is to be read: set when it is again
        # Told of interim responses (103), where somebody wants to know.
        self.on_interim: Callable[[int, list[tuple[bytes, bytes]]], None] | None = None

    def again(self) -> None:
        """Make it ready for its second sending: no byte of an answer came to the first."""
        self.done = trio.Event()
        self.ending = self.end_ns = self.connected_ns = self.sent_ns = None
        self.stamps = "kernel"
        self.untaken, self.lingering, self.resent = False, False, True

    def hold(self) -> None:
        """Have no more of the answer read for now: who takes it does not keep up."""
        if self.held is None:
            self.held = trio.Event()
            if self.wire is not None:
                self.wire.watch(False)

    def release(self) -> None:
        """Go on after `hold`."""
        if self.held is not None:
            self.held.set()
            self.held = None
            if self.wire is not None:
                self.wire.watch(True)

    def abandon(self, ending: Ending, at_ns: int) -> None:
        """End it from our side, wherever it is; the first end stands."""
        if self.wire is not None:
            self.wire.abort()
        self.conclude(ending, at_ns)

    def conclude(self, ending: Ending, at_ns: int) -> None:
        """Set its end, once, and wake who waits for it."""
        if self.ending is not None:
            return
        self.ending = ending
        self.end_ns = at_ns
        self.wire = None
        if self.scope is not None:
            self.scope.cancel()
        self.done.set()


class Wire(Protocol):
    """What carries an exchange, as far as its owner may touch it."""

    def abort(self) -> None:
        """Close at once, telling nobody."""

    def watch(self, wanted: bool) -> None:
        """Read on, or no more until told."""
