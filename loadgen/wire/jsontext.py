"""JSON as servers really send it: invalid UTF-8, lone surrogates, numbers as strings."""

import json
import math
from typing import Any, TypeVar

import msgspec

from loadgen.wire.events import Malformed

_decode = msgspec.json.Decoder().decode
# What a typed decoder of msgspec raises at bytes that are not what it wants; `loosely` takes those.
REFUSED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

S = TypeVar("S", bound=msgspec.Struct)


def parse(data: bytes) -> Any:
    """Return the value of a JSON text; raises Malformed("json").

    >>> parse(b'{"a": "\\xff"}')
    {'a': '\\ufffd'}
    """
    try:
        return _decode(data)
    except REFUSED:
        pass
    try:  # the standard library takes what msgspec refuses: bytes that are no UTF-8, lone surrogates
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise Malformed("json") from error


def loosely(data: bytes, kind: type[S], *nested: str) -> S | None:
    """Return what a struct has of an object that its typed decoder REFUSED; raises Malformed.

    Fields of these names that are no objects are left out. None where the data is blank or `[DONE]`, which says nothing
    outside OpenAI's dialects.
    """
    if data.strip() in (b"", b"[DONE]"):
        return None
    value = parse(data)
    if not isinstance(value, dict):
        raise Malformed("json_not_an_object")
    for name in nested:
        if not isinstance(value.get(name), dict):
            value.pop(name, None)
    try:
        return msgspec.convert(value, kind)
    except UnicodeEncodeError:  # a key that is no text; a struct has none of that name
        return msgspec.convert(_with_sound_keys(value, depth=len(nested)), kind)


def _with_sound_keys(value: object, *, depth: int) -> object:
    if not isinstance(value, dict) or depth < 0:
        return value
    return {sound(key): _with_sound_keys(of, depth=depth - 1) for key, of in value.items()}


def argument_text(value: object) -> str:
    """Return a tool's arguments as text: a string as it is, an object as JSON; "" when there are none.

    >>> argument_text('{"a'), argument_text({"a": 1}), argument_text({}), argument_text(None)
    ('{"a', '{"a":1}', '', '')
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, dict | list) or not value:
        return ""
    try:
        return msgspec.json.encode(value).decode()
    except (ValueError, OverflowError):  # lone surrogates, and numbers beyond 64 bits
        return json.dumps(value)


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
    said = "_".join(str(value).split())[:80] or otherwise
    return sound(said)


def sound(text: str) -> str:
    """Return text that can be stored: a lone surrogate, which is no letter, becomes a question mark.

    >>> sound("a\\ud83d")
    'a?'
    """
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
