"""Mooncake traces: JSON lines of `timestamp` (ms), `input_length`, `output_length`, `hash_ids` (512-token blocks)."""

from collections.abc import Iterator

import msgspec

from loadgen.plan.recordings.importers.content import Content
from loadgen.plan.recordings.importers.found import Asked, Found, Refused, each
from loadgen.plan.recordings.importers.jsontexts import why_not_json
from loadgen.plan.recordings.importers.lengths import length_only, path_of
from loadgen.plan.recordings.importers.sample import Sample
from loadgen.plan.recordings.importers.times import number_ns

_BLOCK_TOKENS = 512
_MS = 1_000_000


class _Line(msgspec.Struct, gc=False):
    timestamp: int | float
    input_length: int
    output_length: int
    hash_ids: list[int] | None = None


_decode = msgspec.json.Decoder(_Line).decode


def tells(sample: Sample) -> bool:
    return sample.has("timestamp", "input_length", "output_length") and not sample.has("chat_id") and not sample.is_list


def read(content: Content, asked: Asked) -> Iterator[Found | Refused]:
    """Yield each line's request."""
    path = path_of(asked, None)

    def found(row: int, line: bytes) -> Found:
        try:
            of = _decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ValueError(why_not_json(error)) from None
        request = length_only(
            asked,
            "mooncake",
            input_tokens=of.input_length,
            output_tokens=of.output_length,
            path=path,
            hash_ids=of.hash_ids,
            block_tokens=_BLOCK_TOKENS if of.hash_ids is not None else None,
        )
        return Found(request, row, number_ns(of.timestamp, unit_ns=_MS))

    return each(content.lines(), found)
