"""Comparisons of runs whose truth is known: what is told, what is found, what is never said."""

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report.folder import LONG, SHORT, closed, folder_of, stream, unanswered

from loadgen.cli.judging import Judging
from loadgen.cli.summary import close_run
from loadgen.errors import UsageError
from loadgen.report.compare import Run, Side, compare, parse_primary
from loadgen.report.compare.accounting import mcnemar
from loadgen.report.compare.bootstrap import Sample, blocks_of, draws_of
from loadgen.report.compare.holm import holm
from loadgen.results.record import Record, Row

COUNT, GAP = 300, 20.0


def rows(ttft: Any, *, outcome: Any = lambda seq: "completed", gap: Any = lambda seq: 10.0) -> list[Row]:
    made = []
    for seq in range(COUNT):
        place, due = (LONG if seq % 3 == 2 else SHORT), GAP * seq
        if outcome(seq) == "completed":
            first = ttft(seq)
            made.append(stream(seq, due, [first, first + gap(seq), first + 2 * gap(seq)], place=place))
        else:
            made.append(unanswered(seq, due, outcome=outcome(seq), status=503, place=place))
    return made


def run_of(path: Path, made: list[Row], *, lagging: bool = False, slo: list[str] | None = None, **config: Any) -> Run:
    records: list[Record] = [*made, closed(GAP * COUNT + 1000)]
    if lagging:
        records = [stream(row.seq, GAP * row.seq, [50.0, 60.0], late=300.0, place=SHORT) for row in made] + records[-1:]
    rundir = folder_of(
        path, records, due=[GAP * seq for seq in range(COUNT)], length=GAP * COUNT, slo=slo or [], **config
    )
    close_run(rundir, Judging(slo=slo or []))
    return Run.read(rundir.path)


def compared(
    tmp_path: Path, a: list[Row], b: list[Row], *, of_b: dict[str, Any] | None = None, **options: Any
) -> dict[str, Any]:
    left, right = run_of(tmp_path / "a", a), run_of(tmp_path / "b", b, **(of_b or {}))
    return compare(Side("A", [left]), Side("B", [right]), **options)


def noisy(seed: int, by: float = 1.0) -> Any:
    dice = random.Random(seed)
    values = [by * (100 + dice.gauss(0, 10)) for _ in range(COUNT)]
    return lambda seq: values[seq]


def shift(made: dict[str, Any], metric: str, statistic: str, klass: str | None = None) -> dict[str, Any]:
    (found,) = (
        one for one in made["shifts"] if (one["metric"], one["statistic"], one["klass"]) == (metric, statistic, klass)
    )
    return found


def test_equal_servers_are_not_told_apart(tmp_path):
    made = compared(tmp_path, rows(noisy(1)), rows(noisy(2)))

    assert "no difference" == made["conclusion"]["kind"]
    assert "which may be chance" in made["conclusion"]["sentence"]


def test_a_faster_server_with_as_many_useful_answers_is_an_improvement(tmp_path):
    made = compared(tmp_path, rows(noisy(1)), rows(noisy(2, by=0.8)))
    found = shift(made, "ttft", "p50")

    assert "improvement" == made["conclusion"]["kind"]
    assert found["low"] < -20 < found["high"] < 0
    assert COUNT == found["n"]


def test_a_slower_server_is_worse(tmp_path):
    made = compared(tmp_path, rows(noisy(1)), rows(noisy(2, by=1.2)))

    assert "worse" == made["conclusion"]["kind"]


def test_a_small_slowdown_between_tokens_is_found(tmp_path):
    made = compared(tmp_path, rows(noisy(1)), rows(noisy(2), gap=lambda seq: 11.0), primary="itl-p50")

    assert "worse" == made["conclusion"]["kind"]
    assert 1.0 == pytest.approx(shift(made, "itl", "p50")["shift"])


def test_faster_first_texts_are_no_improvement_where_fewer_were_useful(tmp_path):
    rejecting = rows(noisy(2, by=0.5), outcome=lambda seq: "rejected" if seq % 4 == 0 else "completed")
    made = compared(tmp_path, rows(noisy(1)), rejecting)

    assert "not an improvement" == made["conclusion"]["kind"]
    assert "75 fewer of 300 offered requests were useful" in made["conclusion"]["sentence"]
    assert "turned away 75 more, which is bounded protection and no speed gain" in made["conclusion"]["sentence"]
    assert (225, 100.0) == (made["b"]["useful"], made["b"]["useful_of_accepted_pct"])
    assert {"was": "completed", "now": "rejected", "requests": 75} in made["transitions"]


