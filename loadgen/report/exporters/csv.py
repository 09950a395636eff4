"""`requests.csv`: the rows of `requests.parquet`, every attempt and the warm-up with them, `good` as judged now."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from loadgen.report.measured import Measured


def export(measured: Measured, summary: dict[str, Any]) -> Mapping[str, str]:
    """Return the table; what does not exist is empty, what is not flat is JSON."""
    rows = measured.everything.sort("seq", "attempt")
    flat = [
        pl.col(name).struct.json_encode()
        for name, kind in rows.schema.items()
        if isinstance(kind, pl.Struct) and kind.fields
    ]
    return {"requests.csv": rows.with_columns(flat).write_csv()}
