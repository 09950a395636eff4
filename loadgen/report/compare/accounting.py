"""What became of everything that was offered, on one side; and whether the useful became fewer."""

import math
from statistics import fmean
from typing import Any

import polars as pl

from loadgen.report.compare.sides import Run, Side
from loadgen.results.metrics import COMPLETED

# A fall of so large a share of what was offered is one, however few requests there were.
_FALL = 0.005
_SURE = 0.05


def accounting(side: Side) -> dict[str, Any]:
    """Return the counts of a side's runs together, and its survivors' medians: who got nothing is not in them."""
    return of_rows(side.offered) | {"runs": len(side.runs)}


def of_rows(rows: pl.DataFrame) -> dict[str, Any]:
    """Return the counts and survivors' medians of some offered requests."""
    offered = len(rows)
    outcomes = dict(rows.group_by("outcome").len().sort("len", "outcome", descending=[True, False]).iter_rows())
    useful = int(rows["useful"].sum())
    accepted = offered - outcomes.get("rejected", 0)
    survivors = rows.filter(COMPLETED)
    return {
        "offered": offered,
        "outcomes": outcomes,
        "good": int(rows["good"].sum()),
        "useful": useful,
        "useful_pct": 100 * useful / offered if offered else None,
        # Of those that were not turned away: a policy that protects them raises this, and not what was offered.
        "accepted": accepted,
        "useful_of_accepted_pct": 100 * useful / accepted if accepted else None,
        "survivors_ttft_p50_ms": survivors["ttft_ms"].median(),
        "survivors_e2e_p50_ms": survivors["e2e_ms"].median(),
        "input_tokens_mean": rows["input_tokens"].mean(),
        "output_tokens_mean": survivors["output_tokens"].mean(),
    }


def usefulness(a: Side, b: Side, *, are_paired: bool) -> dict[str, Any]:
    """Return how many useful requests B lost and won against A, over all and per class, and whether they fell.

    Of one run a side the same requests are compared (McNemar's exact test), of more the runs' shares.
    """
    classes = a.first.measured.offered["class"].drop_nulls().unique().sort().to_list()
    return {
        klass or "": _single(a.first, b.first, klass)
        if are_paired and len(a.runs) == len(b.runs) == 1
        else _grouped(a, b, klass)
        for klass in (None, *classes)
    }


def _single(a: Run, b: Run, klass: str | None) -> dict[str, Any]:
    left = a.measured.offered.select("seq", "class", "useful")
    rows = left.join(b.measured.offered.select("seq", useful_b="useful"), on="seq")
    rows = rows if klass is None else rows.filter(pl.col("class") == klass)
    lost = int((rows["useful"] & ~rows["useful_b"]).sum())
    won = int((~rows["useful"] & rows["useful_b"]).sum())
    p = mcnemar(lost, won)
    fell = lost > won and (p < _SURE or (lost - won) >= _FALL * len(rows))
    return {"lost": lost, "won": won, "p": p, "fell": fell}


def _grouped(a: Side, b: Side, klass: str | None) -> dict[str, Any]:
    shares = []
    for side in (a, b):
        parts = [
            run.measured.offered if klass is None else run.measured.offered.filter(pl.col("class") == klass)
            for run in side.runs
        ]
        shares.append(fmean(float(part["useful"].sum()) / len(part) for part in parts if len(part)))
    change = shares[1] - shares[0]
    return {"share_a": shares[0], "share_b": shares[1], "fell": change <= -_FALL}


def mcnemar(lost: int, won: int) -> float:
    """Return McNemar's two-sided p: of so many that changed sides, that they split so unevenly by chance.

    >>> mcnemar(0, 5)
    0.0625
    """
    changed = lost + won
    if changed > 1000:  # the normal's tail, to which the binomial's has come by then
        return math.erfc((abs(lost - won) - 1) / math.sqrt(2 * changed))
    tail = sum(math.comb(changed, k) for k in range(min(lost, won) + 1))
    return float(min(1.0, 2 * tail / 2**changed))
