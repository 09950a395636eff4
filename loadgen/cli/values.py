"""Option values as a person writes them."""

import re

from loadgen.errors import UsageError

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(us|ms|s|m|h)")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str, *, option: str = "duration") -> float:
    """Read a duration in seconds; raises UsageError.

    >>> seconds("500ms"), seconds("2m")
    (0.5, 120.0)
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{option} {text!r} is not a duration", hint="write a number and a unit, as in 500ms, 30s, 2m")
    return float(found[1]) * _SECONDS[found[2]]


def header(text: str) -> tuple[str, str]:
    """Read `Name: value`; raises UsageError, which does not repeat the value: it may be a secret.

    >>> header("X-Team: red")
    ('X-Team', 'red')
    """
    name, colon, value = text.partition(":")
    if not colon or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or any(c in value for c in "\r\n\0"):
        raise UsageError(f"--header {name!r} is not 'Name: value'", hint="as in --header 'X-Team: red'")
    return name, value.strip()


def pair(text: str, *, option: str) -> tuple[str, str]:
    """Read `KEY=VALUE`; raises UsageError.

    >>> pair("temperature=0", option="--set")
    ('temperature', '0')
    """
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f"{option} {text!r} is not KEY=VALUE", hint=f"as in {option} key=value")
    return key, value
