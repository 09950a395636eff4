"""One sentence on two sides: never an improvement that fewer useful answers, a class or an INVALID run paid for.

Nor is it one in speed when B turns more away: those are not in its latencies. That is bounded protection.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from loadgen.report.compare.shifts import Shift
from loadgen.report.compare.sides import Side

Kind: TypeAlias = Literal[
    "none", "improvement", "bounded protection", "not an improvement", "worse", "no difference"
]  # fmt: skip
# From so large a share of what was offered on, more rejections are a policy.
_TURNED_AWAY = 0.005


def conclude(
    a: Side,
    b: Side,
    *,
    primary: str,
    shifts: Sequence[Shift],
    useful: Mapping[str, Mapping[str, Any]],
    accounts: Mapping[str, Mapping[str, Any]],
    unlike: Sequence[str],
) -> tuple[Kind, str]:
    """Return what may be said of B against A; `unlike` names why the two are not of the same work."""
    invalid = [
        f"{side.label} ({', '.join(run.why_invalid)})" for side in (a, b) for run in side.runs if run.why_invalid
    ]
    if invalid:
        return "none", f"No conclusion: INVALID is {' and '.join(invalid)}; an invalid run measures its generator."
    if unlike:
        return "none", f"No conclusion: the two did not do the same work ({'; '.join(unlike)})."
    of_primary = [shift for shift in shifts if f"{shift.metric}-{shift.statistic}" == primary]
    overall = next((shift for shift in of_primary if shift.klass is None), None)
    if overall is None:
        return "none", f"No conclusion: {primary} has no interval here."
    fell, lost = useful[""]["fell"], _lost(useful[""], accounts)
    worse = [
        shift.klass for shift in of_primary if shift.klass and (shift.direction > 0 or useful[shift.klass]["fell"])
    ]
    said = _said(primary, overall)
    turned = accounts["b"]["outcomes"].get("rejected", 0) - accounts["a"]["outcomes"].get("rejected", 0)
    protects = turned >= _TURNED_AWAY * accounts["a"]["offered"]
    if overall.direction > 0:
        more = f", and {lost}" if fell else ""
        return "worse", f"B is worse: {said}{more}."
    if fell:
        if overall.direction == 0:
            return "worse", f"B is worse: {lost}; {said}."
        why = f"; it turned away {turned} more, which is bounded protection and no speed gain" if protects else ""
        return "not an improvement", f"Not an improvement: {said} for those that B served, but {lost}{why}."
    if overall.direction < 0 and worse:
        return "not an improvement", f"Not an improvement: {said}, but it got worse for class {', '.join(worse)}."
    if overall.direction < 0 and protects:
        shares = [accounts[side]["useful_pct"] or 0.0 for side in ("a", "b")]
        return "bounded protection", (
            f"Bounded protection, no speed gain: {said} for those that B served, and it turned away {turned} more; "
            f"{shares[1]:.1f} % of what was offered was useful, where it was {shares[0]:.1f} %."
        )
    if overall.direction < 0:
        kept = f"with no fewer useful answers{_though(useful[''])}"
        return "improvement", f"B is an improvement: {said}, {kept}."
    if worse:
        return "worse", f"B is worse for class {', '.join(worse)}; over all, {said}."
    return "no difference", f"No difference was found: {said}."


def _said(primary: str, shift: Shift) -> str:
    interval = f"95 % interval {shift.low:+.1f} to {shift.high:+.1f} ms"
    if shift.direction == 0:
        return f"{primary} shifted by {shift.shift:+.1f} ms, which may be chance ({interval})"
    way = "lower" if shift.direction < 0 else "higher"
    return f"{primary} is {abs(shift.shift):.1f} ms {way} ({interval})"


def _lost(useful: Mapping[str, Any], accounts: Mapping[str, Mapping[str, Any]]) -> str:
    if "lost" in useful:
        fewer = useful["lost"] - useful["won"]
        return f"{fewer} fewer of {accounts['a']['offered']} offered requests were useful"
    return f"{100 * (useful['share_a'] - useful['share_b']):.1f} points fewer of the offered requests were useful"


def _though(useful: Mapping[str, Any]) -> str:
    """A few may be missing by chance: they are told of all the same."""
    fewer = useful.get("lost", 0) - useful.get("won", 0)
    return f" (but for {fewer}, which may be chance)" if fewer > 0 else ""
