"""How well the generator did its part: what the verdict judges."""

from typing import Any

import polars as pl

from loadgen.report.measured import Measured
from loadgen.report.numbers import histogram_numbers
from loadgen.results.finish import Finished
from loadgen.results.histogram import Histogram
from loadgen.results.record import Sample

_CLIENT_LIMIT = pl.col("outcome") == "client_limit"
# Of a window of a few requests a hundredth is less than any wake takes.
_LATE_MS = 2.0
_WAIT_MS = (pl.col("admitted_ns") - pl.col("fired_ns")) / 1e6


def process_facts(finished: Finished, manifest: dict[str, Any]) -> dict[str, Any]:
    """Return what the load process measured of itself, which rows cannot tell: lags, CPU, memory, descriptors.

    CPU and the wait for a core are shares of one core while requests were due: a quiet drain does not dilute them.
    """
    facts: dict[str, Any] = {"read_lag": None, "loop_lag": None}
    if finished.lags is not None:
        facts["read_lag"] = histogram_numbers(Histogram(finished.lags.read_lag))
        facts["loop_lag"] = histogram_numbers(Histogram(finished.lags.loop_lag))
    samples = finished.samples
    if samples:
        facts["resident_mib_max"] = max(sample.resident_bytes for sample in samples) / 2**20
        facts["connections_max"] = max(sample.connections for sample in samples)
        facts["descriptors_max"] = max(sample.descriptors for sample in samples)
        facts["descriptors_limit"] = manifest["host"].get("descriptors")
    sending = _while_sending(samples, manifest["schedule"])
    if len(sending) > 1:
        first, last = sending[0], sending[-1]
        span_ns = max(last.at_ns - first.at_ns, 1)
        facts["cpu_pct"] = 100 * (last.cpu_ns - first.cpu_ns) / span_ns
        if first.core_wait_ns is not None and last.core_wait_ns is not None:
            facts["core_wait_pct"] = 100 * (last.core_wait_ns - first.core_wait_ns) / span_ns
    return facts


def _while_sending(samples: list[Sample], schedule: dict[str, Any]) -> list[Sample]:
    """The samples up to the last due, and the first one after it."""
    if schedule["length_s"] is None:
        return samples
    end_ns = (schedule["warmup_s"] + schedule["length_s"]) * 1e9
    within = [sample for sample in samples if sample.at_ns <= end_ns]
    return within if len(within) > 1 else samples[: len(within) + 1]


def sending(measured: Measured) -> dict[str, Any]:
    """Return what the rows tell of how requests were sent and read."""
    attempts = measured.attempts
    first = attempts.filter(pl.col("attempt") == 1)
    stamped = attempts.filter(pl.col("reads") > 0)
    uncertain = stamped.filter(pl.col("stamp_source") == "kernel")["stamp_uncertainty_ms"].drop_nulls()
    lateness = first["generator_lateness_ms"].drop_nulls()
    late_ms = max(_LATE_MS, measured.length_s * 10.0)  # 1 % of the window
    late = first.filter((pl.col("first_sent_ns") - pl.col("due_ns")) / 1e6 - _WAIT_MS > late_ms)
    waited = attempts.filter(pl.col("admitted_ns") > pl.col("fired_ns"))
    gaps_ms = measured.gaps.filter(pl.col("gap_ns") > 0)["gap_ns"] / 1e6
    reused = attempts["connection_reused"].drop_nulls()
    return {
        "transports": _counts(stamped, "transport"),
        "stamp_sources": _counts(stamped, "stamp_source"),
        "stamp_uncertainty_p99_ms": uncertain.quantile(0.99, "linear") if len(uncertain) else None,
        "frame_gap_nonzero_p50_ms": gaps_ms.median() if len(gaps_ms) else None,
        "lateness_p99_ms": lateness.quantile(0.99, "linear") if len(lateness) else None,
        "late_ms": late_ms,
        "late_pct": 100 * len(late) / len(lateness) if len(lateness) else None,
        "client_limits": _counts(measured.everything.filter(_CLIENT_LIMIT), "detail"),
        "waited_for_a_slot": len(waited),
        "slot_wait_p50_ms": waited.select(_WAIT_MS).to_series().median() if len(waited) else None,
        "new_connections": int((~reused).sum()),
        "resent": int(attempts["resent"].sum()),
    }


def _counts(rows: pl.DataFrame, column: str) -> dict[str, int]:
    words = pl.col(column).fill_null("unknown")
    return dict(rows.group_by(words).len().sort(column).iter_rows())
