"""Tables as CSV: cells by the names of their columns."""

import csv
from collections.abc import Iterator, Sequence
from operator import itemgetter

from loadgen.plan.recordings.importers.content import Content
from loadgen.plan.recordings.importers.found import Refused


def cells(content: Content, *columns: str) -> Iterator[tuple[int, tuple[str | None, ...]] | Refused]:
    """Yield the cells of these columns of each row, with its line; None where the table has no such column."""
    lines = content.lines()
    _, header = next(lines)
    names = [name.strip() for name in _split(header.decode("utf-8", "replace"))]
    width = len(names)
    # A column that is not there is read beyond the row's end, where a None is put.
    pick = itemgetter(*(names.index(column) if column in names else width for column in columns))
    for number, data in lines:
        try:
            row: list[str | None] = [*_split(data.decode("utf-8")), None]
        except UnicodeDecodeError:
            yield Refused(number, "not UTF-8")
            continue
        if len(row) != width + 1:
            yield Refused(number, f"{len(row) - 1} cells in a table of {width} columns")
        else:
            yield number, pick(row)


def whole(cell: str | None) -> int | None:
    """Return a cell's count; None where it holds none.

    >>> whole("12"), whole("12.0"), whole("-1"), whole("")
    (12, 12, None, None)
    """
    if cell is None:
        return None
    digits = cell if cell.isdecimal() else cell.strip().removesuffix(".0")
    return int(digits) if digits.isdecimal() and len(digits) < 19 else None


def _split(line: str) -> Sequence[str]:
    if '"' not in line:
        return line.split(",")
    return next(csv.reader([line]), [])
