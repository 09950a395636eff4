"""The one task that keeps time for all answers."""

import heapq
import time
from typing import Protocol

import trio

from loadgen.net.timer import Timer

# Ticks before accepting and reading get their turn.
_BATCH = 64
_NEVER_NS = 1 << 62


class Ticking(Protocol):
    """What the metronome ticks, until it is over."""

    over: bool

    def tick(self) -> int | None:
        """Do what is due; return when the next is due, None when nothing is."""
        ...


class Metronome:
    """Ticks each of its subjects at its own moments on the monotonic clock; who is late is ticked at once."""

    def __init__(self) -> None:
        self._timer = Timer()
        self._due: list[tuple[int, int, Ticking]] = []
        self._added = 0
        self._alarm_ns = 0  # while it sleeps: until when

    def add(self, due_ns: int, subject: Ticking) -> None:
        self._added += 1
        heapq.heappush(self._due, (due_ns, self._added, subject))
        if due_ns < self._alarm_ns:
            self._alarm_ns = due_ns
            self._timer.ring_by(due_ns)

    async def run(self) -> None:
        """Tick until cancelled."""
        due = self._due
        while True:
            ticks = 0
            while due and due[0][0] <= (now_ns := time.monotonic_ns()):
                _, number, subject = heapq.heappop(due)
                if not subject.over and (next_ns := subject.tick()) is not None:
                    # Who is behind even so comes after all who are due by now.
                    heapq.heappush(due, (max(next_ns, now_ns), number, subject))
                ticks += 1
                if ticks == _BATCH:
                    ticks = 0
                    await trio.lowlevel.checkpoint()
            self._alarm_ns = due[0][0] if due else _NEVER_NS
            await self._timer.wait_until(self._alarm_ns)
            self._alarm_ns = 0

    def close(self) -> None:
        self._timer.close()
