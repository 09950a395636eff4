"""How far B's latencies lie from A's, request by request, and how sure that is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Any

import polars as pl

from loadgen.report.compare.bootstrap import Blocks, Sample, draws_of, interval, p_value, student_t
from loadgen.report.compare.sides import Run, Side
from loadgen.results.metrics import METRICS

SHIFTED = ("ttft", "first_text", "e2e", "itl", "ttft_from_due", "first_text_from_due", "e2e_from_due")
SHIFTED_BY_CLASS = ("ttft", "e2e", "itl", "ttft_from_due", "e2e_from_due")
_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """One statistic's shift, B less A, in ms; its 95 % interval, and p for no shift (None of groups of runs).

    `p50` is the median of the pairs' differences (of unpaired requests, and of groups: the difference of the medians),
    `p95` and `p99` the difference of the two sides' percentiles. `n` are the pairs, or the runs of both sides.
    """

    metric: str
    statistic: str
    klass: str | None
    a: float
    b: float
    shift: float
    low: float
    high: float
    n: int
    p: float | None

    @property
    def direction(self) -> int:
        """-1 where B is surely lower, 1 where it is surely higher, 0 where that is not known."""
        return -1 if self.high < 0 else 1 if self.low > 0 else 0

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def paired_rows(a: Run, b: Run) -> pl.DataFrame:
    """Return the requests of both runs side by side, B's columns ending in `_b`."""
    columns = ["outcome", "good", "useful", *(METRICS[name].column for name in SHIFTED)]
    left = a.measured.offered.select("seq", "class", pl.coalesce("due_ns", "fired_ns").alias("at_ns"), *columns)
    return left.join(b.measured.offered.select("seq", *columns), on="seq", suffix="_b")


def shifts_of_runs(a: Run, b: Run, *, blocks: Blocks, seed: int, are_paired: bool) -> Iterator[Shift]:
    """Yield the shifts from one run to another, over all requests and per class."""
    draws = draws_of(blocks.count, seed=seed)
    rows = paired_rows(a, b) if are_paired else None
    classes = a.measured.offered["class"].drop_nulls().unique().sort().to_list()
    for klass in (None, *classes):
        for metric in SHIFTED if klass is None else SHIFTED_BY_CLASS:
            column = METRICS[metric].column
            left, right, differences = (
                _pairs(rows, column, klass, a, blocks)
                if rows is not None
                else (_alone(a, column, klass, blocks), _alone(b, column, klass, blocks), None)
            )
            if len(left) and len(right):
                yield from _shifts(metric, klass, left, right, differences, draws=draws)


def _pairs(
    rows: pl.DataFrame, column: str, klass: str | None, run: Run, blocks: Blocks
) -> tuple[Sample, Sample, Sample | None]:
    mine = rows.filter(
        pl.col(column).is_not_null() & pl.col(f"{column}_b").is_not_null(),
        pl.lit(value=True) if klass is None else pl.col("class") == klass,
    )
    place = _block(mine["at_ns"], run, blocks)
    return (
        Sample(mine[column], place),
        Sample(mine[f"{column}_b"], place),
        Sample(mine[f"{column}_b"] - mine[column], place),
    )


def _alone(run: Run, column: str, klass: str | None, blocks: Blocks) -> Sample:
    rows = run.measured.offered.filter(
        pl.col(column).is_not_null(), pl.lit(value=True) if klass is None else pl.col("class") == klass
    )
    return Sample(rows[column], _block(rows.select(pl.coalesce("due_ns", "fired_ns")).to_series(), run, blocks))


def _block(at_ns: pl.Series, run: Run, blocks: Blocks) -> pl.Series:
    """The number of the block that each moment is in."""
    seconds = at_ns / 1e9 - run.measured.start_s
    return (seconds / blocks.seconds).floor().clip(0, blocks.count - 1).cast(pl.UInt32)


def _shifts(
    metric: str, klass: str | None, a: Sample, b: Sample, differences: Sample | None, *, draws: pl.DataFrame
) -> Iterator[Shift]:
    shares = list(_SHARES.values())
    # Unpaired sides are drawn apart: their blocks have nothing to do with one another.
    draws_b = draws if differences is not None else draws.select(reversed(draws.columns))
    drawn = dict(zip(_SHARES, zip(a.drawn(shares, draws), b.drawn(shares, draws_b), strict=True), strict=True))
    for statistic, share in _SHARES.items():
        at_a, at_b = a.quantile(share), b.quantile(share)
        if statistic == "p50" and differences is not None:
            shift, found = differences.quantile(share), differences.drawn([share], draws)[0]
        else:
            shift = at_b - at_a
            both = zip(*drawn[statistic], strict=True)
            found = [None if low is None or high is None else high - low for low, high in both]
        known = [value for value in found if value is not None]
        if known:
            low, high = interval(known, shift, blocks=draws.height)
            yield Shift(
                metric=metric, statistic=statistic, klass=klass, a=at_a, b=at_b, shift=shift, low=low, high=high,
                n=min(len(a), len(b)), p=p_value(known, shift, blocks=draws.height),
            )  # fmt: skip


def shifts_of_groups(a: Side, b: Side) -> Iterator[Shift]:
    """Yield the shifts between groups of runs, each run one value: Welch's t on their percentiles.

    A side of one run has no variance of its own, so there is no interval then, and nothing is yielded.
    """
    if len(a.runs) < 2 or len(b.runs) < 2:
        return
    classes = a.first.measured.offered["class"].drop_nulls().unique().sort().to_list()
    for klass in (None, *classes):
        for metric in SHIFTED if klass is None else SHIFTED_BY_CLASS:
            for name, share in _SHARES.items():
                left, right = (_of_each(side.runs, METRICS[metric].column, klass, share) for side in (a, b))
                if left and right:
                    yield _welch(metric, name, klass, left, right)


def _of_each(runs: Sequence[Run], column: str, klass: str | None, share: float) -> list[float]:
    """The percentile in each run; empty where a run has none."""
    found = []
    for run in runs:
        rows = run.measured.offered if klass is None else run.measured.offered.filter(pl.col("class") == klass)
        value = rows[column].drop_nulls().quantile(share, "linear")
        if value is None:
            return []
        found.append(float(value))
    return found


def _welch(metric: str, statistic: str, klass: str | None, a: list[float], b: list[float]) -> Shift:
    errors = [variance(values) / len(values) for values in (a, b)]
    total = sum(errors)
    freedom = (
        total**2 / sum(error**2 / (len(values) - 1) for error, values in zip(errors, (a, b), strict=True))
        if total
        else len(a) + len(b) - 2
    )
    margin = student_t(int(freedom)) * total**0.5
    shift = fmean(b) - fmean(a)
    return Shift(
        metric=metric, statistic=statistic, klass=klass, a=fmean(a), b=fmean(b), shift=shift, low=shift - margin,
        high=shift + margin, n=len(a) + len(b), p=None,
    )  # fmt: skip
