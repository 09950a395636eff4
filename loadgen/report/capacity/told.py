"""A search's answer as JSON and in words."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from loadgen.report.capacity.probes import LOOKS, PROBES, Aim, Probe
from loadgen.report.capacity.search import Answer

_MOST_TROUBLES = 3


def as_json(aim: Aim, probes: Mapping[float, Probe], answer: Answer, *, slos: Sequence[str]) -> dict[str, Any]:
    """Return everything that `--json` prints; shares in percent, rates in requests per second."""
    return {
        "capacity_per_sec": answer.passed,
        "interval_per_sec": [answer.passed, answer.failed],
        "undecided_per_sec": list(answer.undecided),
        "confidence_pct": 100 * aim.confidence,
        "target_good_pct": 100 * aim.good_share,
        "precision_pct": 100 * aim.precision,
        "slo": list(slos),
        "ended": answer.ended,
        "words": in_words(aim, answer),
        "limit": limit(probes, answer),
        "method": method(aim),
        "probes": [_probe(aim, probe) for _, probe in sorted(probes.items())],
    }


def in_words(aim: Aim, answer: Answer) -> str:
    """Return the answer as a sentence."""
    passed, failed = answer.passed, answer.failed
    if passed is None:
        found = "no rate passed" if failed is None else f"no rate passed; {failed:g}/s fails"
        return f"{found}: {_WHY_NONE[answer.ended]}"
    words = f"capacity: at least {passed:g}/s"
    if failed is not None:
        sure = f"at {100 * aim.confidence:g} % confidence"
        words = f"capacity: {passed:g}/s; it lies from {passed:g} to {failed:g}/s {sure}"
    if answer.ended in _WHY_NO_MORE:
        words += f" ({_WHY_NO_MORE[answer.ended]})"
    if answer.undecided:
        rates = ", ".join(f"{rate:g}" for rate in answer.undecided)
        words += f"; {rates}/s could not be told from the target: more --requests would"
    return words


_WHY_NO_MORE = {
    "highest": "no higher rate was asked for",
    "generator": "above that the generator was the limit, not the server",
    "probes": f"stopped after {PROBES} probes",
}
_WHY_NONE = {
    "lowest": "the lowest rate asked for does not",
    "undecided": "the lowest could not be told from the target, more --requests would",
    "generator": "the generator was the limit, not the server",
    "probes": f"stopped after {PROBES} probes",
    "too long": "below that a probe would be longer than --longest-probe",
}


def limit(probes: Mapping[float, Probe], answer: Answer) -> str | None:
    """Say what keeps the lowest rate that failed from being borne; None where none did."""
    if answer.failed is None:
        return None
    probe = probes[answer.failed]
    counts: Counter[str] = Counter()
    for part in probe.valid_parts:
        counts.update(dict(part.troubles))
    offered = len(probe.useful)
    found = [f"{words} {100 * count / offered:.1f} %" for words, count in counts.most_common(_MOST_TROUBLES)]
    if probe.backlog_grows:
        found.append("a growing backlog")
    return f"at {answer.failed:g}/s: {', '.join(found)}"


def method(aim: Aim) -> str:
    """Say how probes are judged."""
    return (
        f"a probe passes when the lower bound of its good share is at least {100 * aim.good_share:g} %, which takes "
        f"{aim.needed} requests if all are good; it fails when the upper bound is below that, or the backlog grows. "
        f"With {100 * aim.confidence:g} % confidence no bound of the search is wrong: exact binomial, at most {LOOKS} "
        f"looks at each of at most {PROBES} probes, requests that wait together counted as fewer"
    )


def _probe(aim: Aim, probe: Probe) -> dict[str, Any]:
    useful = probe.useful
    low, high = probe.useful_bounds(aim)
    return {
        "rate": probe.rate,
        "judgement": "scouted" if probe.is_scouted and probe.judgement(aim) == "open" else probe.judgement(aim),
        "requests": len(useful),
        "good": useful.count(True),
        "good_pct": 100 * useful.count(True) / len(useful) if useful else None,
        "good_low_pct": 100 * low if useful else None,
        "good_high_pct": 100 * high if useful else None,
        "backlog_grows": probe.backlog_grows,
        "invalid": sorted({note for part in probe.parts for note in part.notes}),
        "runs": [part.run for part in probe.parts],
    }
