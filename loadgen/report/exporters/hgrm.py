"""`<metric>.hgrm`: percentile distributions as HdrHistogram's own tools write and plot them, in milliseconds.

Lines and levels are those of Java's `outputPercentileDistribution`, five ticks a half distance. hdrh has a writer too,
whose levels are others and whose deviation is not scaled.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from loadgen.report.measured import Measured
from loadgen.report.numbers import pooled
from loadgen.results.histogram import Histogram
from loadgen.results.metrics import METRICS

_TICKS = 5
_NS_PER_MS = 1e6


def export(measured: Measured, summary: dict[str, Any]) -> Mapping[str, str]:
    """Return a file for each metric that is a time and has samples."""
    return {f"{name}.hgrm": "".join(lines(histogram)) for name, histogram in _histograms(measured)}


def _histograms(measured: Measured) -> Iterator[tuple[str, Histogram]]:
    for metric in METRICS.values():
        values = measured.offered[metric.column].drop_nulls()
        if metric.unit != "ms" or not len(values):
            continue
        histogram = Histogram()
        for ms in values:
            histogram.record(round(ms * _NS_PER_MS))
        yield metric.name, histogram
    if len(measured.gaps):
        yield "frame_gap", pooled(measured.gaps["gap_ns"])


def lines(histogram: Histogram) -> Iterator[str]:
    """Yield the distribution of a histogram that is not empty, line by line."""
    recorded = list(histogram.recorded())
    yield f"{'Value':>12} {'Percentile':>14} {'TotalCount':>10} {'1/(1-Percentile)':>14}\n\n"
    for value_ns, percentile, count in _levels(recorded, histogram.count):
        rest = "" if percentile >= 100 else f" {1 / (1 - percentile / 100):14.2f}"
        yield f"{value_ns / _NS_PER_MS:12.3f} {percentile / 100:2.12f} {count:10d}{rest}\n"
    middles = [((lowest + highest + 1) // 2 / _NS_PER_MS, count) for lowest, highest, count in recorded]
    mean = math.fsum(ms * count for ms, count in middles) / histogram.count
    deviation = math.sqrt(math.fsum((ms - mean) ** 2 * count for ms, count in middles) / histogram.count)
    yield f"#[Mean    = {mean:12.3f}, StdDeviation   = {deviation:12.3f}]\n"
    yield f"#[Max     = {histogram.max_ns / _NS_PER_MS:12.3f}, Total count    = {histogram.count:12d}]\n"
    buckets, sub_buckets = histogram.buckets
    yield f"#[Buckets = {buckets:12d}, SubBuckets     = {sub_buckets:12d}]\n"


def _levels(recorded: list[tuple[int, int, int]], total: int) -> Iterator[tuple[int, float, int]]:
    """Yield value, percentile and how many are at or below the value; levels are closer the nearer they are to 100."""
    so_far, level = 0, 0.0
    for _, value_ns, count in recorded:
        so_far += count
        # Of the last value only the first level is told, and then the end.
        while 100 * so_far / total >= level:
            yield value_ns, level, so_far
            halvings = int(math.log2(100 / (100 - level))) + 1
            level += 100 / (_TICKS * 2**halvings)
            if so_far == total:
                break
    yield recorded[-1][1], 100.0, total
