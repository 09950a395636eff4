"""The connections of one target: idle ones last in, first out, new ones as needed, never a wait for either."""

import errno
import socket

import trio

from loadgen.net.connection import Connection
from loadgen.net.exchange import Exchange
from loadgen.net.pump import Pump
from loadgen.net.stamps import ask_for_stamps
from loadgen.net.target import Address
from loadgen.wire.ending import Ending

# Ours, not the server's.
_LIMITS = {
    errno.EMFILE: "descriptors",
    errno.ENFILE: "descriptors",
    errno.EADDRNOTAVAIL: "ports",
    errno.ENOBUFS: "memory",
    errno.ENOMEM: "memory",
}
_REFUSALS = {
    errno.ECONNREFUSED: "refused",
    errno.ECONNRESET: "reset",
    errno.EHOSTUNREACH: "unreachable",
    errno.ENETUNREACH: "unreachable",
    errno.ETIMEDOUT: "timeout",
}


class Connections:
    """Performs exchanges with one address, over HTTP/1.1."""

    def __init__(self, address: Address, pump: Pump, *, connect_timeout_s: float) -> None:
        self._address = address
        self._pump = pump
        self._connect_timeout_s = connect_timeout_s
        self._idle: dict[Connection, None] = {}  # in the order they came back
        self.open = 0  # connections now, busy and idle

    def now(self) -> int:
        """Return ns since the run's start."""
        return self._pump.now()

    async def perform(self, exchange: Exchange) -> None:
        """Send the request, return when the exchange has ended; its end is in it, and nothing is raised."""
        await self._perform_once(exchange, self._take_idle())
        ending = exchange.ending
        if exchange.untaken and ending is not None and ending.how == "cut" and not exchange.resent:
            exchange.again()
            await self._perform_once(exchange, None)

    async def _perform_once(self, exchange: Exchange, connection: Connection | None) -> None:
        exchange.reused = connection is not None
        if connection is None:
            connection = await self._open(exchange)
            if connection is None:
                return
        if exchange.ending is not None:  # it was given up while it connected
            connection.close()
            return
        exchange.connected_ns = self._pump.now()
        await connection.carry(exchange)
        await exchange.done.wait()

    def _take_idle(self) -> Connection | None:
        while self._idle:
            connection = self._idle.popitem()[0]
            if connection.looks_alive():
                return connection
            connection.close()
        return None

    def _returned(self, connection: Connection, can_carry: bool) -> None:
        if can_carry:
            self._idle[connection] = None
        else:
            self._idle.pop(connection, None)
            self.open -= 1

    async def _open(self, exchange: Exchange) -> Connection | None:
        """Return a new connection, or None with the exchange's end set."""
        sock = None
        try:
            sock = socket.socket(self._address.family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ask_for_stamps(sock)
            failure = await self._connect(sock, exchange)
            if failure is None:
                self.open += 1
                return Connection(sock, self._pump, self._returned)
        except OSError as error:
            failure = _ending_of(error.errno)
        if sock is not None:
            trio.lowlevel.notify_closing(sock)
            sock.close()
        exchange.conclude(failure, self._pump.now())
        return None

    async def _connect(self, sock: socket.socket, exchange: Exchange) -> Ending | None:
        code = sock.connect_ex(self._address.sockaddr)
        if code == errno.EINPROGRESS:
            with trio.move_on_after(self._connect_timeout_s) as exchange.scope:
                await trio.lowlevel.wait_writable(sock)
            was_cancelled = exchange.scope.cancelled_caught
            exchange.scope = None
            if was_cancelled:  # by the time-out; or by an end that was set already, which stands
                return Ending("connect", "timeout")
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        return _ending_of(code) if code else None


def _ending_of(code: int | None) -> Ending:
    if code in _LIMITS:
        return Ending("limit", _LIMITS[code])
    return Ending("connect", _REFUSALS.get(code or 0) or errno.errorcode.get(code or 0, "error").lower())
