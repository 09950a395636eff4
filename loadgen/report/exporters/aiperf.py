"""`profile_export_aiperf.json`: AIPerf's summary file, as version 0.13.0 writes it (schema 1.4).

Names and units are AIPerf's, numbers are ours: `request_count` counts finished streams, since AIPerf takes a truncated
one for a success, and `time_to_first_token` covers every stream that produced output (its own `count` says how many).
An INVALID run is one that is not complete, with the reason.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
import polars as pl

from loadgen.report.exporters.spread import spread
from loadgen.report.measured import Measured
from loadgen.results.metrics import FINISHED

FILE = "profile_export_aiperf.json"
SCHEMA_VERSION = "1.4"
_PERCENTILES = {f"p{percentile:g}": percentile for percentile in (1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0)}
_TOKENS, _REQUESTS, _MS = "tokens", "requests", "ms"
# AIPerf's name, our column, its unit.
_COLUMNS = (
    ("time_to_first_token", "ttft_ms", _MS),
    ("request_latency", "e2e_ms", _MS),
    ("inter_token_latency", "itl_ms", _MS),
    ("output_token_throughput_per_user", "user_tokens_per_sec", "tokens/sec/user"),
)
_COUNTS = (
    ("output_sequence_length", "output_tokens"),
    ("input_sequence_length", "input_tokens"),
    ("reasoning_token_count", "reasoning_tokens"),
)


def export(measured: Measured, summary: dict[str, Any]) -> Mapping[str, str]:
    """Return AIPerf's summary file of a run."""
    told = {
        "schema_version": SCHEMA_VERSION,
        **_metrics(measured, summary),
        **_run(measured.manifest, summary),
        "loadgen": {"version": measured.manifest["loadgen"], "verdict": summary["verdict"]},
    }
    return {FILE: msgspec.json.format(msgspec.json.encode(told), indent=2).decode() + "\n"}


def _metrics(measured: Measured, summary: dict[str, Any]) -> dict[str, Any]:
    finished = measured.offered.filter(FINISHED)
    llm = summary.get("llm", {})
    seconds = llm.get("window_s")
    metrics = {name: _record(measured.offered[column], unit) for name, column, unit in _COLUMNS}
    metrics |= {name: _record(finished[column], _TOKENS) for name, column in _COUNTS}
    singles = {
        "request_count": (len(finished), _REQUESTS),
        "error_request_count": (len(measured.offered) - len(finished), _REQUESTS),
        "request_throughput": (len(finished) / seconds if seconds else None, "requests/sec"),
        "output_token_throughput": (llm.get("output_tokens_per_sec"), "tokens/sec"),
        "total_token_throughput": (llm.get("total_tokens_per_sec"), "tokens/sec"),
        "total_osl": (llm.get("output_tokens"), _TOKENS),
        "total_isl": (llm.get("input_tokens"), _TOKENS),
        "total_reasoning_tokens": (llm.get("reasoning_tokens"), _TOKENS),
        "benchmark_duration": (seconds, "sec"),
    }
    if summary["slo"]:
        singles["good_request_count"] = (summary["good"], _REQUESTS)
        singles["goodput"] = (summary["good"] / seconds if seconds else None, "requests/sec")
    metrics |= {name: {"unit": unit, "avg": value} for name, (value, unit) in singles.items() if value is not None}
    return {name: metric for name, metric in metrics.items() if metric}


def _record(values: pl.Series, unit: str) -> dict[str, Any]:
    """Return a metric of each request; {} where no request has it."""
    numbers = spread(values, _PERCENTILES)
    if not numbers:
        return {}
    mean = numbers.pop("mean")
    return {"unit": unit, "avg": mean, **numbers, "count": values.count(), "sum": values.sum()}


def _run(manifest: dict[str, Any], summary: dict[str, Any]) -> dict[str, Any]:
    started = datetime.fromisoformat(manifest["clock"]["started"])
    invalid = [reason["fact"] for reason in summary["verdict"]["reasons"] if reason["level"] == "invalid"]
    command = manifest.get("command")
    return {
        "benchmark_id": manifest["run"],
        "run_info": {
            "benchmark_id": manifest["run"],
            "random_seed": manifest["config"].get("seed"),
            "run_label": summary["label"],
            "cli_command": " ".join(command) if command else None,
        },
        "was_cancelled": summary["ended"]["stopped_by"] is not None,
        "is_complete": not invalid and summary["ended"]["status"] == "finished",
        "incomplete_reason": "; ".join(invalid) or None,
        "error_summary": [
            {
                "error_details": {"code": entry["status"], "type": entry["outcome"], "message": entry["detail"] or ""},
                "count": entry["requests"],
            }
            for entry in summary["details"]
        ],
        "start_time": started.isoformat(),
        "end_time": (started + timedelta(seconds=manifest.get("ended_s") or 0.0)).isoformat(),
    }
