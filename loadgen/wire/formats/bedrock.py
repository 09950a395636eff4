"""Amazon Bedrock's event streams: ConverseStream's own members; what InvokeModel carries is in `invoke`."""

from typing import Any

import msgspec

from loadgen.wire.events import (
    END,
    OTHER,
    End,
    Event,
    Failure,
    Finish,
    Malformed,
    Other,
    Output,
    OutputKind,
    Role,
    Told,
    ToolCall,
    Usage,
)
from loadgen.wire.eventstream import Message
from loadgen.wire.failures import error_word, failure_in
from loadgen.wire.formats.invoke import Chunks, event_message, failure
from loadgen.wire.frame import Frame
from loadgen.wire.jsontext import REFUSED, argument_text, count, loosely, parse, word

_MEMBERS = ("messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata")


# Fields are Any where servers disagree about the type.
class _Delta(msgspec.Struct, gc=False):
    text: Any = None
    tool: Any = msgspec.field(default=None, name="toolUse")
    reasoning: Any = msgspec.field(default=None, name="reasoningContent")


class _Piece(msgspec.Struct, gc=False):
    delta: _Delta | None = None


_typed = msgspec.json.Decoder(_Piece).decode


class Decoder:
    """Reads one stream, of either operation.

    >>> Decoder().decode(Message(b"contentBlockDelta", b'{"delta":{"text":"hi"}}'))
    (Output(kind='text', text='hi', choice=0),)
    """

    __slots__ = ("_chunks",)

    def __init__(self) -> None:
        self._chunks = Chunks(wrapped)

    def decode(self, frame: Frame) -> tuple[Event, ...]:
        """Return what one message says; raises Malformed when its payload is not what its name promises."""
        if not isinstance(frame, Message):  # a gateway's: its name is in the data
            return self._relayed(frame)
        name = frame.event
        if frame.kind == b"event":
            if name == b"contentBlockDelta":
                return _piece(frame.data)
            if name == b"chunk":
                return self._chunks.decode(frame.data)
            member = name.decode("latin-1")
            return _member(member, _object(frame.data)) if member in _MEMBERS else OTHER
        if frame.kind in (b"exception", b"error"):
            return (Failure(word(name.decode("utf-8", "replace"), otherwise="error")),)
        return OTHER

    def _relayed(self, frame: Frame) -> tuple[Event, ...]:
        if frame.event == b"error":
            return failure_in(frame.data)
        if frame.data.strip() in (b"", b"[DONE]"):
            return OTHER
        value = _object(frame.data)
        events = wrapped(value)
        if events is OTHER and error_word(value) is not None:
            return failure_in(frame.data)
        return events


def _object(data: bytes) -> dict[str, Any]:
    """Return a payload as an object: an empty one says nothing; raises Malformed."""
    value = parse(data) if data.strip() else {}
    if not isinstance(value, dict):
        raise Malformed("json_not_an_object")
    return value


def wrapped(value: dict[str, Any]) -> tuple[Event, ...]:
    """Return what an object says that has the one member as its one field."""
    for name, member in value.items():
        if isinstance(member, dict):
            if name in _MEMBERS:
                return _member(name, member)
            if name.endswith("Exception"):
                return (Failure(word(name, otherwise="error")),)
    return OTHER


def _piece(data: bytes) -> tuple[Event, ...]:
    try:
        piece = _typed(data)
    except REFUSED:
        loose = loosely(data, _Piece, "delta")
        if loose is None:
            return OTHER
        piece = loose
    delta = piece.delta
    if delta is None:
        return OTHER
    if type(delta.text) is str and delta.text and delta.tool is None and delta.reasoning is None:
        return (Output("text", delta.text),)
    return _delta(delta.reasoning, delta.text, delta.tool)


def _delta(reasoning: object, text: object, tool: object) -> tuple[Event, ...]:
    events: list[Event] = []
    said: tuple[tuple[OutputKind, object], ...] = (
        ("reasoning", reasoning.get("text") if isinstance(reasoning, dict) else None),
        ("text", text),
        ("tool", argument_text(tool.get("input")) if isinstance(tool, dict) else None),
    )
    events += [Output(kind, spoken) for kind, spoken in said if isinstance(spoken, str) and spoken]
    return tuple(events) or OTHER


