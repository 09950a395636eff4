"""The journal's records as tables: one row per scheduled request and attempt, and the frames of each."""

from array import array
from collections.abc import Iterable, Sequence

import polars as pl

from loadgen.results.metrics import METRICS
from loadgen.results.record import Planned, Row
from loadgen.wire.events import FRAME_KINDS

KINDS = pl.Enum(FRAME_KINDS)

_IDENTITY: dict[str, pl.DataType] = {
    "run": pl.String(),
    "seq": pl.Int64(),
    "place": pl.Int64(),  # in the recording
    "id": pl.String(),
    "attempt": pl.Int64(),
    "final": pl.Boolean(),
    "request_id": pl.String(),
    "class": pl.String(),
    "session": pl.String(),
    "phase": pl.String(),
    "worker": pl.Int64(),
    "method": pl.String(),
    "path": pl.String(),
    "model": pl.String(),
}
_TEXT = ("outcome", "detail", "format", "finish_reason", "stamp_source", "transport")
_FLAGS = ("finished", "tokens_approximate", "connection_reused", "resent")
# Of a Row, in the order of its columns; identity and metrics are put around them.
ROW_FIELDS = [
    name
    for name in Row.__struct_fields__
    if name
    not in ("seq", "place", "attempt", "is_warmup", "frame_at_ns", "frame_bytes", "frame_kinds", "answer", "arguments")
]


def _type_of(name: str) -> pl.DataType:
    if name in _TEXT:
        return pl.String()
    if name in _FLAGS:
        return pl.Boolean()
    return pl.Float64() if name == "retry_after_s" else pl.Int64()


def requests_table(rows: Sequence[Row], planned: Sequence[Planned], *, run: str, request_ids: bool) -> pl.DataFrame:
    """Return the columns of METRICS section 7, without the verdicts that need a goal (`good`, `useful`)."""
    plans = [planned[row.place] for row in rows]
    identity: dict[str, list[object]] = {
        "run": [run] * len(rows),
        "seq": [row.seq for row in rows],
        "place": [row.place for row in rows],
        "id": [plan.id for plan in plans],
        "attempt": [row.attempt for row in rows],
        "final": [True] * len(rows),  # the last attempt's is known when all are
        "request_id": [_request_id(run, row) if request_ids else None for row in rows],
        "class": [plan.klass for plan in plans],
        "session": [plan.session for plan in plans],
        "phase": ["warmup" if row.is_warmup else "measure" for row in rows],
        "worker": [0] * len(rows),
        "method": [plan.method for plan in plans],
        "path": [plan.path for plan in plans],
        "model": [plan.model for plan in plans],
    }
    columns = [pl.Series(name, values, dtype=_IDENTITY[name]) for name, values in identity.items()]
    columns += [pl.Series(name, [getattr(row, name) for row in rows], dtype=_type_of(name)) for name in ROW_FIELDS]
    columns.append(pl.Series("request_bytes", [plan.request_bytes for plan in plans], dtype=pl.Int64))
    expected = [plan.expected_output_tokens for plan in plans]
    columns.append(pl.Series("expected_output_tokens", expected, dtype=pl.Int64))
    table = pl.DataFrame(columns).with_columns(
        metric.expression.cast(pl.Float64).alias(metric.column) for metric in METRICS.values()
    )
    uncertainty = (pl.col("stamp_uncertainty_ns") / 1e6).alias("stamp_uncertainty_ms")
    return table.with_columns(uncertainty).drop("stamp_uncertainty_ns")


def _request_id(run: str, row: Row) -> str:
    return f"{run}-{row.seq}" if row.attempt == 1 else f"{run}-{row.seq}-{row.attempt}"


def answers_table(rows: Iterable[Row]) -> pl.DataFrame:
    """Return what each stream's first choice said: its text, and its tool calls' arguments."""
    told = [(row.seq, row.attempt, row.answer, row.arguments) for row in rows if row.answer or row.arguments]
    schema = {"seq": pl.Int64(), "attempt": pl.Int64(), "answer": pl.String(), "arguments": pl.String()}
    return pl.DataFrame(told, schema=schema, orient="row")


def frames_table(rows: Iterable[Row]) -> pl.DataFrame:
    """Return each stream's frames as lists: ns from sent, bytes of data, leading kind."""
    seen = [row for row in rows if row.frames]
    at_ns, sizes, kinds = array("q"), array("I"), bytearray()
    for row in seen:
        at_ns.frombytes(row.frame_at_ns)
        sizes.frombytes(row.frame_bytes)
        kinds += row.frame_kinds
    # Flat first, then grouped: a list of lists would be built value by value.
    flat = pl.DataFrame(
        [
            pl.Series("seq", [row.seq for row in seen], dtype=pl.Int64),
            pl.Series("attempt", [row.attempt for row in seen], dtype=pl.Int64),
            pl.Series("sent_ns", [row.sent_ns or 0 for row in seen], dtype=pl.Int64),
            pl.Series("frames", [len(row.frame_kinds) for row in seen], dtype=pl.Int64),  # those that are stored
        ]
    ).select(pl.all().exclude("frames").repeat_by("frames").explode())
    return (
        flat.with_columns(
            pl.Series("at_ns", at_ns, dtype=pl.Int64),
            pl.Series("bytes", sizes, dtype=pl.UInt32).cast(pl.Int64),
            pl.Series("kind", array("B", kinds), dtype=pl.UInt8).cat.to(KINDS),
        )
        .group_by("seq", "attempt", maintain_order=True)
        .agg(pl.col("at_ns") - pl.col("sent_ns"), "bytes", "kind")
    )
