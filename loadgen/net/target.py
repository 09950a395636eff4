"""Where the load goes: an origin, or a full endpoint."""

import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from loadgen.errors import UsageError

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed TARGET: `path` is None for an origin, whose requests bring their own."""

    scheme: str
    host: str
    port: int
    path: str | None = None

    @property
    def authority(self) -> str:
        """The Host header's value."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS.get(self.scheme) else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    def __str__(self) -> str:
        return self.origin + (self.path or "")


def parse_target(text: str) -> Target:
    """Read a TARGET as a person writes it; raises UsageError.

    >>> str(parse_target("127.0.0.1:8000"))
    'http://127.0.0.1:8000'
    >>> parse_target("http://localhost/v1/chat/completions?x=1").path
    '/v1/chat/completions?x=1'
    """
    hint = "write http://HOST:PORT or https://HOST:PORT"
    shown = text.rpartition("@")[2]  # what stands before an @ may be a password
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port
    except ValueError as error:
        raise UsageError(f"target {shown!r}: {error}", hint=hint) from None
    if parts.scheme not in _PORTS:
        raise UsageError(f"target {shown!r}: scheme {parts.scheme!r} is not supported", hint=hint)
    if parts.username is not None:
        raise UsageError(f"target {shown!r}: a name and password cannot stand in it", hint="send a --header instead")
    if not parts.hostname or port == 0 or not text.isascii() or any(ord(c) <= 32 for c in text):
        raise UsageError(f"target {shown!r} names no host and port to be reached", hint=hint)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if port is None:
        port = _PORTS[parts.scheme]
    return Target(parts.scheme, parts.hostname, port, path if path != "/" else None)


@dataclass(frozen=True, slots=True)
class Address:
    """A resolved target: what a socket is made of and connected to."""

    family: socket.AddressFamily
    sockaddr: tuple[Any, ...]
