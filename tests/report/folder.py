"""Run folders made of rows that nobody sent, so that every number in them is known beforehand. Times are in ms."""

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from loadgen.results.histogram import Histogram
from loadgen.results.journal import Journal
from loadgen.results.record import Closed, Lags, Planned, Record, Row
from loadgen.results.rundir import Plan, RunDir
from loadgen.wire.events import FRAME_KINDS

SHORT, LONG, CLASSLESS = 0, 1, 2  # places in the recording
END_MARKER_MS = 10.0  # after the last output


def ns(ms: float) -> int:
    return round(ms * 1e6)


def recorded(classes: Sequence[str], *, expected: int | None) -> list[Planned]:
    """The recording: a request of each class, and one without."""
    return [
        Planned(str(place), klass, None, "POST", "/v1/chat/completions", "m", 17, expected)
        for place, klass in enumerate((*classes, None))
    ]


def folder_of(
    path: Path,
    records: Sequence[Record],
    *,
    due: Sequence[float],
    length: float | None,
    warmup: float = 0.0,
    callers: int | None = None,
    nominal_rate: float | None = None,
    repeats: bool = False,
    expected: int | None = None,
    classes: Sequence[str] = ("short", "long"),
    **config: object,
) -> RunDir:
    """A run's folder as the load process leaves it: plan, manifest and journal."""
    rundir = RunDir.create(path)
    rundir.write_plan(
        Plan(
            due_ns=array("q", map(ns, due)).tobytes(),
            places=array("q", [len(classes)] * len(due)).tobytes(),
            warmup_ns=ns(warmup),
            recorded=len(classes) + 1,
            requests=recorded(classes, expected=expected),
            is_closed=callers is not None,
        )
    )
    manifest: dict[str, Any] = {
        "run": path.name,
        "label": None,
        "status": "running",
        "loadgen": "0",
        "command": ["loadgen", "run"],
        "target": "http://127.0.0.1:8000",
        "config": config,
        "schedule": {
            "sha256": "0" * 64,
            "requests": len(due) or None,
            "measured": None,
            "callers": callers,
            "nominal_rate": nominal_rate,
            "warmup_s": warmup / 1e3,
            "length_s": None if length is None else length / 1e3,
            "repeats": False,
        },
        "recording": {"requests": len(classes) + 1, "repeats": repeats, "classes": {}},
        "host": {"descriptors": 1024},
        "clock": {"started": "2026-12-01T00:00:00+00:00", "started_unix_ns": 1_796_083_200_000_000_000},
    }
    rundir.write_json(rundir.manifest, manifest)
    journal = Journal(rundir.journal)
    for record in records:
        journal.append(record)
    journal.close()
    return rundir


def unanswered(
    seq: int,
    due: float,
    *,
    late: float = 0.0,
    wait: float = 0.0,
    connect: float | None = None,
    place: int = SHORT,
    in_closed_loop: bool = False,
    **changes: object,
) -> Row:
    """A request released `late`, which waited for a slot, and for a new connection where one was opened."""
    fired = due + late
    admitted = fired + wait
    sent = admitted + (connect or 0.0)
    given: dict[str, Any] = {
        "due_ns": None if in_closed_loop else ns(due),
        "fired_ns": ns(fired),
        "admitted_ns": ns(admitted),
        "connected_ns": ns(sent),
        "connection_reused": connect is None,
        "sent_ns": ns(sent),
        "first_sent_ns": ns(sent),
        "headers_ns": ns(sent + 10.0),
        "end_ns": ns(sent + 10.0),
        "finished": False,
        "reads": 1,
        "stamp_source": "kernel",
        "stamp_uncertainty_ns": 1000,
    }
    return Row(seq=seq, place=place, **given | changes)


def stream(
    seq: int,
    due: float,
    outputs: Sequence[float],
    *,
    tokens: int | None = None,
    kinds: Sequence[str] = (),
    finished: bool = True,
    late: float = 0.0,
    wait: float = 0.0,
    connect: float | None = None,
    **changes: object,
) -> Row:
    """A stream with output at `outputs` after it was sent; completed unless `changes` say otherwise."""
    kinds = [*(kinds or ["text"] * len(outputs)), *["done"] * finished]
    sent = due + late + wait + (connect or 0.0)
    after = [*outputs, *[outputs[-1] + END_MARKER_MS] * finished]
    at = [ns(sent + ms) for ms in after]
    texts = [moment for moment, kind in zip(at, kinds, strict=True) if kind == "text"]
    given: dict[str, Any] = {
        "outcome": "completed",
        "status": 200,
        "format": "openai",
        "finished": finished,
        "finish_reason": "stop",
        "output_tokens": len(outputs) if tokens is None else tokens,
        "headers_ns": at[0],
        "first_frame_ns": at[0],
        "first_output_ns": at[0],
        "first_text_ns": texts[0] if texts else None,
        "last_output_ns": at[len(outputs) - 1],
        "terminal_ns": at[-1] if finished else None,
        "end_ns": at[-1],
        "frames": len(at),
        "output_frames": len(outputs),
        "output_chars": len(outputs),
        "reads": len(at),
        "frame_at_ns": array("q", at).tobytes(),
        "frame_bytes": array("I", [9] * len(at)).tobytes(),
        "frame_kinds": bytes(map(FRAME_KINDS.index, kinds)),
    }
    return unanswered(seq, due, late=late, wait=wait, connect=connect, **given | changes)


def unsent(seq: int, due: float, *, place: int = CLASSLESS) -> Row:
    return Row(seq=seq, place=place, outcome="unsent", detail="no_slot", finished=False, due_ns=ns(due))


def lags(*, read: Sequence[float] = (), loop: Sequence[float] = ()) -> Lags:
    """What the load process measured of itself."""
    return Lags(at_ns=0, read_lag=_histogram(read), loop_lag=_histogram(loop))


def _histogram(values: Sequence[float]) -> bytes:
    histogram = Histogram()
    for ms in values:
        histogram.record(ns(ms))
    return histogram.blob()


def closed(at: float, stopped_by: str | None = None) -> Closed:
    return Closed(ns(at), stopped_by)
