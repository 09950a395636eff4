"""Answers checked, after the load: what becomes of each check of each completed request."""

from collections.abc import Sequence

import msgspec
import polars as pl

from loadgen.results.checks import Check
from loadgen.results.record import Row

_NOT_FOR_CHECKS = frozenset(("frame_at_ns", "frame_bytes", "frame_kinds", "answer", "arguments"))


class Checker:
    """Runs the checks of a run; a Ctrl-C ends a check that does not, and leaves out all that follow."""

    def __init__(self, checks: Sequence[Check]) -> None:
        self._checks = checks
        self._is_stopped = False

    def columns(self, rows: Sequence[Row]) -> list[pl.Series]:
        """Return `checks`, a flag for each (null where none ran), and `why_not`, the reasons of those that failed.

        There are none without checks. Only completed requests are checked.
        """
        if not self._checks:
            return []
        results = [self._results(row) for row in rows]
        flags = [None if found is None else {name: why is None for name, why in found.items()} for found in results]
        names = [check.name for check in self._checks]
        return [
            pl.Series("checks", flags, dtype=pl.Struct(dict.fromkeys(names, pl.Boolean()))),
            pl.Series("why_not", results, dtype=pl.Struct(dict.fromkeys(names, pl.String()))),
        ]

    def _results(self, row: Row) -> dict[str, str | None] | None:
        if row.outcome != "completed" or self._is_stopped:
            return None
        text = row.answer or row.arguments or ""
        facts = {name: value for name, value in msgspec.structs.asdict(row).items() if name not in _NOT_FOR_CHECKS}
        try:
            return {check.name: check.why_not(facts, text) for check in self._checks}
        except KeyboardInterrupt:
            self._is_stopped = True
            return None
