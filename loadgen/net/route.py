"""The way to a target: whom to trust, how long to try, over which protocol and through which proxy."""

from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from loadgen.errors import UsageError
from loadgen.net.target import Target
from loadgen.net.tls import Trust


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A parsed --proxy; its text form leaves the credentials out."""

    host: str
    port: int
    credentials: tuple[str, str] | None = field(default=None, repr=False)  # a name and a password

    def __str__(self) -> str:
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """How a target is reached; raises UsageError for a proxy that cannot be one."""

    target: Target
    connect_timeout_s: float = 10.0
    trust: Trust = field(default_factory=Trust)
    http2: bool = False
    proxy: str | None = field(default=None, repr=False)  # as given: it may hold a password

    def __post_init__(self) -> None:
        if self.proxy is not None:
            parse_proxy(self.proxy)

    @property
    def alpn(self) -> tuple[str, ...]:
        """The protocols offered to a TLS server, the one wanted first."""
        return ("h2", "http/1.1") if self.http2 else ("http/1.1",)

    @property
    def via(self) -> Proxy | None:
        """The proxy, parsed."""
        return None if self.proxy is None else parse_proxy(self.proxy)


def parse_proxy(text: str) -> Proxy:
    """Read a --proxy as a person writes it; raises UsageError, which repeats no password.

    >>> str(parse_proxy("http://me:hunter2@10.0.0.1:3128"))
    'http://10.0.0.1:3128'
    """
    hint = "write http://HOST:PORT, or http://USER:PASSWORD@HOST:PORT"
    shown = text.rpartition("@")[2]
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port
    except ValueError:
        raise UsageError(f"--proxy {shown!r} is no URL of a proxy", hint=hint) from None
    if parts.scheme != "http":
        raise UsageError(f"--proxy {shown!r}: only http:// proxies are supported", hint=hint)
    if not parts.hostname or not port or not text.isascii() or any(ord(c) <= 32 for c in text):
        raise UsageError(f"--proxy {shown!r} names no host and port to be reached", hint=hint)
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise UsageError(f"--proxy {shown!r}: a proxy has no path", hint=hint)
    credentials = None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))
    return Proxy(host=parts.hostname, port=port, credentials=credentials)
