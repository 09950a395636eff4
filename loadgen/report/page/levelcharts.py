"""A sweep's levels for the page: rows of its table, and its curves."""

from collections.abc import Sequence
from typing import Any

from loadgen.report.levels import Level
from loadgen.report.page.charts import Chart

HEADINGS = (
    ("offered_per_sec", "offered/s"),
    ("completed_per_sec", "completed/s"),
    ("completed_pct", "completed %"),
    ("goodput_per_sec", "good/s"),
    ("useful_pct", "useful %"),
    ("ttft_p50_ms", "ttft p50"),
    ("ttft_p95_ms", "ttft p95"),
    ("itl_p50_ms", "itl p50"),
    ("e2e_p95_ms", "e2e p95"),
    ("output_tokens_per_sec", "tokens/s"),
)


def level_rows(levels: Sequence[Level], best: Level | None) -> list[dict[str, Any]]:
    """Return the table's rows."""
    return [
        {
            "level": level.words,
            "is_knee": level is best,
            "valid": row["valid"],
            "cells": [row.get(key) for key, _ in HEADINGS],
        }
        for level in levels
        for row in (level.as_row(),)
    ]


def charts_of_levels(levels: Sequence[Level]) -> list[Chart]:
    """Return latency and goodput over throughput, in the order of what was completed."""
    rows = sorted((level.as_row() for level in levels), key=lambda row: row["completed_per_sec"] or 0.0)
    by_level = [level.as_row() for level in levels]
    x_of_level = [float(at) if level.value is None else level.value for at, level in enumerate(levels)]
    what = {"callers": "callers", "rate": "requests/s asked", "cap": "cap"}.get(levels[0].kind, "run")
    made = [
        Chart(
            id=f"throughput-{metric}", title=f"{metric} over throughput", x_title="completed/s", y_title="ms",
            kind="levels",
            x=[row["completed_per_sec"] or 0.0 for row in rows],
            series={name: [row[f"{metric}_{name}_ms"] for row in rows] for name in ("p50", "p95", "p99")},
        )
        for metric in ("ttft", "e2e", "itl")
    ]  # fmt: skip
    made.append(
        Chart(
            id="goodput", title="Goodput by level", x_title=what, y_title="/s", kind="levels", x=x_of_level,
            series={
                **(
                    {"offered": [row.get("offered_per_sec") for row in by_level]}
                    if "offered_per_sec" in by_level[0]
                    else {}
                ),
                "completed": [row["completed_per_sec"] for row in by_level],
                "good": [row["goodput_per_sec"] for row in by_level],
            },
        )
    )  # fmt: skip
    tokens = [row["output_tokens_per_sec"] for row in by_level]
    made.append(
        Chart(
            id="tokens", title="Output tokens a second by level", x_title=what, y_title="tokens/s", kind="levels",
            x=x_of_level, series={"output tokens/s": tokens},
        )
    )  # fmt: skip
    return [chart for chart in made if any(value is not None for line in chart.series.values() for value in line)]
