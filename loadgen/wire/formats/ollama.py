"""Ollama's own dialects, chat and generate: JSON lines, the last of which is done and counts."""

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
from loadgen.wire.jsontext import REFUSED, argument_text, count, loosely, parse, word


# Fields are Any where servers disagree about the type.
class _Message(msgspec.Struct, gc=False):
    content: Any = None
    thinking: Any = None
    tool_calls: Any = None


class _Line(msgspec.Struct, gc=False):
    message: _Message | None = None
    response: Any = None
    thinking: Any = None
    tool_calls: Any = None
    done: Any = None
    done_reason: Any = None
    eval_count: Any = None
    prompt_eval_count: Any = None
    error: Any = None


_typed = msgspec.json.Decoder(_Line).decode
_NOTHING = _Message()


def decode(frame: Frame) -> tuple[Event, ...]:
    """Return what one line says; raises Malformed when it is no JSON object.

    >>> decode(Frame(b"", b'{"response": "hi", "done": true, "done_reason": "stop", "eval_count": 1}'))[:2]
    (Output(kind='text', text='hi', choice=0), Usage(input_tokens=None, output_tokens=1, cached_tokens=None, \
reasoning_tokens=None))
    """
    try:
        line = _typed(frame.data)
    except REFUSED:
        if frame.event == b"error":
            return failure_in(frame.data)
        loose = loosely(frame.data, _Line, "message")
        if loose is None:
            return OTHER
        line = loose
    message = line.message
    if message is None:
        if line.response is None and line.done is None and error_word(parse(frame.data)) is not None:
            return _failed(line, frame)
        text, message = line.response, _NOTHING
    else:
        text = message.content
    if (
        type(text) is str
        and text
        and not line.done
        and not message.thinking
        and not message.tool_calls
        and not line.thinking
        and not line.tool_calls
        and not line.error
    ):
        return (Output("text", text),)
    events: list[Event] = []
    _say("reasoning", message.thinking or line.thinking, events)
    _say("text", text, events)
    calls = message.tool_calls or line.tool_calls
    for call in calls if isinstance(calls, list) else ():
        _call(call, events)
    if line.error or frame.event == b"error":
        return (*events, *_failed(line, frame))
    if line.done is True:
        _finish(line, events)
    return tuple(events) or OTHER


def _failed(line: _Line, frame: Frame) -> tuple[Failure]:
    # Its own errors are a text, without a type or a code.
    return (Failure(word(line.error, otherwise="error")),) if isinstance(line.error, str) else failure_in(frame.data)


def _say(kind: OutputKind, text: object, events: list[Event]) -> None:
    if isinstance(text, str) and text:
        events.append(Output(kind, text))


def _call(call: object, events: list[Event]) -> None:
    function = call.get("function") if isinstance(call, dict) else None
    if isinstance(function, dict):
        arguments = argument_text(function.get("arguments"))
        if arguments:
            events.append(Output("tool", arguments))
        elif function.get("name"):
            events.append(Role())


def _finish(line: _Line, events: list[Event]) -> None:
    read, written = count(line.prompt_eval_count), count(line.eval_count)
    if read is not None or written is not None:
        events.append(Usage(input_tokens=read, output_tokens=written))
    if isinstance(line.done_reason, str) and line.done_reason:
        events.append(Finish(line.done_reason))
    events += END


def tells(frame: Frame, value: object) -> bool:
    """Say whether a frame shows that its stream speaks this dialect; `value` is its data as JSON, None if none."""
    return (
        isinstance(value, dict) and isinstance(value.get("done"), bool) and ("message" in value or "response" in value)
    )


class Encoder:
    """Write the lines of one stream; the inverse of `decode`. Its reason and its usage are said on the last line.

    A call that was opened is said when its arguments are whole, in one line; not at all where they never are.

    >>> Encoder(model="sim", chat=False).encode(Output("text", "hi"))
    b'{"model":"sim","created_at":"1970-01-01T00:00:00Z","response":"hi","done":false}\\n'
    """

    def __init__(self, *, model: str, created_at: str = "1970-01-01T00:00:00Z", chat: bool = True) -> None:
        self._chat = chat
        self._common = {"model": model, "created_at": created_at}
        self._reason: str | None = None
        self._usage = Usage()
        self._failed = False
        self._call: ToolCall | None = None  # whose arguments are not whole yet
        self._said = ""  # of them

    def encode(self, event: Told) -> bytes:
        """Return the line that says `event`; nothing where a line to come will say it."""
        match event:
            case Output("reasoning", text):
                return self._line({"thinking": text})
            case Output("tool", text) if self._call is not None:
                return self._argue(self._call, text)
            case Output("tool", text):
                return self._line({"tool_calls": [{"function": {"name": "tool", "arguments": _arguments(text)}}]})
            case Output(_, text):
                return self._line({}, text)
            case ToolCall():
                self._call, self._said = event, ""
            case Role() | Other():
                return self._line({})
            case Finish(reason):
                self._reason = reason
            case Usage():
                self._usage = event
            case Failure(detail):
                self._failed = True
                return msgspec.json.encode({"error": detail}) + b"\n"
            case End() if not self._failed:
                ending: dict[str, Any] = {
                    "done_reason": self._reason,
                    "prompt_eval_count": self._usage.input_tokens,
                    "eval_count": self._usage.output_tokens,
                }
                said = {name: value for name, value in ending.items() if value is not None}
                return self._line({}, ending={"done": True, **said})
        return b""

    def _argue(self, call: ToolCall, text: str) -> bytes:
        """Take a piece of a call's arguments; return the call once they are an object."""
        self._said += text
        arguments = _arguments(self._said)
        if not isinstance(arguments, dict):
            return b""
        self._call = None
        return self._line({"tool_calls": [{"id": call.id, "function": {"name": call.name, "arguments": arguments}}]})

    def _line(self, said: dict[str, Any], text: str = "", *, ending: dict[str, Any] | None = None) -> bytes:
        if self._chat:
            body: dict[str, Any] = {"message": {"role": "assistant", "content": text, **said}}
        else:
            body = {"response": text, **said}
        return msgspec.json.encode({**self._common, **body, **(ending or {"done": False})}) + b"\n"


def _arguments(text: str) -> object:
    """Return arguments as the object they are in this dialect; as text where they are a piece of one."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return value if isinstance(value, dict) and value else text
