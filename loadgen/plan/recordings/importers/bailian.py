"""Bailian (Qwen) traces: JSON lines of `timestamp` (s), lengths, `type`, `chat_id`, `hash_ids` (16-token blocks)."""

from __future__ import annotations  # array is generic to the type checker only

from array import array
from collections.abc import Iterator

import msgspec

from loadgen.plan.recordings.importers.content import Content
from loadgen.plan.recordings.importers.found import Asked, Found, Refused, each
from loadgen.plan.recordings.importers.jsontexts import why_not_json
from loadgen.plan.recordings.importers.lengths import length_only, path_of
from loadgen.plan.recordings.importers.sample import Sample
from loadgen.plan.recordings.importers.times import number_ns

_BLOCK_TOKENS = 16
_MOST_CHATS = 100_000_000


class _Line(msgspec.Struct, gc=False):
    timestamp: int | float
    input_length: int
    output_length: int
    chat_id: int
    parent_chat_id: int = -1
    type: str | None = None
    hash_ids: list[int] | None = None


_decode = msgspec.json.Decoder(_Line).decode


def tells(sample: Sample) -> bool:
    return sample.has("timestamp", "input_length", "output_length", "chat_id") and not sample.is_list


def read(content: Content, asked: Asked) -> Iterator[Found | Refused]:
    """Yield each line's request; the session is the chat that a chain of chats began with, the class its type."""
    path = path_of(asked, None)
    began = array("q")  # by chat, which are numbered through; 8 bytes each

    def found(row: int, line: bytes) -> Found:
        try:
            of = _decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ValueError(why_not_json(error)) from None
        request = length_only(
            asked,
            "bailian",
            input_tokens=of.input_length,
            output_tokens=of.output_length,
            path=path,
            hash_ids=of.hash_ids,
            block_tokens=_BLOCK_TOKENS if of.hash_ids is not None else None,
            id=str(of.chat_id),
            session=str(_root(began, of.chat_id, of.parent_chat_id)),
            klass=of.type,
        )
        return Found(request, row, number_ns(of.timestamp))

    return each(content.lines(), found)


def _root(began: array[int], chat: int, parent: int) -> int:
    root = began[parent] if 0 <= parent < len(began) and began[parent] >= 0 else parent if parent >= 0 else chat
    if 0 <= chat < _MOST_CHATS:
        if chat >= len(began):
            began.extend([-1] * (chat + 1 - len(began)))
        began[chat] = root
    return root
