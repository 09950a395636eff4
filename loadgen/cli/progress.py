"""The progress line: written with one call, since whatever draws longer delays the load."""

import sys
from typing import TYPE_CHECKING

from loadgen.plan.schedule import SECOND_NS, Schedule

if TYPE_CHECKING:
    from loadgen.drive.driver import Driver


class Progress:
    """One line on the terminal, rewritten in place."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def show(self, driver: "Driver") -> None:
        """Write the state of the run over the last one."""
        planned = self._schedule.count
        ended = driver.outcomes
        others = sum(ended.values()) - ended["completed"]
        latest = list(driver.latest)
        ttfts = sorted(
            row.first_output_ns - row.sent_ns
            for row in latest
            if row.first_output_ns is not None and row.sent_ns is not None
        )
        parts = [
            f"sent {driver.submitted}" + (f" of {planned}" if planned else ""),
            f"in flight {driver.in_flight}",
            f"completed {ended['completed']}",
        ]
        if others:
            parts.append(f"other {others}")
        if ttfts:
            parts.append(f"ttft p50 {ttfts[len(ttfts) // 2] / 1e6:.0f} ms")
        late = [row.sent_ns - row.due_ns for row in latest if row.sent_ns is not None and row.due_ns is not None]
        if late:
            parts.append(f"late max {max(late) / 1e6:.1f} ms")
        sys.stderr.write(f"\r\x1b[K{max(driver.now(), 0) / SECOND_NS:5.1f} s  " + "  ".join(parts))
        sys.stderr.flush()

    def clear(self) -> None:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
