"""A replay held against its recording: over the same requests, each on both sides, by hand-computed values."""

from pathlib import Path
from typing import Any

import pytest
from report.folder import LONG, SHORT, closed, folder_of, stream, unanswered

from loadgen.cli.judging import Judging
from loadgen.cli.summary import close_run
from loadgen.report.measured import Measured
from loadgen.results.journal import Journal
from loadgen.results.record import Record, Row
from loadgen.results.rundir import RunDir


def replayed(path: Path, answers: list[Row], now: list[Record], **config: Any) -> RunDir:
    """A run's folder whose recording had answers; `seq` and `place` of these are theirs in the recording."""
    rundir = folder_of(
        path, [*now, closed(9000)], due=[row.seq * 1000 for row in now if isinstance(row, Row)], length=3000, **config
    )
    journal = Journal(rundir.recorded_journal)
    for row in answers:
        journal.append(row)
    journal.close()
    return rundir


def against(rundir: RunDir, **judging: Any) -> dict[str, Any]:
    return close_run(rundir, Judging(**judging))


def was(place: int, outputs: list[float], **changes: Any) -> Row:
    return stream(place, place * 1000.0, outputs, **{"place": place, "due_ns": None, **changes})


def change_of(summary: dict[str, Any], name: str, statistic: str | None = "p50") -> tuple[float, float, float, bool]:
    (found,) = (
        change
        for change in summary["recorded"]["changes"]
        if (change["name"], change["statistic"]) == (name, statistic)
    )
    return found["was"], found["now"], found["change_pct"], found["flagged"]


SAME = [stream(0, 0, [100, 200], place=SHORT), stream(1, 1000, [100, 300], place=LONG)]


def test_each_metric_has_both_values_and_the_change(tmp_path):
    rundir = replayed(tmp_path / "r", [was(0, [80, 180]), was(1, [80, 280])], SAME, recorded=True)
    summary = against(rundir)

    assert (80.0, 100.0, 25.0, True) == change_of(summary, "ttft")
    assert (200.0, 200.0, 0.0, False) == change_of(summary, "itl", "max")
    assert 2 == summary["recorded"]["requests"]
    assert [{"was": "completed", "now": "completed", "requests": 2}] == summary["recorded"]["transitions"]


@pytest.mark.parametrize(
    ("before", "bound", "is_flagged"),
    [(90.0, 10.0, True), (92.0, 10.0, False), (92.0, 5.0, True), (110.0, 10.0, False), (200.0, 10.0, False)],
)
def test_only_a_large_change_for_the_worse_is_flagged(tmp_path, before, bound, is_flagged):
    rundir = replayed(tmp_path / "r", [was(0, [before, 200]), was(1, [before, 300])], SAME)
    summary = against(rundir, flag_change=bound)

    assert is_flagged == change_of(summary, "ttft")[3]


def test_a_token_rate_is_worse_when_it_fell(tmp_path):
    now = [stream(0, 0, [100, 300], place=SHORT), stream(1, 1000, [100, 300], place=LONG)]
    summary = against(replayed(tmp_path / "r", [was(0, [100, 200]), was(1, [100, 200])], now))

    assert (10.0, 5.0, -50.0, True) == change_of(summary, "user_tokens_per_sec")


def test_only_requests_with_a_recorded_answer_count_on_either_side(tmp_path):
    summary = against(replayed(tmp_path / "r", [was(1, [50, 100])], SAME))

    assert (1, 1) == (summary["recorded"]["requests"], summary["recorded"]["without"])
    assert (50.0, 100.0, 100.0, True) == change_of(summary, "ttft", "max")
    assert 2 == summary["metrics"]["ttft"]["n"]


def test_a_request_that_was_sent_twice_counts_twice_on_both_sides(tmp_path):
    now = [stream(seq, seq * 1000, [100, 200], place=SHORT) for seq in range(2)]
    summary = against(replayed(tmp_path / "r", [was(0, [100, 200])], now))

    assert 2 == summary["recorded"]["requests"]
    assert (4, 4, 0.0, False) == change_of(summary, "output_tokens", None)


def test_lost_answers_are_in_the_table_of_transitions(tmp_path):
    now = [unanswered(0, 0, outcome="rejected", status=503, place=SHORT), stream(1, 1000, [100, 300], place=LONG)]
    summary = against(replayed(tmp_path / "r", [was(0, [100, 200]), was(1, [100, 300])], now))

    assert [
        {"was": "completed", "now": "completed", "requests": 1},
        {"was": "completed", "now": "rejected", "requests": 1},
    ] == summary["recorded"]["transitions"]


