"""Attempts after the first, and deadlines that count from due; on a virtual clock."""

import random

import pytest
import trio
from drive.scripted import Run, Wire, due_at, recorded
from hypothesis import given
from hypothesis import strategies as st

from loadgen.drive.retries import Retries
from loadgen.plan.schedule import closed_loop
from loadgen.results.record import Row, Sent
from loadgen.wire.ending import Ending

SECOND = 1_000_000_000


def busy_until(attempt: int, *, retry_after: bytes | None = None):
    """Reject until the nth request that comes, then answer."""

    async def script(wire: Wire, seq: int) -> None:
        if seq + 1 < attempt:
            headers = [] if retry_after is None else [(b"retry-after", retry_after)]
            wire.answer(b"", status=503, headers=headers)
        else:
            wire.answer()
        wire.end()

    return script


async def refused(wire: Wire, seq: int) -> None:
    wire.end(Ending("connect", "refused"))


def attempts(run: Run) -> list[tuple[int, str]]:
    return [(row.attempt, row.outcome) for row in run.rows]


async def test_without_retries_a_rejection_is_the_end(autojump_clock, tmp_path):
    run = Run(due_at(0.0), busy_until(2), tmp_path)

    await run()

    assert [(1, "rejected")] == attempts(run)


async def test_each_attempt_is_a_row_and_the_last_decides(autojump_clock, tmp_path):
    run = Run(due_at(0.0), busy_until(3), tmp_path, retries=Retries(most=5))

    await run()

    assert [(1, "rejected"), (2, "rejected"), (3, "completed")] == attempts(run)
    assert {"completed": 1} == run.driver.outcomes
    assert [1, 2, 3] == [record.attempt for record in run.records if isinstance(record, Sent)]
    assert 1 == run.driver.submitted


async def test_due_stays_what_the_schedule_said(autojump_clock, tmp_path):
    run = Run(due_at(1.0), busy_until(2), tmp_path, retries=Retries(most=1))

    await run()

    first, second = run.rows
    assert SECOND == first.due_ns == second.due_ns == first.fired_ns
    assert second.fired_ns > first.end_ns


async def test_what_cannot_be_connected_is_tried_as_often_as_allowed(autojump_clock, tmp_path):
    run = Run(due_at(0.0), refused, tmp_path, retries=Retries(most=3))

    await run()

    assert [(n, "connect_error") for n in (1, 2, 3, 4)] == attempts(run)


@pytest.mark.parametrize(
    "ending", [Ending("cut", "reset"), Ending("limit", "ports"), Ending("malformed", "http_x")], ids=lambda e: e.how
)
async def test_what_may_have_been_worked_on_is_not_sent_again(autojump_clock, tmp_path, ending):
    async def script(wire: Wire, seq: int) -> None:
        wire.end(ending)

    run = Run(due_at(0.0), script, tmp_path, retries=Retries(most=3))

    await run()

    assert 1 == len(run.rows)


async def test_retry_after_is_waited_for(autojump_clock, tmp_path):
    run = Run(due_at(0.0), busy_until(2, retry_after=b"7"), tmp_path, retries=Retries(most=1))

    await run()

    assert 7 * SECOND <= run.rows[1].sent_ns <= 7.7 * SECOND + 1_000


async def test_retry_after_has_a_cap(autojump_clock, tmp_path):
    run = Run(due_at(0.0), busy_until(2, retry_after=b"3600"), tmp_path, retries=Retries(most=1, cap_s=10))

    await run()

    assert 10 * SECOND <= run.rows[1].sent_ns <= 11 * SECOND + 1_000


@given(attempt=st.integers(1, 30), seed=st.integers())
def test_a_backoff_doubles_and_stays_under_the_cap(attempt, seed):
    row = Row(seq=0, place=0, outcome="rejected", attempt=attempt)

    wait = Retries(most=30, cap_s=60).wait_s(row, random.Random(seed))

    most = min(0.5 * 2 ** (attempt - 1), 60)
    assert most / 2 <= wait <= most


async def test_a_retry_does_not_hold_up_the_schedule(autojump_clock, tmp_path):
    async def first_is_busy(wire: Wire, seq: int) -> None:
        if seq == 0:
            wire.answer(b"", status=429, headers=[(b"retry-after", b"30")])
        else:
            wire.answer()
        wire.end()

    run = Run(due_at(0.0, 1.0, 2.0), first_is_busy, tmp_path, retries=Retries(most=1))

    await run()

    assert [0, SECOND, 2 * SECOND] == run.network.sent_ns[:3]
    assert {"completed": 3} == run.driver.outcomes


