"""How long something took, over and over: counted in steps of a microsecond, in constant memory."""

from array import array
from dataclasses import dataclass

_STEP_NS = 1_000
_STEPS = 50_000  # up to 50 ms; what took longer shares the last step, and the maximum is known


@dataclass(frozen=True, slots=True)
class Spread:
    """Percentiles in ms, to the microsecond."""

    count: int
    p50_ms: float
    p99_ms: float
    max_ms: float


class Delays:
    """A histogram of durations in ns."""

    def __init__(self) -> None:
        self._counts = array("Q", bytes(8 * (_STEPS + 1)))
        self.count = 0
        self._max_ns = 0

    def note(self, duration_ns: int) -> None:
        """Add one; less than nothing counts as nothing."""
        self._counts[min(max(duration_ns, 0) // _STEP_NS, _STEPS)] += 1
        self.count += 1
        if duration_ns > self._max_ns:
            self._max_ns = duration_ns

    def spread(self) -> Spread | None:
        """Return it in figures; None without any."""
        if not self.count:
            return None
        return Spread(self.count, self._percentile_ms(50), self._percentile_ms(99), self._max_ns / 1e6)

    def _percentile_ms(self, percent: int) -> float:
        wanted = -(-self.count * percent // 100)
        for step, counted in enumerate(self._counts):
            wanted -= counted
            if wanted <= 0 and step < _STEPS:
                return min((step + 1) * _STEP_NS, self._max_ns) / 1e6
        return self._max_ns / 1e6
