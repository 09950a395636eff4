"""ShareGPT: an array of `id`, `conversations` of `from` and `value`; no arrivals, no token counts.

Each turn of a person is a request, with what was said before it; a conversation is a session.
"""

from collections.abc import Iterator
from typing import Any

from loadgen.plan.recordings.importers.bodies import Message, asking
from loadgen.plan.recordings.importers.content import Content
from loadgen.plan.recordings.importers.fields import listed, record, text
from loadgen.plan.recordings.importers.found import HALF_A_PAIR, Asked, Found, Refused
from loadgen.plan.recordings.importers.jsontexts import objects
from loadgen.plan.recordings.importers.sample import Sample

_ROLES = {
    "human": "user",
    "user": "user",
    "system": "system",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "assistant": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "model": "assistant",
}


def tells(sample: Sample) -> bool:
    return sample.has("conversations")


def read(content: Content, asked: Asked) -> Iterator[Found | Refused]:
    """Yield a request for each turn of a person."""
    for item in objects(content):
        if isinstance(item, Refused):
            yield item
            continue
        row, conversation = item
        try:
            found = list(_turns(row, conversation, asked))
        except UnicodeError:
            yield Refused(row, HALF_A_PAIR)
            continue
        yield from found
        if not found:
            yield Refused(row, "no turn of a person in the conversation")


def _turns(row: int, conversation: dict[str, Any], asked: Asked) -> Iterator[Found]:
    session = str(conversation.get("id") or row)
    said: list[Message] = []
    turns = 0
    for turn in map(record, listed(conversation.get("conversations"))):
        role, words = _ROLES.get(str(turn.get("from"))), text(turn.get("value"))
        # Servers refuse a conversation that their own model begins.
        if role is None or words is None or (role == "assistant" and not turns):
            continue
        said.append({"role": role, "content": words})
        if role == "user":
            turns += 1
            request = asking(asked, list(said), model=None, id=f"{session}-{turns}", session=session, source="sharegpt")
            yield Found(request=request, row=row)