async def test_a_waiting_retry_holds_no_slot(autojump_clock, tmp_path):
    async def first_is_busy(wire: Wire, seq: int) -> None:
        if seq == 0:
            wire.answer(b"", status=429, headers=[(b"retry-after", b"30")])
        else:
            wire.answer()
        wire.end()

    run = Run(due_at(0.0, 1.0), first_is_busy, tmp_path, retries=Retries(most=1), max_concurrency=1)

    await run()

    assert SECOND == run.network.sent_ns[1]
    assert 1 == run.network.most_open


async def test_a_stopped_run_begins_no_further_attempt(autojump_clock, tmp_path):
    async def stop_soon(run: Run) -> None:
        await trio.sleep(1)
        run.driver.stop("stopped")

    run = Run(due_at(0.0), busy_until(2, retry_after=b"30"), tmp_path, retries=Retries(most=1))

    await run(stop_soon)

    assert [(1, "rejected")] == attempts(run)


async def test_retries_end_with_the_drain(autojump_clock, tmp_path):
    run = Run(due_at(0.0), busy_until(2, retry_after=b"30"), tmp_path, retries=Retries(most=1), drain_ns=5 * SECOND)

    await run()

    assert [(1, "rejected")] == attempts(run)
    assert 1 == run.driver.outcomes["rejected"]


async def test_a_closed_loops_caller_waits_for_its_retry(autojump_clock, tmp_path):
    schedule = closed_loop(recorded(), callers=1, count=2)
    run = Run(schedule, busy_until(2, retry_after=b"5"), tmp_path, retries=Retries(most=1))

    await run()

    assert [(0, 1, "rejected"), (0, 2, "completed"), (1, 1, "completed")] == [
        (row.seq, row.attempt, row.outcome) for row in run.rows
    ]
    assert run.network.sent_ns[2] >= 5 * SECOND


# -- deadlines from due ---------------------------------------------------------


async def never(wire: Wire, seq: int) -> None:
    await trio.sleep_forever()


async def test_a_deadline_from_due_counts_the_wait_for_a_slot(autojump_clock, tmp_path):
    run = Run(due_at(0.0, 1.0), never, tmp_path, max_concurrency=1, deadline_ns=5 * SECOND, deadline_from="due")

    await run()

    first, second = run.rows
    assert ("timeout", 5 * SECOND) == (first.outcome, first.end_ns)
    assert ("timeout", 5 * SECOND, 6 * SECOND) == (second.outcome, second.sent_ns, second.end_ns)


async def test_who_waits_for_a_slot_beyond_a_deadline_from_due_was_never_sent(autojump_clock, tmp_path):
    async def slow(wire: Wire, seq: int) -> None:
        await trio.sleep(4)
        wire.answer()
        wire.end()

    run = Run(due_at(0.0, 0.5, 0.5), slow, tmp_path, max_concurrency=1, deadline_ns=5 * SECOND, deadline_from="due")

    await run()

    assert ["completed", "timeout", "timeout"] == [row.outcome for row in run.rows]
    assert [5.5 * SECOND] == [row.end_ns for row in run.rows if row.sent_ns is None]


async def test_a_slot_given_to_one_who_left_goes_to_the_next(autojump_clock, tmp_path):
    async def slow(wire: Wire, seq: int) -> None:
        await trio.sleep(5)  # ends in the moment in which the second gives up
        wire.answer()
        wire.end()

    run = Run(due_at(0.0, 0.0, 3.0), slow, tmp_path, max_concurrency=1, deadline_ns=5 * SECOND + 1, deadline_from="due")

    await run()

    assert 3 == sum(run.driver.outcomes.values())
    assert run.rows[2].sent_ns is not None


async def test_every_attempt_counts_for_a_deadline_from_due(autojump_clock, tmp_path):
    async def busy_then_slow(wire: Wire, seq: int) -> None:
        if seq == 0:
            wire.answer(b"", status=503, headers=[(b"retry-after", b"2")])
            wire.end()
        else:
            await trio.sleep_forever()

    run = Run(
        due_at(0.0),
        busy_then_slow,
        tmp_path,
        retries=Retries(most=1),
        deadline_ns=5 * SECOND,
        deadline_from="due",
    )

    await run()

    assert [(1, "rejected"), (2, "timeout")] == attempts(run)
    assert 5 * SECOND == run.rows[1].end_ns


async def test_no_attempt_begins_that_a_deadline_from_due_would_cut_at_once(autojump_clock, tmp_path):
    run = Run(
        due_at(0.0),
        busy_until(2, retry_after=b"8"),
        tmp_path,
        retries=Retries(most=1),
        deadline_ns=5 * SECOND,
        deadline_from="due",
    )

    await run()

    assert [(1, "rejected")] == attempts(run)
