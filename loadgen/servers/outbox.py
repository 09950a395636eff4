"""Writes that never wait: what the kernel does not take at once is kept, and a task of its own sends it on."""

import socket
from collections.abc import Callable

import trio

_PIECE = 1 << 18


class Outbox:
    """The sending half of one non-blocking socket; `on_gone` is called when the peer takes no more."""

    def __init__(
        self,
        connected: socket.socket,
        *,
        nursery: trio.Nursery,
        on_gone: Callable[[], None],
        on_drained: Callable[[], None] | None = None,
    ) -> None:
        self._socket = connected
        self._nursery = nursery
        self._on_gone = on_gone
        self._on_drained = on_drained
        self._kept = bytearray()
        self._on_sent: Callable[[], None] | None = None

    @property
    def kept_bytes(self) -> int:
        """How much waits for the peer to read on."""
        return len(self._kept)

    def write(self, data: bytes) -> bool:
        """Send, behind all that was written before; return whether all of it is with the kernel."""
        if self._kept:
            self._kept += data
            return False
        sent = self._send(data)
        if sent == len(data):
            return True
        self._kept += data[sent:]
        self._nursery.start_soon(self._send_kept)
        return False

    def end(self, then: Callable[[], None]) -> None:
        """Close this half of the connection once everything is sent, and call `then`."""
        self.once_sent(lambda: self._shut(then))

    def once_sent(self, then: Callable[[], None]) -> None:
        """Call `then` once everything is sent."""
        if self._kept:
            self._on_sent = then
        else:
            then()

    def drop(self) -> None:
        """Forget what is still kept, and whom to tell: the socket is closed."""
        self._kept.clear()
        self._on_sent = self._on_drained = None
        self._on_gone = _tell_nobody

    async def _send_kept(self) -> None:
        try:
            while self._kept:
                await trio.lowlevel.wait_writable(self._socket)
                del self._kept[: self._send(self._kept[:_PIECE])]
        except trio.ClosedResourceError:
            return
        if self._on_drained is not None:
            self._on_drained()
        if self._on_sent is not None:
            then, self._on_sent = self._on_sent, None
            then()

    def _send(self, data: bytes | bytearray) -> int:
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            self._on_gone()
            return len(data)

    def _shut(self, then: Callable[[], None]) -> None:
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self._on_gone()
        then()


def _tell_nobody() -> None:
    """Do nothing, in place of a callback that would keep the connection alive."""
