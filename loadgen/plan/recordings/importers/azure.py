"""Azure LLM inference traces (2023, 2024): CSV of `TIMESTAMP`, `ContextTokens`, `GeneratedTokens`; lengths only.

Timestamps have up to seven fractional digits; in 2024 they state their zone, in 2023 none.
"""

from collections.abc import Iterator

from loadgen.plan.recordings.importers.content import Content
from loadgen.plan.recordings.importers.found import Asked, Found, Refused, each
from loadgen.plan.recordings.importers.lengths import length_only, path_of
from loadgen.plan.recordings.importers.sample import Sample
from loadgen.plan.recordings.importers.tables import cells, whole
from loadgen.plan.recordings.importers.times import stamp_ns

_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def tells(sample: Sample) -> bool:
    return set(_COLUMNS) <= set(sample.columns)


def read(content: Content, asked: Asked) -> Iterator[Found | Refused]:
    """Yield each row's request."""
    path = path_of(asked, None)

    def found(row: int, of: tuple[str | None, ...]) -> Found:
        stamp, inputs, outputs = of
        at_ns, zone = stamp_ns(stamp or "")
        request = length_only(asked, "azure", input_tokens=whole(inputs), output_tokens=whole(outputs), path=path)
        return Found(request, row, at_ns, zone)

    return each(cells(content, *_COLUMNS), found)
