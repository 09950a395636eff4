"""Fields of a source's objects, whatever stands in them."""

from collections.abc import Mapping
from typing import Any


def record(value: object) -> dict[str, Any]:
    """Return an object; empty where it is none."""
    return value if isinstance(value, dict) else {}


def listed(value: object) -> list[Any]:
    """Return an array; empty where it is none."""
    return value if isinstance(value, list) else []


def text(value: object) -> str | None:
    """Return a text that says something."""
    return value if isinstance(value, str) and value else None


def number(value: object) -> float | None:
    """Return a number that measures something."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e18:
        return None
    return float(value)


def first_of(row: Mapping[str, Any], *names: str) -> Any:
    """Return the first of these fields that is there and not null."""
    return next((row[name] for name in names if row.get(name) is not None), None)
