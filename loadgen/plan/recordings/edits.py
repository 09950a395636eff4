"""Changes a user asks for in every request's body; without any, its bytes stay as they were recorded."""

from dataclasses import dataclass, field
from typing import Any

import msgspec

from loadgen.errors import UsageError
from loadgen.plan.recordings.ours import RecordedRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """What to change: None and an empty `fields` leave a body alone."""

    model: str | None = None
    max_tokens: int | None = None
    usage: bool = False  # ask for a usage report at the stream's end
    fields: dict[str, Any] = field(default_factory=dict)  # body fields to set, whatever was there

    def apply(self, request: RecordedRequest) -> RecordedRequest:
        """Return the request as edited; raises UsageError when its body cannot be edited."""
        asked = {"model": self.model, "max_tokens": self.max_tokens}
        changes = {name: value for name, value in asked.items() if value is not None} | self.fields
        if not changes and not self.usage:
            return request
        body = _object(request)
        if body is None:
            if not request.payload:
                return request
            raise UsageError(
                f"request {request.id or request.path}: its body is not a JSON object and cannot be changed",
                hint="leave out --model, --max-tokens, --set and --usage to send it as recorded",
            )
        body |= changes
        wants_usage = self.usage and body.get("stream") is True
        if not changes and not wants_usage:
            return request
        if wants_usage:
            options = body.get("stream_options")
            body["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
        return msgspec.structs.replace(
            request,
            body=msgspec.Raw(msgspec.json.encode(body)),
            body_b64=None,
            model=self.model or request.model,
        )


def _object(request: RecordedRequest) -> dict[str, Any] | None:
    try:
        body = msgspec.json.decode(request.payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return body if isinstance(body, dict) else None
