"""OpenAI chat completions and text completions, as some twenty servers speak them."""

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
from loadgen.wire.frame import Frame
from loadgen.wire.framing import server_sent_event
from loadgen.wire.jsontext import REFUSED, argument_text, count, parse, word


# Fields are Any where servers disagree about the type: a strict one would turn an oddity into an error.
class _Delta(msgspec.Struct, gc=False):
    content: Any = None
    role: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None
    refusal: Any = None
    tool_calls: Any = None
    function_call: Any = None
    audio: Any = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    text: Any = None
    finish_reason: Any = None
    index: Any = 0


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None
    object: Any = None
    x_groq: Any = None
    message: Any = None
    code: Any = None
    detail: Any = None


_typed = msgspec.json.Decoder(_Chunk).decode


def decode(frame: Frame) -> tuple[Event, ...]:
    """Return what one frame says; raises Malformed("json") when its data is no JSON object.

    >>> decode(Frame(b"", b'{"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]}'))
    (Output(kind='text', text='hi', choice=0), Finish(reason='stop', choice=0))
    """
    data = frame.data
    try:
        chunk = _typed(data)
    except REFUSED:
        if frame.event == b"error":
            return (Failure(_event_word(data)),)
        if not data.strip():
            return OTHER  # a heartbeat
        if data.strip() == b"[DONE]":
            return END
        value = parse(data)
        if not isinstance(value, dict):
            raise Malformed("json_not_an_object") from None
        try:
            chunk = msgspec.convert(value, _Chunk)
        except (
            msgspec.ValidationError,
            UnicodeEncodeError,
        ):  # the latter: a lone surrogate in the message of the former
            return (Failure(_failure_word(value["error"])),) if value.get("error") else OTHER
    choices = chunk.choices
    if choices and len(choices) == 1:  # the common frame: one piece of answer text and nothing else
        choice = choices[0]
        delta = choice.delta
        if (
            delta is not None
            and type(delta.content) is str
            and delta.content
            and choice.finish_reason is None
            and chunk.usage is None
            and chunk.error is None
            and delta.reasoning_content is None
            and delta.reasoning is None
            and delta.tool_calls is None
            and delta.refusal is None
            and delta.reasoning_details is None
            and delta.function_call is None
            and delta.audio is None
            and chunk.x_groq is None
            and not frame.event
            and choice.index == 0
        ):
            return (Output("text", delta.content),)
    events: list[Event] = []
    if chunk.error or frame.event == b"error":
        events.append(Failure(_failure_word(chunk.error or {"type": chunk.detail or chunk.code})))
    elif choices is None and (chunk.object == "error" or chunk.detail or (chunk.message and chunk.code)):
        events.append(Failure(word(chunk.code, otherwise="error")))
    for choice in choices or ():
        _choice(choice, events)
    _usage(chunk, events)
    return tuple(events) or OTHER


def _choice(choice: _Choice, events: list[Event]) -> None:
    index = choice.index if isinstance(choice.index, int) else 0
    before = len(events)
    if isinstance(choice.text, str) and choice.text:
        events.append(Output("text", choice.text, index))
    if choice.delta is not None:
        _delta(choice.delta, index, events)
        if len(events) == before and choice.delta.role:
            events.append(Role(index))
    reason = choice.finish_reason
    if isinstance(reason, str) and reason and reason != "null":
        events.append(Finish(reason, index))


def _delta(delta: _Delta, index: int, events: list[Event]) -> None:
    def add(kind: OutputKind, text: object) -> bool:
        if isinstance(text, str) and text:
            events.append(Output(kind, text, index))
            return True
        return False

    # The two keys, and the details, carry the same text where a server sends more than one.
    if not add("reasoning", delta.reasoning_content) and not add("reasoning", delta.reasoning):
        for part in _objects(delta.reasoning_details):
            add("reasoning", part.get("text") or part.get("summary"))
    if isinstance(delta.content, list):
        for part in _objects(delta.content):
            if part.get("type") == "thinking":
                for piece in _objects(part.get("thinking")):
                    add("reasoning", piece.get("text"))
            else:
                add("text", part.get("text"))
    else:
        add("text", delta.content)
    add("refusal", delta.refusal)
    calls = [call.get("function") for call in _objects(delta.tool_calls)]
    for call in _objects([*calls, delta.function_call]):
        said = add("tool", argument_text(call.get("arguments")))
        if not said and call.get("name"):
            events.append(Role(index))
    if isinstance(delta.audio, dict):
        add("text", delta.audio.get("transcript"))