def _member(name: str, value: dict[str, Any]) -> tuple[Event, ...]:
    match name:
        case "contentBlockDelta":
            delta = value.get("delta")
            if isinstance(delta, dict):
                return _delta(delta.get("reasoningContent"), delta.get("text"), delta.get("toolUse"))
        case "contentBlockStart":
            start = value.get("start")
            tool = start.get("toolUse") if isinstance(start, dict) else None
            if isinstance(tool, dict):
                whole = argument_text(tool.get("input"))
                return (Output("tool", whole),) if whole else (Role(),)
        case "messageStart":
            return (Role(),)
        case "messageStop":
            reason = value.get("stopReason")
            return (Finish(reason), *END) if isinstance(reason, str) and reason else END
        case "metadata":
            usage = value.get("usage")
            if isinstance(usage, dict):
                return (_usage(usage),)
    return OTHER


def _usage(usage: dict[str, Any]) -> Usage:
    """Return the counts; what came from a cache, or went into one, was read as well."""
    read, cached = count(usage.get("inputTokens")), count(usage.get("cacheReadInputTokens"))
    if read is not None:
        read = count(read + (cached or 0) + (count(usage.get("cacheWriteInputTokens")) or 0))
    return Usage(input_tokens=read, output_tokens=count(usage.get("outputTokens")), cached_tokens=cached)


def tells(frame: Frame, value: object) -> bool:
    """Say whether a frame shows that its stream speaks this dialect; `value` is its data as JSON, None if none."""
    if isinstance(frame, Message):
        return True
    return isinstance(value, dict) and any(isinstance(value.get(name), dict) for name in _MEMBERS[:-1])


class Encoder:
    """Write one ConverseStream; the inverse of `Decoder`. Its reason is said at its end, its usage right after.

    >>> Encoder(padding="ab").encode(Role())[-33:-4]
    b'{"role":"assistant","p":"ab"}'
    """

    def __init__(self, *, padding: str = "abcdefghijkl") -> None:
        self._padding = padding
        self._block = 0
        self._kind: OutputKind | None = None  # what the open block holds
        self._reason: str | None = None
        self._usage: Usage | None = None
        self._failed = False

    def encode(self, event: Told) -> bytes:
        """Return the messages that say `event`; nothing where the end will say it."""
        match event:
            case Role():
                return self._message("messageStart", {"role": "assistant"})
            case Output(kind, text):
                return self._turn_to(kind) + self._piece(_SAY[kind](text))
            case ToolCall(id, name):
                return self._call(id, name)
            case Finish(reason):
                self._reason = reason
            case Usage():
                self._usage = event
            case Failure(detail):
                self._failed = True
                return failure(detail)
            case Other():
                return self._piece({"text": ""})
            case End() if not self._failed:
                return self._close() + self._closing()
        return b""

    def _piece(self, delta: dict[str, Any]) -> bytes:
        return self._message("contentBlockDelta", {"contentBlockIndex": self._block, "delta": delta})

    def _turn_to(self, kind: OutputKind) -> bytes:
        kind = "text" if kind == "refusal" else kind
        if kind == self._kind:
            return b""
        if kind == "tool":
            return self._call("tooluse_sim", "tool")
        closed, self._kind = self._close(), kind
        return closed  # no start is sent of any other kind

    def _call(self, id: str, name: str) -> bytes:
        closed, self._kind = self._close(), "tool"
        start = {"contentBlockIndex": self._block, "start": {"toolUse": {"toolUseId": id, "name": name}}}
        return closed + self._message("contentBlockStart", start)

    def _close(self) -> bytes:
        if self._kind is None:
            return b""
        self._kind, block = None, self._block
        self._block += 1
        return self._message("contentBlockStop", {"contentBlockIndex": block})

    def _closing(self) -> bytes:
        stop = self._message("messageStop", {} if self._reason is None else {"stopReason": self._reason})
        if self._usage is None:
            return stop
        metadata = {"usage": _usage_object(self._usage), "metrics": {"latencyMs": 0}}
        return stop + self._message("metadata", metadata)

    def _message(self, name: str, value: dict[str, Any]) -> bytes:
        return event_message(name, {**value, "p": self._padding})


# A refusal is text, of a message that ends with another word.
_SAY: dict[OutputKind, Any] = {
    "text": lambda text: {"text": text},
    "refusal": lambda text: {"text": text},
    "reasoning": lambda text: {"reasoningContent": {"text": text}},
    "tool": lambda text: {"toolUse": {"input": text}},
}


def _usage_object(usage: Usage) -> dict[str, Any]:
    cached = usage.cached_tokens or 0
    counted = {
        "inputTokens": None if usage.input_tokens is None else max(0, usage.input_tokens - cached),
        "outputTokens": usage.output_tokens,
        "totalTokens": (usage.input_tokens or 0) + (usage.output_tokens or 0),
        "cacheReadInputTokens": usage.cached_tokens,
    }
    return {name: value for name, value in counted.items() if value is not None}
