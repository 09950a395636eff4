"""Distributions as numbers: percentiles with their n, and whether there are enough samples for them."""

import math
from typing import Any

import polars as pl

from loadgen.report.measured import Population
from loadgen.results.histogram import Histogram
from loadgen.results.metrics import COMPLETED, FINISHED, METRICS

PERCENTILES = (50.0, 90.0, 95.0, 99.0)


def samples_needed(percentile: float) -> int:
    """Return how many samples a percentile needs for its one-sided 95 % bound.

    >>> samples_needed(99)
    299
    """
    return math.ceil(math.log(0.05) / math.log(percentile / 100))


def distributions(population: Population) -> dict[str, Any]:
    """Return the numbers of every metric that has samples, each with the share of requests that is not in it."""
    offered = population.offered
    found = {}
    for metric in METRICS.values():
        values = offered[metric.column].drop_nulls()
        if len(values):
            found[metric.name] = {"unit": metric.unit, **_numbers(values), **_excluded(offered, len(values))}
    survivors = offered.filter(COMPLETED)["first_text_ms"].drop_nulls()
    if len(survivors):
        found["first_text[completed]"] = {
            "unit": "ms",
            **_numbers(survivors),
            **_excluded(offered, len(survivors)),
        }
    if len(population.gaps):
        finished = len(offered.filter(FINISHED))
        gaps = histogram_numbers(pooled(population.gaps["gap_ns"]))
        found["frame_gap"] = {"unit": "ms", **gaps, **_excluded(offered, finished)}
    return found


def pooled(gaps_ns: pl.Series) -> Histogram:
    """Return frame gaps in a histogram, to the microsecond."""
    histogram = Histogram()
    for ns, times in (gaps_ns // 1000 * 1000).value_counts().iter_rows():
        histogram.record(ns, times)
    return histogram


def histogram_numbers(histogram: Histogram) -> dict[str, Any]:
    """Return the numbers of a pooled distribution, to the histogram's three digits, in ms."""
    found = histogram.percentiles_ns([*PERCENTILES])
    numbers: dict[str, Any] = {"n": histogram.count, "max": histogram.max_ns / 1e6}
    numbers |= {f"p{percentile:g}": ns / 1e6 for percentile, ns in found.items()}
    return numbers | _too_few(histogram.count)


def _numbers(values: pl.Series) -> dict[str, Any]:
    """Exact numbers of a distribution: linear interpolation, as numpy."""
    numbers: dict[str, Any] = {"n": len(values), "min": values.min(), "mean": values.mean(), "max": values.max()}
    for percentile in PERCENTILES:
        numbers[f"p{percentile:g}"] = values.quantile(percentile / 100, "linear")
    return numbers | _too_few(len(values))


def _too_few(count: int) -> dict[str, Any]:
    return {"too_few_for": [f"p{p:g}" for p in PERCENTILES if count < samples_needed(p)]}


def _excluded(offered: pl.DataFrame, count: int) -> dict[str, Any]:
    return {"excluded_pct": 100 * (len(offered) - count) / len(offered)}
