"""Arrival processes: when requests are due, drawn before the run from one seeded generator.

Every process is a unit-rate one (gaps with mean 1) stretched by a rate profile: arrival k falls where the profile's
integral reaches the k-th unit arrival. So a ramp of Poisson arrivals is Poisson everywhere, at the rate of that moment.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import sqrt

from loadgen.errors import UsageError


@dataclass(frozen=True, slots=True)
class Stage:
    """A stretch of time whose rate goes straight from one value to another, in requests per second."""

    start_rate: float
    end_rate: float
    duration_s: float

    @property
    def requests(self) -> float:
        """How many requests the stage holds on average."""
        return (self.start_rate + self.end_rate) / 2 * self.duration_s

    def when(self, requests: float) -> float:
        """Return the second of the stage at which `requests` of it are due on average."""
        if self.start_rate == self.end_rate:
            return requests / self.start_rate
        slope = (self.end_rate - self.start_rate) / self.duration_s
        root = sqrt(max(0.0, self.start_rate**2 + 2 * slope * requests))
        return 2 * requests / (self.start_rate + root) if requests else 0.0


def constant(rng: random.Random, burstiness: float) -> Iterator[float]:
    """Evenly spaced, the first at once."""
    yield 0.0
    while True:
        yield 1.0


def poisson(rng: random.Random, burstiness: float) -> Iterator[float]:
    """Independent users: exponential gaps."""
    while True:
        yield rng.expovariate(1.0)


def gamma(rng: random.Random, burstiness: float) -> Iterator[float]:
    """Gamma gaps of shape `burstiness`: 1 is Poisson, below it bursts, above it evens out (CV = 1/sqrt(shape))."""
    while True:
        yield rng.gammavariate(burstiness, 1.0 / burstiness)


def draw(
    stages: list[Stage], *, arrivals: str, seed: int, burstiness: float = 1.0, limit: int | None = None
) -> Iterator[float]:
    """Yield due times in seconds from the start, ascending, until the stages end or `limit` is reached.

    >>> list(draw([Stage(2, 2, 2.0)], arrivals="constant", seed=0))
    [0.0, 0.5, 1.0, 1.5]
    """
    gaps = PROCESSES[arrivals](random.Random(seed), burstiness)
    reached, before, begins_s, drawn = 0.0, 0.0, 0.0, 0
    remaining = iter(stages)
    stage = next(remaining)
    while limit is None or drawn < limit:
        reached += next(gaps)
        while reached - before >= stage.requests:
            before += stage.requests
            begins_s += stage.duration_s
            following = next(remaining, None)
            if following is None:
                return
            stage = following
        yield begins_s + stage.when(reached - before)
        drawn += 1


def requests_by(stages: list[Stage], at_s: float) -> float:
    """Return how many requests of the stages are due on average by `at_s` seconds.

    >>> requests_by([Stage(2, 2, 1.0), Stage(0, 4, 1.0)], 1.5)
    2.5
    """
    due = 0.0
    for stage in stages:
        within = min(max(at_s, 0.0), stage.duration_s)
        slope = (stage.end_rate - stage.start_rate) / stage.duration_s
        due += stage.start_rate * within + slope * within**2 / 2
        at_s -= stage.duration_s
    return due


def parse_stages(text: str, duration: Callable[[str], float]) -> list[Stage]:
    """Read `5@30s,5..50@60s`: a rate or a ramp of rates, and for how long; raises UsageError.

    >>> parse_stages("5..50@60s", lambda text: float(text[:-1]))
    [Stage(start_rate=5.0, end_rate=50.0, duration_s=60.0)]
    """
    stages = []
    for part in text.split(","):
        try:
            rates, at, lasting = part.strip().partition("@")
            start, _, end = rates.partition("..")
            stage = Stage(float(start), float(end or start), duration(lasting) if at else 0.0)
        except ValueError:
            stage = Stage(0.0, 0.0, 0.0)
        if min(stage.start_rate, stage.end_rate) < 0 or not 0 < stage.requests < float("inf"):
            raise UsageError(
                f"stage {part.strip()!r} is not RATE@TIME or RATE..RATE@TIME", hint="as in --stages 5@30s,5..50@60s"
            )
        stages.append(stage)
    return stages


PROCESSES: dict[str, Callable[[random.Random, float], Iterator[float]]] = {
    "constant": constant,
    "poisson": poisson,
    "gamma": gamma,
}
