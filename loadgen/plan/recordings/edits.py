"""Changes a user asks for in every request's body; without any, its bytes stay as they were recorded."""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import msgspec

from loadgen.errors import UsageError
from loadgen.plan.recordings.apis import APIS, Api, Place, api_of_path
from loadgen.plan.recordings.ours import RecordedRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """What to change: None and an empty `fields` leave a body alone."""

    model: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    usage: bool = False  # ask for a usage report at the stream's end, where the API has to be asked
    fields: dict[str, Any] = field(default_factory=dict)  # body fields to set, whatever was there

    def apply(self, request: RecordedRequest) -> RecordedRequest:
        """Return the request as edited; raises UsageError when its body cannot be edited."""
        if not self._changes_anything and not self.usage:
            return request
        body = _object(request)
        if body is None:
            if not request.payload:
                return request
            raise UsageError(
                f"request {request.id or request.path}: its body is not a JSON object and cannot be changed",
                hint="leave out --model, --max-tokens, --set and --usage to send it as recorded",
            )
        api = api_of_path(request.path) or APIS["openai-chat"]
        wants_usage = self.usage and api.asks_usage and body.get("stream") is True
        if not self._changes_anything and not wants_usage:
            return request
        path = request.path
        if self.model is not None and api.names_model_in_path:
            path = _with_model(path, api, self.model)
        self.change(body, api)
        return msgspec.structs.replace(
            request,
            path=path,
            body=msgspec.Raw(msgspec.json.encode(body)),
            body_b64=None,
            model=self.model or request.model,
        )

    def change(self, body: dict[str, Any], api: Api) -> None:
        """Change a body of this API, where it stands."""
        if self.model is not None and not api.names_model_in_path:
            body["model"] = self.model
        if self.max_tokens is not None:
            put(body, next((place for place in api.caps if _has(body, place)), api.caps[0]), self.max_tokens)
        if self.temperature is not None:
            put(body, api.temperature, self.temperature)
        body |= self.fields
        if self.usage and api.asks_usage and body.get("stream") is True:
            put(body, ("stream_options", "include_usage"), True)

    @property
    def _changes_anything(self) -> bool:
        return bool(self.fields) or any(value is not None for value in (self.model, self.max_tokens, self.temperature))


def asked_of(request: RecordedRequest, model: str) -> RecordedRequest:
    """Return the request as asked of another model, be it in its body or, without one, beside it; raises UsageError."""
    if request.payload:
        return Edits(model=model).apply(request)
    api = api_of_path(request.path)
    path = _with_model(request.path, api, model) if api is not None and api.names_model_in_path else request.path
    return msgspec.structs.replace(request, path=path, model=model)


def put(body: dict[str, Any], place: Place, value: object) -> None:
    """Set a field of a body, making the objects on the way to it."""
    for key in place[:-1]:
        if not isinstance(body.get(key), dict):
            body[key] = {}
        body = body[key]
    body[place[-1]] = value


def _has(body: object, place: Place) -> bool:
    for key in place:
        if not isinstance(body, dict) or key not in body:
            return False
        body = body[key]
    return True


def _with_model(path: str, api: Api, model: str) -> str:
    """Put another model into a path that names one."""
    before, after = api.path.split("{model}")
    start, _, query = path.partition("?")
    prefix = start[: start.rindex(before)]
    return f"{prefix}{before}{quote(model, safe='')}{after}" + (f"?{query}" if query else "")


def _object(request: RecordedRequest) -> dict[str, Any] | None:
    try:
        body = msgspec.json.decode(request.payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return body if isinstance(body, dict) else None
