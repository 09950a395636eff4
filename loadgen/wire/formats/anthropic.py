"""Anthropic Messages: typed events that open, fill and close the blocks of one message."""

from typing import Any

import msgspec

from loadgen.wire.events import (
    END,
    OTHER,
    End,
    Event,
    Failure,
    Finish,
    Other,
    Output,
    OutputKind,
    Role,
    Told,
    ToolCall,
    Usage,
)
from loadgen.wire.failures import error_word, failure_in
from loadgen.wire.frame import Frame
from loadgen.wire.framing import server_sent_event
from loadgen.wire.jsontext import REFUSED, argument_text, count, loosely, parse

METRICS = "amazon-bedrock-invocationMetrics"  # Bedrock's report, on the last event that it relays
_TOLD_BY = frozenset(
    {"message_start", "message_delta", "message_stop"}
    | {"content_block_start", "content_block_delta", "content_block_stop"}
)


# Fields are Any where servers disagree about the type.
class _Delta(msgspec.Struct, gc=False):
    type: Any = None
    text: Any = None
    thinking: Any = None
    partial_json: Any = None
    stop_reason: Any = None


class _Said(msgspec.Struct, gc=False):
    type: Any = None
    delta: _Delta | None = None
    content_block: Any = None
    message: Any = None
    usage: Any = None
    error: Any = None
    metrics: Any = msgspec.field(default=None, name=METRICS)


_typed = msgspec.json.Decoder(_Said).decode


class Decoder:
    """Reads one stream: what `message_start` counted holds until `message_delta` counts it again.

    >>> Decoder().decode(Frame(b"", b'{"type":"content_block_delta","delta":{"type":"text_delta","text":"hi"}}'))
    (Output(kind='text', text='hi', choice=0),)
    """

    __slots__ = ("_cached", "_created", "_input", "_output", "_reasoning")

    def __init__(self) -> None:
        self._input: int | None = None
        self._created: int | None = None
        self._cached: int | None = None
        self._output: int | None = None
        self._reasoning: int | None = None

    def decode(self, frame: Frame) -> tuple[Event, ...]:
        """Return what one frame says; raises Malformed when its data is no JSON object."""
        try:
            said = _typed(frame.data)
        except REFUSED:
            if frame.event == b"error":
                return failure_in(frame.data)
            loose = loosely(frame.data, _Said, "delta")
            if loose is None:
                return OTHER
            said = loose
        kind, delta = said.type, said.delta
        if type(kind) is not str:
            kind = frame.event.decode("latin-1")
        if kind == "content_block_delta" and delta is not None and not said.error:
            name = delta.type
            if name == "text_delta":
                text, spoken = delta.text, _TEXT
            elif name == "thinking_delta":
                text, spoken = delta.thinking, _REASONING
            elif name == "input_json_delta":
                text, spoken = delta.partial_json, _TOOL
            else:  # a signature, a citation, a delta of the future
                return OTHER
            return (Output(spoken, text),) if type(text) is str and text else OTHER
        if said.error or kind == "error" or frame.event == b"error":
            return failure_in(frame.data)
        if not kind and error_word(parse(frame.data)) is not None:
            return failure_in(frame.data)
        return self._structure(kind, said)

    def _structure(self, kind: str, said: _Said) -> tuple[Event, ...]:
        events: list[Event] = []
        match kind:
            case "content_block_start":
                _open(said.content_block, events)
            case "message_start":
                events.append(Role())
                if isinstance(said.message, dict) and self._count(said.message.get("usage"), is_seed=True):
                    events.append(self._usage())
            case "message_delta":
                if self._count(said.usage):
                    events.append(self._usage())
                reason = None if said.delta is None else said.delta.stop_reason
                if isinstance(reason, str) and reason:
                    events.append(Finish(reason))
        if isinstance(said.metrics, dict):
            self._measure(said.metrics)
            events.append(self._usage())
        if kind == "message_stop" or isinstance(said.metrics, dict):
            events += END
        return tuple(events) or OTHER

    def _count(self, usage: object, *, is_seed: bool = False) -> bool:
        """Take a usage object; return whether there was one. A field that is missing, or is now zero, keeps its value.

        The seed's output is a placeholder, and so is input of zero: compatible servers give the true count at the end.
        """
        if not isinstance(usage, dict):
            return False
        details = usage.get("output_tokens_details")
        self._input = _later(usage.get("input_tokens"), self._input)
        self._created = _later(usage.get("cache_creation_input_tokens"), self._created)
        self._cached = _later(usage.get("cache_read_input_tokens"), self._cached)
        if is_seed:
            self._input = self._input or None
            return self._input is not None or bool(self._created or self._cached)
        self._output = _later(usage.get("output_tokens"), self._output)
        if isinstance(details, dict):
            self._reasoning = _later(details.get("thinking_tokens"), self._reasoning)
        return True

    def _measure(self, metrics: dict[str, Any]) -> None:
        self._input = _later(metrics.get("inputTokenCount"), self._input)
        self._created = _later(metrics.get("cacheWriteInputTokenCount"), self._created)
        self._cached = _later(metrics.get("cacheReadInputTokenCount"), self._cached)
        self._output = _later(metrics.get("outputTokenCount"), self._output)

    def _usage(self) -> Usage:
        """Return the counts so far; input is what was read, from a cache or not."""
        parts = [part for part in (self._input, self._created, self._cached) if part is not None]
        return Usage(
            input_tokens=count(sum(parts)) if self._input is not None or any(parts) else None,
            output_tokens=self._output,
            cached_tokens=self._cached,
            reasoning_tokens=self._reasoning,
        )


