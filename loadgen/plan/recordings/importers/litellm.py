"""LiteLLM logs: its standard logging payload, as JSON lines, an array or one object; also wrapped in what was called.

`startTime`, `completionStartTime` and `endTime` are Unix seconds, or dates in exports from its database.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from loadgen.plan.recordings.importers.bodies import asking
from loadgen.plan.recordings.importers.content import Content
from loadgen.plan.recordings.importers.fields import first_of, record, text
from loadgen.plan.recordings.importers.found import Asked, Found, Refused, each
from loadgen.plan.recordings.importers.jsontexts import objects
from loadgen.plan.recordings.importers.lengths import length_only
from loadgen.plan.recordings.importers.moments import answered
from loadgen.plan.recordings.importers.sample import Sample
from loadgen.plan.recordings.importers.times import any_ns
from loadgen.wire.jsontext import count

# Calls of other kinds (embeddings, pictures, speech …) are asked of no language model's stream.
_CALLS = {
    "completion": "openai-chat",
    "acompletion": "openai-chat",
    "text_completion": "openai-completions",
    "atext_completion": "openai-completions",
    "responses": "openai-responses",
    "aresponses": "openai-responses",
    "anthropic_messages": "anthropic",
}
_NO_PARAMETER = re.compile(
    r"api_key|_key$|secret|password|credential|headers$|^aws_|_token$|^api_base|^base_url|^metadata$"
)
_REDACTED = "redacted-by-litellm"


def tells(sample: Sample) -> bool:
    wrapped = "standard_logging_object/startTime" in sample.paths
    return wrapped or sample.has("call_type", "startTime", "endTime")


def read(content: Content, asked: Asked) -> Iterator[Found | Refused]:
    """Yield each call of a language model; those whose messages were redacted are lengths only."""
    return each(
        objects(content), lambda row, call: _found(row, record(call.get("standard_logging_object")) or call, asked)
    )


def _found(row: int, call: dict[str, Any], asked: Asked) -> Found:
    kind = text(call.get("call_type")) or "completion"
    if kind not in _CALLS:
        raise ValueError(f"call_type {kind[:40]}: no language model's stream")
    at_ns, zone = any_ns(call.get("startTime"))
    inputs, outputs = count(call.get("prompt_tokens")), count(call.get("completion_tokens"))
    parameters = {
        name: value
        for name, value in record(_parsed(call.get("model_parameters"))).items()
        if not _NO_PARAMETER.search(name)
    }
    streams = call.get("stream") if call.get("stream") is not None else parameters.get("stream")
    parameters["stream"] = streams is True
    response = answered(
        at_ns,
        first=call.get("completionStartTime") if streams is True else None,
        last=call.get("endTime"),
        body=None if streams is True else _parsed(call.get("response")),
        failed=call.get("status") == "failure",
        usage={"prompt_tokens": inputs, "completion_tokens": outputs} if inputs and outputs else None,
    )
    own = Asked(api=_CALLS[kind], model=asked.model)
    model = text(call.get("model_group")) or text(call.get("model"))
    fields: dict[str, Any] = {"id": text(first_of(call, "id", "request_id")), "session": text(call.get("trace_id"))}
    messages = _messages(_parsed(call.get("messages")))
    if messages is None:
        request = length_only(
            own, "litellm", input_tokens=inputs, output_tokens=outputs, model=model, response=response, **fields
        )
    else:
        request = asking(
            own,
            messages,
            model=model,
            parameters=parameters,
            expected_output_tokens=outputs or None,
            source="litellm",
            response=response,
            **fields,
        )
    return Found(request, row, at_ns, zone)


def _messages(kept: object) -> list[dict[str, Any]] | None:
    """The messages that were asked; None where none were kept."""
    if isinstance(kept, dict):
        kept = kept.get("messages")
    if isinstance(kept, str) and kept:
        kept = [{"role": "user", "content": kept}]
    if not isinstance(kept, list) or not kept or not all(isinstance(message, dict) for message in kept):
        return None
    return None if any(message.get("content") == _REDACTED for message in kept) else kept


def _parsed(value: object) -> object:
    """A value that exports from a database hold as JSON text."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            return value
    return value
