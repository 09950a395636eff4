"""What a count of bad requests says about the share that would be bad for ever: exact, by the binomial distribution."""

import math
from collections.abc import Callable

_HALVINGS = 60


def at_most(most: int, count: int, share: float) -> float:
    """Return the chance of `most` bad ones or fewer among `count`, each bad with probability `share`.

    >>> round(at_most(0, 299, 0.01), 4)
    0.0495
    """
    if most >= count or share <= 0:
        return 1.0
    if most < 0 or share >= 1:
        return 0.0
    logs = [
        math.lgamma(count + 1)
        - math.lgamma(bad + 1)
        - math.lgamma(count - bad + 1)
        + bad * math.log(share)
        + (count - bad) * math.log1p(-share)
        for bad in range(most + 1)
    ]
    return min(math.fsum(map(math.exp, logs)), 1.0)


def at_least(least: int, count: int, share: float) -> float:
    """Return the chance of `least` bad ones or more among `count`.

    Below one in 10^15 it is 0.
    """
    return max(1.0 - at_most(least - 1, count, share), 0.0)


def bounds(bad: int, count: int, *, risk: float) -> tuple[float, float]:
    """Return the least and the greatest share that `bad` of `count` agree with, each end at `risk`.

    These are the bounds of Clopper and Pearson (1934).

    >>> [round(end, 4) for end in bounds(0, 299, risk=0.05)]
    [0.0, 0.01]
    """
    least = 0.0 if bad == 0 else _where(lambda share: at_least(bad, count, share) > risk)
    greatest = 1.0 if bad >= count else _where(lambda share: at_most(bad, count, share) < risk)
    return least, greatest


def requests_needed(good_share: float, *, risk: float) -> int:
    """Return how many requests, all of them good, show at `risk` that at least `good_share` are: an order statistic.

    >>> requests_needed(0.99, risk=0.05)
    299
    """
    return math.ceil(math.log(risk) / math.log(good_share))


def _where(holds: Callable[[float], bool]) -> float:
    """Return the share above which it holds."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
