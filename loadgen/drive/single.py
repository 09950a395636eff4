"""One request, outside any schedule: sent at once, watched to its end."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import trio

from loadgen.drive.driver import LINGER_NS
from loadgen.drive.flight import Flight
from loadgen.net.exchange import Exchange
from loadgen.net.network import network_of
from loadgen.net.reach import reach
from loadgen.net.route import Route
from loadgen.plan.render import RenderedRequest, Sign
from loadgen.results.outcome import Rules
from loadgen.results.reading import Reading
from loadgen.results.record import Row
from loadgen.wire.ending import Ending


@dataclass(frozen=True, slots=True)
class Observation:
    """What became of the request, its row's moments counted from its submission; and the response's body."""

    row: Row
    content_type: str
    body: bytes


async def observe(
    route: Route,
    request: RenderedRequest,
    *,
    deadline_ns: int,
    rules: Rules,
    sign: Sign | None = None,
    secrets: tuple[str, ...] = (),
) -> Observation:
    """Send one request and see it end; the deadline counts from its submission. Raises TargetError when unreachable."""
    address = await reach(route)
    network = network_of(route, address, epoch_ns=time.monotonic_ns())
    kept = _Kept()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(network.run)
            ends = _Ends(nursery, network.now)
            signature = sign(request) if sign is not None and request.to_sign else None
            exchange = Exchange(request.head_for(None, signature), request.body, kept, ends)
            flight = Flight(
                seq=0,
                place=0,
                due_ns=None,
                is_warmup=False,
                request=request,
                exchange=exchange,
                reading=kept.reading,
            )
            flight.fired_ns = flight.admitted_ns = network.now()
            ends.after(deadline_ns, exchange, Ending("deadline"))
            await network.perform(exchange)
            nursery.cancel_scope.cancel()
    finally:
        network.close()
    return Observation(flight.row(rules, secrets=secrets), kept.reading.content_type, bytes(kept.content))


class _Kept:
    """A sink that keeps the body beside its reading."""

    def __init__(self) -> None:
        self.reading = Reading()
        self.content = bytearray()

    @property
    def ended(self) -> bool:
        return self.reading.ended

    @property
    def broken(self) -> bool:
        return self.reading.broken

    def head(self, status: int, headers: list[tuple[bytes, bytes]], at_ns: int) -> None:
        self.reading.head(status, headers, at_ns)

    def body(self, data: bytes, at_ns: int, floor_ns: int) -> None:
        self.content += data
        self.reading.body(data, at_ns, floor_ns)


class _Ends:
    """The owner of the one exchange: ends it from our side when its time is over."""

    def __init__(self, nursery: trio.Nursery, now: Callable[[], int]) -> None:
        self._nursery = nursery
        self._now = now

    def sent(self, exchange: Exchange) -> None:
        """Nothing waits for this: the deadline counts from the submission."""

    def lingers(self, exchange: Exchange) -> None:
        self.after(LINGER_NS, exchange, Ending("lingered"))

    def after(self, delay_ns: int, exchange: Exchange, ending: Ending) -> None:
        async def end() -> None:
            await trio.sleep(delay_ns / 1e9)
            exchange.abandon(ending, self._now())

        self._nursery.start_soon(end)
