"""An answer in one piece, as each API that gives one writes it."""

from typing import Any

import msgspec

from loadgen.wire.events import End, Finish, Output, OutputKind, Role, ToolCall, Usage
from loadgen.wire.formats import anthropic, openai, responses
from loadgen.wire.framing import ServerSentEvents


class Spoken(msgspec.Struct, frozen=True, kw_only=True):
    """All that an answer says: pieces of each kind, and why it stopped, in the API's own word."""

    model: str
    pieces: list[tuple[OutputKind, str]]
    call: ToolCall
    reason: str
    usage: Usage

    def of(self, kind: OutputKind) -> str:
        """Return what was said of one kind; "" for nothing."""
        return "".join(text for said, text in self.pieces if said == kind)


def chat(spoken: Spoken) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": spoken.of("text") or None}
    if reasoning := spoken.of("reasoning"):
        message["reasoning_content"] = reasoning
    if arguments := spoken.of("tool"):
        function = {"name": spoken.call.name, "arguments": arguments}
        message["tool_calls"] = [{"id": spoken.call.id, "type": "function", "function": function}]
    return _openai(spoken, {"message": message}, id="chatcmpl-sim", kind="chat.completion")


def completion(spoken: Spoken) -> dict[str, Any]:
    return _openai(spoken, {"text": spoken.of("text")}, id="cmpl-sim", kind="text_completion")


def _openai(spoken: Spoken, said: dict[str, Any], *, id: str, kind: str) -> dict[str, Any]:
    return {
        "id": id,
        "object": kind,
        "created": 0,
        "model": spoken.model,
        "choices": [{"index": 0, **said, "finish_reason": spoken.reason}],
        "usage": openai.usage_object(spoken.usage),
    }


def response(spoken: Spoken) -> dict[str, Any]:
    """Return what the last event of the answer's stream holds."""
    encoder = responses.Encoder(model=spoken.model, numbered=False)
    said = [event for kind, text in spoken.pieces for event in _opened(spoken, kind, text)]
    wire = b"".join(map(encoder.encode, (Role(), *said, Finish(spoken.reason), spoken.usage, End())))
    *_, last = ServerSentEvents().feed(wire)
    ended: dict[str, Any] = msgspec.json.decode(last.data)["response"]
    return ended


def _opened(spoken: Spoken, kind: OutputKind, text: str) -> tuple[ToolCall | Output, ...]:
    said = Output(kind, text)
    return (spoken.call, said) if kind == "tool" else (said,)


def message(spoken: Spoken) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    for kind, text in spoken.pieces:
        match kind:
            case "reasoning":
                content.append({"type": "thinking", "thinking": text, "signature": ""})
            case "tool":
                block = {"type": "tool_use", "id": spoken.call.id, "name": spoken.call.name}
                content.append({**block, "input": _object(text)})
            case _:
                content.append({"type": "text", "text": text})
    return {
        "id": "msg_sim",
        "type": "message",
        "role": "assistant",
        "model": spoken.model,
        "content": content,
        "stop_reason": spoken.reason,
        "stop_sequence": None,
        "usage": anthropic.usage_object(spoken.usage),
    }


def ollama_chat(spoken: Spoken) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": spoken.of("text")}
    if reasoning := spoken.of("reasoning"):
        message["thinking"] = reasoning
    if arguments := _object(spoken.of("tool")):
        function = {"name": spoken.call.name, "arguments": arguments}
        message["tool_calls"] = [{"id": spoken.call.id, "function": function}]
    return _ollama(spoken, {"message": message})


def ollama_generate(spoken: Spoken) -> dict[str, Any]:
    reasoning = spoken.of("reasoning")
    return _ollama(spoken, {"response": spoken.of("text"), **({"thinking": reasoning} if reasoning else {})})


def _ollama(spoken: Spoken, said: dict[str, Any]) -> dict[str, Any]:
    return {
        "model": spoken.model,
        "created_at": "1970-01-01T00:00:00Z",
        **said,
        "done": True,
        "done_reason": spoken.reason,
        "prompt_eval_count": spoken.usage.input_tokens,
        "eval_count": spoken.usage.output_tokens,
    }


def _object(arguments: str) -> Any:
    """Return arguments as the object they are; an empty one where a cap cut them."""
    try:
        return msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return {}
