"""The connections of one target: idle ones last in, first out, new ones as needed, never a wait for either."""

import trio

from loadgen.net.connection import Connection
from loadgen.net.dial import Dialler
from loadgen.net.exchange import Exchange
from loadgen.net.failures import NotConnected
from loadgen.net.pump import Pump
from loadgen.net.route import Route
from loadgen.net.target import Address
from loadgen.net.tls import TlsClient


class Connections:
    """Performs exchanges with one address, over HTTP/1.1, in plain or over TLS; the pump that reads them is its own."""

    def __init__(self, route: Route, address: Address, *, epoch_ns: int) -> None:
        tls = TlsClient(route.trust.context(route.alpn), route.target.host) if route.target.scheme == "https" else None
        self._dialler = Dialler(address, tls)
        self._connect_timeout_s = route.connect_timeout_s
        self._pump = Pump(epoch_ns=epoch_ns)
        self._idle: dict[Connection, None] = {}  # in the order they came back
        self.open = 0  # connections now, busy and idle
        self.lags_ns = self._pump.lags_ns

    def now(self) -> int:
        """Return ns since the run's start."""
        return self._pump.now()

    async def run(self) -> None:
        """Read until cancelled."""
        await self._pump.run()

    def close(self) -> None:
        """Close every connection."""
        self._pump.close()

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
        exchange.scope = trio.CancelScope(deadline=trio.current_time() + self._connect_timeout_s)
        try:
            sock, tls = await self._dialler.dial(exchange.scope)
        except NotConnected as failure:
            exchange.scope = None
            exchange.conclude(failure.ending, self._pump.now())
            return None
        exchange.scope = None
        self.open += 1
        return Connection(sock, tls, self._pump, self._returned)
