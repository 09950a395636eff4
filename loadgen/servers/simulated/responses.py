"""HTTP responses as bytes."""

from http import HTTPStatus
from typing import Any

import msgspec

from loadgen.servers.simulated.shapes import Shape, openai

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class RefusedError(Exception):
    """A request that gets an error as its answer; the message is for its sender."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self._headers = headers

    def response(self, *, close: bool, shape: Shape = openai) -> bytes:
        """Return the answer, in the shape of one family of APIs."""
        error, headers = shape(self.status, str(self))
        return whole(error, status=self.status, close=close, **headers, **self._headers)


def whole(value: Any, *, status: int = 200, close: bool, **headers: str) -> bytes:
    """Return a response whose body is one JSON value; `_` in a header's name stands for `-`."""
    body = msgspec.json.encode(value)
    return _head(status, close, content_type="application/json", content_length=str(len(body)), **headers) + body


def plain(body: bytes, *, content_type: str, close: bool) -> bytes:
    """Return a response whose body is these bytes."""
    return _head(200, close, content_type=content_type, content_length=str(len(body))) + body


def stream_head(content_type: str, *, close: bool) -> bytes:
    """Return the head of a chunked stream."""
    if content_type.startswith("text/"):
        content_type += "; charset=utf-8"
    return _head(200, close, content_type=content_type, cache_control="no-cache", transfer_encoding="chunked")


def _head(status: int, close: bool, **headers: str) -> bytes:
    if close:
        headers["connection"] = "close"
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{lines}\r\n".encode("latin-1")
