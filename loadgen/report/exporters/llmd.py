"""`benchmark_report.json`: llm-d's benchmark report, version 0.2, which its readers take as JSON or YAML.

`time_per_output_token` is our itl. `inter_token_latency`, which is measured between tokens, is left out: a frame is no
token. Of the requests, those that ended in an error are failures; those that were not over, or never sent, incomplete.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

import msgspec
import polars as pl

from loadgen import __version__
from loadgen.report.exporters.spread import spread
from loadgen.report.measured import Measured
from loadgen.results.metrics import FINISHED

FILE = "benchmark_report.json"
VERSION = "0.2"
_PERCENTILES = {
    "p0p1": 0.1,
    "p1": 1.0,
    "p5": 5.0,
    "p10": 10.0,
    "p25": 25.0,
    "p50": 50.0,
    "p75": 75.0,
    "p90": 90.0,
    "p95": 95.0,
    "p99": 99.0,
    "p99p9": 99.9,
}
_ANSWERED = ("completed", "truncated", "noneligible_finish", "responded")
_INCOMPLETE = ("unfinished", "unsent")


def export(measured: Measured, summary: dict[str, Any]) -> Mapping[str, str]:
    """Return the report of a run; what is not known is left out."""
    told = {
        "version": VERSION,
        "run": _run(measured.manifest, summary),
        "scenario": _scenario(measured, summary),
        "results": {"request_performance": {"aggregate": _aggregate(measured, summary)}},
    }
    report = {name: part for name, part in told.items() if part}
    return {FILE: msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"}


def _run(manifest: dict[str, Any], summary: dict[str, Any]) -> dict[str, Any]:
    started = datetime.fromisoformat(manifest["clock"]["started"])
    seconds = manifest.get("ended_s") or 0.0
    verdict = "VALID" if summary["verdict"]["valid"] else "INVALID"
    facts = [f"{reason['name']}: {reason['fact']}" for reason in summary["verdict"]["reasons"]]
    return {
        "uid": sha256(f"{manifest['run']} {manifest['clock']['started_unix_ns']}".encode()).hexdigest()[:32],
        "time": {
            "start": started.isoformat(),
            "end": (started + timedelta(seconds=seconds)).isoformat(),
            "duration": f"PT{seconds:.6f}S",
        },
        "description": "; ".join([f"loadgen run {manifest['run']} at {manifest['target']}: {verdict}", *facts]),
        "keywords": [word for word in (verdict, summary["label"], *summary["slo"]) if word],
    }


def _scenario(measured: Measured, summary: dict[str, Any]) -> dict[str, Any]:
    """Return what was asked of the server; the schema wants the length of prompts, so {} where that is unknown."""
    schedule, config = summary["schedule"], measured.manifest["config"]
    asked, answered = (_length(measured.offered[name]) for name in ("input_tokens", "output_tokens"))
    if asked is None:
        return {}
    standardized = {
        "tool": "loadgen",
        "tool_version": __version__,
        "source": "random" if summary["made_up"] else "sampled",
        "input_seq_len": asked,
        "output_seq_len": answered,
        "rate_qps": schedule["nominal_rate"] or None,
        "concurrency": schedule["callers"] or config.get("max_concurrency"),
    }
    return {
        "load": {
            "metadata": {"cfg_id": schedule["sha256"]},
            "standardized": {name: value for name, value in standardized.items() if value is not None},
            "native": {"config": config},
        }
    }


def _length(tokens: pl.Series) -> dict[str, Any] | None:
    known = tokens.drop_nulls()
    if not len(known):
        return None
    kind = "fixed" if known.n_unique() == 1 else "other"
    return {"distribution": kind, "value": known.mean(), "min": known.min(), "max": max(int(known.max()), 1)}  # type: ignore[arg-type]


def _aggregate(measured: Measured, summary: dict[str, Any]) -> dict[str, Any]:
    outcomes: dict[str, int] = summary["outcomes"]
    incomplete = sum(outcomes.get(name, 0) for name in _INCOMPLETE)
    answered = sum(outcomes.get(name, 0) for name in _ANSWERED)
    offered = measured.offered
    finished = offered.filter(FINISHED)
    llm = summary.get("llm", {})
    per_token = finished.filter(pl.col("output_tokens") > 0).select(pl.col("e2e_ms") / pl.col("output_tokens"))
    return {
        "requests": {
            "total": summary["offered"],
            "failures": summary["offered"] - answered - incomplete,
            "incomplete": incomplete,
            **_known(
                input_length=_statistics(finished["input_tokens"], "count"),
                output_length=_statistics(finished["output_tokens"], "count"),
                request_size=_statistics(offered["request_bytes"], "bytes"),
            ),
        },
        "latency": _known(
            time_to_first_token=_statistics(offered["ttft_ms"], "s", scale=1e-3),
            request_latency=_statistics(offered["e2e_ms"], "s", scale=1e-3),
            time_per_output_token=_statistics(offered["itl_ms"], "s/token", scale=1e-3),
            normalized_time_per_output_token=_statistics(per_token.to_series(), "s/token", scale=1e-3),
        ),
        "throughput": _known(
            request_rate=_single(summary["completed_per_sec"], "queries/s"),
            output_token_rate=_single(llm.get("output_tokens_per_sec"), "tokens/s"),
            input_token_rate=_single(llm.get("input_tokens_per_sec"), "tokens/s"),
            total_token_rate=_single(llm.get("total_tokens_per_sec"), "tokens/s"),
        ),
    }


def _statistics(values: pl.Series, units: str, *, scale: float = 1.0) -> dict[str, Any] | None:
    numbers: dict[str, Any] = spread(values, _PERCENTILES, scale=scale)
    if not numbers:
        return None
    deviation = numbers.pop("std")
    return {"units": units, **numbers, "stddev": deviation}


def _single(value: float | None, units: str) -> dict[str, Any] | None:
    return None if value is None else {"units": units, "mean": value}


def _known(**statistics: dict[str, Any] | None) -> dict[str, Any]:
    return {name: of for name, of in statistics.items() if of is not None}
