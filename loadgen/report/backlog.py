"""Requests in flight over time, and whether they pile up."""

import math
from typing import Any

import polars as pl

from loadgen.report.measured import Measured

_POINTS = 200


def backlog(measured: Measured) -> dict[str, Any] | None:
    """Return maximum, mean and slope (per second, in the window's second half) of requests in flight; None without any.

    In flight is from release to end: a request that waits for a slot is backlog too. It grows when the fitted growth
    over the half is beyond chance: more than 5, a quarter of the mean, and four times its Poisson deviation.
    """
    # After a crash the requests in flight have neither: they were sent, and did not end.
    known = measured.everything.with_columns(pl.col("fired_ns").fill_null(pl.col("sent_ns"))).filter(
        pl.col("fired_ns").is_not_null()
    )
    if not len(known) or not measured.length_s:
        return None
    starts = known["fired_ns"].sort()
    ends = known["end_ns"].drop_nulls().sort()
    first = measured.start_s * 1e9
    step = measured.length_s * 1e9 / _POINTS
    moments = pl.Series("at", [round(first + step * (i + 0.5)) for i in range(_POINTS)], dtype=pl.Int64)
    counts = starts.search_sorted(moments, side="right").cast(pl.Int64) - ends.search_sorted(
        moments, side="right"
    ).cast(pl.Int64)
    half = pl.DataFrame({"at": moments[_POINTS // 2 :] / 1e9, "count": counts[_POINTS // 2 :]})
    slope = half.select(pl.cov("at", "count") / pl.col("at").var()).item()
    mean = float(half["count"].mean())  # type: ignore[arg-type]
    growth = slope * measured.length_s / 2
    return {
        "max": int(counts.max()),  # type: ignore[arg-type]
        "mean": float(counts.mean()),  # type: ignore[arg-type]
        "slope_per_s": slope,
        "growing": growth > max(5.0, mean / 4, 4 * math.sqrt(max(mean, 0.0))),
    }
