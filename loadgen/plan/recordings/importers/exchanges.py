"""HTTP exchanges as sources keep them, as recorded requests: no secrets, nothing that belongs to a connection."""

import base64
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import msgspec

from loadgen.plan.recordings.importers.bodies import kept, model_in
from loadgen.plan.recordings.ours import RecordedFrame, RecordedRequest, RecordedResponse
from loadgen.wire.secrets import names_secret

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Of a connection or of a client's own ways with it; a compressed stream, for one, cannot be timed.
_HOP_BY_HOP = ("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade")
_DROPPED = frozenset((*_HOP_BY_HOP, "host", "content-length", "expect", "accept-encoding"))
_PIECE = re.compile(r".*?(?:\r\n\r\n|\n\n|\r\r)|.+", re.DOTALL)


def exchange(
    *,
    method: str,
    url: str,
    headers: Iterable[tuple[str, str]],
    body: bytes,
    source: str,
    response: RecordedResponse | None = None,
    **fields: Any,
) -> RecordedRequest:
    """Return the request of an exchange; raises ValueError where it cannot be sent."""
    if not _TOKEN.fullmatch(method):
        raise ValueError("its method is not an HTTP token")
    if not url:
        raise ValueError("no URL")
    if method.upper() == "CONNECT":
        raise ValueError("CONNECT: a tunnel, not a request")
    return RecordedRequest(
        path=path_of(url),
        method=method,
        headers=headers_of(headers),
        source=source,
        model=model_in(body) if body else None,
        response=response,
        **kept(body),
        **fields,
    )


def path_of(url: str) -> str:
    """Return a URL's path and query, without the secrets in it; raises ValueError.

    >>> path_of("https://me:abc@host:8000/v1/ä?api-version=1&api-key=abc#top")
    '/v1/%C3%A4?api-version=1'
    """
    parts = urlsplit(url)
    if parts.scheme and parts.scheme not in ("http", "https"):
        raise ValueError(f"{parts.scheme}: not an HTTP request")
    pairs = [pair for pair in parts.query.split("&") if not names_secret(unquote(pair.partition("=")[0]))]
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    query = quote("&".join(pairs), safe="/%:@!$&'()*+,;=~-._?[]{}\"|\\^`<>")
    if not path.startswith("/"):
        raise ValueError("its URL has no absolute path")
    return f"{path}?{query}" if query else path


def headers_of(headers: Iterable[tuple[str, str]]) -> dict[str, str] | None:
    """Return the headers that may be kept, several of one name as one."""
    found: dict[str, str] = {}
    for name, value in headers:
        key = name.lower()
        if key in _DROPPED or names_secret(key) or not _TOKEN.fullmatch(key) or any(c in value for c in "\r\n\0"):
            continue
        found[key] = f"{found[key]}, {value}" if key in found else value
    return found or None


def response_of(
    *,
    status: object,
    headers: Iterable[tuple[str, str]] = (),
    body: bytes = b"",
    content_type: str = "",
    frames: list[RecordedFrame] | None = None,
    end: str | None = None,
    usage: object = None,
) -> RecordedResponse | None:
    """Return what was answered; None without a status. A body without frame timing is frames without times."""
    if not isinstance(status, int) or isinstance(status, bool) or not 100 <= status <= 599:
        return None
    kept_headers = headers_of(headers)
    kind = content_type or (kept_headers or {}).get("content-type", "")
    return RecordedResponse(
        status=status,
        headers=kept_headers,
        end=end,
        frames=frames if frames is not None else frames_of(body, kind),
        usage=msgspec.Raw(msgspec.json.encode(usage)),
    )


def frames_of(body: bytes, content_type: str) -> list[RecordedFrame] | None:
    """Return a body as frames of unknown time that make it up again: an event stream's events, else the whole."""
    if not body:
        return None
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return [RecordedFrame(b64=base64.b64encode(body).decode())]
    if "event-stream" in content_type:
        return [RecordedFrame(data=piece) for piece in _PIECE.findall(text)]
    return [RecordedFrame(data=text)]
