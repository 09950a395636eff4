"""Service level objectives of one request: `ttft<500ms`, any metric of METRICS."""

import re
from dataclasses import dataclass
from difflib import get_close_matches

import polars as pl

from loadgen.errors import UsageError
from loadgen.results.metrics import METRICS, Metric

_FORM = re.compile(r"\s*([a-z0-9_.-]+)\s*(<=|>=|<|>)\s*([0-9]+(?:\.[0-9]+)?)\s*(us|ms|s|m)?\s*", re.IGNORECASE)
_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4}


@dataclass(frozen=True, slots=True)
class Slo:
    """One bound on one metric, in the metric's own unit (ms, or tokens/s)."""

    metric: Metric
    operator: str
    bound: float

    def holds(self) -> pl.Expr:
        """Return whether a row meets it; null where the metric does not exist."""
        value = pl.col(self.metric.column)
        match self.operator:
            case "<":
                return value < self.bound
            case "<=":
                return value <= self.bound
            case ">":
                return value > self.bound
        return value >= self.bound

    def __str__(self) -> str:
        unit = "ms" if self.metric.unit == "ms" else ""
        return f"{self.metric.name}{self.operator}{self.bound:g}{unit}"


def parse_slo(text: str) -> Slo:
    """Read one objective; raises UsageError naming the near metrics.

    >>> str(parse_slo("ttft<0.5s"))
    'ttft<500ms'
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise UsageError(f"objective {text!r} is not METRIC<BOUND", hint="as in --slo 'ttft<500ms'")
    name = found[1].lower().replace("-", "_").removeprefix("llm.").removeprefix("run.")
    metric = METRICS.get(name)
    if metric is None:
        near = get_close_matches(name, METRICS, cutoff=0.4) or METRICS
        raise UsageError(f"objective {text!r}: no metric {found[1]!r}", hint=f"there are {', '.join(near)}")
    if (metric.unit == "ms") != (found[4] is not None):
        wants = "a unit, as in 500ms" if metric.unit == "ms" else "no unit"
        raise UsageError(f"objective {text!r}: {name} takes {wants}", hint="as in --slo 'ttft<500ms'")
    return Slo(metric, found[2], float(found[3]) * (_MS[found[4].lower()] if found[4] else 1.0))


def with_good(requests: pl.DataFrame, slos: list[Slo]) -> pl.DataFrame:
    """Add `good` and `useful`: completed, every objective holds; and every check passes.

    An objective whose metric does not exist does not hold, a check that did not run does not pass.
    """
    good = pl.col("outcome") == "completed"
    for slo in slos:
        good = good & slo.holds().fill_null(value=False)
    useful = good
    if "checks" in requests.columns:
        flags = requests["checks"].struct.fields
        useful = good & pl.all_horizontal(pl.col("checks").struct.field(*flags)).fill_null(value=False)
    return requests.with_columns(good.alias("good"), useful.alias("useful"))
