"""The whole comparison of two sides."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

import polars as pl

from loadgen.errors import UsageError
from loadgen.report.compare.accounting import accounting, of_rows, usefulness
from loadgen.report.compare.bootstrap import Blocks, blocks_of
from loadgen.report.compare.conclusion import conclude
from loadgen.report.compare.conditions import Difference, conditions, others, serving
from loadgen.report.compare.holm import holm
from loadgen.report.compare.shifts import SHIFTED, Shift, shifts_of_groups, shifts_of_runs
from loadgen.report.compare.sides import Run, Side
from loadgen.report.dialects import SERVER_METRICS
from loadgen.report.transitions import transitions

PRIMARY = "ttft-p95"
_SURE = 0.05
_STATISTICS = ("p50", "p95", "p99")


def parse_primary(text: str) -> str:
    """Read the metric that a comparison is decided by; raises UsageError.

    >>> parse_primary("llm.ttft_p95")
    'ttft-p95'
    """
    name = text.lower().removeprefix("llm.")
    metric, _, statistic = name.rpartition("-")
    metric = metric.replace("-", "_")
    if metric not in SHIFTED or statistic not in _STATISTICS:
        metric, _, statistic = name.rpartition("_")
    if metric not in SHIFTED or statistic not in _STATISTICS:
        raise UsageError(
            f"--primary {text!r} is not METRIC-pNN",
            hint=f"metrics are {', '.join(SHIFTED)}; statistics {', '.join(_STATISTICS)}",
        )
    return f"{metric}-{statistic}"


def compare(
    a: Side, b: Side, *, primary: str = PRIMARY, seed: int = 0, allow_different: bool = False
) -> dict[str, Any]:
    """Return the comparison of B with A; raises UsageError for runs that must not be compared.

    `primary` is named before anybody looked; of the others each p is corrected by Holm's method.
    """
    differing = _differing(a, b)
    same = _same(a, b)
    unlike = [str(difference) for difference in differing] + _unlike(same)
    if unlike and not allow_different:
        raise UsageError(
            f"the runs must not be compared: {'; '.join(unlike)}",
            hint="--allow-different compares them all the same, and lists what differs",
        )
    is_single = len(a.runs) == len(b.runs) == 1
    blocks = _blocks(a.first, b.first) if is_single else None
    found = (
        list(shifts_of_runs(a.first, b.first, blocks=blocks, seed=seed, are_paired=same["paired"]))
        if blocks is not None
        else list(shifts_of_groups(a, b))
    )
    useful = usefulness(a, b, are_paired=same["paired"])
    accounts = {"a": accounting(a), "b": accounting(b)}
    kind, sentence = conclude(
        a, b, primary=primary, shifts=found, useful=useful, accounts=accounts, unlike=unlike
    )  # fmt: skip
    return {
        **{side.label.lower(): _told(side) | accounts[side.label.lower()] for side in (a, b)},
        "classes": _classes(a, b),
        "same": same,
        "conditions": [asdict(difference) for difference in differing],
        "serving": [asdict(difference) for difference in serving(a.first.manifest, b.first.manifest)],
        "others": [asdict(difference) for difference in others(a.first.manifest, b.first.manifest)],
        "warnings": list(_warnings(a, b, blocks)),
        "blocks": None if blocks is None else asdict(blocks),
        "seed": seed,
        "primary": primary,
        "shifts": _corrected(found, primary),
        "useful": useful,
        "servers": list(_servers(a.first.summary, b.first.summary)),
        "transitions": transitions(a.first.measured.offered, b.first.measured.offered)
        if is_single and same["paired"]
        else [],
        "conclusion": {"kind": kind, "sentence": sentence},
        "gates": [],
    }


def _differing(a: Side, b: Side) -> list[Difference]:
    """In which conditions any run differs from the first one of A."""
    found: dict[str, Difference] = {}
    for run in (*a.runs[1:], *b.runs):
        for difference in conditions(a.first.manifest, run.manifest):
            found.setdefault(difference.name, difference)
    return list(found.values())


def _same(a: Side, b: Side) -> dict[str, bool]:
    """Whether all runs had the same schedule; where only bodies differ, requests can still be paired by their place."""
    runs = [*a.runs, *b.runs]
    schedule = len({run.schedule_sha256 for run in runs}) == 1
    first = _due(a.first)
    due = schedule or all(first.equals(_due(run)) for run in runs)
    return {"schedule": schedule, "due": due, "paired": due}


def _due(run: Run) -> pl.Series:
    return run.measured.offered.sort("seq")["due_ns"]


def _unlike(same: dict[str, bool]) -> list[str]:
    if same["schedule"]:
        return []
    return ["the same due times, other paths or bodies"] if same["due"] else ["their schedules are not the same"]


def _blocks(a: Run, b: Run) -> Blocks:
    """Cut time so that a block outlasts what lingers in either run: requests, and what waits for them."""
    stays = [
        run.measured.offered.select((pl.col("end_ns") - pl.coalesce("due_ns", "fired_ns")) / 1e9) for run in (a, b)
    ]
    stay_s = max(fmean([*stay.to_series().drop_nulls()] or [0.0]) for stay in stays)
    return blocks_of(a.measured.length_s, stay_s)


def _told(side: Side) -> dict[str, Any]:
    return {
        "label": side.label,
        "name": side.name,
        "runs_told": [
            {
                "name": run.name,
                "target": run.manifest["target"],
                "valid": not run.why_invalid,
                "why_invalid": run.why_invalid,
                "loop": run.summary["loop"],
            }
            for run in side.runs
        ],
    }


def _classes(a: Side, b: Side) -> dict[str, Any]:
    names = a.offered["class"].drop_nulls().unique().sort()
    return {
        name: {side.label.lower(): of_rows(side.offered.filter(pl.col("class") == name)) for side in (a, b)}
        for name in names
    }


def _servers(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What both sides' servers told of the same thing: means of times and gauges, totals of counts."""
    left, right = (side.get("server", {}).get("metrics", {}) for side in (a, b))
    for metric in SERVER_METRICS.values():
        if metric.name in left and metric.name in right:
            statistic = "total" if metric.kind == "counter" else "mean"
            yield {
                "name": metric.name,
                "unit": metric.unit,
                "statistic": statistic,
                "a": left[metric.name][statistic],
                "b": right[metric.name][statistic],
            }


