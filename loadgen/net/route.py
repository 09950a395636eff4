"""Stub until the network's own arrives."""

from dataclasses import dataclass, field

from loadgen.net.target import Target
from loadgen.net.tls import Trust


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    target: Target
    connect_timeout_s: float = 10.0
    trust: Trust = field(default_factory=Trust)
    http2: bool = False
    proxy: str | None = None
