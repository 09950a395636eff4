"""Sessions that keep their order: a turn waits for the one before it, and for nothing else."""

import pytest
import trio
from drive.scripted import Run, Wire, recorded

from loadgen.plan.schedule import open_loop
from loadgen.wire.ending import Ending

SECOND = 1_000_000_000


def schedule(*due_s: float, sessions, **options):
    return open_loop(recorded(sessions=sessions), due_s, **options)


def answering_after(*seconds: float):
    async def script(wire: Wire, seq: int) -> None:
        await trio.sleep(seconds[seq])
        wire.answer()
        wire.end()

    return script


def in_seconds(values) -> list[float]:
    return [round(value / 1e9, 3) for value in values]


async def test_a_turn_waits_for_the_one_before_it_and_the_wait_is_recorded(autojump_clock, tmp_path):
    sessions = ["a", "a", "b", "a"]
    run = Run(
        schedule(0.0, 1.0, 1.5, 2.0, sessions=sessions),
        answering_after(3.0, 0.5, 0.1, 0.1),
        tmp_path,
        sessions=sessions,
        keep_sessions=True,
    )

    await run()

    assert [0.0, 3.0, 1.5, 3.1] == in_seconds(row.admitted_ns for row in run.rows)
    assert [0.0, 1.0, 1.5, 2.0] == in_seconds(row.fired_ns for row in run.rows)


async def test_without_being_asked_nobody_waits(autojump_clock, tmp_path):
    sessions = ["a", "a"]
    run = Run(schedule(0.0, 1.0, sessions=sessions), answering_after(3.0, 3.0), tmp_path, sessions=sessions)

    await run()

    assert [0.0, 1.0] == in_seconds(run.network.sent_ns)


async def test_a_turn_that_comes_after_the_one_before_it_has_ended_did_not_wait(autojump_clock, tmp_path):
    sessions = ["a", "a"]
    run = Run(
        schedule(0.0, 1.0, sessions=sessions),
        answering_after(0.5, 0.5),
        tmp_path,
        sessions=sessions,
        keep_sessions=True,
    )

    await run()

    assert all(row.admitted_ns == row.fired_ns for row in run.rows)


async def test_requests_without_a_session_wait_for_nobody(autojump_clock, tmp_path):
    sessions = [None, None]
    run = Run(
        schedule(0.0, 1.0, sessions=sessions),
        answering_after(3.0, 3.0),
        tmp_path,
        sessions=sessions,
        keep_sessions=True,
    )

    await run()

    assert [0.0, 1.0] == in_seconds(run.network.sent_ns)


async def test_a_turn_that_fails_lets_the_next_one_go(autojump_clock, tmp_path):
    async def resets(wire: Wire, seq: int) -> None:
        await trio.sleep(2.0)
        wire.end(Ending("cut", "reset"))

    sessions = ["a", "a"]
    run = Run(schedule(0.0, 1.0, sessions=sessions), resets, tmp_path, sessions=sessions, keep_sessions=True)

    await run()

    assert [0.0, 2.0] == in_seconds(run.network.sent_ns)


async def test_a_turn_waits_for_a_slot_when_it_has_come(autojump_clock, tmp_path):
    sessions = ["a", "a", "b"]
    run = Run(
        schedule(0.0, 0.1, 0.2, sessions=sessions),
        answering_after(1.0, 1.0, 1.0),
        tmp_path,
        sessions=sessions,
        keep_sessions=True,
        max_concurrency=1,
    )

    await run()

    # The other session waited for the slot before the second turn came, and has it first.
    assert [0.0, 2.0, 1.0] == in_seconds(row.admitted_ns for row in run.rows)


@pytest.mark.parametrize("deadline_from", ["sent", "due"])
async def test_a_turn_that_never_comes_is_unsent(autojump_clock, tmp_path, deadline_from):
    async def never(wire: Wire, seq: int) -> None:
        await trio.sleep_forever()

    sessions = ["a", "a"]
    run = Run(
        schedule(0.0, 1.0, sessions=sessions),
        never,
        tmp_path,
        sessions=sessions,
        keep_sessions=True,
        deadline_ns=60 * SECOND,
        deadline_from=deadline_from,
        drain_ns=5 * SECOND,
    )

    await run()

    assert [("unfinished", "drain"), ("unsent", "no_turn")] == [(row.outcome, row.detail) for row in run.rows]


async def test_a_deadline_from_due_counts_the_wait_for_a_turn(autojump_clock, tmp_path):
    sessions = ["a", "a"]
    run = Run(
        schedule(0.0, 1.0, sessions=sessions),
        answering_after(30.0, 1.0),
        tmp_path,
        sessions=sessions,
        keep_sessions=True,
        deadline_ns=10 * SECOND,
        deadline_from="due",
    )

    await run()

    assert [("timeout", 10.0), ("completed", 11.0)] == [(row.outcome, round(row.end_ns / 1e9, 3)) for row in run.rows]


async def test_a_recording_sent_again_has_its_sessions_anew(autojump_clock, tmp_path):
    sessions = ["a", "a"]
    run = Run(
        schedule(0.0, 1.0, 2.0, 3.0, sessions=sessions),
        answering_after(4.0, 4.0, 0.1, 0.1),
        tmp_path,
        sessions=sessions,
        keep_sessions=True,
    )

    await run()

    # In the order of sending: the first of each lap at its time, then each second when its first has ended.
    assert [0.0, 2.0, 4.0, 6.0] == in_seconds(run.network.sent_ns)


async def test_turns_are_forgotten_when_their_session_has_ended(autojump_clock, tmp_path):
    sessions = [f"s{place}" for place in range(50)]
    run = Run(
        schedule(*(float(place) for place in range(50)), sessions=sessions),
        answering_after(*[0.5] * 50),
        tmp_path,
        sessions=sessions,
        keep_sessions=True,
    )

    await run()

    assert {} == run.driver._turns._last
