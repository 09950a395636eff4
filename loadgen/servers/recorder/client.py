"""One client's socket: reads with the kernel's stamps, writes that never wait."""

import socket
import struct
from collections.abc import Callable
from time import monotonic_ns

import trio

from loadgen.net.stamps import ANCILLARY_BYTES, stamp_of, wall_offset_ns
from loadgen.servers.outbox import Outbox

_READ_BYTES = 1 << 18
# A socket closed over unread input resets the connection, and the answer is lost with it: the client closes first.
_LINGER_S = 2.0
_RESET = struct.pack("ii", 1, 0)


class Client:
    """An accepted socket; its reads are stamped with ns since `epoch_ns`."""

    def __init__(self, connected: socket.socket, *, nursery: trio.Nursery, epoch_ns: int) -> None:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connected
        self._epoch_ns = epoch_ns
        self._nursery = nursery
        self._outbox: Outbox | None = None
        self.scope = trio.CancelScope()  # of whoever reads
        self.is_closed = False

    def outbox(self, *, on_gone: Callable[[], None], on_drained: Callable[[], None]) -> Outbox:
        """Return what writes to it, and tells when it takes no more, and when it has taken all that was kept for it."""
        self._outbox = Outbox(self._socket, nursery=self._nursery, on_gone=on_gone, on_drained=on_drained)
        return self._outbox

    async def read(self) -> tuple[bytes, int]:
        """Return the next bytes and when the last of them arrived; b"" when no more will come."""
        while True:
            try:
                await trio.lowlevel.wait_readable(self._socket)
                data, ancillary, _, _ = self._socket.recvmsg(_READ_BYTES, ANCILLARY_BYTES)
            except BlockingIOError:
                continue
            except (OSError, ValueError, trio.ClosedResourceError):
                return b"", 0
            now = monotonic_ns() - self._epoch_ns
            stamp = stamp_of(ancillary, wall_offset_ns() - self._epoch_ns, 0, now) if ancillary else None
            return data, now if stamp is None else stamp

    def linger(self) -> None:
        """Say that nothing more comes, and let the client close first, for a moment."""
        if self._outbox is not None:
            self._outbox.end(then=self._wait)

    def _wait(self) -> None:
        self.scope.deadline = trio.current_time() + _LINGER_S

    def close(self, *, reset: bool = False) -> None:
        """Close now, whatever is unsent."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._outbox is not None:
            self._outbox.drop()
        if reset:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        trio.lowlevel.notify_closing(self._socket)
        self._socket.close()
