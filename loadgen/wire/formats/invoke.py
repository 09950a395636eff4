"""What Bedrock's InvokeModelWithResponseStream carries: chunks, each an object in the words of the model's vendor."""

from base64 import b64encode
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from loadgen.wire import eventstream
from loadgen.wire.events import END, OTHER, Event, Failure, Finish, Malformed, Output, Told, Usage
from loadgen.wire.formats import anthropic, openai
from loadgen.wire.frame import Frame
from loadgen.wire.jsontext import REFUSED, count, parse

_METRICS = anthropic.METRICS
_METRICS_KEY = f'"{_METRICS}"'.encode()

Read: TypeAlias = Callable[[Frame], tuple[Event, ...]]
ReadObject: TypeAlias = Callable[[dict[str, Any]], tuple[Event, ...]]


class _Chunk(msgspec.Struct, gc=False):
    data: bytes = msgspec.field(default=b"", name="bytes")


_typed = msgspec.json.Decoder(_Chunk).decode


class Chunks:
    """Reads the chunks of one stream; `converse` reads objects that wrap Converse's members, as Nova's do."""

    __slots__ = ("_converse", "_read")

    def __init__(self, converse: ReadObject) -> None:
        self._converse = converse
        self._read: Read | None = None  # in the vendor's words, once they are known

    def decode(self, payload: bytes) -> tuple[Event, ...]:
        """Return what one chunk says; raises Malformed."""
        try:
            data = _typed(payload).data
        except REFUSED:
            value = parse(payload) if payload.strip() else {}
            if not isinstance(value, dict):
                raise Malformed("json_not_an_object") from None
            if value.get("bytes") is not None:
                raise Malformed("base64") from None
            return OTHER
        if not data:
            return OTHER
        frame = Frame(b"", data)
        read = self._read or self._recognise(frame)
        return read(frame)

    def _recognise(self, frame: Frame) -> Read:
        value = parse(frame.data)
        if anthropic.tells(frame, value):
            self._read = anthropic.Decoder().decode
        elif openai.tells(frame, value):
            self._read = _measured(openai.decode)
        elif isinstance(value, dict) and self._converse(value) is not OTHER:
            self._read = _measured(_of_object(self._converse))
        elif isinstance(value, dict) and any(field in value for field in (*_TEXTS, "outputs")):
            self._read = _measured(_of_object(_plain))
        return self._read or _measured(_of_object(_plain))


# Where the other vendors put text and reason: Llama, Titan, Anthropic's old form, Mistral (in `outputs`), Cohere.
_TEXTS = ("generation", "outputText", "completion", "text")
_REASONS = ("stop_reason", "completionReason", "finish_reason")


def _plain(value: dict[str, Any]) -> tuple[Event, ...]:
    if value.get("error"):
        return (Failure("error"),)
    events: list[Event] = []
    outputs = value.get("outputs")
    for part in outputs if isinstance(outputs, list) else [value]:
        if isinstance(part, dict):
            texts = (part.get(field) for field in _TEXTS)
            reasons = (part.get(field) for field in _REASONS)
            events += [Output("text", text) for text in texts if isinstance(text, str) and text]
            events += [Finish(reason) for reason in reasons if isinstance(reason, str) and reason]
    return tuple(events) or OTHER


def _of_object(read: ReadObject) -> Read:
    def reads(frame: Frame) -> tuple[Event, ...]:
        value = parse(frame.data)
        if not isinstance(value, dict):
            raise Malformed("json_not_an_object")
        return read(value)

    return reads


def _measured(read: Read) -> Read:
    """Return a reader that takes Bedrock's own report as well: of vendors without an end marker it is that too."""

    def reads(frame: Frame) -> tuple[Event, ...]:
        events = read(frame)
        if _METRICS_KEY not in frame.data:
            return events
        value = parse(frame.data)
        metrics = value.get(_METRICS) if isinstance(value, dict) else None
        if not isinstance(metrics, dict):
            return events
        said = tuple(event for event in events if event not in (*OTHER, *END))
        return (*said, _usage(metrics), *END)

    return reads


def _usage(metrics: dict[str, Any]) -> Usage:
    read, cached = count(metrics.get("inputTokenCount")), count(metrics.get("cacheReadInputTokenCount"))
    if read is not None:
        read = count(read + (cached or 0) + (count(metrics.get("cacheWriteInputTokenCount")) or 0))
    return Usage(input_tokens=read, output_tokens=count(metrics.get("outputTokenCount")), cached_tokens=cached)


class Encoder:
    """Write one stream of an Anthropic model; the inverse of what `Chunks` reads.

    >>> eventstream.EventStream().feed(Encoder(model="sim").encode(Failure("broke")))
    [Message(event=b'broke', data=b'{"message":"broke"}', kind=b'exception')]
    """

    def __init__(self, *, model: str) -> None:
        self._objects = anthropic.Encoder(model=model).objects
        self._usage: Usage | None = None

    def encode(self, event: Told) -> bytes:
        """Return the messages that say `event`; nothing where the end will say it."""
        objects = self._objects(event)
        if isinstance(event, Failure):
            return failure(event.detail)
        if isinstance(event, Usage):
            self._usage = event
        return b"".join(self._chunk(said) for said in objects)

    def _chunk(self, said: dict[str, Any]) -> bytes:
        if said["type"] == "message_stop" and self._usage is not None:
            said = {**said, _METRICS: _metrics_object(self._usage)}
        inner = b64encode(msgspec.json.encode(said)).decode()
        return event_message("chunk", {"bytes": inner, "p": "abcdefghijkl"})


def _metrics_object(usage: Usage) -> dict[str, Any]:
    read, cached = usage.input_tokens, usage.cached_tokens
    counted = {
        "inputTokenCount": None if read is None else max(0, read - (cached or 0)),
        "outputTokenCount": usage.output_tokens,
        "cacheReadInputTokenCount": cached,
    }
    return {name: value for name, value in counted.items() if value is not None}


def event_message(name: str, value: dict[str, Any]) -> bytes:
    """Return an event of this name as a message."""
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    return eventstream.encode(headers, msgspec.json.encode(value))


def failure(name: str) -> bytes:
    """Return an exception of this name as a message."""
    headers = {":exception-type": name, ":content-type": "application/json", ":message-type": "exception"}
    return eventstream.encode(headers, msgspec.json.encode({"message": name}))
