"""Single streams for the page: a choice of requests, each with its frames on a time axis."""

from typing import Any

import polars as pl

from loadgen.report.measured import Measured
from loadgen.results.metrics import COMPLETED
from loadgen.results.tables import KINDS

_SLOWEST, _FAILED, _SAMPLE = 30, 60, 60
_FRAMES = 1500
_MOMENTS = {
    "headers": "headers_ns",
    "first output (ttft)": "first_output_ns",
    "first text": "first_text_ns",
    "last output": "last_output_ns",
    "end marker": "terminal_ns",
    "end": "end_ns",
}
_KEPT = ("seq", "attempt", "class", "outcome", "detail", "status", "format", "model", "finish_reason")
_KEPT_NUMBERS = ("input_tokens", "output_tokens", "tokens_approximate", "ttft_ms", "e2e_ms", "itl_ms", "lateness_ms")


def streams(measured: Measured) -> dict[str, Any]:
    """Return the streams to look at: the slowest, those that failed, and others spread over the run and its classes."""
    sent = measured.offered.filter(pl.col("sent_ns").is_not_null()).sort("seq")
    chosen = pl.concat(
        [
            sent.sort("ttft_ms", descending=True, nulls_last=True).head(_SLOWEST // 2),
            sent.sort("e2e_ms", descending=True, nulls_last=True).head(_SLOWEST // 2),
            _spread(sent.filter(~COMPLETED), ["outcome"], _FAILED),
            _spread(sent.filter(COMPLETED), ["class"], _SAMPLE),
        ]
    ).unique(["seq", "attempt"], maintain_order=True)
    frames = measured.frames.join(chosen.select("seq", "attempt"), on=["seq", "attempt"], how="semi")
    by_key = {(row["seq"], row["attempt"]): row for row in frames.iter_rows(named=True)}
    return {
        "kinds": KINDS.categories.to_list(),
        "of": len(sent),
        "streams": [_stream(row, by_key.get((row["seq"], row["attempt"]))) for row in chosen.iter_rows(named=True)],
    }


def _spread(rows: pl.DataFrame, by: list[str], most: int) -> pl.DataFrame:
    """Up to `most` rows, as many of each group, evenly over the run."""
    groups = rows.partition_by(by, maintain_order=True) if len(rows) else []
    share = max(most // max(len(groups), 1), 1)
    kept = [group.gather_every(max(len(group) // share, 1)).head(share) for group in groups]
    return pl.concat(kept) if kept else rows.clear()


def _stream(row: dict[str, Any], frames: dict[str, Any] | None) -> dict[str, Any]:
    told = {name: row[name] for name in _KEPT}
    told |= {name: round(value, 3) if isinstance(value := row[name], float) else value for name in _KEPT_NUMBERS}
    told["moments"] = {
        name: round((row[column] - row["sent_ns"]) / 1e6, 3)
        for name, column in _MOMENTS.items()
        if row[column] is not None
    }
    if frames is not None:
        numbers = {kind: number for number, kind in enumerate(KINDS.categories)}
        kinds = [numbers[kind] for kind in frames["kind"][:_FRAMES]]
        told["frames"] = [
            [round(at / 1e6, 3), size, kind]
            for at, size, kind in zip(frames["at_ns"][:_FRAMES], frames["bytes"][:_FRAMES], kinds, strict=True)
        ]
        told["more"] = max(len(frames["kind"]) - _FRAMES, 0)
    return told
