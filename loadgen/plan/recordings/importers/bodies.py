"""Bodies: asked anew for sources that kept messages but no request, and as a recording keeps the bytes of others."""

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from loadgen.plan.recordings.apis import APIS
from loadgen.plan.recordings.importers.found import Asked
from loadgen.plan.recordings.ours import RecordedRequest

Message = dict[str, Any]


def kept(data: bytes) -> dict[str, Any]:
    """Return a body's bytes as the field of a recorded request that keeps every one of them.

    >>> list(kept(b'{"a":1}')), list(kept(b'{"a": 1}')), list(kept(b"a=1"))
    (['body'], ['body'], ['body_b64'])
    """
    if not data:
        return {}
    # A line of a recording can hold JSON as it stands if that has no line of its own, nor space around it.
    if data == data.strip() and b"\n" not in data and b"\r" not in data and data != b"null":
        try:
            msgspec.json.decode(data)
            return {"body": msgspec.Raw(data)}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
    return {"body_b64": base64.b64encode(data).decode()}


def model_in(data: bytes) -> str | None:
    """Return the model that a body names."""
    try:
        body = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    model = body.get("model") if isinstance(body, dict) else None
    return model if isinstance(model, str) else None


def asking(
    asked: Asked,
    messages: list[Message],
    *,
    model: str | None,
    parameters: Mapping[str, Any] | None = None,
    **fields: Any,
) -> RecordedRequest:
    """Return the request that asks these messages over the API asked for; `parameters` win over the API's own."""
    api = APIS[asked.api]
    model = model or asked.model
    body = api.body("", model or "")
    if not model:
        body.pop("model", None)
    if "prompt" in body:
        body["prompt"] = "\n\n".join(text_of(message) for message in messages)
    elif "input" in body:
        body["input"] = messages
    elif api.name in _SYSTEM_APART:
        system = [text_of(message) for message in messages if message.get("role") == "system"]
        body["messages"] = [message for message in messages if message.get("role") != "system"]
        if api.name == "bedrock-converse":
            body["messages"] = [{**of, "content": [{"text": text_of(of)}]} for of in body["messages"]]
        if system:
            text = "\n\n".join(system)
            body["system"] = [{"text": text}] if api.name == "bedrock-converse" else text
    else:
        body["messages"] = messages
    if api.needs_cap is not None and api.caps[0][-1] not in (parameters or {}):
        body[api.caps[0][-1]] = api.needs_cap
    body |= parameters or {}
    return RecordedRequest(
        path=api.path_for(model or ""), body=msgspec.Raw(msgspec.json.encode(body)), model=model, **fields
    )


def text_of(message: Mapping[str, Any]) -> str:
    """Return a message's text, whatever parts it is in."""
    content = message.get("content")
    if isinstance(content, list):
        parts = (part.get("text") if isinstance(part, dict) else part for part in content)
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


_SYSTEM_APART = ("anthropic", "bedrock-anthropic", "bedrock-converse")
