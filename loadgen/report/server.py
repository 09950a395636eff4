"""What the servers told of themselves beside the load: totals, distributions and gauges over the measured span.

The span begins with each replica's last scrape before the window (its first one, where there is none) and ends with its
last, after the drain: what the window's requests did at the server lies in it, and of the warm-up only what ended late.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from loadgen.report.dialects import DIALECTS, SERVER_METRICS, Families, ServerMetric
from loadgen.report.measured import Measured
from loadgen.report.pairing import pairs, where_the_time_went

_SERIES = ("replica", "sample", "labels", "le")
_PERCENTILES = (50.0, 95.0, 99.0)


def beside(measured: Measured, part: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what `summary.json` says of the servers; None where nobody scraped them.

    `part` are the client's numbers.
    """
    table = measured.server
    if table is None:
        return None
    scrapes = table.filter(pl.col("sample") == "up")
    samples = _in_span(table, start_ns=measured.start_s * 1e9)
    spoken = _dialects(samples)
    metrics = {
        metric.name: value
        for metric in SERVER_METRICS.values()
        if (value := _value(metric, samples, spoken, end_ns=(measured.start_s + measured.length_s) * 1e9)) is not None
    }
    found = {
        "replicas": list(_replicas(scrapes, spoken, samples)),
        "span_s": _span(samples),
        "metrics": metrics,
        "alerts": list(_alerts(scrapes, spoken, samples, metrics)),
    }
    client = _client(measured, part)
    return found | {"pairs": list(pairs(client, metrics)), "where": where_the_time_went(client, metrics)}


def _in_span(table: pl.DataFrame, *, start_ns: float) -> pl.DataFrame:
    """The samples from each replica's base on, with how much each grew since the scrape before.

    That is `grown`, null for gauges. What shrank began again from zero; so did a series new on a page known before.
    """
    good = table.filter(pl.col("sample") != "up", pl.col("value").is_not_nan())
    bases = good.group_by("replica").agg(
        base=pl.coalesce(pl.col("tick").filter(pl.col("at_ns") <= start_ns).max(), pl.col("tick").min())
    )
    value, before = pl.col("value"), pl.col("value").shift(1).over(_SERIES, order_by="tick")
    grown = (
        pl.when(before.is_null())
        .then(pl.when(pl.col("tick") == pl.col("base")).then(0.0).otherwise(value))
        .when(value < before)
        .then(value)
        .otherwise(value - before)
    )
    return (
        good.join(bases, on="replica")
        .filter(pl.col("tick") >= pl.col("base"))
        .sort("replica", "tick")
        .with_columns(
            grown=pl.when(pl.col("kind") != "gauge").then(grown),
            is_reset=(pl.col("kind") != "gauge") & (value < before).fill_null(value=False),
        )
    )


def _dialects(samples: pl.DataFrame) -> dict[str, str]:
    """Return which dialect each replica speaks: the one most of whose families are there."""
    spoken = {}
    for (replica,), mine in samples.group_by("replica", maintain_order=True):
        families = set(mine["family"].unique())
        shares = {
            name: sum(any(family in families for family in known) for known in dialect.values())
            for name, dialect in DIALECTS.items()
        }
        best = max(shares, key=lambda name: shares[name])
        if shares[best]:
            spoken[str(replica)] = best
    return spoken


def _of(metric: ServerMetric, samples: pl.DataFrame, spoken: Mapping[str, str]) -> pl.DataFrame:
    """The samples of a metric, by whatever name each replica has for it."""
    wanted = [
        (replica, family) for replica, name in spoken.items() for family in _families(DIALECTS[name], metric.name)
    ]
    named = pl.DataFrame(wanted, schema={"replica": pl.String(), "family": pl.String()}, orient="row")
    return samples.join(named, on=["replica", "family"], how="semi")


def _families(dialect: Families, name: str) -> tuple[str, ...]:
    return dialect.get(name, ())


def _value(
    metric: ServerMetric, samples: pl.DataFrame, spoken: Mapping[str, str], *, end_ns: float
) -> dict[str, Any] | None:
    mine = _of(metric, samples, spoken)
    if not len(mine):
        return None
    families = mine["family"].unique().sort().to_list()
    match metric.kind:
        case "gauge":
            numbers = _gauge(mine.filter(pl.col("at_ns") <= end_ns), adds_up=metric.adds_up)
        case "counter":
            ends = pl.col("sample").str.ends_with("_total") | pl.col("sample").str.ends_with("_sum")
            numbers = {"total": float(mine.filter(ends)["grown"].sum())}
        case "histogram":
            numbers = _histogram(mine)
    return None if numbers is None else {"kind": metric.kind, "unit": metric.unit, "families": families, **numbers}


def _gauge(mine: pl.DataFrame, *, adds_up: bool) -> dict[str, Any] | None:
    """Least, mean and most over the scrapes at which every replica answered."""
    each = mine.group_by("tick", "replica").agg(pl.col("value").sum() if adds_up else pl.col("value").mean())
    together = each.group_by("tick").agg(
        pl.col("value").sum() if adds_up else pl.col("value").mean(), replicas=pl.len()
    )
    whole = together.filter(pl.col("replicas") == pl.col("replicas").max())["value"]
    return {"min": whole.min(), "mean": whole.mean(), "max": whole.max(), "n": len(whole)} if len(whole) else None


