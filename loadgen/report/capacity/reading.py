"""A probe's part from its run's folder."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from loadgen.report.capacity.probes import Part
from loadgen.results.metrics import COMPLETED
from loadgen.results.rundir import RunDir
from loadgen.results.slo import Slo, parse_slo

# Ends of metrics that grow when a request waits for its turn.
_WAITS = ("ttft", "first_text", "e2e", "completion")


def read_part(rundir: RunDir, *, is_scout: bool) -> Part:
    """Read a finished run."""
    summary = rundir.read_summary()
    offered = (
        pl.read_parquet(rundir.requests).filter((pl.col("phase") == "measure") & pl.col("final")).sort("due_ns", "seq")
    )
    flight = summary["in_flight"]
    reasons = summary["verdict"]["reasons"]
    return Part(
        useful=offered["useful"].to_list(),
        felt=_felt(offered, [parse_slo(text) for text in summary["slo"]]),
        backlog_grows=bool(flight and flight["growing"]),
        valid=summary["verdict"]["valid"],
        is_scout=is_scout,
        run=rundir.name,
        troubles=list(_troubles(offered, summary)),
        notes=[f"{reason['name']}: {reason['fact']}" for reason in reasons if reason["level"] == "invalid"],
    )


def patience_s(slos: list[Slo]) -> float:
    """Return the tightest bound that waiting breaks, in seconds; 0 where no objective feels a wait."""
    waits = [slo.bound / 1e3 for slo in slos if _feels_a_wait(slo)]
    return min(waits, default=0.0)


def _feels_a_wait(slo: Slo) -> bool:
    return slo.metric.name.removesuffix("_from_due") in _WAITS and slo.operator in ("<", "<=")


def _felt(offered: pl.DataFrame, slos: list[Slo]) -> list[float]:
    """Return the times that the tightest objective bounds, in steps that matter to it.

    All within a tenth of the way from the shortest to the bound count as alike, or the machine's own tremor would be
    taken for a queue; longer ones than twice the bound too, and those that never came with them.
    """
    bounded = [slo for slo in slos if slo.operator in ("<", "<=")]
    if not bounded:
        return []
    slo = min(bounded, key=lambda slo: (not _feels_a_wait(slo), slo.bound))
    times = offered[slo.metric.column]
    shortest = times.min()
    least = shortest if isinstance(shortest, float) else 0.0
    alike = min(least + max(slo.bound - least, 0.0) / 10, 2 * slo.bound)
    felt: list[float] = times.fill_null(2 * slo.bound).clip(alike, 2 * slo.bound).to_list()
    return felt


def _troubles(offered: pl.DataFrame, summary: dict[str, Any]) -> Iterator[tuple[str, int]]:
    for outcome, count in summary["outcomes"].items():
        if outcome != "completed":
            yield outcome, count
    completed = offered.filter(COMPLETED)
    for slo in map(parse_slo, summary["slo"]):
        if missed := len(completed.filter(~slo.holds().fill_null(value=False))):
            yield f"not {slo}", missed
    if failed := len(offered.filter(pl.col("good") & ~pl.col("useful"))):
        yield "a check failed", failed
