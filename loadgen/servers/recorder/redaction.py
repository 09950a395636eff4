"""What is never written down: secrets told by their names, their values wherever they turn up, and what a user adds."""

import json
import re
from collections.abc import Iterable
from typing import Any, TypeAlias
from urllib.parse import unquote

import msgspec

from loadgen.errors import UsageError
from loadgen.servers.recorder.message import Headers, Request
from loadgen.wire.events import Malformed
from loadgen.wire.eventstream import EventStream, with_payload
from loadgen.wire.frame import Frame
from loadgen.wire.framing import FRAMINGS, JsonLines
from loadgen.wire.jsontext import parse
from loadgen.wire.secrets import MASK, masked_header, masked_pair, masked_path

# A step of a path into JSON: a key, an index, every member (None), or a key at any depth below.
Step: TypeAlias = str | int | tuple[str] | None
Place: TypeAlias = tuple[Step, ...]

# Shorter values of secret headers are words, not keys: blotting them out would tear texts.
_LEAST_BYTES = 8
_MASK = MASK.encode()
_STEP = re.compile(r"\.\.([\w-]+)|\.([\w-]+)|\[(\d+)\]|\['([^']+)'\]|\[\"([^\"]+)\"\]|(\[\*\]|\.\*)")


class Redaction:
    """Names of headers and query parameters, and places in JSON bodies, whose values are left out."""

    def __init__(self, *, names: Iterable[str] = (), places: Iterable[Place] = ()) -> None:
        self._names = frozenset(name.lower() for name in names)
        self._places = tuple(places)

    def is_secret(self, name: str) -> bool:
        """Return whether a header or parameter of this name holds one."""
        return masked_header(name, "") == MASK or name.lower() in self._names

    def secrets_of(self, request: Request) -> tuple[bytes, ...]:
        """Return the secret values that a request brought, to be blotted out where they are echoed."""
        found: set[bytes] = set()
        for name, value in request.headers:
            if self.is_secret(name.decode("latin-1")):
                found |= {value, value.partition(b" ")[2], *(part.partition(b"=")[2] for part in value.split(b";"))}
        for pair in re.split(rb"[&;]", request.path.partition(b"?")[2]):
            name, _, value = pair.partition(b"=")
            if self.is_secret(unquote(name.decode("latin-1"))):
                found |= {value, unquote(value.decode("latin-1")).encode("utf-8", "replace")}
        return tuple(sorted((value.strip() for value in found if len(value.strip()) >= _LEAST_BYTES), key=len)[::-1])

    def headers(self, headers: Headers, secrets: tuple[bytes, ...]) -> dict[str, str]:
        """Return the headers that may be kept, those of one name joined."""
        kept: dict[str, str] = {}
        for raw_name, raw in headers:
            name, value = raw_name.decode("latin-1").lower(), blotted(raw, secrets).decode("latin-1")
            if not self.is_secret(name):
                if "?" in value:  # an address, as a rule: a referrer, a location
                    value = self._query(value)
                kept[name] = f"{kept[name]}, {value}" if name in kept else value
        return kept

    def path(self, path: bytes, secrets: tuple[bytes, ...]) -> str:
        """Return a path as a recording can hold it: printable ASCII, without secrets."""
        text = "".join(chr(c) if 0x21 <= c <= 0x7E else f"%{c:02X}" for c in blotted(path, secrets))
        return self._query(text)

    def body(self, data: bytes, secrets: tuple[bytes, ...], *, is_opaque: bool = False) -> bytes:
        """Return a body as it may be kept.

        An opaque one (compressed, or in parts) is left out where places are to be masked.
        """
        data = blotted(data, secrets)
        if not self._places or not data:
            return data
        return _WITHHELD if is_opaque else self._redacted(data) or data

    def frame(self, raw: bytes, frame: Frame | None, kind: str, secrets: tuple[bytes, ...]) -> bytes:
        """Return a frame of a stream as it may be kept, whole in its framing."""
        framing = FRAMINGS[kind]
        if framing is EventStream and frame is not None:
            payload = blotted(frame.data, secrets)
            payload = self._redacted(payload) or payload
            return raw if payload == frame.data else with_payload(raw, payload)
        raw = blotted(raw, secrets)
        if not self._places:
            return raw
        if frame is None:
            return _MASK  # a part of something that could not be read, and may go on in the next
        data = self._redacted(blotted(frame.data, secrets))
        if data is None:
            return raw
        if framing is JsonLines:
            return data + b"\n"
        return (b"event: %b\n" % frame.event if frame.event else b"") + b"data: %b\n\n" % data

    def _redacted(self, data: bytes) -> bytes | None:
        """Return JSON with its places masked; None where there is nothing to mask."""
        if not self._places or data.strip() == b"[DONE]":
            return None
        try:
            value = parse(data)
        except Malformed:
            return _WITHHELD if may_be_json(data) else None
        box = [value]
        if not sum(_mask(box, (0, *place)) for place in self._places):
            return None
        try:
            return msgspec.json.encode(box[0])
        except (ValueError, OverflowError):  # lone surrogates, and numbers beyond 64 bits
            return json.dumps(box[0]).encode()

    def _query(self, path: str) -> str:
        before, mark, query = masked_path(path).partition("?")
        return before + mark + re.sub("[^&;]+", self._pair, query)

    def _pair(self, pair: re.Match[str]) -> str:
        name, equals, _ = pair[0].partition("=")
        return f"{name}={MASK}" if equals and unquote(name).lower() in self._names else masked_pair(pair[0])


