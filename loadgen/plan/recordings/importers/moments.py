"""What a log knows of an answer: when it began and ended, not when each of its frames came."""

import msgspec

from loadgen.plan.recordings.importers.times import any_ns
from loadgen.plan.recordings.ours import RecordedFrame, RecordedResponse


def answered(
    at_ns: int | None,
    *,
    first: object,
    last: object,
    body: object = None,
    failed: bool = False,
    usage: object = None,
) -> RecordedResponse:
    """Return an answer of which moments are known: frames with a time and no data, for its first and its last output.

    The times are as the source writes them. A `body` that came in one piece is the data of the last. A failed call has
    neither a status, which logs do not keep, nor an end.
    """
    moments = {ms for moment in (first, last) if (ms := _ms(at_ns, moment)) is not None}
    frames = [RecordedFrame(ms=ms) for ms in sorted(moments)]
    if body is not None:
        data = body if isinstance(body, str) else msgspec.json.encode(body).decode()
        frames = [RecordedFrame(ms=_ms(at_ns, last), data=data)]
    return RecordedResponse(
        status=None if failed else 200,
        end=None if failed else "clean",
        frames=frames or None,
        usage=msgspec.Raw(msgspec.json.encode(usage)),
    )


def _ms(at_ns: int | None, moment: object) -> float | None:
    """A moment after the request's, in ms; None where either is not known."""
    try:
        moment_ns, _ = any_ns(moment)
    except ValueError:
        return None
    if at_ns is None or moment_ns is None or moment_ns < at_ns:
        return None
    return round((moment_ns - at_ns) / 1e6, 3)
