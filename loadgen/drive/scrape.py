"""The servers' own metrics, fetched beside the load: bytes are kept as they come, and read after the run."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import trio

from loadgen import __version__
from loadgen.errors import LoadgenError
from loadgen.net.exchange import Exchange
from loadgen.net.network import Network, network_of
from loadgen.net.reach import reach
from loadgen.net.route import Route
from loadgen.plan.schedule import SECOND_NS
from loadgen.results.journal import Journal
from loadgen.results.record import Scrape
from loadgen.wire.ending import COMPLETE, Ending
from loadgen.wire.framing import content_type
from loadgen.wire.secrets import masked_path

_ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.9,text/plain;version=0.0.4;q=0.8"
_TIMEOUT_S = 5.0
_MOST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Scraping:
    """What to scrape, and how often."""

    routes: Sequence[Route] = ()  # each target is a whole URL
    every_ns: int = SECOND_NS


class Scraper:
    """Scrapes every replica at once and then each period, until it is stopped; then once more."""

    def __init__(self, scraping: Scraping, *, epoch_ns: int, journal: Journal) -> None:
        self._every_s = scraping.every_ns / SECOND_NS
        self._replicas = [_Replica(route, epoch_ns=epoch_ns, journal=journal) for route in scraping.routes]
        self._stop = trio.Event()
        self._over = trio.Event()

    async def run(self) -> None:
        """Scrape until stopped; what fails is journalled, and nothing is raised."""
        async with trio.open_nursery() as networks:
            async with trio.open_nursery() as replicas:
                for replica in self._replicas:
                    replicas.start_soon(self._follow, replica, networks)
            networks.cancel_scope.cancel()
        for replica in self._replicas:
            replica.close()
        self._over.set()

    async def end(self) -> None:
        """Scrape once more, and stop."""
        self._stop.set()
        await self._over.wait()

    async def _follow(self, replica: "_Replica", networks: trio.Nursery) -> None:
        due_s = trio.current_time()
        while not self._stop.is_set():
            await replica.scrape(networks)
            # A slow answer takes the next moments' places; it never makes scrapes pile up.
            due_s = max(due_s + self._every_s, trio.current_time())
            with trio.move_on_at(due_s):
                await self._stop.wait()
        await replica.scrape(networks)


class _Replica:
    """One server's page of metrics, and the connections to it."""

    def __init__(self, route: Route, *, epoch_ns: int, journal: Journal) -> None:
        self._route = route
        self._epoch_ns = epoch_ns
        self._journal = journal
        self._network: Network | None = None
        target = route.target
        self._name = masked_path(str(target))
        self._head = (
            f"GET {target.path or '/'} HTTP/1.1\r\nhost: {target.authority}\r\nuser-agent: loadgen/{__version__}\r\n"
            f"accept: {_ACCEPT}\r\naccept-encoding: identity\r\n\r\n"
        ).encode()

    async def scrape(self, networks: trio.Nursery) -> None:
        """Fetch the page once and journal what came."""
        began_ns = time.monotonic_ns() - self._epoch_ns
        try:
            network = self._network or await self._connected(networks)
        except LoadgenError as error:
            self._keep(began_ns, _Page(), failure=str(error).partition("\n")[0])
            return
        page = _Page()
        exchange = Exchange(self._head, b"", page, page)
        async with trio.open_nursery() as nursery:

            async def give_up() -> None:
                await trio.sleep(_TIMEOUT_S)
                exchange.abandon(Ending("deadline"), network.now())

            nursery.start_soon(give_up)
            await network.perform(exchange)
            nursery.cancel_scope.cancel()
        network.lags_ns.clear()
        self._keep(exchange.sent_ns or began_ns, page, failure=_failure(page, exchange.ending or COMPLETE))

    def close(self) -> None:
        if self._network is not None:
            self._network.close()

    async def _connected(self, networks: trio.Nursery) -> Network:
        address = await reach(self._route)
        self._network = network_of(self._route, address, epoch_ns=self._epoch_ns)
        networks.start_soon(self._network.run)
        return self._network

    def _keep(self, at_ns: int, page: "_Page", *, failure: str | None) -> None:
        self._journal.append(
            Scrape(
                at_ns=at_ns,
                replica=self._name,
                failure=failure,
                content_type=page.content_type,
                server=page.server,
                body=b"" if failure else b"".join(page.pieces),
            )
        )


class _Page:
    """Who reads the answer, and owns its exchange."""

    ended = False

    def __init__(self) -> None:
        self.status: int | None = None
        self.content_type = ""
        self.server: str | None = None
        self.pieces: list[bytes] = []
        self.size = 0

    @property
    def broken(self) -> bool:
        return self.size > _MOST_BYTES

    def head(self, status: int, headers: list[tuple[bytes, bytes]], at_ns: int) -> None:
        self.status = status
        for name, value in headers:
            if name == b"content-type":
                self.content_type = content_type(value.decode("latin-1"))
            elif name == b"server":
                self.server = value.decode("latin-1")

    def body(self, data: bytes, at_ns: int, floor_ns: int) -> None:
        self.size += len(data)
        self.pieces.append(data)

    def sent(self, exchange: Exchange) -> None: ...

    def lingers(self, exchange: Exchange) -> None: ...


def _failure(page: _Page, ending: Ending) -> str | None:
    """Return why there is no page; None where it came whole."""
    if page.broken:
        return f"longer than {_MOST_BYTES >> 20} MiB"
    if ending is not COMPLETE:
        return f"no answer in {_TIMEOUT_S:g} s" if ending.how == "deadline" else f"{ending.how} ({ending.detail})"
    return None if page.status == 200 else f"answered {page.status}"
