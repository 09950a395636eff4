"""A run's numbers, from its rows: METRICS section 4, word for word."""

from typing import Any

import polars as pl

from loadgen.report.backlog import backlog
from loadgen.report.generator import sending
from loadgen.report.measured import Measured, Population
from loadgen.report.notes import notes
from loadgen.report.numbers import distributions
from loadgen.report.server import beside
from loadgen.report.verdict import judge
from loadgen.results.finish import IS_OUTPUT
from loadgen.results.metrics import COMPLETED, FINISHED
from loadgen.results.slo import Slo

_LLM = pl.col("format").is_not_null() & (pl.col("format") != "other")


def summarise(measured: Measured, process: dict[str, Any]) -> dict[str, Any]:
    """Return the summary of a finished run, as it is stored in `summary.json`.

    `process` is what the load process knew of itself (`process_facts`): rows cannot tell it.
    """
    manifest = measured.manifest
    whole = measured.of_all()
    retries = int((measured.attempts["attempt"] > 1).sum())
    summary: dict[str, Any] = {
        "run": manifest["run"],
        "label": manifest.get("label"),
        "target": manifest["target"],
        "loop": "closed" if measured.is_closed else "open",
        "schedule": manifest["schedule"],
        "window": {"start_s": measured.start_s, "length_s": measured.length_s},
        "warmup_requests": len(measured.everything) - len(measured.attempts),
        "slo": [str(slo) for slo in measured.slos],
        "made_up": manifest["recording"].get("made_up"),
        "rules": {"accept_missing_end_marker": bool(manifest["config"].get("accept_missing_end_marker"))},
        **part(measured, whole),
        "offered_work": len(measured.offered) + retries,
        "retries": retries,
        "classes": {},
        "steady_output_tokens_per_sec": _steady(measured),
        "in_flight": backlog(measured),
        "process": process,
        "generator": sending(measured),
        "answers": _answers(measured),
        "ended": {key: manifest.get(key) for key in ("status", "stopped_by", "lost_rows")},
    }
    for name in measured.offered["class"].drop_nulls().unique().sort():
        summary["classes"][name] = part(measured, measured.of_class(name))
    rate = summary.get("llm", {}).get("output_tokens_per_sec")
    if (gpus := manifest["config"].get("gpus")) and rate is not None:
        summary["llm"]["output_tokens_per_sec_per_gpu"] = rate / gpus
    if (server := beside(measured, summary)) is not None:
        summary["server"] = server
    summary["notes"] = notes(summary)
    return {"verdict": judge(summary, manifest).as_json(), **summary}


def part(measured: Measured, population: Population) -> dict[str, Any]:
    """Return the numbers of all offered requests, or of one class of them."""
    offered, slos, seconds = population.offered, measured.slos, measured.length_s
    count = len(offered)
    outcomes = dict(offered.group_by("outcome").len().sort("len", "outcome", descending=[True, False]).iter_rows())
    good, useful = int(offered["good"].sum()), int(offered["useful"].sum())
    submitted = int(offered["sent_ns"].is_not_null().sum())
    unmeasurable = offered.filter(COMPLETED & _any_is_null(slos))
    part: dict[str, Any] = {
        "offered": count,
        # The callers of a closed loop offer no rate: the server sets their pace.
        "offered_per_sec": None if measured.is_closed else _per(seconds, count),
        "submitted": submitted,
        "submitted_per_sec": _per(seconds, submitted),
        "completed_per_sec": _per(seconds, outcomes.get("completed", 0)),
        "outcomes": outcomes,
        "details": [
            {"outcome": outcome, "detail": detail, "status": status, "requests": n}
            for outcome, detail, status, n in offered.filter(~COMPLETED)
            .group_by("outcome", "detail", "status")
            .len()
            .sort("len", "outcome", "detail", "status", descending=[True, False, False, False])
            .iter_rows()
        ],
        "good": good,
        "good_unmeasurable": len(unmeasurable),
        "goodput_per_sec": _per(seconds, good),
        "useful": useful,
        "useful_per_sec": _per(seconds, useful),
        "useful_pct": 100 * useful / count if count else None,
        "metrics": distributions(population),
    }
    if "checks" in offered.columns:
        part["checks"] = _checks(offered.filter(COMPLETED))
    if (llm := _llm(offered)) is not None:
        part["llm"] = llm
    return part


def _checks(completed: pl.DataFrame) -> dict[str, Any]:
    """What became of each check of the completed requests, with one reason of those that failed."""
    flags, whys = completed["checks"].struct.unnest(), completed["why_not"].struct.unnest()
    return {
        flag.name: {
            "passed": int(flag.sum()),
            "failed": int((~flag).sum()),
            "not_run": flag.null_count(),
            "why": next(iter(whys[flag.name].drop_nulls()), None),
        }
        for flag in flags
    }


def _any_is_null(slos: list[Slo]) -> pl.Expr:
    return pl.any_horizontal(pl.lit(value=False), *(pl.col(slo.metric.column).is_null() for slo in slos))


def _per(seconds: float, count: int) -> float | None:
    """A rate; None over a window without length."""
    return count / seconds if seconds else None


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


def _steady(measured: Measured) -> float | None:
    """Output tokens per second that arrived inside the window, whoever sent for them and whatever became of them.

    A stream's tokens are spread evenly over its output frames.
    """
    if not measured.length_s:
        return None
    start, end = measured.start_s * 1e9, (measured.start_s + measured.length_s) * 1e9
    per_frame = measured.everything.filter(_LLM & (pl.col("output_frames") > 0)).select(
        "seq", "attempt", "sent_ns", (pl.col("output_tokens") / pl.col("output_frames")).alias("tokens")
    )
    arrived = (
        measured.frames.select("seq", "attempt", "at_ns", "kind")
        .explode("at_ns", "kind")
        .filter(IS_OUTPUT)
        .join(per_frame, on=["seq", "attempt"])
        .filter((pl.col("sent_ns") + pl.col("at_ns")).is_between(start, end))
    )
    return float(arrived["tokens"].sum()) / measured.length_s if len(per_frame) else None


def _answers(measured: Measured) -> dict[str, Any]:
    """What bends the numbers of the answers: work that no frame showed, lengths that are not the recording's."""
    offered = measured.offered
    showed = measured.frames.filter(pl.col("kind").list.contains("reasoning"))
    hidden = offered.filter(pl.col("reasoning_tokens") > 0).join(showed, on=["seq", "attempt"], how="anti")
    known = offered.filter(FINISHED & pl.col("output_tokens").is_not_null() & (pl.col("expected_output_tokens") > 0))
    return {
        "hidden_reasoning": len(hidden),
        "with_expected_length": len(known),
        "output_tokens_mean": known["output_tokens"].mean(),
        "expected_output_tokens_mean": known["expected_output_tokens"].mean(),
    }
