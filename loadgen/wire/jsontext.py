"""JSON as servers really send it: invalid UTF-8, lone surrogates, numbers as strings."""

import json
import math
from typing import Any

import msgspec

from loadgen.wire.events import Malformed

_decode = msgspec.json.Decoder().decode


def parse(data: bytes) -> Any:
    """Return the value of a JSON text; raises Malformed("json").

    >>> parse(b'{"a": "\\xff"}')
    {'a': '\\ufffd'}
    """
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:  # the standard library takes what msgspec refuses: bytes that are no UTF-8, lone surrogates
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise Malformed("json") from error


def count(value: object) -> int | None:
    """Return a count as an int, whatever JSON type carried it; None when it is none.

    >>> count("12"), count(7.0), count(True), count(-1), count(None)
    (12, 7, None, None, None)
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        value = int(value)
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        value = int(value)
    return value if isinstance(value, int) and 0 <= value < 2**63 else None


def word(value: object, *, otherwise: str) -> str:
    """Return a short machine-readable word of what a server said, e.g. an error's type or code.

    >>> word("rate limit\\nreached", otherwise="error"), word(429, otherwise="error"), word(None, otherwise="error")
    ('rate_limit_reached', '429', 'error')
    """
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        return otherwise
    return "_".join(str(value).split())[:80] or otherwise
