"""Charts as data: series on one axis, thinned for the eye and never of their highest values."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from loadgen.report.measured import Measured

_BINS = 120
_IN_A_BIN = 10  # requests, as a rule: fewer make noise of a curve
_WIDTHS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
# Of a percentile plot: evenly along the axis on which each nine takes the same room, as HdrHistogram draws it.
_STEPS_A_NINE = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One chart and the table behind it; `series` are names and values at `x`, None where there is none."""

    id: str
    title: str
    x_title: str
    y_title: str
    x: Sequence[float]
    series: Mapping[str, Sequence[float | None]]
    kind: Literal["time", "percentiles", "levels"] = "time"
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return it as the page's script reads it."""
        values = [[_short(value) for value in line] for line in self.series.values()]
        return {
            "id": self.id, "kind": self.kind, "xTitle": self.x_title, "yTitle": self.y_title,
            "labels": list(self.series), "data": [[_short(value) for value in self.x], *values],
        }  # fmt: skip

    @property
    def rows(self) -> list[tuple[float | None, ...]]:
        """The table behind it, at most sixty rows: each the highest of those that it stands for."""
        columns: list[list[float | None]] = [list(self.x), *(list(line) for line in self.series.values())]
        step = math.ceil(len(self.x) / 60) or 1
        kept: list[tuple[float | None, ...]] = []
        for start in range(0, len(self.x), step):
            parts = [column[start : start + step] for column in columns]
            highest = [max((value for value in part if value is not None), default=None) for part in parts[1:]]
            kept.append((self.x[start], *highest))
        return kept


def _short(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.5g}")


class Bins:
    """The run's time cut for charts: seconds from the window's start."""

    def __init__(self, measured: Measured, until_s: float) -> None:
        span = max(until_s, 0.1)
        least = max(span / _BINS, _IN_A_BIN * span / max(len(measured.offered), _IN_A_BIN))
        self.width = next((width for width in _WIDTHS_S if width >= min(least, span / 5)), span / _BINS)
        self._start_ns = measured.start_s * 1e9
        self.count = max(math.ceil(span / self.width), 1)
        self.x = [round(place * self.width, 6) for place in range(self.count)]

    def of(self, at: pl.Expr) -> pl.Expr:
        """The bin of a moment in ns; what lies outside is in none."""
        place = ((at - self._start_ns) / 1e9 / self.width).floor().cast(pl.Int64)
        return pl.when((place >= 0) & (place < self.count)).then(place)

    def line(self, rows: pl.DataFrame, at: pl.Expr, value: pl.Expr) -> list[float | None]:
        """A statistic of the rows of each bin; None where there are none."""
        found = rows.with_columns(bin=self.of(at)).drop_nulls("bin").group_by("bin").agg(value.alias("value"))
        values = dict(found.iter_rows())
        return [values.get(place) for place in range(self.count)]

    def rate(self, rows: pl.DataFrame, column: str) -> list[float | None]:
        """How many a second."""
        counts = self.line(rows.drop_nulls(column), pl.col(column), pl.len())
        return [(count or 0) / self.width for count in counts]


def percentile_places(count: int) -> list[float]:
    """Return percentiles from 0 to 100, closer together near the end, as far as so many samples tell.

    >>> percentile_places(2)[:2]
    [0.0, 17.459581]
    """
    nines = math.log10(max(count, 2))
    steps = math.ceil(nines * _STEPS_A_NINE)
    places = [round(100 * (1 - 10 ** (-step / _STEPS_A_NINE)), 6) for step in range(steps + 1)]
    return [*(place for place in places if place < 100 * (1 - 1 / max(count, 2))), 100.0]


def percentile_axis(place: float, count: int) -> float:
    """Return where a percentile stands on the axis: nines, the last place being that of the highest of `count`."""
    return math.log10(1 / (1 - place / 100)) if place < 100 else math.log10(max(count, 2))
