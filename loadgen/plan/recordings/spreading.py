"""Ties of a trace of coarse time, spread inside their quantum: its clock did not see when in it they came."""

from __future__ import annotations  # array is generic to the type checker only

import random
from array import array
from collections.abc import Iterator

from loadgen.plan.recordings.survey import UNKNOWN_NS, is_ascending


def spread_uniform(at_ns: array[int], *, quantum_ns: int, seed: int) -> array[int]:
    """Return times of which those shared by several requests are spread uniformly from there to a quantum later.

    Requests keep their order, also towards the next time, be it a little nearer; who is alone at a time stays there;
    unknown times stay unknown.

    >>> spread_uniform(array("q", [0, 0, 3, 6]), quantum_ns=3, seed=1)
    array('q', [0, 2, 3, 6])
    """
    rng = random.Random(f"ties/{seed}")
    spread = array("q", at_ns)
    order = array("q", (place for place, at in enumerate(at_ns) if at != UNKNOWN_NS))
    if not is_ascending(array("q", map(at_ns.__getitem__, order))):
        order = array("q", sorted(order, key=at_ns.__getitem__))
    for begin, end in _ties(at_ns, order):
        at = at_ns[order[begin]]
        room = min(quantum_ns, at_ns[order[end]] - at) if end < len(order) else quantum_ns
        offsets = sorted(int(rng.random() * room) for _ in range(begin, end))
        for place, offset in zip(order[begin:end], offsets, strict=True):
            spread[place] = at + offset
    return spread


def _ties(at_ns: array[int], order: array[int]) -> Iterator[tuple[int, int]]:
    """Yield where in `order` each time begins and ends that several requests share."""
    begin = 0
    for end in range(1, len(order) + 1):
        if end == len(order) or at_ns[order[end]] != at_ns[order[begin]]:
            if end - begin > 1:
                yield begin, end
            begin = end


# The ways of --spread-ties.
SPREADS = {"uniform": spread_uniform}