def test_incomplete_streams_where_there_were_none_are_flagged(tmp_path):
    cut = stream(0, 0, [100, 200], place=SHORT, finished=False, outcome="interrupted", finish_reason=None)
    summary = against(replayed(tmp_path / "r", [was(0, [100, 200])], [cut]))

    assert (0, 1, None, True) == change_of(summary, "incomplete", None)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"recorded": True}, ""),
        ({"recorded": True, "speed": 2.0}, "the run was 2 times as fast as the recording"),
        ({}, "the run did not keep the recorded times (--recorded)"),
    ],
)
def test_rates_are_compared_under_the_same_load_alone(tmp_path, config, why):
    summary = against(replayed(tmp_path / "r", [was(0, [100, 200]), was(1, [100, 200])], SAME, **config))
    rates = [change for change in summary["recorded"]["changes"] if change["name"] == "output_tokens_per_sec"]

    assert why == summary["recorded"]["why_no_rates"]
    assert (not why) == bool(rates)
    if rates:
        # Four tokens from the first sent to the last output, on either side.
        assert (4 / 1.2, 4 / 1.3) == (rates[0]["was"], rates[0]["now"])


def test_a_recording_that_does_not_know_when_requests_were_sent_has_no_rate(tmp_path):
    recorded = [was(0, [100, 200], fired_ns=None, admitted_ns=None), was(1, [100, 200])]
    summary = against(replayed(tmp_path / "r", recorded, SAME, recorded=True))

    assert "the recording does not say when each request was sent" == summary["recorded"]["why_no_rates"]


def test_classes_are_compared_on_their_own(tmp_path):
    summary = against(replayed(tmp_path / "r", [was(0, [100, 200]), was(1, [50, 300])], SAME))
    flagged = {
        name: {change["name"] for change in changes if change["flagged"]}
        for name, changes in summary["recorded"]["classes"].items()
    }

    assert set() == flagged["short"]
    assert "ttft" in flagged["long"]


@pytest.mark.parametrize(
    ("gate", "passes"),
    [
        ("llm.ttft-p50-change-pct > 20", False),
        ("llm.ttft-p50-change-pct > 30", True),
        ("llm.ttft-p50-change-pct[long] > 30", True),
        ("llm.user-tokens-per-sec-p50-change-pct < -10", True),
        ("llm.output-tokens-per-sec-change-pct < -50", True),
        ("llm.frame-gap-p50-change-pct > 1", True),
        ("llm.first-text-p95-change-pct[completed] > 24", False),
    ],
)
def test_gates_on_changes_count_from_the_recording(tmp_path, gate, passes):
    rundir = replayed(tmp_path / "r", [was(0, [80, 180]), was(1, [80, 280])], SAME, recorded=True)
    (result,) = against(rundir, fail_if=[gate])["gates"]

    assert passes == result["passed"], result["words"]


def test_a_gate_on_a_rate_that_cannot_be_compared_fails_with_its_own_words(tmp_path):
    rundir = replayed(tmp_path / "r", [was(0, [80, 180]), was(1, [80, 280])], SAME)
    (result,) = against(rundir, fail_if=["llm.output-tokens-per-sec-change-pct < -50"])["gates"]

    assert not result["passed"]
    assert result["words"].startswith("no samples")


def test_survivors_cannot_pass_a_gate_over_the_offered(tmp_path):
    now = [unanswered(0, 0, outcome="rejected", status=503, place=SHORT), stream(1, 1000, [80, 280], place=LONG)]
    rundir = replayed(tmp_path / "r", [was(0, [80, 180]), was(1, [80, 280])], now)
    results = against(
        rundir, fail_if=["llm.ttft-max-change-pct > 10", "llm.ttft-max-change-pct[offered] > 10"]
    )["gates"]  # fmt: skip

    assert [True, False] == [result["passed"] for result in results]


def test_without_recorded_answers_nothing_is_compared(tmp_path):
    rundir = folder_of(tmp_path / "r", [*SAME, closed(9000)], due=[0, 1000], length=3000)

    assert "recorded" not in against(rundir)


def test_the_summary_can_be_judged_again_from_the_folder(tmp_path):
    rundir = replayed(tmp_path / "r", [was(0, [80, 180]), was(1, [80, 280])], SAME)
    close_run(rundir)
    measured = Measured.read(rundir, [])
    again = Judging(flag_change=30.0).summarise(measured, rundir.read_summary()["process"])

    assert (80.0, 100.0, 25.0, False) == change_of(again, "ttft")
