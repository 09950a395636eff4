"""A run's numbers, from its rows: METRICS section 4, word for word."""

import math
from typing import Any

import polars as pl

from loadgen.report.backlog import backlog
from loadgen.report.notes import notes
from loadgen.results.finish import IS_OUTPUT, Finished, frame_gaps
from loadgen.results.histogram import Histogram
from loadgen.results.metrics import COMPLETED, FINISHED, METRICS
from loadgen.results.rundir import RunDir
from loadgen.results.slo import Slo, with_good

PERCENTILES = (50.0, 90.0, 95.0, 99.0)
_LLM = pl.col("format").is_not_null() & (pl.col("format") != "other")


def samples_needed(percentile: float) -> int:
    """Return how many samples a percentile needs for its one-sided 95 % bound.

    >>> samples_needed(99)
    299
    """
    return math.ceil(math.log(0.05) / math.log(percentile / 100))


def summarise(rundir: RunDir, slos: list[Slo], *, generator: dict[str, Any]) -> dict[str, Any]:
    """Return the summary of a finished run, as it is stored in `summary.json`.

    `generator` is what the load process knew of itself (`generator_facts`): rows cannot tell it.
    """
    manifest = rundir.read_manifest()
    everything = with_good(pl.read_parquet(rundir.requests), slos)
    frames = pl.read_parquet(rundir.frames)
    measured = everything.filter((pl.col("phase") == "measure") & pl.col("final"))
    window = _window(manifest, measured)
    is_closed = manifest["schedule"]["callers"] is not None
    offered = measured.filter(pl.col("sent_ns").is_not_null()) if is_closed else measured
    gaps = frame_gaps(offered, frames)
    summary: dict[str, Any] = {
        "run": manifest["run"],
        "label": manifest.get("label"),
        "target": manifest["target"],
        "loop": "closed" if is_closed else "open",
        "schedule": manifest["schedule"],
        "window": window,
        "warmup_requests": len(everything) - len(measured),
        "slo": [str(slo) for slo in slos],
        "rules": {"accept_missing_end_marker": bool(manifest["config"].get("accept_missing_end_marker"))},
        **_part(offered, gaps, window, slos),
        "classes": {},
        "steady_output_tokens_per_sec": _steady(everything, frames, window),
        "in_flight": backlog(everything, window),
        "generator": generator | _sending(offered),
        "ended": {key: manifest.get(key) for key in ("status", "stopped_by", "lost_rows")},
    }
    classes = offered["class"].drop_nulls().unique().sort().to_list()
    for name in classes:
        mine = offered.filter(pl.col("class") == name)
        summary["classes"][name] = _part(mine, gaps.join(mine, on=["seq", "attempt"], how="semi"), window, slos)
    if (gpus := manifest["config"].get("gpus")) and "llm" in summary:
        summary["llm"]["output_tokens_per_sec_per_gpu"] = summary["llm"]["output_tokens_per_sec"] / gpus
    summary["notes"] = notes(summary, manifest, hidden_reasoning=_hidden_reasoning(offered, frames))
    return summary


def _window(manifest: dict[str, Any], measured: pl.DataFrame) -> dict[str, float]:
    """The scheduled window in seconds; of a closed loop without a duration, from first to last submission."""
    schedule = manifest["schedule"]
    start_s = schedule["warmup_s"]
    length_s = schedule["length_s"]
    if length_s is None:
        last = measured["fired_ns"].max()
        length_s = max(float(last) / 1e9 - start_s, 1e-9) if isinstance(last, int) else 0.0
    return {"start_s": start_s, "length_s": length_s}


