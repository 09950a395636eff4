"""What a recording says became of its requests: the rows that a replay is held against, by the replay's own rules."""

import base64
from collections.abc import Sequence
from pathlib import Path

import msgspec

from loadgen.drive.flight import Flight
from loadgen.net.exchange import Exchange
from loadgen.plan.recordings.ours import RecordedFrame, RecordedRequest, RecordedResponse
from loadgen.plan.render import RenderedRequest
from loadgen.plan.schedule import SECOND_NS
from loadgen.results.journal import Journal
from loadgen.results.outcome import Rules
from loadgen.results.reading import Reading
from loadgen.results.record import Row
from loadgen.wire.ending import COMPLETE, Ending

_ROWS_AT_ONCE = 1000
_MOMENTS = ("headers", "first_frame", "first_output", "first_text", "last_output", "terminal", "end")
_UNTIMED = {f"{moment}_ns": None for moment in _MOMENTS} | {"frame_at_ns": b"", "frame_bytes": b"", "frame_kinds": b""}
# Of an answer whose text its source did not keep, only whether it came to its end.
_TOLD = "told_by_its_source"


def keep_recorded(
    requests: Sequence[RecordedRequest], rendered: Sequence[RenderedRequest], path: Path, *, rules: Rules
) -> None:
    """Write the rows of all recorded answers to a journal of their own, where there are any."""
    if all(recorded.response is None for recorded in requests):
        return
    journal = Journal(path)
    try:
        for place, recorded in enumerate(requests):
            if recorded.response is not None:
                row = recorded_row(recorded, rendered[place], place=place, rules=rules)
                if row is not None:
                    journal.append(row)
            if place % _ROWS_AT_ONCE == 0:
                journal.flush()
    finally:
        journal.close()


def recorded_row(recorded: RecordedRequest, request: RenderedRequest, *, place: int, rules: Rules) -> Row | None:
    """Return the row that a recorded request makes; None where its end is not known.

    Moments are counted from the recording's start, as far as that is known (`fired_ns` is null where it is not), and
    null where the source had no frame timing. The request was sent when it was recorded.
    """
    response = recorded.response
    if response is None or response.end is None:
        return None
    sent_ns = round((recorded.at_s or 0.0) * SECOND_NS)
    fired_ns = None if recorded.at_s is None else sent_ns
    frames = response.frames or []
    if response.headers is None or (frames and not any(map(_has_data, frames))):
        return _told(response, request, place=place, sent_ns=sent_ns, fired_ns=fired_ns)
    reading = Reading()
    exchange = Exchange(b"", b"", reading, _Nobody())
    exchange.sent_ns = exchange.first_sent_ns = exchange.end_ns = sent_ns
    exchange.ending = COMPLETE if response.end == "clean" else Ending("cut", "recorded")
    if response.status is not None:
        headers = (response.headers or {}).items()
        reading.head(response.status, [(name.lower().encode(), value.encode()) for name, value in headers], sent_ns)
    is_timed = all(frame.ms is not None for frame in frames)
    for frame in frames:
        at_ns = sent_ns + round((frame.ms or 0.0) * 1e6)
        reading.body(_data(frame), at_ns, at_ns)
        exchange.end_ns = at_ns
    flight = Flight(
        seq=place, place=place, due_ns=None, is_warmup=False, request=request, exchange=exchange, reading=reading
    )
    flight.fired_ns = flight.admitted_ns = fired_ns
    row = msgspec.structs.replace(flight.row(rules), headers_ns=None)
    usage = _usage(response)
    if row.tokens_approximate and usage.output_tokens is not None:
        row = msgspec.structs.replace(
            row, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, tokens_approximate=False
        )
    return row if is_timed else msgspec.structs.replace(row, **_UNTIMED)


def _told(
    response: RecordedResponse, request: RenderedRequest, *, place: int, sent_ns: int, fired_ns: int | None
) -> Row:
    """A row of moments and lengths: of its frames the first and last output are known at most, and no text."""
    is_whole = response.end == "clean"
    usage = _usage(response)
    moments = [
        sent_ns + round(frame.ms * 1e6)
        for frame in response.frames or []
        if frame.ms is not None and not _has_data(frame)
    ]
    has_first = len(moments) > 1 or request.asked_for_stream  # an answer in one piece has only its end
    return Row(
        seq=place,
        place=place,
        outcome="completed" if is_whole else "interrupted",
        detail=_TOLD if is_whole else "recorded",
        status=response.status,
        finished=is_whole,
        fired_ns=fired_ns,
        admitted_ns=fired_ns,
        sent_ns=sent_ns,
        first_sent_ns=sent_ns,
        first_output_ns=moments[0] if moments and has_first else None,
        last_output_ns=moments[-1] if moments else None,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
    )


class _Usage(msgspec.Struct, frozen=True):
    """A recording's own words for the tokens that a server counted: the recorder's, or OpenAI's."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


_decode = msgspec.json.Decoder(_Usage | None).decode


def _usage(response: RecordedResponse) -> _Usage:
    try:
        usage = _decode(response.usage) or _Usage()
    except (msgspec.ValidationError, msgspec.DecodeError):
        return _Usage()
    if usage.output_tokens is None:
        return _Usage(input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens)
    return usage


def _has_data(frame: RecordedFrame) -> bool:
    return frame.data is not None or frame.b64 is not None


def _data(frame: RecordedFrame) -> bytes:
    return base64.b64decode(frame.b64) if frame.b64 is not None else (frame.data or "").encode()


class _Nobody:
    """The owner of an exchange that is over."""

    def sent(self, exchange: Exchange) -> None: ...

    def lingers(self, exchange: Exchange) -> None: ...
