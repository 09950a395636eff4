"""Requests as bytes, rendered once per recorded request; only the request id differs per send."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from loadgen import __version__
from loadgen.plan.recordings.apis import APIS, api_of_path
from loadgen.plan.recordings.ours import RecordedRequest
from loadgen.wire.events import Malformed
from loadgen.wire.jsontext import parse

# Ours to set, whatever a recording says: they belong to a connection, not to a request.
_HOP_BY_HOP = ("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade")
_OURS = frozenset((*_HOP_BY_HOP, "host", "content-length", "expect", "x-request-id"))
_KEYS = frozenset(("authorization", "x-api-key", "api-key"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """What opens a server's doors; never stored. Bedrock has a token of its own, without which requests are signed."""

    api: str | None = field(default=None, repr=False)
    bedrock: str | None = field(default=None, repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(key for key in (self.api, self.bedrock) if key)


NO_KEYS = Keys()


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedRequest:
    """A recorded request ready to be written: `head` lacks only the request id's line and the blank one."""

    head: bytes
    body: bytes
    id: str
    method: str
    path: str
    klass: str | None
    session: str | None
    model: str | None
    asked_for_stream: bool
    fixed_length: bool
    to_sign: bool = False  # each send carries a signature of its own

    def head_for(self, request_id: str | None, signature: Mapping[str, str] | None = None) -> bytes:
        """Return the whole head of one send."""
        own = dict(signature or {})
        if request_id is not None:
            own["x-request-id"] = request_id
        return self.head + "".join(f"{name}: {value}\r\n" for name, value in own.items()).encode() + b"\r\n"


def render(
    request: RecordedRequest,
    *,
    place: int,
    authority: str,
    path: str | None = None,
    headers: Mapping[str, str] | None = None,
    keys: Keys = NO_KEYS,
) -> RenderedRequest:
    """Return the bytes of a request to `authority` (the Host header).

    `path` replaces the recorded one; `headers` win over recorded ones; a key is sent as the recorded path's API wants
    it, unless either brings one of its own. `place` in the recording is the id of a request that has none.
    """
    body = request.payload
    asked = _asked(body)
    api = api_of_path(request.path)
    streams = asked.get("stream", api is not None and api.streams_unasked) is True
    fields = {
        "user-agent": f"loadgen/{__version__}",
        "accept": (api or APIS["openai-chat"]).accept if streams else "*/*",
        # A compressed stream arrives in the compressor's rhythm, not the model's.
        "accept-encoding": "identity",
    }
    if body:
        fields["content-type"] = "application/json"
    fields |= (api.headers if api else None) or {}
    given = {name.lower(): value for name, value in {**(request.headers or {}), **(headers or {})}.items()}
    is_signed = api is not None and api.signed
    key = keys.bedrock if is_signed else keys.api
    if key and not _KEYS & given.keys():
        fields |= (api or APIS["openai-chat"]).auth(key)
    fields |= {name: value for name, value in given.items() if name not in _OURS}
    method = request.verb
    lines = [f"{method} {path or request.path} HTTP/1.1", f"host: {authority}"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    if body or method in ("POST", "PUT", "PATCH"):
        lines.append(f"content-length: {len(body)}")
    return RenderedRequest(
        head=("\r\n".join(lines) + "\r\n").encode("latin-1", "replace"),
        body=body,
        id=request.id or str(place),
        method=method,
        path=path or request.path,
        klass=request.klass,
        session=request.session,
        model=request.model or _model(asked),
        asked_for_stream=streams,
        fixed_length=request.fixed_length or _fixes_length(asked),
        to_sign=is_signed and "authorization" not in fields,
    )


def _asked(body: bytes) -> dict[str, Any]:
    try:
        value = parse(body)
    except Malformed:
        return {}
    return value if isinstance(value, dict) else {}


def _model(asked: dict[str, Any]) -> str | None:
    model = asked.get("model")
    return model if isinstance(model, str) else None


def _fixes_length(asked: dict[str, Any]) -> bool:
    least = asked.get("min_tokens")
    most = asked.get("max_tokens")
    if most is None:
        most = asked.get("max_completion_tokens")
    return asked.get("ignore_eos") is True or (least is not None and least == most)


# What signs a request just before it is sent: the headers that do.
Sign: TypeAlias = Callable[[RenderedRequest], Mapping[str, str]]
