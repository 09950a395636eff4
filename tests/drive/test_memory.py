"""A run leaves nothing for the garbage collector, which is off while load runs."""

import gc
import time

import trio

from loadgen.drive.driver import Conduct, Driver
from loadgen.drive.pacer import TimerPacer
from loadgen.net.network import network_of
from loadgen.net.reach import reach
from loadgen.net.route import Route
from loadgen.net.target import parse_target
from loadgen.net.timer import Timer
from loadgen.plan.arrivals import Stage, draw
from loadgen.plan.recordings.prompts import Prompt, request_of
from loadgen.plan.render import render
from loadgen.plan.schedule import open_loop
from loadgen.results.journal import Journal


async def test_ten_thousand_requests_leave_no_cycle_behind(simulate, tmp_path):
    url = simulate(
        "--ttft", "1ms", "--itl", "1ms", "--tokens", "2", "--slots", "0", "--cut-pct", "5", "--reject-pct", "5"
    )
    route = Route(target=parse_target(url))
    recorded = [request_of(Prompt("hello"), api="openai-chat", model="sim")]
    times = draw([Stage(1500, 1500, 1000)], arrivals="constant", seed=0, limit=10_500)
    schedule = open_loop(recorded, times)
    rendered = [render(recorded[0], place=0, authority=route.target.authority)]
    address = await reach(route)
    journal = Journal(tmp_path / "records")
    epoch_ns = time.monotonic_ns()
    network = network_of(route, address, epoch_ns=epoch_ns)
    found = -1

    async def collect_after_the_start(driver: Driver) -> None:
        nonlocal found
        while driver.outcomes.total() < 500:
            await trio.sleep(0.01)
        gc.collect()
        gc.disable()
        while driver.outcomes.total() < 10_500:
            await trio.sleep(0.01)
        found = gc.collect()
        gc.enable()

    with Timer() as timer:
        pacer = TimerPacer(timer, epoch_ns=epoch_ns)
        driver = Driver(schedule, rendered, network, pacer=pacer, journal=journal, conduct=Conduct(run="gc"))
        try:
            with trio.fail_after(60):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(network.run)
                    nursery.start_soon(collect_after_the_start, driver)
                    await driver.run()
                    while found < 0:
                        await trio.sleep(0.01)
                    nursery.cancel_scope.cancel()
        finally:
            network.close()
            journal.close()

    assert {"completed", "interrupted", "rejected"} == set(driver.outcomes)
    assert 0 == found
