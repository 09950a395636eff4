"""One client's connection: requests are answered one after the other, in the order they came."""

import socket
import struct
from collections.abc import Callable

import trio

from loadgen.servers.outbox import Outbox
from loadgen.servers.simulated.request import Request, RequestReader
from loadgen.servers.simulated.responses import CONTINUE

_READ_BYTES = 1 << 16
# A socket closed over unread input resets the connection, and the answer is lost with it: the client closes first.
_LINGER_S = 2.0
_RESET = struct.pack("ii", 1, 0)


class Connection:
    """Reads requests and hands each to `respond`, which writes and then calls `answered`, at once or later.

    While an answer is in progress `on_leaving` may be set: it is called if the client goes away first.
    """

    def __init__(
        self,
        connected: socket.socket,
        *,
        nursery: trio.Nursery,
        respond: Callable[[Request, "Connection"], None],
    ) -> None:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connected
        self._respond = respond
        self._reader = RequestReader()
        self._outbox = Outbox(connected, nursery=nursery, on_gone=self.close)
        self.write = self._outbox.write
        self.on_leaving: Callable[[], None] | None = None
        self._scope = trio.CancelScope()
        self._turn = trio.Event()
        self._busy = False
        self._advancing = False
        self._last = False  # the answer in progress is the connection's last
        self._ending = False
        self._closed = False

    async def run(self) -> None:
        """Serve the client until it, or an answer, closes the connection."""
        try:
            with self._scope:
                while not self._closed:
                    # Nothing is read while requests wait: a client that pipelines must not fill our memory.
                    if self._reader.ready and not self._ending:
                        self._turn = trio.Event()
                        await self._turn.wait()
                    else:
                        await self._read()
        finally:
            self.close()

    def answered(self) -> None:
        """End the answer in progress; all of it is written."""
        self._busy = False
        self.on_leaving = None
        if self._last:
            self._end()
        self._advance()

    def cut(self, *, reset: bool) -> None:
        """Close in the middle of an answer."""
        self.on_leaving = None
        if reset and not self._closed:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.close()

    def close(self) -> None:
        """Close now, whatever is unsent."""
        if self._closed:
            return
        self._closed = self._ending = True
        self._outbox.drop()
        self._reader.close()
        trio.lowlevel.notify_closing(self._socket)
        self._socket.close()
        self._turn.set()
        if self.on_leaving is not None:
            self.on_leaving()
            self.on_leaving = None

    async def _read(self) -> None:
        try:
            await trio.lowlevel.wait_readable(self._socket)
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except (OSError, trio.ClosedResourceError):
            data = b""
        if not data:
            self.close()
        elif not self._ending:
            self._reader.feed(data)
            self._advance()

    def _advance(self) -> None:
        if self._advancing:  # an answer that was given at once: the loop below goes on
            return
        self._advancing = True
        reader = self._reader
        while not (self._busy or self._ending):
            if reader.ready:
                request = reader.ready.popleft()
                self._busy = True
                self._last = not request.keep_alive
                self._respond(request, self)
            elif reader.refusal is not None:
                self.write(reader.refusal.response(close=True))
                self._end()
            elif reader.awaits_continue:
                reader.awaits_continue = False
                self.write(CONTINUE)
            else:
                break
        self._advancing = False
        if self._ending or not reader.ready:
            self._turn.set()

    def _end(self) -> None:
        self._ending = True
        self._outbox.end(then=self._linger)

    def _linger(self) -> None:
        self._scope.deadline = trio.current_time() + _LINGER_S
