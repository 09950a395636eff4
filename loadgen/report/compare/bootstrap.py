"""The moving parts of an interval: blocks of time drawn again, and quantiles of what they hold.

Requests near in time share a server's state, so single requests are no independent samples: whole blocks of time are
drawn with replacement instead (a block bootstrap; Künsch 1989, with blocks that do not overlap).
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

RESAMPLES = 1000
_BLOCKS_LEAST, _BLOCKS_MOST = 20, 200
_CELLS = 4_000_000  # of a table of draws: 16 MB
_SPANS = 4.0  # a block holds so many of the times for which requests stay in the server


@dataclass(frozen=True, slots=True)
class Blocks:
    """How the run's time is cut: `seconds` each, `count` of them; `are_long` when a block outlasts what lingers."""

    seconds: float
    count: int
    are_long: bool


def blocks_of(length_s: float, stay_s: float) -> Blocks:
    """Cut a run of `length_s` seconds whose requests stay for `stay_s` (their mean time in the system).

    Blocks hold four such stays, so that what one leaves to the next weighs little; there are 20 at least, even if they
    must be shorter for that, and 200 at most.
    """
    wanted = max(_SPANS * stay_s, length_s / _BLOCKS_MOST)
    seconds = min(wanted, length_s / _BLOCKS_LEAST)
    return Blocks(seconds, max(math.ceil(length_s / seconds), 1), are_long=seconds >= wanted)


def draws_of(blocks: int, *, seed: int, resamples: int = RESAMPLES) -> pl.DataFrame:
    """Return how often each block (a row) is in each draw (a column): the same draws for every statistic."""
    dice = random.Random(seed)
    columns = []
    for number in range(resamples):
        drawn = [0] * blocks
        for block in dice.choices(range(blocks), k=blocks):
            drawn[block] += 1
        columns.append(pl.Series(str(number), drawn, dtype=pl.UInt32))
    return pl.DataFrame(columns)


class Sample:
    """Values in ascending order, each with its block: what quantiles are read off, of the sample and of each draw.

    A quantile is the least value that at least such a share of the values does not exceed.
    """

    def __init__(self, values: pl.Series, blocks: pl.Series) -> None:
        ordered = pl.DataFrame({"value": values, "block": blocks.cast(pl.UInt32)}).sort("value")
        self._values, self._blocks = ordered["value"], ordered["block"]

    def __len__(self) -> int:
        return len(self._values)

    def quantile(self, share: float) -> float:
        """Return a quantile of the sample."""
        return float(self._values[max(math.ceil(share * len(self)) - 1, 0)])

    def drawn(self, share: float, draws: pl.DataFrame) -> list[float | None]:
        """Return a quantile of each draw; None of one that drew no value."""
        found: list[float | None] = []
        at_once = max(_CELLS // max(len(self), 1), 1)
        for start in range(0, draws.width, at_once):
            weights = draws[:, start : start + at_once][self._blocks]
            reaches = (pl.all().sum() * share).ceil().clip(1)
            places = weights.select((pl.all().cum_sum() < reaches).sum()).row(0)
            found += [None if place == len(self) else float(self._values[place]) for place in places]
        return found


def interval(draws: Sequence[float], *, share: float = 0.95) -> tuple[float, float]:
    """Return the middle `share` of the draws: the percentile interval."""
    ordered = sorted(draws)
    tail = (1 - share) / 2
    low = ordered[max(math.ceil(tail * len(ordered)) - 1, 0)]
    return low, ordered[min(math.ceil((1 - tail) * len(ordered)) - 1, len(ordered) - 1)]


def p_value(draws: Sequence[float]) -> float:
    """Return the two-sided p of no shift: how rarely a draw lies on zero's other side; never 0, for want of draws."""
    below = sum(draw <= 0 for draw in draws)
    above = sum(draw >= 0 for draw in draws)
    return min(1.0, 2 * (min(below, above) + 1) / (len(draws) + 1))
