"""What a request asks to become of it, in its x-sim header."""

import math
from typing import Literal, TypeAlias, get_args

import msgspec

from loadgen.servers.simulated.responses import RefusedError

Fault: TypeAlias = Literal["reject", "cut", "reset", "stall", "error"]
_DIGITS = 9  # of a count of tokens
FAULTS: tuple[Fault, ...] = get_args(Fault)


class Wish(msgspec.Struct, frozen=True):
    """A request's own behaviour; None where it takes the model's."""

    ttft_ns: int | None = None
    itl_ns: int | None = None
    tokens: int | None = None
    reasoning: int | None = None
    tools: int | None = None
    fault: Fault | None = None


NO_WISH = Wish()


def wish_from(header: str) -> Wish:
    """Read an x-sim header; raises RefusedError (400) for what it cannot mean.

    >>> wish_from("ttft_ms=1.5, tokens=3, fault=cut")
    Wish(ttft_ns=1500000, itl_ns=None, tokens=3, reasoning=None, tools=None, fault='cut')
    """
    if not header.strip():
        return NO_WISH
    ttft_ns = itl_ns = tokens = reasoning = tools = None
    fault: Fault | None = None
    for pair in header.split(","):
        key, _, value = (part.strip() for part in pair.partition("="))
        match key:
            case "ttft_ms":
                ttft_ns = _nanoseconds(key, value)
            case "itl_ms":
                itl_ns = _nanoseconds(key, value)
            case "tokens":
                tokens = _whole(key, value, least=1)
            case "reasoning":
                reasoning = _whole(key, value, least=0)
            case "tools":
                tools = _whole(key, value, least=0)
                if tools > 1:
                    raise RefusedError(400, f"x-sim: tools must be 0 or 1, not {value!r}")
            case "fault":
                fault = next((name for name in FAULTS if name == value), None)
                if fault is None:
                    raise RefusedError(400, f"x-sim: fault must be one of {', '.join(FAULTS)}, not {value!r}")
            case _:
                raise RefusedError(400, f"x-sim: {key!r} is none of {', '.join(_KEYS)}")
    return Wish(ttft_ns=ttft_ns, itl_ns=itl_ns, tokens=tokens, reasoning=reasoning, tools=tools, fault=fault)


_KEYS = ("ttft_ms", "itl_ms", "tokens", "reasoning", "tools", "fault")


def _whole(key: str, value: str, *, least: int) -> int:
    if not (value.isascii() and value.isdecimal() and len(value) <= _DIGITS and int(value) >= least):
        raise RefusedError(400, f"x-sim: {key} must be a whole number from {least}, not {value!r}")
    return int(value)


def _nanoseconds(key: str, value: str) -> int:
    try:
        milliseconds = float(value)
    except ValueError:
        milliseconds = math.nan
    if not (milliseconds >= 0 and math.isfinite(milliseconds)):
        raise RefusedError(400, f"x-sim: {key} must be milliseconds, 0 or more, not {value!r}")
    return round(milliseconds * 1e6)
