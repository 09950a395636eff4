"""How late the simulator's own frames were: what it claims to be must be known to its user."""

from array import array
from dataclasses import dataclass

# Lateness of the latest frames: 8 MB at most.
_KEPT = 1 << 20


@dataclass(frozen=True, slots=True)
class Pacing:
    """Lateness of frames, sent minus due, in ms; percentiles cover the latest million frames."""

    count: int
    p50_ms: float
    p99_ms: float
    max_ms: float


class PacingRecord:
    """Keeps how many ns after its moment each token's frame was handed to the kernel."""

    def __init__(self) -> None:
        self._latest_ns = array("q")
        self._count = 0
        self._max_ns = 0

    def note(self, late_ns: list[int]) -> None:
        """Add the lateness of some frames."""
        for lateness_ns in late_ns:
            if self._count < _KEPT:
                self._latest_ns.append(lateness_ns)
            else:
                self._latest_ns[self._count % _KEPT] = lateness_ns
            self._count += 1
            if lateness_ns > self._max_ns:
                self._max_ns = lateness_ns

    def pacing(self) -> Pacing | None:
        """Return the record in figures; None before the first frame."""
        if not self._count:
            return None
        ascending = sorted(self._latest_ns)
        p50_ns, p99_ns = (ascending[int((len(ascending) - 1) * share)] for share in (0.5, 0.99))
        return Pacing(self._count, p50_ns / 1e6, p99_ns / 1e6, self._max_ns / 1e6)
