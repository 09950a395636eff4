"""What carries a run's exchanges, whichever way they go: the pump's connections, or a library's."""

from typing import Protocol

from loadgen.net.connections import Connections
from loadgen.net.exchange import Exchange
from loadgen.net.route import Route
from loadgen.net.target import Address


class Network(Protocol):
    """The connections of one target."""

    lags_ns: list[int]  # how many ns each read came after its bytes, since somebody last cleared it

    @property
    def open(self) -> int:
        """Connections now, busy and idle."""

    def now(self) -> int:
        """Return ns since the run's start."""

    async def perform(self, exchange: Exchange) -> None:
        """Send the request, return when the exchange has ended; its end is in it, and nothing is raised."""

    async def run(self) -> None:
        """Do what must be done while exchanges are performed, until cancelled."""

    def close(self) -> None:
        """Close every connection."""


def make_ready(route: Route) -> None:
    """Load what following the route takes, which is no small matter, before a clock runs; raises UsageError."""
    if route.target.scheme == "https":
        route.trust.context(route.alpn)
    if _is_for_the_library(route):
        import loadgen.net.second  # noqa: F401


def network_of(route: Route, address: Address, *, epoch_ns: int) -> Network:
    """Return what can follow the route to `address` (the proxy's, where there is one)."""
    if _is_for_the_library(route):
        from loadgen.net.second import SecondTransport

        return SecondTransport(route, address, epoch_ns=epoch_ns)
    return Connections(route, address, epoch_ns=epoch_ns)


def _is_for_the_library(route: Route) -> bool:
    return route.http2 or route.proxy is not None
