"""The moving parts of an interval: blocks of time drawn again, and quantiles of what they hold.

Requests near in time share a server's state, so single requests are no independent samples: whole blocks of time are
drawn with replacement instead (a block bootstrap; Künsch 1989, with blocks that do not overlap).
"""

import math
import random
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import pstdev

import polars as pl

RESAMPLES = 500
_BLOCKS_LEAST, _BLOCKS_MOST = 20, 200
_CELLS = 4_000_000  # of a table of draws: 16 MB
_FEW = 1_000_000
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
        self._blocks, self._blocks_listed = ordered["block"], ordered["block"].to_list()
        self._listed: list[float] = ordered["value"].cast(pl.Float64).to_list()

    def __len__(self) -> int:
        return len(self._listed)

    def quantile(self, share: float) -> float:
        """Return a quantile of the sample."""
        return self._listed[max(math.ceil(share * len(self)) - 1, 0)]

    def drawn(self, shares: Sequence[float], draws: pl.DataFrame) -> list[list[float | None]]:
        """Return quantiles of each draw, a list for each share; None of a draw without a value."""
        if len(self) * draws.width <= _FEW:
            return self._drawn_one_by_one(shares, draws)
        found: list[list[float | None]] = [[] for _ in shares]
        at_once = max(_CELLS // len(self), 1)
        for start in range(0, draws.width, at_once):
            reached = draws[:, start : start + at_once][self._blocks].select(pl.all().cum_sum())
            for of_share, share in zip(found, shares, strict=True):
                wanted = (pl.all().last() * share).ceil().clip(1)
                places = reached.select((pl.all() < wanted).sum()).row(0)
                of_share += [self._at(place) for place in places]
        return found

    def _drawn_one_by_one(self, shares: Sequence[float], draws: pl.DataFrame) -> list[list[float | None]]:
        """The same of few values, where a table's columns cost more than what is in them."""
        found: list[list[float | None]] = [[] for _ in shares]
        for column in draws.iter_columns():
            reached = list(accumulate(map(column.to_list().__getitem__, self._blocks_listed)))
            for of_share, share in zip(found, shares, strict=True):
                of_share.append(self._at(bisect_left(reached, max(math.ceil(reached[-1] * share), 1))))
        return found

    def _at(self, place: int) -> float | None:
        return self._listed[place] if place < len(self._listed) else None


def interval(draws: Sequence[float], shift: float, *, blocks: int) -> tuple[float, float]:
    """Return a 95 % interval of a shift: the wider one, at each end, of two.

    One is the middle of the draws, the other reaches Student's t of so many blocks times the draws' deviation. Where
    blocks are few or values clumped, either alone is too narrow.
    """
    ordered = sorted(draws)
    tail = (1 - _SHARE) / 2
    low = ordered[max(math.ceil(tail * len(ordered)) - 1, 0)]
    high = ordered[min(math.ceil((1 - tail) * len(ordered)) - 1, len(ordered) - 1)]
    margin = student_t(blocks - 1) * _deviation(draws, blocks)
    return min(low, shift - margin), max(high, shift + margin)


def p_value(draws: Sequence[float], shift: float, *, blocks: int) -> float:
    """Return the two-sided p of no shift, as the interval the higher one of two.

    One says how rarely a draw lies on zero's other side, the other how far zero is in deviations.
    """
    beyond = min(sum(draw <= 0 for draw in draws), sum(draw >= 0 for draw in draws))
    by_draws = min(1.0, 2 * beyond / len(draws))
    deviation = _deviation(draws, blocks) * student_t(blocks - 1) / _NORMAL
    by_deviation = math.erfc(abs(shift) / deviation / math.sqrt(2)) if deviation else float(shift == 0)
    return max(by_draws, by_deviation)


def _deviation(draws: Sequence[float], blocks: int) -> float:
    """The draws' deviation, as it would be of blocks that were not drawn from themselves."""
    return pstdev(draws) * math.sqrt(blocks / max(blocks - 1, 1))


def student_t(freedom: int) -> float:
    """Return Student's t at 97.5 % by degrees of freedom; beyond thirty the normal's is near enough.

    >>> student_t(1), student_t(19), student_t(100)
    (12.706, 2.093, 1.96)
    """
    return _T[max(freedom, 1) - 1] if freedom <= len(_T) else _NORMAL


_SHARE, _NORMAL = 0.95, 1.96
_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    *(2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