def _usage(chunk: _Chunk, events: list[Event]) -> None:
    usage = chunk.usage
    if not isinstance(usage, dict) and isinstance(chunk.x_groq, dict):
        usage = chunk.x_groq.get("usage")
    if not isinstance(usage, dict):
        return
    prompt, completion = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    cached = count(prompt.get("cached_tokens")) if isinstance(prompt, dict) else None
    events.append(
        Usage(
            input_tokens=count(usage.get("prompt_tokens")),
            output_tokens=count(usage.get("completion_tokens")),
            cached_tokens=count(usage.get("prompt_cache_hit_tokens")) if cached is None else cached,
            reasoning_tokens=count(completion.get("reasoning_tokens")) if isinstance(completion, dict) else None,
        )
    )


def _objects(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _failure_word(error: object) -> str:
    if isinstance(error, dict):
        return word(error.get("type") or error.get("code"), otherwise="error")
    return "error"


def _event_word(data: bytes) -> str:
    try:
        value = parse(data)
    except Malformed:
        return "error"
    return _failure_word(value.get("error") or value) if isinstance(value, dict) else "error"


def tells(frame: Frame, value: object) -> bool:
    """Say whether a frame shows that its stream speaks this dialect; `value` is its data as JSON, None if none."""
    if not isinstance(value, dict):
        return frame.data.strip() == b"[DONE]"
    choices = value.get("choices")
    if choices == [] or any("delta" in c or "text" in c or "finish_reason" in c for c in _objects(choices)):
        return True
    return value.get("object") in ("chat.completion.chunk", "text_completion")


class Encoder:
    """Write the frames of one stream; the inverse of `decode`.

    >>> Encoder(model="sim", id="1", created=0).encode(Usage(output_tokens=2))[:38]
    b'data: {"id":"1","object":"chat.complet'
    """

    def __init__(self, *, model: str, id: str, created: int, chat: bool = True) -> None:
        self._chat = chat
        kind = "chat.completion.chunk" if chat else "text_completion"
        self._common = {"id": id, "object": kind, "created": created, "model": model}
        self._calls: dict[int, int] = {}  # by choice: the index of its last call

    def encode(self, event: Told) -> bytes:
        """Return the frame that says `event`, ready to be sent; nothing for a call in a text completion."""
        match event:
            case End():
                return b"data: [DONE]\n\n"
            case Output("tool", text, choice) if self._chat:
                return self._call(choice, {"function": {"arguments": text}})
            case Output(kind, text, choice):
                return self._choice(choice, {_FIELDS[kind]: text} if self._chat else text)
            case ToolCall(id, name, choice):
                self._calls[choice] = self._calls.get(choice, -1) + 1
                opening = {"id": id, "type": "function", "function": {"name": name, "arguments": ""}}
                return self._call(choice, opening) if self._chat else b""
            case Role(choice):
                return self._choice(choice, {"role": "assistant", "content": ""} if self._chat else "")
            case Finish(reason, choice):
                return self._choice(choice, {} if self._chat else "", reason)
            case Usage():
                return server_sent_event({**self._common, "choices": [], "usage": usage_object(event)})
            case Failure(detail):
                return server_sent_event({"error": {"message": detail, "type": detail, "code": None}})
            case Other():
                return server_sent_event({**self._common, "choices": []})

    def _call(self, choice: int, said: dict[str, Any]) -> bytes:
        return self._choice(choice, {"tool_calls": [{"index": self._calls.get(choice, 0), **said}]})

    def _choice(self, index: int, content: object, reason: str | None = None) -> bytes:
        choice = {"index": index, "delta" if self._chat else "text": content, "finish_reason": reason}
        return server_sent_event({**self._common, "choices": [choice]})


_FIELDS: dict[OutputKind, str] = {"text": "content", "reasoning": "reasoning_content", "refusal": "refusal"}


def usage_object(usage: Usage) -> dict[str, Any]:
    """Return the counts as the dialect has them."""
    counted = {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens}
    if usage.input_tokens is not None and usage.output_tokens is not None:
        counted["total_tokens"] = usage.input_tokens + usage.output_tokens
    said: dict[str, Any] = {name: value for name, value in counted.items() if value is not None}
    if usage.cached_tokens is not None:
        said["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
    if usage.reasoning_tokens is not None:
        said["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return said
