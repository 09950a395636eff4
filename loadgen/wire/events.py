"""What a frame of a model's stream can say, whatever dialect it is written in.

A decoder turns one frame into a tuple of events; an encoder is its inverse, and knows tool calls by name as well.
"""

from typing import Literal, TypeAlias

import msgspec

OutputKind: TypeAlias = Literal["text", "reasoning", "tool", "refusal"]

# The leading kind of a frame that says several things is the first of these (METRICS, `frames.parquet`).
FRAME_KINDS = ("text", "reasoning", "tool", "refusal", "role", "usage", "finish", "done", "error", "other")


class Output(msgspec.Struct, frozen=True, gc=False):
    """Something the model generated: never empty, whitespace included."""

    kind: OutputKind
    text: str
    choice: int = 0


class Role(msgspec.Struct, frozen=True, gc=False):
    """A choice opened, or a tool was named: nothing was generated yet."""

    choice: int = 0


class Usage(msgspec.Struct, frozen=True, gc=False):
    """A token count by the server; None where it did not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class Finish(msgspec.Struct, frozen=True, gc=False):
    """Why generation of one choice stopped, in the server's own word."""

    reason: str
    choice: int = 0


class End(msgspec.Struct, frozen=True, gc=False):
    """The format's own end marker."""


class Failure(msgspec.Struct, frozen=True, gc=False):
    """An error object or event inside the stream; `detail` is short and machine-readable."""

    detail: str


class Other(msgspec.Struct, frozen=True, gc=False):
    """A frame of the dialect that says nothing we count."""


class ToolCall(msgspec.Struct, frozen=True, gc=False):
    """A call of a tool opens, and output of that kind follows: for encoders only, a decoder says Role."""

    id: str
    name: str
    choice: int = 0


Event: TypeAlias = Output | Role | Usage | Finish | End | Failure | Other
Told: TypeAlias = Event | ToolCall  # what an encoder takes

# Shared by every frame that says just this.
END = (End(),)
OTHER = (Other(),)


class Malformed(ValueError):
    """Bytes that break their own format; the message is a short machine-readable detail."""
