"""Where an answer goes: the client's side of one exchange, whatever protocol the client speaks."""

from typing import Protocol

from loadgen.servers.recorder.message import Headers

# So much may wait for a client that does not keep up; then its upstream is read no more until it has.
WAITING_MOST_BYTES = 1 << 18


class Reply(Protocol):
    """One answer on its way to a client; every call writes at once what can be written."""

    @property
    def is_gone(self) -> bool:
        """The client left: nobody reads this."""

    @property
    def waiting_bytes(self) -> int:
        """How much the client has not taken yet."""

    def interim(self, status: int, headers: Headers) -> None:
        """Pass on a 1xx."""

    def head(self, status: int, headers: Headers) -> bool:
        """Take the status and the headers that go to the client; return whether they are with the kernel."""

    def body(self, data: bytes) -> bool:
        """Take the next bytes of the body; return whether they are with the kernel, and nothing waits."""

    def end(self) -> None:
        """The answer is whole."""

    def cut(self, *, reset: bool) -> None:
        """The answer ends here, and the client must see that it is not whole."""


class Attendant(Protocol):
    """Who must know what becomes of an answer at the client's end."""

    def left(self) -> None:
        """The client is gone."""

    def drained(self) -> None:
        """The client has taken all that waited for it."""
