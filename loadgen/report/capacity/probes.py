"""A probe: the runs at one rate, and what they show at the stated confidence.

The test is sequential, with at most LOOKS looks at each of at most PROBES probes. Every look takes an equal part of the
risk (Bonferroni), so that with the stated confidence no probe of a whole search is judged wrongly.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, TypeAlias

from loadgen.report.capacity.binomial import at_least, at_most, bounds, requests_needed

Judgement: TypeAlias = Literal["passed", "failed", "undecided", "invalid", "open"]

PROBES = 24
LOOKS = 4  # a scout's, and one after each whole part
_WHOLE_PARTS = (1, 2, 4)  # times the first one's length: a small overload shows in one long run, not in many short ones
_SCOUTS = 20  # requests
_BLOCKS = 20
# Blocks, and how many times the variance of independent values what is seen by chance goes up to.
_CHANCE = {20: 2.0, 10: 2.6, 5: 3.6}
# Few long blocks also take a steady rise for a burst, and a rise is what an overload looks like.
_TO_PASS, _TO_FAIL = 5, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What is looked for, and how surely."""

    good_share: float  # of the offered requests; above 0 and below 1
    patience_s: float  # the tightest objective that waiting breaks
    precision: float = 0.05  # of the answer: failed over passed rate, less 1
    confidence: float = 0.95  # that all judgements are right
    lowest: float | None = None  # requests/s
    highest: float | None = None
    requests: int | None = None  # of a first part, instead of what is needed
    longest_s: float = 900.0  # a part

    @property
    def risk(self) -> float:
        """The chance of an error that one look may take."""
        return (1 - self.confidence) / (PROBES * LOOKS)

    @property
    def needed(self) -> int:
        """Requests without which no probe can pass."""
        return requests_needed(self.good_share, risk=self.risk)

    def scout(self, rate: float) -> int:
        """Requests of a short part that can fail but not pass: twice the load that is borne shows in it."""
        return self._bounded(max(math.ceil(3 * self.patience_s * rate), _SCOUTS), rate)

    def part(self, rate: float, place: int) -> int:
        """Requests of a probe's whole part.

        As many as can pass, and for so long that an overload of half the precision has run out of patience: waiting
        grows by the overload's share of the time.
        """
        first = max(self.requests or self.needed, math.ceil(2 * self.patience_s / self.precision * rate))
        return self._bounded(_WHOLE_PARTS[place] * first, rate)

    @property
    def fewest(self) -> int:
        """Requests of a first part without which even an extended probe cannot pass."""
        return math.ceil(self.needed / sum(_WHOLE_PARTS))

    def can_pass(self, rate: float) -> bool:
        """Whether a probe at this rate can be long enough to pass."""
        return sum(self.part(rate, place) for place in range(len(_WHOLE_PARTS))) >= self.needed

    def _bounded(self, requests: int, rate: float) -> int:
        return max(min(requests, math.floor(self.longest_s * rate)), 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One run of a probe: which of its requests were useful, in the order they were due."""

    useful: Sequence[bool]
    felt: Sequence[float] = ()  # of each request, the time that the tightest objective bounds
    backlog_grows: bool = False
    valid: bool = True
    is_scout: bool = False
    run: str = ""
    troubles: Sequence[tuple[str, int]] = ()  # what kept requests from being useful, and how many
    notes: Sequence[str] = ()  # what made it invalid


@dataclass(slots=True)
class Probe:
    """The runs at one rate; an INVALID one is the last, and says nothing of the server."""

    rate: float
    parts: list[Part] = field(default_factory=list)

    @property
    def valid_parts(self) -> list[Part]:
        return [part for part in self.parts if part.valid]

    @property
    def whole_parts(self) -> int:
        return sum(not part.is_scout for part in self.valid_parts)

    @property
    def is_scouted(self) -> bool:
        """Whether only a scout was here."""
        return bool(self.parts) and all(part.is_scout for part in self.parts)

    @property
    def backlog_grows(self) -> bool:
        return any(part.backlog_grows for part in self.valid_parts)

    @property
    def useful(self) -> list[bool]:
        return [useful for part in self.valid_parts for useful in part.useful]

    def judgement(self, aim: Aim) -> Judgement:
        """Return what the probe shows; `open` while another part could tell.

        Failed: a growing backlog, or fewer useful than chance allows. Passed: the lower bound holds.
        """
        bad, count = self.evidence(least_blocks=_TO_FAIL)
        if self.backlog_grows or at_least(math.floor(bad), math.ceil(count), 1 - aim.good_share) <= aim.risk:
            return "failed"
        bad, count = self.evidence(least_blocks=_TO_PASS)
        if self.whole_parts and at_most(math.ceil(bad), math.floor(count), 1 - aim.good_share) <= aim.risk:
            return "passed"
        if any(not part.valid for part in self.parts):
            return "invalid"
        return "undecided" if self.whole_parts == len(_WHOLE_PARTS) else "open"

    def evidence(self, *, least_blocks: int) -> tuple[float, float]:
        """Return how many independent bad requests, of how many, the probe is worth, by so many blocks or more."""
        useful = self.useful
        felt = [moment for part in self.valid_parts for moment in part.felt]
        seen = [
            found
            for blocks, chance in _CHANCE.items()
            if blocks >= least_blocks and (found := together(felt, blocks=blocks)) > chance
        ]
        worth = 1 / max(together(useful), *seen, 1.0)
        return useful.count(False) * worth, len(useful) * worth

    def useful_bounds(self, aim: Aim) -> tuple[float, float]:
        """Return the least and the greatest share of useful requests that the probe agrees with."""
        bad, count = self.evidence(least_blocks=_TO_PASS)
        if count < 1:
            return 0.0, 1.0
        greatest = bounds(math.ceil(bad), math.floor(count), risk=aim.risk)[1]
        bad, count = self.evidence(least_blocks=_TO_FAIL)
        return 1 - greatest, 1 - bounds(math.floor(bad), math.ceil(count), risk=aim.risk)[0]


def together(values: Sequence[float], *, blocks: int = _BLOCKS) -> float:
    """Return how many times more values vary from block to block than independent ones would.

    Requests that wait behind each other fail together, and then tell less than their number; their times show it even
    before one has failed. The variance is that of successive differences (von Neumann 1941), which a steady drift does
    not inflate.
    """
    size = len(values) // blocks
    if not size:
        return 0.0
    used = values[: blocks * size]
    mean = math.fsum(used) / len(used)
    variance = math.fsum((value - mean) ** 2 for value in used) / len(used)
    if not variance:
        return 0.0
    means = [math.fsum(used[i * size : (i + 1) * size]) / size for i in range(blocks)]
    between = math.fsum((after - before) ** 2 for before, after in pairwise(means)) / (2 * (blocks - 1))
    return size * between / variance
