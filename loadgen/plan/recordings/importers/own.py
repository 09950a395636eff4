"""Our own recording, e.g. to cut a window out of it or to map its models."""

from collections.abc import Iterator

import msgspec

from loadgen.plan.recordings.importers.content import Content
from loadgen.plan.recordings.importers.found import Asked, Found, Refused, each
from loadgen.plan.recordings.importers.jsontexts import why_not_json
from loadgen.plan.recordings.importers.sample import Sample
from loadgen.plan.recordings.importers.times import number_ns
from loadgen.plan.recordings.ours import parse_line


def tells(sample: Sample) -> bool:
    return sample.has("path") and not sample.is_list


def read(content: Content, asked: Asked) -> Iterator[Found | Refused]:
    """Yield every request as it stands."""
    return each(content.lines(), _found)


def _found(row: int, line: bytes) -> Found:
    try:
        request = parse_line(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(why_not_json(error)) from None
    return Found(
        request=request,
        row=row,
        at_ns=None if request.at_s is None else number_ns(request.at_s),
    )
