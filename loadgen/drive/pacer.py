"""The run's clock and its alarm: integer ns since the run's start."""

import time
from typing import Protocol

from loadgen.net.timer import Timer


class Pacer(Protocol):
    """What the driver waits on; tests give it trio's virtual clock."""

    def now(self) -> int:
        """Return ns since the run's start."""
        ...

    async def wait_until(self, at_ns: int) -> None:
        """Return at `at_ns`, or after a checkpoint when that has passed."""
        ...


class TimerPacer:
    """The monotonic clock and a timerfd: wakes within about 50 us."""

    def __init__(self, timer: Timer, *, epoch_ns: int) -> None:
        self._timer = timer
        self._epoch_ns = epoch_ns

    def now(self) -> int:
        return time.monotonic_ns() - self._epoch_ns

    async def wait_until(self, at_ns: int) -> None:
        await self._timer.wait_until(at_ns + self._epoch_ns)
