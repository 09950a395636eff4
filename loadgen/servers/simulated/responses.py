"""HTTP responses as bytes."""

from http import HTTPStatus
from typing import Any

import msgspec

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_BAD = "invalid_request_error"
_TYPES = {404: "not_found_error", 429: "rate_limit_error", 500: "internal_server_error", 503: "overloaded_error"}


class RefusedError(Exception):
    """A request that gets an error as its answer; the message is for its sender."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self._headers = headers

    def response(self, *, close: bool) -> bytes:
        """Return the answer: OpenAI's error object."""
        error = {"message": str(self), "type": _TYPES.get(self.status, _BAD), "param": None, "code": self.status}
        return whole({"error": error}, status=self.status, close=close, **self._headers)


def whole(value: Any, *, status: int = 200, close: bool, **headers: str) -> bytes:
    """Return a response whose body is one JSON value; `_` in a header's name stands for `-`."""
    body = msgspec.json.encode(value)
    return _head(status, close, content_type="application/json", content_length=str(len(body)), **headers) + body


def stream_head(*, close: bool) -> bytes:
    """Return the head of a chunked event stream."""
    return _head(
        200,
        close,
        content_type="text/event-stream; charset=utf-8",
        cache_control="no-cache",
        transfer_encoding="chunked",
    )


def _head(status: int, close: bool, **headers: str) -> bytes:
    if close:
        headers["connection"] = "close"
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{lines}\r\n".encode("latin-1")
