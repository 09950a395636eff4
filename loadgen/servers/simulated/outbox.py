"""Writes that never wait: what the kernel does not take at once is kept, and a task of its own sends it on."""

import socket
from collections.abc import Callable

import trio

_PIECE = 1 << 18


class Outbox:
    """The sending half of one non-blocking socket; `on_gone` is called when the peer takes no more."""

    def __init__(self, connected: socket.socket, *, nursery: trio.Nursery, on_gone: Callable[[], None]) -> None:
        self._socket = connected
        self._nursery = nursery
        self._on_gone = on_gone
        self._kept = bytearray()
        self._on_end: Callable[[], None] | None = None

    def write(self, data: bytes) -> None:
        """Send, behind all that was written before."""
        if self._kept:
            self._kept += data
            return
        sent = self._send(data)
        if sent < len(data):
            self._kept += data[sent:]
            self._nursery.start_soon(self._send_kept)

    def end(self, then: Callable[[], None]) -> None:
        """Close this half of the connection once everything is sent, and call `then`."""
        self._on_end = then
        if not self._kept:
            self._shut(then)

    def drop(self) -> None:
        """Forget what is still kept: the socket is closed."""
        self._kept.clear()

    async def _send_kept(self) -> None:
        try:
            while self._kept:
                await trio.lowlevel.wait_writable(self._socket)
                del self._kept[: self._send(self._kept[:_PIECE])]
        except trio.ClosedResourceError:
            return
        if self._on_end is not None:
            self._shut(self._on_end)

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
