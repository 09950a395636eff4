"""The parts of an answer: what it reasons, what it says, the call it ends in."""

from typing import Literal, TypeAlias

import msgspec

from loadgen.wire.events import OutputKind

# Why an answer stops; each API has its own words for these.
Reason: TypeAlias = Literal["stop", "length", "tool_calls"]


class Part(msgspec.Struct, frozen=True):
    """Tokens of one kind in a row, `start` to `stop` of the answer; not `whole` where a cap cuts it."""

    kind: OutputKind
    start: int
    stop: int
    whole: bool


def parts_of(*, reasoning: int, text: int, arguments: int, most: int) -> tuple[Part, ...]:
    """Return the parts of an answer with so many tokens of each kind, of which `most` are given.

    >>> [(part.kind, part.stop, part.whole) for part in parts_of(reasoning=2, text=0, arguments=3, most=4)]
    [('reasoning', 2, True), ('tool', 4, False)]
    """
    parts = []
    start = 0
    kinds: tuple[tuple[OutputKind, int], ...] = (("reasoning", reasoning), ("text", text), ("tool", arguments))
    for kind, tokens in kinds:
        stop = min(start + tokens, most)
        if start < stop:
            parts.append(Part(kind, start, stop, stop == start + tokens))
        start += tokens
    return tuple(parts)
