"""The dialects of model streams: one file each, and the table of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from loadgen.wire.events import Event
from loadgen.wire.formats import openai
from loadgen.wire.framing import Frame

Decode: TypeAlias = Callable[[Frame], tuple[Event, ...]]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one dialect is told from others and read."""

    name: str  # the row's `format`
    tells: Callable[[Frame, object], bool]
    decoder: Callable[[], Decode]  # a fresh one per stream: some dialects need what came before


FORMATS: dict[str, Dialect] = {
    "openai": Dialect("openai", openai.tells, lambda: openai.decode),
}