_TEXT: OutputKind = "text"
_REASONING: OutputKind = "reasoning"
_TOOL: OutputKind = "tool"


def _later(value: object, before: int | None) -> int | None:
    counted = count(value)
    return before if counted is None or (counted == 0 and before is not None) else counted


def _open(block: object, events: list[Event]) -> None:
    """Say what the start of a block says: compatible servers put the whole of it there."""
    if not isinstance(block, dict):
        return
    kind, text = block.get("type"), None
    spoken = _TEXT
    if kind == "text":
        text = block.get("text")
    elif kind == "thinking":
        text, spoken = block.get("thinking"), _REASONING
    elif isinstance(kind, str) and kind.endswith("tool_use"):  # the client's, the server's own, an MCP server's
        text, spoken = argument_text(block.get("input")), _TOOL
        if not text:
            events.append(Role())
    if isinstance(text, str) and text:
        events.append(Output(spoken, text))


def tells(frame: Frame, value: object) -> bool:
    """Say whether a frame shows that its stream speaks this dialect; `value` is its data as JSON, None if none."""
    if not isinstance(value, dict):
        return False
    if value.get("type") == "error":
        return isinstance(value.get("error"), dict) and "sequence_number" not in value
    kind = value.get("type", frame.event.decode("latin-1"))
    return isinstance(kind, str) and kind in _TOLD_BY


class Encoder:
    """Write one stream; the inverse of `Decoder`. Its reason and its usage are said together, at the end.

    >>> Encoder(model="sim").encode(Other())
    b'event: ping\\ndata: {"type":"ping"}\\n\\n'
    """

    def __init__(self, *, model: str, id: str = "msg_sim") -> None:
        self._model = model
        self._id = id
        self._block = -1  # the index of the last block
        self._kind = ""  # what the open block holds; "" when none is open
        self._reason: str | None = None
        self._usage: Usage | None = None
        self._failed = False

    def encode(self, event: Told) -> bytes:
        """Return the frames that say `event`; nothing where the end will say it."""
        return b"".join(server_sent_event(said, name=said["type"]) for said in self.objects(event))

    def objects(self, event: Told) -> list[dict[str, Any]]:
        """Return the data of those frames."""
        match event:
            case Role():
                message = {"id": self._id, "type": "message", "role": "assistant", "model": self._model, "content": []}
                seed = {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 0, "output_tokens": 0}}
                return [{"type": "message_start", "message": message | seed}]
            case Output(kind, text):
                field = _DELTAS[kind]
                delta = {"type": field[0], field[1]: text}
                return [*self._turn_to(kind), {"type": "content_block_delta", "index": self._block, "delta": delta}]
            case ToolCall(id, name):
                return self._open("tool", {**_BLOCKS["tool"], "id": id, "name": name})
            case Finish(reason):
                self._reason = reason
            case Usage():
                self._usage = event
            case Failure(detail):
                self._failed = True
                return [{"type": "error", "error": {"type": detail, "message": detail}}]
            case Other():
                return [{"type": "ping"}]
            case End() if not self._failed:
                return [*self._close(), *self._closing(), {"type": "message_stop"}]
        return []

    def _turn_to(self, kind: OutputKind) -> list[dict[str, Any]]:
        kind = "text" if kind == "refusal" else kind
        return [] if kind == self._kind else self._open(kind, _BLOCKS[kind])

    def _open(self, kind: OutputKind, block: dict[str, Any]) -> list[dict[str, Any]]:
        closed = self._close()
        self._kind = kind
        self._block += 1
        return [*closed, {"type": "content_block_start", "index": self._block, "content_block": block}]

    def _close(self) -> list[dict[str, Any]]:
        was_open, self._kind = self._kind, ""
        return [{"type": "content_block_stop", "index": self._block}] if was_open else []

    def _closing(self) -> list[dict[str, Any]]:
        if self._reason is None and self._usage is None:
            return []
        delta = {"stop_reason": self._reason, "stop_sequence": None}
        return [{"type": "message_delta", "delta": delta, "usage": usage_object(self._usage or Usage())}]


# A refusal is text, of a message that ends with that word.
_DELTAS: dict[OutputKind, tuple[str, str]] = {
    "text": ("text_delta", "text"),
    "refusal": ("text_delta", "text"),
    "reasoning": ("thinking_delta", "thinking"),
    "tool": ("input_json_delta", "partial_json"),
}
_BLOCKS: dict[OutputKind, dict[str, Any]] = {
    "text": {"type": "text", "text": ""},
    "reasoning": {"type": "thinking", "thinking": "", "signature": ""},
    "tool": {"type": "tool_use", "id": "toolu_sim", "name": "tool", "input": {}},
}


def usage_object(usage: Usage) -> dict[str, Any]:
    """Return the counts as the dialect has them: input without what came from the cache."""
    said: dict[str, Any] = {}
    if usage.input_tokens is not None:
        said["input_tokens"] = max(0, usage.input_tokens - (usage.cached_tokens or 0))
    if usage.cached_tokens is not None:
        said["cache_read_input_tokens"] = usage.cached_tokens
    if usage.output_tokens is not None:
        said["output_tokens"] = usage.output_tokens
    if usage.reasoning_tokens is not None:
        said["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return said
