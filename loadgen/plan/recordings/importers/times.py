"""Times as sources write them, to whole nanoseconds: no digit that was written is lost."""

import re
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal, InvalidOperation
from functools import lru_cache

_MOST_NS = 2**62
_SCALE = [10 ** (9 - digits) for digits in range(10)]
# Without the value: refusals are counted by their words.
_NO_NUMBER, _NO_DATE = "its time is no number of seconds", "its time is no date and time"
_REST = re.compile(r"(?:[.,](\d{1,12}))?\s*(?:(Z|z|UTC)|([+-])(\d\d):?(\d\d)(?::?00)?)?")


def number_ns(value: int | float | str, *, unit_ns: int = 1_000_000_000) -> int:
    """Return a count of units (seconds, by default) in ns, by the digits it is written with; raises ValueError.

    >>> number_ns("19440110.0"), number_ns(61.114), number_ns(27482, unit_ns=1_000_000)
    (19440110000000000, 61114000000, 27482000000)
    """
    if type(value) is int:
        ns = value * unit_ns
    else:
        try:
            exact = Decimal(value if isinstance(value, str) else repr(value)) * unit_ns
        except InvalidOperation:
            raise ValueError(_NO_NUMBER) from None
        if not exact.is_finite() or exact.adjusted() > 20:
            raise ValueError(_NO_NUMBER)
        ns = round(exact)
    if not -_MOST_NS < ns < _MOST_NS:
        raise ValueError(_NO_NUMBER)
    return ns


def stamp_ns(text: str) -> tuple[int, str | None]:
    """Return a date and time as ns of Unix time, and its zone; without one it is read as UTC. Raises ValueError.

    >>> stamp_ns("2023-11-16 18:17:03.9799600"), stamp_ns("2024-05-10T02:00:00+02:00")
    ((1700158623979960000, None), (1715299200000000000, '+02:00'))
    """
    rest, zone = text[19:], None
    if rest.endswith("+00:00"):
        rest, zone = rest[:-6], "+00:00"
    digits = rest[1:]
    if rest[:1] == "." and digits.isdecimal() and len(digits) < 10:  # the usual one
        return _second_ns(text[:19], 0) + int(digits) * _SCALE[len(digits)], zone
    found = _REST.fullmatch(text[19:])
    if found is None:
        raise ValueError(_NO_DATE)
    fraction, utc, sign, hours, minutes = found.groups()
    offset_s = 0 if sign is None else (1 if sign == "+" else -1) * (int(hours) * 3600 + int(minutes) * 60)
    zone = "UTC" if utc else f"{sign}{hours}:{minutes}" if sign else None
    return _second_ns(text[:19], offset_s) + int((fraction or "")[:9].ljust(9, "0")), zone


def perhaps_ns(value: object) -> int | None:
    """Return a number of seconds in ns; None where it is no number. Raises ValueError for one that is no time."""
    return number_ns(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def any_ns(value: object) -> tuple[int | None, str | None]:
    """Return a time that is seconds of Unix time or a date and time, as `stamp_ns` does; None for null or none at all.

    Raises ValueError for what is no time.
    """
    if value is None or value == "":
        return None, None
    if isinstance(value, str):
        return stamp_ns(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number_ns(value), "UTC"
    raise ValueError(_NO_NUMBER)


@lru_cache(maxsize=4096)
def _second_ns(text: str, offset_s: int) -> int:
    if len(text) != 19:
        raise ValueError(_NO_DATE)
    try:
        zone = timezone(timedelta(seconds=offset_s)) if offset_s else UTC
        return int(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()) * 1_000_000_000
    except ValueError:
        raise ValueError(_NO_DATE) from None
