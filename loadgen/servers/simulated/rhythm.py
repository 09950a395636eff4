"""How long one token takes after another."""

import math
import random

from loadgen.servers.simulated.model import Model


class Rhythm:
    """The gaps of one answer, in ns; the same seed gives the same jitter."""

    def __init__(self, itl_ns: int, *, model: Model, seed: int) -> None:
        self._itl_ns = itl_ns
        self._slowdown = model.slowdown
        self._sigma = model.jitter
        # Only where it is used: seeding one costs more than a token.
        self._rng = random.Random(seed) if self._sigma else None

    def gap_ns(self, active: int) -> int:
        """Return the next gap, in a batch of `active` requests."""
        gap_ns: float = self._itl_ns
        if self._slowdown:
            gap_ns *= 1 + self._slowdown * (active - 1)
        if self._rng is not None:
            gap_ns *= math.exp(self._rng.gauss(0.0, self._sigma))
        return round(gap_ns)
