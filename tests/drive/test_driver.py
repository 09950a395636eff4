"""The driver's promises, on a virtual clock and a network in memory."""

import pytest
import trio
from drive.scripted import ANSWER, Run, Wire, due_at, recorded

from loadgen.plan.arrivals import Stage, draw
from loadgen.plan.schedule import closed_loop, open_loop
from loadgen.results.record import Sent
from loadgen.wire.ending import Ending

SECOND = 1_000_000_000


async def never(wire: Wire, seq: int) -> None:
    await trio.sleep_forever()


async def at_once(wire: Wire, seq: int) -> None:
    wire.answer()
    wire.end()


def after(seconds: float):
    async def script(wire: Wire, seq: int) -> None:
        await trio.sleep(seconds)
        wire.answer()
        wire.end()

    return script


async def test_a_stalled_server_does_not_delay_the_next_send(autojump_clock, tmp_path):
    run = Run(due_at(0.0, 1.0, 2.0), never, tmp_path, deadline_ns=60 * SECOND)

    await run()

    assert run.network.sent_ns == [0, SECOND, 2 * SECOND]


async def test_an_hour_of_a_poisson_schedule_is_sent_to_the_nanosecond(autojump_clock, tmp_path):
    times = list(draw([Stage(0.5, 0.5, 3600.0)], arrivals="poisson", seed=3))
    run = Run(open_loop(recorded(), times), after(0.2), tmp_path)

    await run()

    off = [abs(sent - due) for sent, due in zip(run.network.sent_ns, run.schedule.due_ns, strict=True)]
    assert max(off) < 2_000  # trio's clock is a float
    assert len(times) == len(run.rows)


async def test_every_scheduled_request_gets_one_row_whatever_happens(autojump_clock, tmp_path):
    async def chaos(wire: Wire, seq: int) -> None:
        match seq % 5:
            case 0:
                wire.answer()
                wire.end()
            case 1:
                wire.end(Ending("cut", "reset"))
            case 2:
                wire.end(Ending("connect", "refused"))
            case 3:
                wire.answer(b"", status=503, headers=[])
                wire.end()
            case _:
                await trio.sleep_forever()

    run = Run(due_at(*(0.01 * i for i in range(100))), chaos, tmp_path, deadline_ns=2 * SECOND)

    await run()

    assert list(range(100)) == [row.seq for row in run.rows]
    assert run.driver.outcomes == {
        "completed": 20,
        "interrupted": 20,
        "connect_error": 20,
        "rejected": 20,
        "timeout": 20,
    }


async def test_the_deadline_counts_from_sent_and_keeps_what_arrived(autojump_clock, tmp_path):
    async def half(wire: Wire, seq: int) -> None:
        await trio.sleep(1)
        wire.answer(ANSWER[:90])
        await trio.sleep_forever()

    run = Run(due_at(3.0), half, tmp_path, deadline_ns=5 * SECOND)

    await run()

    (row,) = run.rows
    assert row.outcome == "timeout"
    assert row.end_ns == 8 * SECOND
    assert row.first_output_ns == 4 * SECOND
    assert row.terminal_ns is None


async def test_after_the_end_marker_the_rest_is_awaited_for_a_second(autojump_clock, tmp_path):
    async def no_end(wire: Wire, seq: int) -> None:
        wire.answer()
        wire.exchange.owner.lingers(wire.exchange)
        await trio.sleep_forever()

    run = Run(due_at(0.0), no_end, tmp_path, deadline_ns=60 * SECOND)

    await run()

    (row,) = run.rows
    assert (row.outcome, row.finished, row.end_ns) == ("completed", False, SECOND)


async def test_a_cap_makes_arrivals_wait_and_says_so(autojump_clock, tmp_path):
    run = Run(due_at(0.0, 0.1, 0.2, 0.3), after(1.0), tmp_path, max_concurrency=1)

    await run()

    waits = [round((row.admitted_ns - row.fired_ns) / 1e9, 3) for row in run.rows]
    assert run.network.most_open == 1
    assert waits == [0.0, 0.9, 1.8, 2.7]
    assert [row.fired_ns / 1e9 for row in run.rows] == [0.0, 0.1, 0.2, 0.3]


async def test_arrivals_still_waiting_for_the_cap_when_the_drain_ends_are_unsent(autojump_clock, tmp_path):
    run = Run(due_at(0.0, 0.1, 0.2), never, tmp_path, max_concurrency=1, drain_ns=2 * SECOND)

    await run()

    assert [row.outcome for row in run.rows] == ["unfinished", "unsent", "unsent"]
    assert [row.detail for row in run.rows] == ["drain", "no_slot", "no_slot"]