def _warnings(a: Side, b: Side, blocks: Blocks | None) -> Iterator[str]:
    changed = serving(a.first.manifest, b.first.manifest)
    if len(changed) > 1:
        names = ", ".join(one.name for one in changed)
        yield f"{len(changed)} serving variables changed ({names}): which of them did it is not told"
    if not changed:
        yield "no serving variable was stated to have changed (--server KEY=VALUE): what was compared is not told"
    if blocks is not None:
        yield "one run a side: how much runs vary among themselves is not in the intervals; repeat both"
        if not blocks.are_long:
            yield (
                f"the run is short: blocks of {blocks.seconds:.1f} s are not much longer than requests stay, so "
                "intervals may be too narrow"
            )
    elif len(a.runs) < 2 or len(b.runs) < 2:
        yield "a side of one run has no variance of its own: no intervals; repeat it"
    else:
        yield "each run counts as one value (Welch's t): few repeats make wide intervals"
    growing = [
        run.name
        for side in (a, b)
        for run in side.runs
        if run.summary["in_flight"] and run.summary["in_flight"]["growing"]
    ]
    if growing:
        yield (
            f"the backlog grew in {', '.join(growing)}: what came late waited for all that came before, so a whole run "
            "is one sample, and intervals of single runs are too narrow"
        )
    if any(run.summary["loop"] == "closed" for side in (a, b) for run in side.runs):
        yield "closed loop: callers waited for their answers, so the two sides were not offered the same load"


def _corrected(found: Sequence[Shift], primary: str) -> list[dict[str, Any]]:
    """The primary's p stands alone; those of the others are Holm's, and exploratory."""
    rows = [
        shift.as_json() | {"primary": f"{shift.metric}-{shift.statistic}" == primary and shift.klass is None}
        for shift in found
    ]
    explored = [row for row in rows if not row["primary"] and row["p"] is not None]
    for row, p in zip(explored, holm([row["p"] for row in explored]), strict=True):
        row["holm"] = p
    for row in rows:
        row["sure"] = (row["low"] > 0 or row["high"] < 0) and row.get("holm", 0.0) < _SURE
    return rows