_WITHHELD = msgspec.json.encode(MASK)


def blotted(data: bytes, secrets: tuple[bytes, ...]) -> bytes:
    """Return the bytes without the secrets in them."""
    for secret in secrets:
        if secret in data:
            data = data.replace(secret, _MASK)
    return data


def may_be_json(data: bytes) -> bool:
    """Return whether JSON with anything in it can be in these bytes."""
    return b"{" in data or b"[" in data


def _mask(value: Any, place: Place) -> int:
    """Mask what stands at a place below a value; return how often there was something."""
    step, *rest = place
    if isinstance(step, tuple):
        deeper = sum(_mask(child, place) for child in _children(value))
        return deeper + (_mask(value, (step[0], *rest)) if isinstance(value, dict) else 0)
    keys: Iterable[Any]
    if isinstance(value, dict):
        keys = list(value) if step is None else [step] if isinstance(step, str) and step in value else []
    elif isinstance(value, list):
        keys = range(len(value)) if step is None else [step] if isinstance(step, int) and step < len(value) else []
    else:
        return 0
    if rest:
        return sum(_mask(value[key], tuple(rest)) for key in keys)
    for key in keys:
        value[key] = MASK
    return len(list(keys))


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list) else []


def parse_redactions(texts: Iterable[str]) -> Redaction:
    """Read --redact options: a name of headers and query parameters, or `body:` and a path; raises UsageError.

    >>> parse_redactions(["X-Tenant", "body:$.user.email"]).is_secret("x-tenant")
    True
    """
    names, places = [], []
    for text in texts:
        if text.startswith("body:"):
            places.append(parse_place(text.removeprefix("body:")))
        elif re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", text):
            names.append(text)
        else:
            raise UsageError(f"--redact {text!r} is no name of a header", hint=_HINT)
    return Redaction(names=names, places=places)


def parse_place(text: str) -> Place:
    """Read a path into JSON; raises UsageError.

    >>> parse_place("$.messages[*].name"), parse_place("$..email")
    (('messages', None, 'name'), (('email',),))
    """
    steps: list[Step] = []
    at = 1
    while text.startswith("$") and (found := _STEP.match(text, at)):
        deep, *names = found.groups()
        name, index, quoted, double, _ = names
        steps.append((deep,) if deep else int(index) if index else name or quoted or double)
        at = found.end()
    if not steps or at < len(text):
        raise UsageError(f"--redact body:{text} is no path into JSON", hint=_HINT)
    return tuple(steps)


_HINT = "as in --redact X-Tenant, --redact 'body:$.user.email', 'body:$.messages[*].name', 'body:$..email'"