def _part(offered: pl.DataFrame, gaps: pl.DataFrame, window: dict[str, float], slos: list[Slo]) -> dict[str, Any]:
    """The numbers of all offered requests, or of one class of them."""
    count = len(offered)
    seconds = window["length_s"]
    outcomes = dict(offered.group_by("outcome").len().sort("len", "outcome", descending=[True, False]).iter_rows())
    good = int(offered["good"].sum())
    submitted = int(offered["sent_ns"].is_not_null().sum())
    completed = outcomes.get("completed", 0)
    unmeasurable = (
        offered.filter(COMPLETED & pl.any_horizontal(pl.col(slo.metric.column).is_null() for slo in slos))
        if slos
        else offered.clear()
    )
    part: dict[str, Any] = {
        "offered": count,
        "offered_per_sec": _per(seconds, count),
        "submitted": submitted,
        "submitted_per_sec": _per(seconds, submitted),
        "completed_per_sec": _per(seconds, completed),
        "outcomes": outcomes,
        "details": [
            {"outcome": outcome, "detail": detail, "status": status, "requests": n}
            for outcome, detail, status, n in offered.filter(pl.col("outcome") != "completed")
            .group_by("outcome", "detail", "status")
            .len()
            .sort("len", "outcome", "detail", "status", descending=[True, False, False, False])
            .iter_rows()
        ],
        "good": good,
        "good_unmeasurable": len(unmeasurable),
        "goodput_per_sec": _per(seconds, good),
        "useful_per_sec": _per(seconds, good),
        "useful_pct": 100 * good / count if count else None,
        "metrics": _distributions(offered, gaps),
    }
    if (llm := _llm(offered)) is not None:
        part["llm"] = llm
    return part


def _per(seconds: float, count: int) -> float | None:
    """A rate; None over a window without length."""
    return count / seconds if seconds else None


