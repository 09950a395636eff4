"""One run from set-up to the last row: everything that must be open is opened, and closed, here."""

import gc
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import trio

from loadgen.drive.driver import Conduct, Driver
from loadgen.drive.pacer import TimerPacer
from loadgen.drive.scrape import Scraper, Scraping
from loadgen.drive.watch import Watch
from loadgen.net.network import make_ready, network_of
from loadgen.net.route import Route
from loadgen.net.target import Address
from loadgen.net.timer import Timer
from loadgen.plan.render import RenderedRequest
from loadgen.plan.schedule import Schedule
from loadgen.results.journal import Journal
from loadgen.results.record import Closed

SHOW_EVERY_S = 0.2
# From here the first request is due: everything is set up by then.
_HEAD_START_NS = 50_000_000
_TO_SCRAPE_NS = 1_000_000_000  # counters need a base from before the first request


@dataclass(frozen=True, slots=True)
class Clock:
    """Where the run's zero lies: monotonic ns, and Unix time in ns."""

    epoch_ns: int
    started_unix_ns: int


async def conduct_run(
    schedule: Schedule,
    requests: Sequence[RenderedRequest],
    route: Route,
    address: Address,
    journal: Journal,
    conduct: Conduct,
    scraping: Scraping,
    *,
    on_start: Callable[[Clock], None],
    on_progress: Callable[[Driver], None] | None = None,
) -> str | None:
    """Drive the schedule over `route` to `address`; return the name of the signal that stopped it, None when none did.

    `on_start` is told the clock before the first send; `on_progress` is called a few times a second.
    """
    make_ready(route)
    head_start_ns = _HEAD_START_NS + (_TO_SCRAPE_NS if scraping.routes else 0)
    epoch_ns = time.monotonic_ns() + head_start_ns
    on_start(Clock(epoch_ns, time.time_ns() + head_start_ns))
    network = network_of(route, address, epoch_ns=epoch_ns)
    stopped_by: str | None = None
    with Timer() as due, Timer() as tick:
        pacer = TimerPacer(due, epoch_ns=epoch_ns)
        driver = Driver(schedule, requests, network, pacer=pacer, journal=journal, conduct=conduct)
        scraper = Scraper(scraping, epoch_ns=epoch_ns, journal=journal)
        watch = Watch(driver, network, pacer=TimerPacer(tick, epoch_ns=epoch_ns), journal=journal)

        async def heed_signals() -> None:
            nonlocal stopped_by
            with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received:
                async for number in received:
                    stopped_by = stopped_by or signal.Signals(number).name
                    driver.stop("stopped")

        async def show_progress() -> None:
            while on_progress is not None:
                on_progress(driver)
                await trio.sleep(SHOW_EVERY_S)

        # A full collection takes tens of milliseconds, and would look like the server's latency.
        gc.collect()
        gc.freeze()
        gc.disable()
        try:
            async with trio.open_nursery() as nursery:
                for task in (network.run, watch.run, heed_signals, show_progress, scraper.run):
                    nursery.start_soon(task)
                await driver.run()
                await scraper.end()
                nursery.cancel_scope.cancel()
            watch.sample()
            watch.keep_lags()
            journal.append(Closed(pacer.now(), stopped_by))
        finally:
            gc.enable()
            gc.unfreeze()
            watch.close()
            network.close()
    return stopped_by
