"""The tokens that a server counted, from its own report, in one set of words."""

from typing import Any

import msgspec

from loadgen.wire.events import Malformed, Usage
from loadgen.wire.formats import Dialect
from loadgen.wire.frame import Frame
from loadgen.wire.jsontext import count, parse

# Of an answer that is one JSON object, by the dialects.
_WORDS = {
    "input_tokens": ("input_tokens", "prompt_tokens", "prompt_eval_count", "inputTokens"),
    "output_tokens": ("output_tokens", "completion_tokens", "eval_count", "outputTokens"),
}


def usage_of_stream(dialect: Dialect, frames: list[Frame]) -> dict[str, int] | None:
    """Return the last report in these frames of a stream; None where there is none."""
    decode, found = dialect.decoder(), None
    for frame in frames:
        try:
            reports = [event for event in decode(frame) if isinstance(event, Usage)]
        except Malformed:
            break
        for report in reports:
            # The last report wins, but some servers put zeros on every frame but the one that counts.
            if found is None or report.output_tokens or not found.output_tokens:
                found = report
    return None if found is None else _counts(msgspec.structs.asdict(found))


def usage_of_whole(data: bytes) -> dict[str, int] | None:
    """Return the report of an answer in one piece; None where there is none.

    >>> usage_of_whole(b'{"usage": {"prompt_tokens": 7, "completion_tokens": 2}}')
    {'input_tokens': 7, 'output_tokens': 2}
    """
    try:
        value = parse(data)
    except Malformed:
        return None
    if not isinstance(value, dict):
        return None
    usage = value.get("usage")
    told = usage if isinstance(usage, dict) else value
    return _counts({name: next((told[word] for word in words if word in told), None) for name, words in _WORDS.items()})


def _counts(told: dict[str, Any]) -> dict[str, int] | None:
    counts = {name: counted for name, value in told.items() if (counted := count(value)) is not None}
    return counts or None
