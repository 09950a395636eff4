"""Requests as bytes, rendered once per recorded request; only the request id differs per send."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, overload

from loadgen import __version__
from loadgen.plan.recordings.apis import APIS, api_of_path
from loadgen.plan.recordings.nonces import NONCE_PLACE
from loadgen.plan.recordings.ours import RecordedRequest
from loadgen.wire.events import Malformed
from loadgen.wire.jsontext import parse

# Ours to set, whatever a recording says: they belong to a connection, not to a request.
_HOP_BY_HOP = ("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade")
_OURS = frozenset((*_HOP_BY_HOP, "host", "content-length", "expect", "x-request-id"))
_NONCE_PLACE = NONCE_PLACE.encode()
_MADE_UP_HEAD = 4096  # a made-up body's prompt begins within it
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
    nonce_at: int | None = None  # where in the body a nonce is to stand
    to_sign: bool = False  # each send carries a signature of its own

    def with_nonce(self, nonce: bytes) -> "RenderedRequest":
        """Return the request as one send has it: the nonce in its place, where there is one."""
        if self.nonce_at is None:
            return self
        body = self.body[: self.nonce_at] + nonce + self.body[self.nonce_at + len(nonce) :]
        return replace(self, body=body)

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
    asked = _asked(body) if request.shape is None else request.shape
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
        nonce_at=at if (at := body.find(_NONCE_PLACE, 0, _MADE_UP_HEAD if request.is_made_up else None)) >= 0 else None,
        to_sign=is_signed and "authorization" not in fields,
    )


class Rendered(Sequence[RenderedRequest]):
    """Requests ready to be written; those with made-up prompts are rendered each time they are asked for.

    The arguments are `render`'s.
    """

    def __init__(self, requests: Sequence[RecordedRequest], **arguments: Any) -> None:
        self._requests, self._arguments = requests, arguments
        self._ready = [
            None if request.is_made_up else render(request, place=place, **arguments)
            for place, request in enumerate(requests)
        ]

    @property
    def has_made_up(self) -> bool:
        """Whether asking for one may cost what writing its prompt does."""
        return any(request is None for request in self._ready)

    def __len__(self) -> int:
        return len(self._requests)

    @overload
    def __getitem__(self, place: int) -> RenderedRequest: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[RenderedRequest]: ...
    def __getitem__(self, place: int | slice) -> RenderedRequest | Sequence[RenderedRequest]:
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self)))]
        return self._ready[place] or render(self._requests[place], place=place % len(self), **self._arguments)


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