def test_protection_that_keeps_more_answers_useful_is_named_as_that(tmp_path):
    slow = rows(lambda seq: 100.0 if seq < 100 else 3000.0)
    rejecting = rows(noisy(2, by=0.5), outcome=lambda seq: "rejected" if seq % 10 == 0 else "completed")
    left, right = (
        run_of(tmp_path / name, made, slo=["ttft<1s"]) for name, made in (("a", slow), ("b", rejecting))
    )  # fmt: skip
    made = compare(Side("A", [left]), Side("B", [right]))

    assert "bounded protection" == made["conclusion"]["kind"]
    assert made["useful"][""]["won"] > made["useful"][""]["lost"]


def test_an_improvement_that_one_class_paid_for_is_none(tmp_path):
    before, after = noisy(1), noisy(2)
    mixed = rows(lambda seq: after(seq) * (1.6 if seq % 3 == 2 else 0.5))
    made = compared(tmp_path, rows(before), mixed, primary="ttft-p50")

    assert "not an improvement" == made["conclusion"]["kind"]
    assert "worse for class long" in made["conclusion"]["sentence"]


def test_an_invalid_run_gives_no_conclusion(tmp_path):
    made = compared(tmp_path, rows(noisy(1)), rows(noisy(2, by=0.5)), of_b={"lagging": True})

    assert "none" == made["conclusion"]["kind"]
    assert "INVALID is B (generator_lateness, sent_late)" in made["conclusion"]["sentence"]


def test_other_conditions_are_refused_and_listed_where_allowed(tmp_path):
    sides = [rows(noisy(1)), rows(noisy(2))]
    with pytest.raises(UsageError, match="cache condition: not stated / cold"):
        compared(tmp_path, *sides, of_b={"cache": "cold"})
    left, right = Run.read(tmp_path / "a"), Run.read(tmp_path / "b")
    made = compare(Side("A", [left]), Side("B", [right]), allow_different=True)

    assert [{"name": "cache condition", "a": None, "b": "cold"}] == made["conditions"]
    assert "none" == made["conclusion"]["kind"]


def test_an_option_that_an_older_run_did_not_know_is_no_difference(tmp_path):
    made = compared(tmp_path, rows(noisy(1)), rows(noisy(2)), of_b={"check": [], "keep_sessions": False})

    assert ([], []) == (made["conditions"], made["others"])


def test_more_than_one_serving_variable_is_warned_of(tmp_path):
    made = compared(tmp_path, rows(noisy(1)), rows(noisy(2)), of_b={"server": {"scheduler": "lifo", "slots": "8"}})

    assert ["scheduler", "slots"] == [one["name"] for one in made["serving"]]
    assert any(words.startswith("2 serving variables changed") for words in made["warnings"])


def test_one_run_a_side_says_what_its_intervals_lack(tmp_path):
    made = compared(tmp_path, rows(noisy(1)), rows(noisy(2)))

    assert any("how much runs vary among themselves is not in the intervals" in words for words in made["warnings"])


def test_what_both_servers_told_stands_side_by_side(tmp_path):
    left, right = run_of(tmp_path / "a", rows(noisy(1))), run_of(tmp_path / "b", rows(noisy(2)))
    for run, waits in ((left, 3.0), (right, 900.0)):
        run.summary["server"] = {"metrics": {"queue_time": {"mean": waits}, "output_tokens": {"total": waits}}}
    made = compare(Side("A", [left]), Side("B", [right]))

    assert [("output_tokens", "total", 3.0, 900.0), ("queue_time", "mean", 3.0, 900.0)] == sorted(
        (one["name"], one["statistic"], one["a"], one["b"]) for one in made["servers"]
    )


def test_groups_count_runs_and_not_requests(tmp_path):
    sides = [
        Side(label, [run_of(tmp_path / f"{label}{number}", rows(noisy(10 * at + number, by))) for number in range(3)])
        for at, (label, by) in enumerate((("A", 1.0), ("B", 0.8)))
    ]
    made = compare(*sides)
    found = shift(made, "ttft", "p95")

    assert (6, None) == (found["n"], found["p"])
    assert found["high"] < 0
    assert 3 * COUNT == made["a"]["offered"]
    assert made["blocks"] is None


