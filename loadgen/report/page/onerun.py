"""What the page of one run shows, as charts and tables."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from loadgen.report.measured import Measured
from loadgen.report.page.charts import Bins, Chart, percentile_axis, percentile_places
from loadgen.results.metrics import COMPLETED, METRICS

_LATENCIES = ("ttft", "first_text", "e2e")
_WORST = 20
_OUTCOMES_SHOWN = 7  # there are eight colours


def charts(measured: Measured, summary: dict[str, Any]) -> list[Chart]:
    """Return every chart that the run has data for."""
    ends = measured.offered["end_ns"].max()
    until_s = float(ends) / 1e9 - measured.start_s if isinstance(ends, int) else measured.length_s
    bins = Bins(measured, max(until_s, measured.length_s))
    made = [
        *_distributions(measured),
        *_over_time(measured, bins),
        *_server(measured, bins, summary),
    ]
    return [chart for chart in made if any(value is not None for line in chart.series.values() for value in line)]


def _distributions(measured: Measured) -> Iterator[Chart]:
    for id, title, names in (
        ("latency", "Latency by percentile", _LATENCIES),
        ("itl", "Time between tokens by percentile", ("itl",)),
    ):
        columns = {name: measured.offered[METRICS[name].column].drop_nulls() for name in names}
        columns = {name: values for name, values in columns.items() if len(values)}
        if not columns:
            continue
        count = max(map(len, columns.values()))
        places = percentile_places(count)
        yield Chart(
            id=id,
            title=title,
            x_title="percentile",
            y_title="ms",
            kind="percentiles",
            x=[percentile_axis(place, count) for place in places],
            series={
                name: [float(str(values.quantile(place / 100, "linear"))) for place in places]
                for name, values in columns.items()
            },
            note="exact, from every request that has the metric; the last point is the highest",
        )


def _over_time(measured: Measured, bins: Bins) -> Iterator[Chart]:
    rows = measured.offered
    start = pl.coalesce("due_ns", "fired_ns")
    each = f"each point stands for {bins.width:g} s, at whose start it is"
    yield Chart(
        id="rates", title="Requests a second", x_title="s", y_title="/s", x=bins.x, note=each,
        series={
            **({"offered (due)": bins.rate(rows, "due_ns")} if not measured.is_closed else {}),
            "submitted": bins.rate(rows, "sent_ns"),
            "completed": bins.rate(rows.filter(COMPLETED), "end_ns"),
        },
    )  # fmt: skip
    yield Chart(
        id="flight", title="Requests in flight", x_title="s", y_title="requests", x=bins.x,
        series={"highest": _in_flight(measured, bins)}, note=each,
    )  # fmt: skip
    for name in ("ttft", "e2e"):
        value = pl.col(METRICS[name].column)
        known = rows.filter(value.is_not_null())
        yield Chart(
            id=f"{name}-time", title=f"{name} by when it was due", x_title="s", y_title="ms", x=bins.x, note=each,
            series={
                "p50": bins.line(known, start, value.median()),
                "p99": bins.line(known, start, value.quantile(0.99, "linear")),
                "max": bins.line(known, start, value.max()),
            },
        )  # fmt: skip
    outcomes = rows["outcome"].value_counts(sort=True)["outcome"].to_list()
    shown = {outcome: pl.col("outcome") == outcome for outcome in outcomes[:_OUTCOMES_SHOWN]}
    if rare := outcomes[_OUTCOMES_SHOWN:]:
        shown["rarer ones"] = pl.col("outcome").is_in(rare)
    yield Chart(
        id="outcomes", title="Outcomes by when they were due", x_title="s", y_title="requests", x=bins.x, note=each,
        series={
            name: [count or 0 for count in bins.line(rows.filter(condition), start, pl.len())]
            for name, condition in shown.items()
        },
    )  # fmt: skip
    late = rows.filter(pl.col("generator_lateness_ms").is_not_null())
    if len(late):
        yield Chart(
            id="lateness", title="Intended against submitted: how late the generator was", x_title="s", y_title="ms",
            x=bins.x, note=each,
            series={
                "p50": bins.line(late, start, pl.col("generator_lateness_ms").median()),
                "max": bins.line(late, start, pl.col("generator_lateness_ms").max()),
                "max, waits for a slot included": bins.line(late, start, pl.col("lateness_ms").max()),
            },
        )  # fmt: skip
        yield _arrivals(rows, bins)


def _arrivals(rows: pl.DataFrame, bins: Bins) -> Chart:
    """Both counts up: where the lines part, the load was not the intended one."""

    def total(column: str) -> list[float | None]:
        counts = bins.line(rows.drop_nulls(column), pl.col(column), pl.len())
        return [float(value) for value in pl.Series([count or 0 for count in counts]).cum_sum()]

    return Chart(
        id="arrivals", title="Arrivals, intended and submitted", x_title="s", y_title="requests so far",
        x=[round(at + bins.width, 6) for at in bins.x], series={"due": total("due_ns"), "sent": total("sent_ns")},
    )  # fmt: skip


def _in_flight(measured: Measured, bins: Bins) -> list[float | None]:
    """The highest number in flight of each bin, what began before it included."""
    rows = measured.everything.filter(pl.col("fired_ns").is_not_null())
    steps = pl.concat(
        [
            rows.select(at="fired_ns", step=pl.lit(1)),
            rows.filter(pl.col("end_ns").is_not_null()).select(at="end_ns", step=pl.lit(-1)),
        ]
    ).sort("at", "step")
    level = steps.with_columns(level=pl.col("step").cum_sum(), bin=bins.of(pl.col("at")))
    highest = dict(level.drop_nulls("bin").group_by("bin").agg(pl.col("level").max()).iter_rows())
    last = dict(level.drop_nulls("bin").group_by("bin", maintain_order=True).agg(pl.col("level").last()).iter_rows())
    found: list[float | None] = []
    now = 0
    for place in range(bins.count):
        found.append(float(max(now, highest.get(place, 0))))
        now = last.get(place, now)
    return found


def _server(measured: Measured, bins: Bins, summary: dict[str, Any]) -> Iterator[Chart]:
    """The servers' gauges as they were scraped, over all replicas."""
    if measured.server is None or "server" not in summary:
        return
    lines = {}
    for name in ("running", "waiting"):
        families = summary["server"]["metrics"].get(name, {}).get("families", [])
        rows = measured.server.filter(pl.col("family").is_in(families), pl.col("value").is_not_nan())
        if len(rows):
            each = rows.group_by("replica", "tick").agg(pl.col("value").sum(), pl.col("at_ns").first())
            together = each.group_by("tick").agg(pl.col("value").sum(), pl.col("at_ns").min())
            lines[f"{name} on the server"] = bins.line(together, pl.col("at_ns"), pl.col("value").max())
    if lines:
        yield Chart(
            id="server", title="On the server, as it told", x_title="s", y_title="requests", x=bins.x, series=lines
        )


def worst(measured: Measured) -> list[dict[str, Any]]:
    """Return the slowest requests to their first output, and as many that failed: rows of a table."""
    columns = ("seq", "attempt", "class", "outcome", "detail", "status", "ttft_ms", "e2e_ms", "output_tokens")
    slow = measured.offered.filter(pl.col("ttft_ms").is_not_null()).sort("ttft_ms", descending=True).head(_WORST)
    failed = measured.offered.filter(~COMPLETED).head(_WORST)
    return pl.concat([slow.select(columns), failed.select(columns)]).unique(maintain_order=True).to_dicts()