def _histogram(mine: pl.DataFrame) -> dict[str, Any] | None:
    """Mean and percentiles over all replicas, their buckets added; times in ms."""
    total = float(mine.filter(pl.col("sample").str.ends_with("_sum"))["grown"].sum())
    count = float(mine.filter(pl.col("sample").str.ends_with("_count"))["grown"].sum())
    if not count:
        return None
    buckets = mine.filter(pl.col("le").is_not_null())
    series = buckets.select("replica", "sample", "labels").n_unique()
    # Servers that cut their buckets differently have bounds in common at which their counts can be added.
    shared = buckets.group_by("le").agg(pl.col("grown").sum(), series=pl.struct("replica", "labels").n_unique())
    shared = shared.filter(pl.col("series") == series).sort("le")
    numbers: dict[str, Any] = {"n": round(count), "mean": 1e3 * total / count}
    bounds = list(zip(shared["le"], shared["grown"], strict=True))
    for percentile in _PERCENTILES:
        if (found := quantile(bounds, percentile / 100)) is not None:
            value, low, high = found
            numbers[f"p{percentile:g}"] = 1e3 * value
            numbers[f"p{percentile:g}_between"] = [1e3 * low, None if math.isinf(high) else 1e3 * high]
    return numbers


def quantile(buckets: list[tuple[float, float]], share: float) -> tuple[float, float, float] | None:
    """Return a quantile of cumulative buckets `(upper bound, count)`, and its bucket's bounds; None of no counts.

    Interpolated within the bucket as Prometheus' histogram_quantile does; in the last, open one it is its lower bound.

    >>> quantile([(0.1, 5.0), (0.2, 10.0), (float("inf"), 10.0)], 0.75)
    (0.15000000000000002, 0.1, 0.2)
    """
    if not buckets or not buckets[-1][1]:
        return None
    rank = share * buckets[-1][1]
    low, below = min(0.0, buckets[0][0]), 0.0
    for bound, count in buckets:
        if count >= rank and count > below:
            if math.isinf(bound):
                return low, low, bound
            return low + (bound - low) * (rank - below) / (count - below), low, bound
        low, below = bound, count
    return None


def _client(measured: Measured, part: Mapping[str, Any]) -> dict[str, Any]:
    """The client's numbers that have a server's beside them."""
    rows = measured.attempts
    flight = part["in_flight"]
    known = part["metrics"]
    numbers = {name: known[name] for name in ("ttft", "e2e", "itl", "frame_gap") if name in known}
    for name in ("output_tokens", "input_tokens", "cached_tokens"):
        if rows[name].count():
            numbers[name] = {"total": float(rows[name].sum())}
    return numbers | ({"in_flight": {"mean": flight["mean"], "max": flight["max"]}} if flight else {})


def _replicas(scrapes: pl.DataFrame, spoken: Mapping[str, str], samples: pl.DataFrame) -> Iterator[dict[str, Any]]:
    for (replica,), mine in scrapes.group_by("replica", maintain_order=True):
        told = mine.filter(pl.col("value") == 1)
        named = told["labels"].str.strip_prefix("server=").filter(told["labels"] != "server=")
        yield {
            "url": replica,
            "dialect": spoken.get(str(replica)),
            "version": _version(samples.filter(pl.col("replica") == replica)),
            "server": named[-1] if len(named) else None,
            "scrapes": len(mine),
            "failed": len(mine) - len(told),
        }


def _version(mine: pl.DataFrame) -> str | None:
    """The version that an info metric names, of the server itself and not of its Python."""
    infos = mine.filter(pl.col("family").str.ends_with("_info") & (pl.col("family") != "python_info"))
    versions = infos["labels"].str.extract(r"(?:^|,)version=([^,]*)").drop_nulls()
    return versions[-1] if len(versions) else None


def _span(samples: pl.DataFrame) -> list[float] | None:
    if not len(samples):
        return None
    first = samples.filter(pl.col("tick") == pl.col("base"))["at_ns"].min()
    last = samples["at_ns"].max()
    return [float(str(first)) / 1e9, float(str(last)) / 1e9]


def _alerts(
    scrapes: pl.DataFrame, spoken: Mapping[str, str], samples: pl.DataFrame, metrics: Mapping[str, Any]
) -> Iterator[str]:
    for (replica,), mine in scrapes.group_by("replica", maintain_order=True):
        failed = mine.filter(pl.col("value") == 0)
        if len(failed):
            why = failed["labels"].str.strip_prefix("failure=")[-1]
            yield f"{replica}: {len(failed)} of {len(mine)} scrapes failed, the last one: {why}"
        good = mine.filter(pl.col("value") == 1)
        if len(good) and len(failed):
            first, last = good["at_ns"][0], good["at_ns"][-1]
            if (failed["at_ns"] < first).any():
                yield f"{replica} appeared {first / 1e9:.1f} s into the run: the totals lack what it counted before"
            if (failed["at_ns"] > last).any():
                yield f"{replica} told nothing after {last / 1e9:.1f} s: the totals lack what it did then"
        resets = samples.filter(pl.col("is_reset"), pl.col("replica") == replica)
        if len(resets):
            at_s = resets["at_ns"].min()
            yield f"{replica} counted anew before {float(str(at_s)) / 1e9:.1f} s, as after a restart: the totals go on"
        if len(good) and str(replica) not in spoken:
            yield f"{replica} speaks no dialect that is known here: its metrics are stored, and not summarised"
    for name in sorted(set(spoken.values())):
        missing = [metric for metric in DIALECTS[name] if metric not in metrics]
        if missing:
            yield f"{name} did not tell, or had nothing to tell of: {', '.join(missing)}"