def _distributions(offered: pl.DataFrame, gaps: pl.DataFrame) -> dict[str, Any]:
    found = {}
    count = len(offered)
    for metric in METRICS.values():
        values = offered[metric.column].drop_nulls()
        if len(values):
            found[metric.name] = {
                "unit": metric.unit,
                **_numbers(values),
                "excluded_pct": 100 * (count - len(values)) / count,
            }
    survivors = offered.filter(COMPLETED)["first_text_ms"].drop_nulls()
    if len(survivors):
        excluded = 100 * (count - len(survivors)) / count
        found["first_text[completed]"] = {"unit": "ms", **_numbers(survivors), "excluded_pct": excluded}
    if len(gaps):
        pooled = Histogram()
        for ns, times in gaps.select(pl.col("gap_ns") // 1000 * 1000).group_by("gap_ns").len().iter_rows():
            pooled.record(ns, times)
        finished = int(offered["finished"].fill_null(value=False).sum())
        excluded = 100 * (count - finished) / count
        found["frame_gap"] = {"unit": "ms", **histogram_numbers(pooled), "excluded_pct": excluded}
    return found


def _numbers(values: pl.Series) -> dict[str, Any]:
    """Exact numbers of a distribution: linear interpolation, as numpy."""
    numbers: dict[str, Any] = {"n": len(values), "min": values.min(), "mean": values.mean(), "max": values.max()}
    for percentile in PERCENTILES:
        numbers[f"p{percentile:g}"] = values.quantile(percentile / 100, "linear")
    numbers["too_few_for"] = [f"p{p:g}" for p in PERCENTILES if len(values) < samples_needed(p)]
    return numbers


def histogram_numbers(histogram: Histogram) -> dict[str, Any]:
    """The numbers of a pooled distribution, to the histogram's three digits, in ms."""
    found = histogram.percentiles_ns([*PERCENTILES])
    numbers: dict[str, Any] = {"n": histogram.count, "max": histogram.max_ns / 1e6}
    numbers |= {f"p{percentile:g}": ns / 1e6 for percentile, ns in found.items()}
    numbers["too_few_for"] = [f"p{p:g}" for p in PERCENTILES if histogram.count < samples_needed(p)]
    return numbers


def _llm(offered: pl.DataFrame) -> dict[str, Any] | None:
    """What the streams recognised as LLM output add up to; None without any, never zeros."""
    streams = offered.filter(_LLM)
    if not len(streams):
        return None
    finished = streams.filter(FINISHED)
    first, last = streams["sent_ns"].min(), streams["last_output_ns"].max()
    seconds = (last - first) / 1e9 if isinstance(first, int) and isinstance(last, int) and last > first else None
    output = int(finished["output_tokens"].sum())
    given = finished["input_tokens"].drop_nulls()
    llm: dict[str, Any] = {
        "requests": len(streams),
        "incomplete": int(streams["terminal_ns"].is_null().sum()),
        "output_tokens": output,
        "input_tokens": int(given.sum()) if len(given) else None,
        "cached_tokens": int(finished["cached_tokens"].sum()) if finished["cached_tokens"].count() else None,
        "reasoning_tokens": int(finished["reasoning_tokens"].sum()) if finished["reasoning_tokens"].count() else None,
        "token_count_approx_pct": 100 * int(finished["tokens_approximate"].sum()) / len(finished)
        if len(finished)
        else None,
        "window_s": seconds,
    }
    if seconds:
        llm["output_tokens_per_sec"] = output / seconds
        llm["goodput_tokens_per_sec"] = int(finished.filter("good")["output_tokens"].sum()) / seconds
        if len(given):
            llm["input_tokens_per_sec"] = int(given.sum()) / seconds
            llm["total_tokens_per_sec"] = (output + int(given.sum())) / seconds
    return llm


def _steady(everything: pl.DataFrame, frames: pl.DataFrame, window: dict[str, float]) -> float | None:
    """Output tokens per second that arrived inside the window, whoever sent for them and whatever became of them.

    A stream's tokens are spread evenly over its output frames.
    """
    if not window["length_s"]:
        return None
    start, end = window["start_s"] * 1e9, (window["start_s"] + window["length_s"]) * 1e9
    per_frame = everything.filter(_LLM & (pl.col("output_frames") > 0)).select(
        "seq", "attempt", "sent_ns", (pl.col("output_tokens") / pl.col("output_frames")).alias("tokens")
    )
    arrived = (
        frames.select("seq", "attempt", "at_ns", "kind")
        .explode("at_ns", "kind")
        .filter(IS_OUTPUT)
        .join(per_frame, on=["seq", "attempt"])
        .filter((pl.col("sent_ns") + pl.col("at_ns")).is_between(start, end))
    )
    return float(arrived["tokens"].sum()) / window["length_s"] if len(per_frame) else None


def _sending(offered: pl.DataFrame) -> dict[str, Any]:
    """How well the generator did its part, from the rows."""
    stamped = offered.filter(pl.col("reads") > 0)
    sources = dict(stamped.group_by("stamp_source").len().iter_rows())
    uncertain = stamped["stamp_uncertainty_ms"].drop_nulls()
    waited = offered.filter(pl.col("admitted_ns") > pl.col("fired_ns"))
    reused = offered["connection_reused"].drop_nulls()
    return {
        "stamp_sources": sources,
        "stamp_uncertainty_p99_ms": uncertain.quantile(0.99, "linear") if len(uncertain) else None,
        "waited_for_a_slot": len(waited),
        "slot_wait_p50_ms": (waited["admitted_ns"] - waited["fired_ns"]).median() / 1e6 if len(waited) else None,  # type: ignore[operator]
        "new_connections": int((~reused).sum()),
        "resent": int(offered["resent"].sum()),
    }


def _hidden_reasoning(offered: pl.DataFrame, frames: pl.DataFrame) -> int:
    """How many streams reported reasoning tokens of which no frame was seen."""
    showed = frames.filter(pl.col("kind").list.contains("reasoning"))
    return len(offered.filter(pl.col("reasoning_tokens") > 0).join(showed, on=["seq", "attempt"], how="anti"))


def generator_facts(finished: Finished) -> dict[str, Any]:
    """What the load process measured of itself: lags, CPU, memory, connections."""
    facts: dict[str, Any] = {"read_lag": None, "loop_lag": None}
    if finished.lags is not None:
        facts["read_lag"] = histogram_numbers(Histogram(finished.lags.read_lag))
        facts["loop_lag"] = histogram_numbers(Histogram(finished.lags.loop_lag))
    samples = finished.samples
    if len(samples) > 1:
        first, last = samples[0], samples[-1]
        facts["cpu_pct"] = 100 * (last.cpu_ns - first.cpu_ns) / max(last.at_ns - first.at_ns, 1)
        facts["resident_mib_max"] = max(sample.resident_bytes for sample in samples) / 2**20
        facts["connections_max"] = max(sample.connections for sample in samples)
    return facts
