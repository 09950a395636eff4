"""M/D/c by theory and by simulation: what Poisson arrivals wait for `servers` slots that each serve for the same time.

With constant arrivals (D/D/c) nobody waits below servers / service seconds, and above it everybody waits longer and
longer: that rate is the capacity. With Poisson arrivals the capacity is the rate at which the wanted share of requests
still waits less than the objective leaves it.
"""

import heapq
import math
import random
from collections.abc import Iterator


def waits(rate: float, servers: int, service_s: float, count: int, rng: random.Random) -> Iterator[float]:
    """Yield the seconds that each of `count` requests waits, first come first served, from an empty server on."""
    free = [0.0] * servers
    now = 0.0
    for _ in range(count):
        now += rng.expovariate(rate)
        start = max(now, heapq.heappop(free))
        heapq.heappush(free, start + service_s)
        yield start - now


def waits_at_most(patience_s: float, rate: float, servers: int, service_s: float) -> float:
    """Return the share of requests that wait no longer, in the long run, for less than a service time (Franx 2001)."""
    if rate * service_s >= servers:
        return 0.0
    rest = rate * (service_s - patience_s)
    queue = _queue(rate * service_s, servers)
    return math.fsum(
        sum(queue[: servers - j]) * math.exp(-rest + j * math.log(rest) - math.lgamma(j + 1)) for j in range(servers)
    )


def _queue(load: float, servers: int) -> list[float]:
    """Return the chance of each queue's length.

    Whoever is served now has left a service time later, and who is there then was waiting now or has arrived since:
    N' = max(N - servers, 0) + Poisson(load). Iterated to its fixed point.
    """
    size = servers * 6
    poisson = [math.exp(-load + k * math.log(load) - math.lgamma(k + 1)) for k in range(size)]
    chance = poisson
    for _ in range(80):
        waiting = [sum(chance[: servers + 1]), *chance[servers + 1 :]]
        chance = [sum(waiting[i] * poisson[n - i] for i in range(min(n + 1, len(waiting)))) for n in range(size)]
    return [sum(chance[: servers + 1]), *chance[servers + 1 :]]


def capacity(share: float, patience_s: float, servers: int, service_s: float) -> float:
    """Return the rate at which just this share waits no longer than `patience_s`."""
    low, high = 0.0, servers / service_s
    for _ in range(13):
        middle = (low + high) / 2
        low, high = (middle, high) if waits_at_most(patience_s, middle, servers, service_s) >= share else (low, middle)
    return low