async def test_without_a_drain_the_deadline_ends_what_is_in_flight(autojump_clock, tmp_path):
    run = Run(due_at(0.0, 1.0), never, tmp_path, deadline_ns=3 * SECOND)

    await run()

    assert [(row.outcome, row.end_ns) for row in run.rows] == [("timeout", 3 * SECOND), ("timeout", 4 * SECOND)]


async def test_the_first_stop_drains_and_submits_nothing_more(autojump_clock, tmp_path):
    async def stop_at_half_past_one(run: Run) -> None:
        await trio.sleep(1.5)
        run.driver.stop("stopped")

    run = Run(due_at(0.0, 1.0, 2.0, 3.0), after(1.0), tmp_path)

    await run(stop_at_half_past_one)

    assert run.network.sent_ns == [0, SECOND]
    assert [row.outcome for row in run.rows] == ["completed", "completed"]


async def test_the_second_stop_cuts_what_is_in_flight(autojump_clock, tmp_path):
    async def stop_twice(run: Run) -> None:
        await trio.sleep(0.5)
        run.driver.stop("stopped")
        await trio.sleep(0.5)
        run.driver.stop("stopped")

    run = Run(due_at(0.0, 0.1), never, tmp_path)

    await run(stop_twice)

    assert [(row.outcome, row.detail, row.end_ns) for row in run.rows] == [("unfinished", "stopped", SECOND)] * 2


async def test_a_closed_loop_keeps_its_callers_busy_and_has_no_due_times(autojump_clock, tmp_path):
    run = Run(closed_loop(recorded(3), callers=2, count=6), after(1.0), tmp_path)

    await run()

    assert run.network.most_open == 2
    assert [sent // SECOND for sent in run.network.sent_ns] == [0, 0, 1, 1, 2, 2]
    assert [row.due_ns for row in run.rows] == [None] * 6
    assert [row.place for row in run.rows] == [0, 1, 2, 0, 1, 2]


async def test_a_closed_loop_of_a_duration_ends_with_it_and_leaves_warm_up_out(autojump_clock, tmp_path):
    schedule = closed_loop(recorded(), callers=1, count=None, warmup_s=2.0, length_s=3.0)
    run = Run(schedule, after(1.0), tmp_path)

    await run()

    assert [row.is_warmup for row in run.rows] == [True, True, False, False, False]


async def test_a_closed_loop_is_drained_like_an_open_one(autojump_clock, tmp_path):
    schedule = closed_loop(recorded(), callers=3, count=None, length_s=2.0)
    run = Run(schedule, after(1.5), tmp_path, drain_ns=SECOND // 2)

    await run()

    assert ["completed"] * 3 + ["unfinished"] * 3 == [row.outcome for row in run.rows]
    assert {5 * SECOND // 2} == {row.end_ns for row in run.rows[3:]}


async def test_warm_up_is_sent_before_the_window_and_marked(autojump_clock, tmp_path):
    times = list(draw([Stage(10, 10, 3.0)], arrivals="constant", seed=0))
    run = Run(open_loop(recorded(), times, warmup_s=1.0), at_once, tmp_path)

    await run()

    assert sum(row.is_warmup for row in run.rows) == 10
    assert run.schedule.measured == 20


async def test_a_sent_mark_is_journalled_before_the_row(autojump_clock, tmp_path):
    run = Run(due_at(0.0), after(1.0), tmp_path)

    await run()

    assert [Sent(0, 0, 1, 0), run.rows[0]] == run.records


async def test_a_secret_that_the_server_echoes_is_blotted_out(autojump_clock, tmp_path):
    async def echo(wire: Wire, seq: int) -> None:
        wire.answer(b'data: {"error": {"type": "bad key sk-123"}}\n\n')
        wire.end()

    run = Run(due_at(0.0), echo, tmp_path, secrets=("sk-123",))

    await run()

    assert (run.rows[0].outcome, run.rows[0].detail) == ("api_error", "bad_key_***")


@pytest.mark.parametrize("count", [1, 40])
async def test_requests_due_together_are_all_sent_at_once(autojump_clock, tmp_path, count):
    run = Run(due_at(*[0.5] * count), after(10.0), tmp_path)

    await run()

    assert {SECOND // 2} == set(run.network.sent_ns)
    assert count == run.network.most_open


async def test_who_finds_a_slot_free_did_not_wait_for_it(autojump_clock, tmp_path):
    run = Run(due_at(0.0, 0.25, 2.0), after(0.5), tmp_path, max_concurrency=1)

    await run()

    assert [0, 0.25 * SECOND, 0] == [row.admitted_ns - row.fired_ns for row in run.rows]
