"""A request as it came, and which of its headers, and of an answer's, go past the recorder."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import TypeAlias

import msgspec

Headers: TypeAlias = list[tuple[bytes, bytes]]  # names as they came, in their order

# RFC 9110, section 7.6.1: they belong to a connection. So do these that others have invented.
_HOP_BY_HOP = frozenset(
    (
        *(b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization"),
        *(b"te", b"trailer", b"transfer-encoding", b"upgrade", b"http2-settings"),
    )
)
# Written anew by whoever passes a request on or replays it: the upstream's own name, the length of the whole body, and
# no waiting before it.
REPLACED = frozenset((b"host", b"content-length", b"expect"))


class Request(msgspec.Struct, frozen=True):
    """One request that came whole; moments are ns on the network's clock, by the kernel's stamps."""

    method: str
    path: bytes  # with its query, as it came
    version: str  # "1.0", "1.1" or "2"
    headers: Headers
    body: bytes
    keep_alive: bool
    arrived_ns: int  # its first byte
    whole_ns: int  # its last one

    def header(self, name: bytes) -> bytes:
        """Return the value of a header, b"" where there is none; `name` in lower case."""
        return next((value for other, value in self.headers if other.lower() == name), b"")


def end_to_end(headers: Headers) -> Headers:
    """Return the headers without those that belong to a connection.

    >>> end_to_end([(b"Connection", b"close, X-Own"), (b"x-own", b"1"), (b"Accept", b"*/*")])
    [(b'Accept', b'*/*')]
    """
    dropped: frozenset[bytes] = _HOP_BY_HOP
    for name, value in headers:
        if name.lower() == b"connection":
            dropped |= {word.strip().lower() for word in value.split(b",")}
    return [(name, value) for name, value in headers if name.lower() not in dropped]


def upstream_head(request: Request, *, authority: str, prefix: str) -> bytes:
    """Return the head of the request as it goes on, under the upstream's own name."""
    lines = [b"%b %b%b HTTP/1.1" % (request.method.encode(), prefix.encode(), request.path)]
    lines.append(b"host: " + authority.encode())
    lines += [b"%b: %b" % (name, value) for name, value in end_to_end(request.headers) if name.lower() not in REPLACED]
    if request.body or request.header(b"content-length") or request.header(b"transfer-encoding"):
        lines.append(b"content-length: %d" % len(request.body))
    return b"\r\n".join(lines) + b"\r\n\r\n"


def response_head(status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the head of an answer to a client of HTTP/1.1."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    lines = [f"HTTP/1.1 {status} {phrase}".encode(), *(b"%b: %b" % pair for pair in headers)]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def failure(status: int, kind: str, message: str) -> tuple[Headers, bytes]:
    """Return headers and body of an answer that is the recorder's own: it says so, and why there is no other."""
    body = msgspec.json.encode({"error": {"type": f"recorder_{kind}", "message": message, "code": status}})
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"x-recorder-error", kind.encode()),
    ]
    return headers, body
