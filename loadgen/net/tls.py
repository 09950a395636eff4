"""Stub until the network's own arrives."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    cacert: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    insecure: bool = False
