"""What the journal keeps while load runs: small records, appended as they happen.

Moments, not durations: ns since the run's start, None when they never happened. METRICS section 7 names the columns
that are made of them after the run.
"""

import msgspec

from loadgen.results.outcome import Outcome


class Planned(msgspec.Struct, frozen=True, array_like=True, tag="planned"):
    """What is the same for every send of one recorded request."""

    id: str
    klass: str | None
    session: str | None
    method: str
    path: str
    model: str | None
    request_bytes: int
    expected_output_tokens: int | None


class Sent(msgspec.Struct, frozen=True, array_like=True, tag="sent", gc=False):
    """A request was written: what a crash must not forget. A closed loop draws `place` as it goes."""

    seq: int
    place: int
    attempt: int
    sent_ns: int


class Row(msgspec.Struct, frozen=True, array_like=True, tag="row", gc=False, kw_only=True):
    """One attempt of one scheduled request, whatever became of it. Frames are packed arrays: int64, uint32, uint8."""

    seq: int
    place: int
    attempt: int = 1
    is_warmup: bool = False
    outcome: Outcome
    detail: str | None = None
    status: int | None = None
    format: str | None = None
    finished: bool | None = None
    finish_reason: str | None = None
    retry_after_s: float | None = None
    due_ns: int | None = None
    fired_ns: int | None = None
    admitted_ns: int | None = None
    connected_ns: int | None = None
    sent_ns: int | None = None
    first_sent_ns: int | None = None
    headers_ns: int | None = None
    first_frame_ns: int | None = None
    first_output_ns: int | None = None
    first_text_ns: int | None = None
    last_output_ns: int | None = None
    terminal_ns: int | None = None
    end_ns: int | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    tokens_approximate: bool = False
    frames: int = 0
    output_frames: int = 0
    output_chars: int = 0
    response_bytes: int = 0
    reads: int = 0
    stamp_uncertainty_ns: int | None = None
    connection_reused: bool | None = None
    resent: bool = False
    stamp_source: str | None = None
    transport: str | None = None
    frame_at_ns: bytes = b""
    frame_bytes: bytes = b""
    frame_kinds: bytes = b""
    answer: str | None = None  # the first choice's text and tool arguments, where somebody wants them
    arguments: str | None = None


class Sample(msgspec.Struct, frozen=True, array_like=True, tag="sample", gc=False):
    """The load process, once a second; `cpu_ns` and `core_wait_ns` (ready to run, and not running) since its start."""

    at_ns: int
    cpu_ns: int
    core_wait_ns: int | None
    resident_bytes: int
    descriptors: int
    connections: int
    in_flight: int


class Lags(msgspec.Struct, frozen=True, array_like=True, tag="lags"):
    """Our own delays so far, as HdrHistogram blobs; the last one stands."""

    at_ns: int
    read_lag: bytes
    loop_lag: bytes


class Scrape(msgspec.Struct, frozen=True, array_like=True, tag="scrape", kw_only=True):
    """A server's page of metrics, as it came; without one, why."""

    at_ns: int  # when it was asked for
    replica: str  # its URL
    failure: str | None
    content_type: str
    server: str | None  # as its header names itself
    body: bytes


class Closed(msgspec.Struct, frozen=True, array_like=True, tag="closed"):
    """The run's end, by its own words: without it, the process crashed."""

    at_ns: int
    stopped_by: str | None = None  # a signal's name


Record = Planned | Sent | Row | Sample | Lags | Scrape | Closed
