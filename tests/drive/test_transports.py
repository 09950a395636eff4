"""A whole run over each transport: the same rows, and each says how it came by them."""

import socket
import time

import pytest
import trio
from net.http2_peer import hypercorn, stream_an_answer
from net.peer import CHAT, DONE, HEAD, LAST, Handler, always, chunk, listening
from net.proxy import proxy_to
from net.tls_peer import Authority, over_tls

from loadgen.drive.driver import Conduct, Driver
from loadgen.drive.pacer import TimerPacer
from loadgen.drive.watch import Watch
from loadgen.net.network import make_ready, network_of
from loadgen.net.reach import reach
from loadgen.net.route import Route
from loadgen.net.target import Target
from loadgen.net.timer import Timer
from loadgen.plan.arrivals import Stage, draw
from loadgen.plan.recordings.prompts import Prompt, request_of
from loadgen.plan.render import render
from loadgen.plan.schedule import open_loop
from loadgen.results.journal import Journal, read_journal
from loadgen.results.record import Row, Sent

REQUESTS = 30


@pytest.fixture(scope="module")
def ca(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


async def run(route: Route, journal_at) -> list[object]:
    """Send 30 requests in a second; return the journal's records."""
    make_ready(route)
    recorded = [request_of(Prompt("hello"), api="openai-chat", model="sim")]
    schedule = open_loop(recorded, draw([Stage(REQUESTS, REQUESTS, 1)], arrivals="poisson", seed=1, limit=REQUESTS))
    rendered = [render(recorded[0], place=0, authority=route.target.authority, path=route.target.path)]
    address = await reach(route)
    epoch_ns = time.monotonic_ns()
    network = network_of(route, address, epoch_ns=epoch_ns)
    journal = Journal(journal_at)
    with Timer() as due, Timer() as tick:
        conduct = Conduct(run="test", deadline_ns=5_000_000_000)
        driver = Driver(
            schedule, rendered, network, pacer=TimerPacer(due, epoch_ns=epoch_ns), journal=journal, conduct=conduct
        )
        watch = Watch(driver, network, pacer=TimerPacer(tick, epoch_ns=epoch_ns), journal=journal)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(network.run)
                nursery.start_soon(watch.run)
                with trio.fail_after(20):
                    await driver.run()
                nursery.cancel_scope.cancel()
        finally:
            watch.close()
            network.close()
            journal.close()
    return list(read_journal(journal_at))


def verdict(records: list[object]) -> tuple[set[tuple[object, ...]], int, int]:
    rows = [record for record in records if isinstance(record, Row)]
    said = {(row.outcome, row.transport, row.stamp_source, row.stamp_uncertainty_ns is None) for row in rows}
    return said, len(rows), sum(isinstance(record, Sent) for record in records)


ANSWERS: Handler = always(HEAD + chunk(CHAT) + chunk(DONE) + LAST)


async def test_plain_and_tls_are_stamped_by_the_kernel(ca, tmp_path):
    for scheme, handler in (("http", ANSWERS), ("https", over_tls(ANSWERS, ca.server()))):
        async with listening(handler) as address:
            route = Route(target=Target(scheme, *address.sockaddr), trust=ca.trust)
            records = await run(route, tmp_path / scheme)

        assert ({("completed", "http/1.1", "kernel", False)}, REQUESTS, REQUESTS) == verdict(records)


async def test_http2_and_proxies_are_stamped_by_the_chunk_and_claim_no_uncertainty(ca, tmp_path):
    files = ca.files("127.0.0.1")
    async with hypercorn(stream_an_answer, files=files) as (_, address), proxy_to(address) as (_, url):
        for name, proxy in (("direct", None), ("tunnel", url)):
            route = Route(target=Target("https", *address.sockaddr), trust=ca.trust, http2=True, proxy=proxy)
            records = await run(route, tmp_path / name)

            assert ({("completed", "http/2", "chunk", True)}, REQUESTS, REQUESTS) == verdict(records)


async def test_a_plain_target_behind_a_proxy_is_asked_over_http1(tmp_path):
    async with listening(ANSWERS) as address, proxy_to(address) as (relay, url):
        records = await run(Route(target=Target("http", "name.test", 80, "/v2"), proxy=url, http2=True), tmp_path / "x")

    assert ({("completed", "http/1.1", "chunk", True)}, REQUESTS, REQUESTS) == verdict(records)
    assert {"POST http://name.test/v2 HTTP/1.1"} == set(relay.asked)


async def test_connections_refused_by_a_proxy_are_connect_errors(ca, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as upstream:
        address = upstream.getsockname()
    refusal = b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n"
    async with proxy_to(address, refusal=refusal) as (_, url):
        records = await run(Route(target=Target("https", "name.test", 443), trust=ca.trust, proxy=url), tmp_path / "x")

    rows = [record for record in records if isinstance(record, Row)]
    assert {("connect_error", "proxy_503", None, None)} == {(r.outcome, r.detail, r.sent_ns, r.transport) for r in rows}
