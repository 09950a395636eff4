"""A comparison for the page: both sides' counts, where intervals lie, both sides' curves."""

from typing import Any

from loadgen.report.measured import Measured
from loadgen.report.numbertext import number
from loadgen.report.page.charts import Chart, percentile_axis, percentile_places
from loadgen.results.metrics import METRICS

_EXTRAS = (
    ("useful of accepted", "useful_of_accepted_pct", " %"),
    ("survivors' ttft p50", "survivors_ttft_p50_ms", " ms"),
    ("survivors' e2e p50", "survivors_e2e_p50_ms", " ms"),
    ("input tokens, mean", "input_tokens_mean", ""),
    ("output tokens, mean", "output_tokens_mean", ""),
)


def accounts(made: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the accounting table."""
    sides = (made["a"], made["b"])
    rows: list[dict[str, Any]] = [{"name": "offered", "style": "", "cells": [(side["offered"], "") for side in sides]}]
    for outcome in dict.fromkeys([*sides[0]["outcomes"], *sides[1]["outcomes"]]):
        cells = [_counted(side["outcomes"].get(outcome, 0), side["offered"]) for side in sides]
        rows.append({"name": outcome, "style": "", "cells": cells})
    sums = [
        {"name": name, "style": "sum", "cells": [_counted(side[name], side["offered"]) for side in sides]}
        for name in ("good", "useful")
    ]
    extras = [
        {
            "name": title,
            "style": "",
            "cells": [("" if side[name] is None else f"{number(side[name])}{unit}", "") for side in sides],
        }
        for title, name, unit in _EXTRAS
    ]
    return [*rows, *sums, *extras]


def _counted(count: int, offered: int) -> tuple[int, str]:
    return count, f"{100 * count / offered:.1f}" if offered else ""


def forest(shifts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add to each shift where its interval lies on a line from 0 to 100, whose middle is no shift.

    Each metric has a scale of its own: the furthest end of its intervals.
    """
    furthest: dict[str, float] = {}
    for shift in shifts:
        furthest[shift["metric"]] = max(
            furthest.get(shift["metric"], 0.0), abs(shift["low"]), abs(shift["high"]), abs(shift["shift"])
        )

    def at(value: float, metric: str) -> float:
        return round(50 + 48 * value / (furthest[metric] or 1.0), 2)

    return [
        shift
        | {
            side: at(shift[name], shift["metric"])
            for side, name in (("left", "low"), ("middle", "shift"), ("right", "high"))
        }
        for shift in shifts
    ]


def explained(made: dict[str, Any]) -> str:
    """Say how the intervals came to be."""
    primary = f"{made['primary']} was named beforehand; all others are exploratory"
    if made["blocks"] is None:
        return f"{primary}. Each run is one value; intervals are by Welch's t over the runs."
    paired = "The same requests are paired; p50 is the median of their differences. " if made["same"]["paired"] else ""
    blocks = made["blocks"]
    return (
        f"{primary}, their p corrected by Holm's method. {paired}Intervals are by {blocks['count']} blocks of "
        f"{blocks['seconds']:.2f} s, drawn again and again (seed {made['seed']})."
    )


def both_sides(a: Measured, b: Measured) -> list[Chart]:
    """Return the distributions of both sides, each metric on axes of its own."""
    made = []
    for name in ("ttft", "e2e", "itl"):
        sides = {
            side: values
            for side, measured in (("A", a), ("B", b))
            if len(values := measured.offered[METRICS[name].column].drop_nulls())
        }
        if not sides:
            continue
        count = max(map(len, sides.values()))
        places = percentile_places(count)
        made.append(
            Chart(
                id=f"both-{name}", title=f"{name} by percentile", x_title="percentile", y_title="ms",
                kind="percentiles",
                x=[percentile_axis(place, count) for place in places],
                series={
                    side: [float(str(values.quantile(place / 100, "linear"))) for place in places]
                    for side, values in sides.items()
                },
            )
        )  # fmt: skip
    return made
