"""What became of the same requests at two times, or on two sides."""

from typing import Any

import polars as pl


def transitions(was: pl.DataFrame, now: pl.DataFrame) -> list[dict[str, Any]]:
    """Return how many requests (`seq`) went from which outcome to which, the most first."""
    both = now.select("seq", now="outcome").join(was.select("seq", was="outcome"), on="seq")
    counted = both.group_by("was", "now").len("requests")
    return counted.sort("requests", "was", "now", descending=[True, False, False]).to_dicts()
