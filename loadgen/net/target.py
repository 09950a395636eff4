"""Where the load goes: an origin, or a full endpoint."""

import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import trio

from loadgen.errors import TargetError, UsageError

_PORTS = {"http": 80}


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

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path or ''}"


def parse_target(text: str) -> Target:
    """Read a TARGET as a person writes it; raises UsageError.

    >>> str(parse_target("127.0.0.1:8000"))
    'http://127.0.0.1:8000'
    >>> parse_target("http://localhost/v1/chat/completions?x=1").path
    '/v1/chat/completions?x=1'
    """
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port
    except ValueError as error:
        raise UsageError(f"target {text!r}: {error}", hint="write http://HOST:PORT") from None
    if parts.scheme not in _PORTS:
        raise UsageError(f"target {text!r}: scheme {parts.scheme!r} is not supported", hint="write http://HOST:PORT")
    if not parts.hostname or parts.username is not None or any(ord(c) <= 32 for c in text):
        raise UsageError(f"target {text!r} names no host", hint="write http://HOST:PORT")
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], path if path not in ("", "/") else None)


@dataclass(frozen=True, slots=True)
class Address:
    """A resolved target: what a socket is made of and connected to."""

    family: socket.AddressFamily
    sockaddr: tuple[Any, ...]


async def reach(target: Target, *, timeout_s: float) -> Address:
    """Connect once and close, sending nothing; return the address that answered. Raises TargetError."""
    try:
        found = await trio.socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise TargetError(
            f"{target}: the name {target.host!r} does not resolve ({error.strerror})", hint="check its spelling"
        ) from None
    failure = "no address"
    for family, kind, protocol, _, sockaddr in found:
        sock = trio.socket.socket(family, kind, protocol)
        with sock:
            with trio.move_on_after(timeout_s) as scope:
                try:
                    await sock.connect(sockaddr)
                except OSError as error:
                    failure = error.strerror or str(error)
                    continue
            if not scope.cancelled_caught:
                return Address(socket.AddressFamily(family), sockaddr)
            failure = f"no answer in {timeout_s:g} s"
    raise TargetError(f"{target}: {failure}", hint="is the server up, and listening on this address?")
