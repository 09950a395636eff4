"""Where to probe next: doubling until a rate fails, then bisection between what passed and what did not.

A decision depends on the probes alone, so a search that was stopped goes on where it was.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from loadgen.report.capacity.probes import PROBES, Aim, Judgement, Probe

_START = 1.0  # requests/s, where nothing is known

Ended: TypeAlias = Literal["precise", "undecided", "highest", "lowest", "generator", "too long", "probes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The run to make next."""

    rate: float
    is_scout: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The capacity lies between the highest rate that passed and the lowest that failed; None where there is none."""

    passed: float | None
    failed: float | None
    ended: Ended
    undecided: tuple[float, ...] = ()


def advance(aim: Aim, probes: Mapping[float, Probe]) -> Ask | Answer:
    """Return the next run to make, or the answer."""
    found = {rate: probe.judgement(aim) for rate, probe in sorted(probes.items())}
    failed = min(_rates(found, "failed"), default=None)
    passed = max((rate for rate in _rates(found, "passed") if failed is None or rate < failed), default=None)
    for rate, judgement in found.items():
        if judgement == "open" and not probes[rate].is_scouted:
            return Ask(rate=rate)
    step = _step(aim, found, passed, failed)
    if isinstance(step, Ask) and step.rate not in probes and len(probes) >= PROBES:
        step = "probes"
    if isinstance(step, Ask):
        return step
    undecided = tuple(rate for rate in _rates(found, "undecided") if passed is None or rate > passed)
    ended: Ended = "undecided" if undecided and step == "precise" else step
    return Answer(passed=passed, failed=failed, ended=ended, undecided=undecided)


def _step(aim: Aim, found: Mapping[float, Judgement], passed: float | None, failed: float | None) -> Ask | Ended:
    """Say where to go, or why to stop. What lies below a rate that passed is of no account."""
    above = {rate: judgement for rate, judgement in found.items() if passed is None or rate > passed}
    undecided = _rates(above, "undecided")
    ceiling = min([*_rates(above, "failed"), *_rates(above, "invalid")], default=None)
    wall = min([*undecided, *([] if ceiling is None else [ceiling])], default=None)
    if ceiling is None and aim.highest is None:
        top = max(found, default=None)
        return Ask(rate=aim.lowest or _START if top is None else 2 * top, is_scout=True)
    if passed is None:
        return _downwards(aim, found, wall)
    if wall is None:
        return "highest" if aim.highest is None or passed >= aim.highest else Ask(rate=aim.highest)
    if (between := _between(aim, passed, wall)) is not None:
        return Ask(rate=between)
    if ceiling is None:
        return "highest" if aim.highest is None or aim.highest in found else Ask(rate=aim.highest)
    beyond = max((rate for rate in undecided if rate < ceiling), default=passed)
    if (between := _between(aim, beyond, ceiling)) is not None:
        return Ask(rate=between)
    return "generator" if ceiling != failed else "precise"


def _downwards(aim: Aim, found: Mapping[float, Judgement], wall: float | None) -> Ask | Ended:
    """Where nothing passed yet: the highest rate that a scout did not see fail, the lowest asked for, else halves."""
    scouted = max((rate for rate in _rates(found, "open") if wall is None or rate < wall), default=None)
    if scouted is not None:
        return Ask(rate=scouted)
    if aim.lowest is not None:
        return _END_AT_LOWEST.get(found[aim.lowest], "undecided") if aim.lowest in found else Ask(rate=aim.lowest)
    rate = aim.highest if wall is None else wall / 2
    if rate is not None and aim.can_pass(rate):
        return Ask(rate=_rounded(rate))
    return "too long" if _rates(found, "failed") or not _rates(found, "invalid") else "generator"


_END_AT_LOWEST: dict[Judgement, Ended] = {"failed": "lowest", "invalid": "generator"}


def _between(aim: Aim, low: float, high: float) -> float | None:
    """Return the rate in the middle, by ratio; None when the two are near enough."""
    middle = _rounded(math.sqrt(low * high))
    return middle if high > low * (1 + aim.precision) and low < middle < high else None


def _rates(found: Mapping[float, Judgement], wanted: Judgement) -> list[float]:
    return [rate for rate, judgement in found.items() if judgement == wanted]


def _rounded(rate: float) -> float:
    return float(f"{rate:.4g}")
