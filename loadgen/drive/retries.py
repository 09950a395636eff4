"""Who is sent again, and after how long: what a well-behaved client of a busy server does."""

import random
from dataclasses import dataclass

from loadgen.results.record import Row

_RETRIED = ("rejected", "connect_error")
_FIRST_S = 0.5  # doubled with each attempt
# So that those who were turned away together don't come back together.
_EARLIEST = 0.5  # of a backoff
_LATEST = 1.1  # of what the server asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """At most `most` further attempts, each after the server's Retry-After or a doubling backoff, `cap_s` at most."""

    most: int = 0
    cap_s: float = 60.0

    def wait_s(self, row: Row, dice: random.Random) -> float | None:
        """Return how long to wait before the attempt after this one; None when there is none."""
        if row.outcome not in _RETRIED or row.attempt > self.most:
            return None
        if row.retry_after_s is not None:
            return min(row.retry_after_s, self.cap_s) * dice.uniform(1.0, _LATEST)
        return min(_FIRST_S * 2.0 ** (row.attempt - 1), self.cap_s) * dice.uniform(_EARLIEST, 1.0)
