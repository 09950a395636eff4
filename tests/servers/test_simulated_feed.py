"""A feed that is no model's: timed, and never taken for one."""

import json
import time

import pytest
from simulated_client import MS, becomes, connected, http, request, simulated

from loadgen.drive.single import Observation, observe
from loadgen.net.route import Route
from loadgen.net.target import parse_target
from loadgen.plan.recordings.ours import RecordedRequest
from loadgen.plan.render import render
from loadgen.results.outcome import Rules
from loadgen.servers.simulated import Simulator
from loadgen.servers.simulated.feed import FEEDS
from loadgen.wire.framing import FRAMINGS
from loadgen.wire.recognise import recognise

EVERY_FEED = pytest.mark.parametrize("path", FEEDS)


async def observed(simulator: Simulator, path: str, *, wish: str = "", deadline_ns: int = 10_000 * MS) -> Observation:
    target = parse_target(simulator.url)
    headers = {"x-sim": wish} if wish else {}
    asked = render(RecordedRequest(path=path, method="GET"), place=0, authority=target.authority, headers=headers)
    return await observe(Route(target=target, connect_timeout_s=5), asked, deadline_ns=deadline_ns, rules=Rules())


@EVERY_FEED
async def test_a_feed_is_a_response_of_so_many_frames_that_is_no_models(path: str) -> None:
    async with simulated() as simulator:
        seen = await observed(simulator, f"{path}?events=7")

    row = seen.row
    assert ("responded", "other_feed", "other") == (row.outcome, row.detail, row.format)
    assert (7, 0, None, None) == (row.frames, row.output_frames, row.output_tokens, row.first_output_ns)
    assert (1, 1) == (simulator.tally.requests, simulator.tally.completed)


@EVERY_FEED
async def test_a_feed_has_twenty_events_unless_it_is_asked_for_others(path: str) -> None:
    async with simulated(itl_ns=0) as simulator:
        rows = [(await observed(simulator, path + query)).row for query in ("", "?events=1", "?x=1&events=300")]

    assert [20, 1, 300] == [row.frames for row in rows]


@EVERY_FEED
async def test_its_events_are_json_that_no_dialect_knows(path: str) -> None:
    async with simulated() as simulator, http(simulator) as client:
        answer = await client.get(path)

    frames = FRAMINGS[FEEDS[path].content_type]().feed(answer.content)
    assert [*range(20)] == [json.loads(frame.data)["number"] for frame in frames]
    assert {None} == {recognise(frame, is_line=path.endswith("ndjson")) for frame in frames}


@EVERY_FEED
async def test_an_event_comes_every_itl(path: str) -> None:
    async with simulated(itl_ns=20 * MS) as simulator, http(simulator) as client:
        start = time.monotonic()
        await client.get(f"{path}?events=10")
        slow_s = time.monotonic() - start
        await client.get(f"{path}?events=10", headers={"x-sim": "itl_ms=1"})
        quick_s = time.monotonic() - start - slow_s

    assert slow_s > 0.19
    assert quick_s < slow_s / 2


@EVERY_FEED
@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        ("cut", "interrupted"),
        ("reset", "interrupted"),
        ("stall", "timeout"),
        ("error", "api_error"),
        ("reject", "rejected"),
    ],
)
async def test_a_feed_fails_where_a_request_wishes_so(path: str, fault: str, outcome: str) -> None:
    async with simulated() as simulator:
        row = (await observed(simulator, path, wish=f"fault={fault}", deadline_ns=150 * MS)).row

    assert outcome == row.outcome
    assert (10 if fault != "reject" else 0) + (fault == "error") == row.frames


@EVERY_FEED
async def test_a_feed_needs_no_slot_and_no_share_of_faults_touches_it(path: str) -> None:
    async with (
        simulated(slots=1, queue=0, ttft_ns=60_000 * MS, cut_pct=100) as simulator,
        connected(simulator) as client,
    ):
        await client.send(request(stream=True))
        await becomes(1, lambda: simulator.active)
        outcomes = {(await observed(simulator, path)).row.outcome for _ in range(3)}
        active = simulator.active

    assert ({"responded"}, 1) == (outcomes, active)


@EVERY_FEED
@pytest.mark.parametrize("events", ["0", "-1", "x", "", "1.5", "٣", "9" * 30])
async def test_a_number_of_events_that_means_nothing_is_refused(path: str, events: str) -> None:
    async with simulated() as simulator, http(simulator) as client:
        answer = await client.get(path, params={"events": events})

    assert (400, 0) == (answer.status_code, simulator.tally.requests)
    assert "events" in answer.json()["error"]["message"]


async def test_a_client_that_leaves_a_feed_ends_it() -> None:
    async with simulated(itl_ns=MS) as simulator:
        async with connected(simulator) as client:
            await client.send(request("/feed?events=100000", method="GET"))
            await client.until(b"celsius")
        await becomes(1, lambda: simulator.tally.left)
