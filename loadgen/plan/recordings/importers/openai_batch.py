"""OpenAI batch input: JSON lines of `custom_id`, `method`, `url`, `body`; no arrivals."""

from collections.abc import Iterator

import msgspec

from loadgen.plan.recordings.importers.content import Content
from loadgen.plan.recordings.importers.exchanges import exchange
from loadgen.plan.recordings.importers.found import Asked, Found, Refused, each
from loadgen.plan.recordings.importers.jsontexts import why_not_json
from loadgen.plan.recordings.importers.sample import Sample


class _Line(msgspec.Struct):
    custom_id: str
    url: str
    body: msgspec.Raw
    method: str = "POST"


_decode = msgspec.json.Decoder(_Line).decode


def tells(sample: Sample) -> bool:
    return sample.has("custom_id", "url", "body") and not sample.is_list


def read(content: Content, asked: Asked) -> Iterator[Found | Refused]:
    """Yield every line's request, its body byte for byte."""
    return each(content.lines(), _found)


def _found(row: int, line: bytes) -> Found:
    try:
        of = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(why_not_json(error)) from None
    request = exchange(
        method=of.method, url=of.url, headers=(), body=bytes(of.body), source="openai-batch", id=of.custom_id
    )
    return Found(request, row)
