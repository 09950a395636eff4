"""BurstGPT, both versions: CSV of `Timestamp` (s), `Model`, token counts, `Log Type`; lengths only.

Version 2 adds `Session ID` and `Elapsed time`. An answer of no tokens is a failure, and refused.
"""

from collections.abc import Iterator

from loadgen.plan.recordings.importers.content import Content
from loadgen.plan.recordings.importers.found import Asked, Found, Refused, each
from loadgen.plan.recordings.importers.lengths import length_only
from loadgen.plan.recordings.importers.sample import Sample
from loadgen.plan.recordings.importers.tables import cells, whole
from loadgen.plan.recordings.importers.times import number_ns

_COLUMNS = ("Timestamp", "Request tokens", "Response tokens", "Model", "Log Type", "Session ID")
_CLASSES = {"Conversation log": "conversation", "API log": "api"}


def tells(sample: Sample) -> bool:
    return {"Timestamp", "Request tokens", "Response tokens"} <= set(sample.columns)


def read(content: Content, asked: Asked) -> Iterator[Found | Refused]:
    """Yield each row's request; its class is the kind of log it comes from."""

    def found(row: int, of: tuple[str | None, ...]) -> Found:
        at, inputs, outputs, model, log, session = of
        request = length_only(
            asked,
            "burstgpt",
            input_tokens=whole(inputs),
            output_tokens=whole(outputs),
            model=model,
            klass=_CLASSES.get(log or "", log or None),
            session=session or None,
        )
        return Found(request, row, number_ns(at or ""))

    return each(cells(content, *_COLUMNS), found)