def test_the_primary_stands_alone_and_the_others_are_corrected(tmp_path):
    made = compared(tmp_path, rows(noisy(1)), rows(noisy(2)), primary="e2e-p50")
    (primary,) = (one for one in made["shifts"] if one["primary"])

    assert ("e2e", "p50") == (primary["metric"], primary["statistic"])
    assert "holm" not in primary
    assert all(one["holm"] >= one["p"] for one in made["shifts"] if not one["primary"])
    assert not any(one["sure"] for one in made["shifts"])


def test_the_same_seed_gives_the_same_intervals(tmp_path):
    one = compared(tmp_path, rows(noisy(1)), rows(noisy(2)))
    left, right = Run.read(tmp_path / "a"), Run.read(tmp_path / "b")

    assert one["shifts"] == compare(Side("A", [left]), Side("B", [right]))["shifts"]


@pytest.mark.parametrize("text", ["ttft", "ttft-p90", "speed-p50", "ttft-max", ""])
def test_a_primary_that_is_none_is_refused(text):
    with pytest.raises(UsageError, match="is not METRIC-pNN"):
        parse_primary(text)


def test_noise_in_bursts_does_not_make_false_alarms_of_single_requests():
    """Requests of a block share its state: intervals that took them for independent would miss nearly always."""
    dice, alarms, trials = random.Random(5), 0, 60
    for _ in range(trials):
        states = [[dice.gauss(0, 10) for _ in range(20)] for _ in range(2)]
        values = [
            pl.Series([state[place // 25] + dice.gauss(0, 1) for place in range(500)]) for state in states
        ]  # fmt: skip
        place = pl.Series([at // 25 for at in range(500)], dtype=pl.UInt32)
        from loadgen.report.compare.shifts import _shifts

        a, b, both = Sample(values[0], place), Sample(values[1], place), Sample(values[1] - values[0], place)
        (median, *_) = _shifts("ttft", None, a, b, both, draws=draws_of(20, seed=1, resamples=200))
        alarms += median.direction != 0
    assert alarms <= 9  # 5 % are expected, 15 % allowed for


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=50), st.floats(0.01, 1.0))
def test_a_quantile_is_a_value_that_so_many_do_not_exceed(values, share):
    sample = Sample(pl.Series(values, dtype=pl.Float64), pl.Series([0] * len(values), dtype=pl.UInt32))
    found = sample.quantile(share)

    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9


def test_a_draw_of_each_block_once_is_the_sample():
    values = pl.Series([5.0, 1.0, 4.0, 2.0, 3.0])
    sample = Sample(values, pl.Series([0, 1, 2, 1, 0], dtype=pl.UInt32))
    draws = pl.DataFrame(
        {"once": [1, 1, 1], "second": [0, 3, 0]}, schema_overrides={"once": pl.UInt32, "second": pl.UInt32}
    )

    assert [[sample.quantile(0.5), 1.0], [5.0, 2.0]] == sample.drawn([0.5, 1.0], draws)


@pytest.mark.parametrize(
    ("length_s", "stay_s", "seconds", "count", "are_long"),
    [(1000.0, 1.0, 5.0, 200, True), (1000.0, 5.0, 20.0, 50, True), (10.0, 1.0, 0.5, 20, False)],
)
def test_blocks_outlast_what_lingers_where_the_run_is_long_enough(length_s, stay_s, seconds, count, are_long):
    blocks = blocks_of(length_s, stay_s)

    assert (seconds, count, are_long) == (blocks.seconds, blocks.count, blocks.are_long)


@given(st.lists(st.floats(0, 1), max_size=20))
def test_corrected_ps_are_never_lower_and_keep_their_order(values):
    corrected = holm(values)

    assert all(after >= before for before, after in zip(values, corrected, strict=True))
    assert [one for _, one in sorted(zip(values, corrected, strict=True))] == sorted(corrected)


@pytest.mark.parametrize(("lost", "won", "p"), [(0, 0, 1.0), (5, 5, 1.0), (6, 0, 0.03125)])
def test_mcnemar_is_exact(lost, won, p):
    assert p == pytest.approx(mcnemar(lost, won))


def test_mcnemars_tail_meets_the_exact_one():
    assert mcnemar(480, 519) == pytest.approx(mcnemar(481, 520), rel=0.1)
