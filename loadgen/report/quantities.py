"""What a gate can be about: statistics of metrics and totals of a run, by name and population."""

import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, get_args

import polars as pl

from loadgen.errors import UsageError
from loadgen.report.measured import Measured, Population
from loadgen.report.numbers import pooled
from loadgen.results.histogram import Histogram
from loadgen.results.metrics import METRICS
from loadgen.results.outcome import Outcome

_CHANGE = "-change-pct"
_STATISTIC = re.compile(r"(.+)-(p(?:100|[0-9]{1,2}(?:\.[0-9]+)?)|min|mean|max)")
_LAGS = ("read_lag", "loop_lag")
COMPLETED, OFFERED = "completed", "offered"


@dataclass(frozen=True, slots=True)
class Value:
    """What a quantity came to: None without samples, and then why; infinite where `[offered]` found none."""

    number: float | None
    samples: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Total:
    """A count, a rate or a share of a run or of one class: a key of the summary's part, or a formula over it."""

    unit: str
    of: str | Callable[[dict[str, Any]], float | None]
    has_classes: bool = True


def _share_of(outcome: str) -> Callable[[dict[str, Any]], float | None]:
    return lambda part: 100 * part["outcomes"].get(outcome, 0) / part["offered"] if part["offered"] else None


_OUTCOMES: tuple[str, ...] = get_args(Outcome)
TOTALS: dict[str, Total] = {
    "llm.requests": Total("streams", "requests"),
    "llm.incomplete": Total("streams", "incomplete"),
    "llm.output-tokens": Total("tokens", "output_tokens"),
    "llm.input-tokens": Total("tokens", "input_tokens"),
    "llm.token-count-approx-pct": Total("%", "token_count_approx_pct"),
    "llm.output-tokens-per-sec": Total("tokens/s", "output_tokens_per_sec"),
    "llm.input-tokens-per-sec": Total("tokens/s", "input_tokens_per_sec"),
    "llm.total-tokens-per-sec": Total("tokens/s", "total_tokens_per_sec"),
    "llm.goodput-tokens-per-sec": Total("tokens/s", "goodput_tokens_per_sec"),
    "llm.steady-output-tokens-per-sec": Total("tokens/s", "steady_output_tokens_per_sec", has_classes=False),
    "run.offered": Total("requests", "offered"),
    "run.offered-work": Total("requests", "offered_work", has_classes=False),
    "run.retries": Total("requests", "retries", has_classes=False),
    "run.submitted": Total("requests", "submitted"),
    "run.good": Total("requests", "good"),
    "run.offered-per-sec": Total("/s", "offered_per_sec"),
    "run.submitted-per-sec": Total("/s", "submitted_per_sec"),
    "run.completed-per-sec": Total("/s", "completed_per_sec"),
    "run.goodput-per-sec": Total("/s", "goodput_per_sec"),
    "run.useful-per-sec": Total("/s", "useful_per_sec"),
    "run.useful-pct": Total("%", "useful_pct"),
    **{f"run.{outcome.replace('_', '-')}-pct": Total("%", _share_of(outcome)) for outcome in _OUTCOMES},
}
# What has statistics, and the unit of each.
_MEASURES: dict[str, str] = {
    **{f"{'llm' if m.llm else 'run'}.{m.name.replace('_', '-')}": m.unit for m in METRICS.values()},
    "llm.frame-gap": "ms",
    **{f"run.{lag.replace('_', '-')}": "ms" for lag in _LAGS},
}


@dataclass(frozen=True, slots=True)
class Quantity:
    """One quantity: `name` is a measure (with a statistic) or a total (without one)."""

    name: str
    statistic: str | None = None
    population: str | None = None  # a class, completed, offered; None is the quantity's own
    is_change: bool = False

    def __str__(self) -> str:
        statistic = f"-{self.statistic}" if self.statistic else ""
        change = _CHANGE if self.is_change else ""
        population = f"[{self.population}]" if self.population else ""
        return f"{self.name}{statistic}{change}{population}"

    @property
    def unit(self) -> str:
        if self.is_change:
            return "%"
        return _MEASURES[self.name] if self.statistic else TOTALS[self.name].unit

    @property
    def population_words(self) -> str:
        """Whom it is about."""
        match self.population:
            case "offered":
                return "every offered request, without the metric as infinitely slow"
            case "completed":
                return "completed requests"
            case str(name):
                return f"class {name}"
        key = self._key
        if key in METRICS:
            return METRICS[key].population
        return {"frame_gap": "finished streams, pooled", "read_lag": "reads", "loop_lag": "ticks"}.get(key, "the run")

    @property
    def _key(self) -> str:
        return self.name.partition(".")[2].replace("-", "_")

    def value(
        self, measured: Measured, summary: dict[str, Any], *, before: tuple[Measured, dict[str, Any]] | None = None
    ) -> Value:
        """Return it of a run; a change is counted from the run `before`, in percent: (new - old) / old."""
        new = self._plain(measured, summary)
        if not self.is_change or new.number is None:
            return new
        if before is None:
            return Value(None, why="there is nothing to count a change from (--baseline RUN)")
        old = self._plain(*before)
        if old.number is None:
            return Value(None, why=f"{old.why}, before the change")
        if old.number == new.number and math.isfinite(old.number):
            return Value(0.0, new.samples)  # also from zero to zero
        if not old.number or math.isinf(old.number) or math.isinf(new.number):
            return Value(None, why=f"no change can be counted from {old.number:g} to {new.number:g}")
        return Value(100 * (new.number - old.number) / old.number, new.samples)

    def _plain(self, measured: Measured, summary: dict[str, Any]) -> Value:
        if self.statistic is None:
            return self._total(summary)
        if self._key in _LAGS:
            return _of_histogram(measured.lags.get(self._key), self.statistic)
        population = self._members(measured)
        count = len(population.offered)
        if self._key == "frame_gap" and self.population != OFFERED:
            return _of_gaps(population, self.statistic) or self._nobody(count)
        if self._key == "frame_gap":
            values = population.gaps["gap_ns"] / 1e6
            missing = count - population.gaps.select("seq", "attempt").n_unique()
        else:
            column = population.offered[METRICS[self._key].column]
            values, missing = column.drop_nulls(), column.null_count()
        if self.population == OFFERED:
            slowest = 0.0 if self._is_rate else math.inf
            values = pl.concat([values, pl.Series([slowest] * missing, dtype=pl.Float64)])
        if not len(values):
            return self._nobody(count)
        return Value(_statistic_of(values.sort(), self.statistic), len(values))

    @property
    def _is_rate(self) -> bool:
        return self._key in METRICS and METRICS[self._key].high_is_good

    def _members(self, measured: Measured) -> Population:
        match self.population:
            case None | "offered":
                return measured.of_all()
            case "completed":
                return measured.of_completed()
            case str(name):
                return measured.of_class(name)

    def _nobody(self, count: int) -> Value:
        who = {None: "requests", COMPLETED: "completed requests", OFFERED: "requests"}
        whose = who.get(self.population, f"requests of class {self.population}")
        return Value(None, 0, f"none of {count} {whose} has {self.name}")

    def _total(self, summary: dict[str, Any]) -> Value:
        total = TOTALS[self.name]
        part = summary if self.population in (None, OFFERED) else summary["classes"].get(self.population)
        if part is None:
            return Value(None, 0, f"no request of class {self.population} was sent")
        if self.name.startswith("llm."):
            if "llm" not in part:
                return Value(None, 0, "no stream of a language model was seen")
            part = part | part["llm"]
        number = part.get(total.of) if isinstance(total.of, str) else total.of(part)
        if number is None:
            return Value(None, 0, f"this run has no {self.name}")
        return Value(float(number), int(part["offered"]))


def quantity(name: str, population: str | None, *, shown: str, classes: Collection[str] | None) -> Quantity:
    """Return the quantity of a name and population as a person writes them; raises UsageError about `shown`."""
    plain = name.lower().replace("_", "-")
    base = plain.removesuffix(_CHANGE)
    is_change = base != plain
    found = _STATISTIC.fullmatch(base)
    if base in TOTALS:
        total = TOTALS[base]
        if population == COMPLETED or (population not in (None, OFFERED) and not total.has_classes):
            raise UsageError(f"{shown}: {base} has no population [{population}]", hint=f"write {base} alone")
        made = Quantity(base, None, population, is_change)
    elif found and found[1] in _MEASURES:
        if population is not None and found[1].partition(".")[2].replace("-", "_") in _LAGS:
            raise UsageError(f"{shown}: {found[1]} is the generator's own", hint="write it without a population")
        made = Quantity(found[1], found[2], population, is_change)
    else:
        near = get_close_matches(base, known_names(), n=4, cutoff=0.3)
        hint = (
            f"near ones: {', '.join(near)}" if near else "METRICS: llm.<metric>-p95, run.<metric>-max, run.useful-pct …"
        )
        raise UsageError(f"{shown}: there is no {name!r}", hint=hint)
    if classes is not None and population not in (None, COMPLETED, OFFERED, *classes):
        there = ", ".join(sorted(classes)) or "no classes"
        raise UsageError(
            f"{shown}: no class {population!r} in what is sent", hint=f"there are {there}; and completed, offered"
        )
    return made


def known_names() -> list[str]:
    """Return every total, and every measure with the usual statistics."""
    return [*TOTALS, *(f"{name}-{statistic}" for name in _MEASURES for statistic in _USUAL)]


_USUAL = ("p50", "p90", "p95", "p99", "mean", "min", "max")


def _of_gaps(population: Population, statistic: str) -> Value | None:
    """Frame gaps by their pooled histogram, as they are printed."""
    return _of_histogram(pooled(population.gaps["gap_ns"]), statistic) if len(population.gaps) else None


def _of_histogram(histogram: Histogram | None, statistic: str) -> Value:
    if histogram is None or not histogram.count:
        return Value(None, 0, "it was not measured")
    match statistic:
        case "min":
            ns: float = histogram.min_ns
        case "mean":
            ns = histogram.mean_ns
        case "max":
            ns = histogram.max_ns
        case _:
            percentile = float(statistic[1:])
            ns = histogram.percentiles_ns([percentile])[percentile]
    return Value(ns / 1e6, histogram.count)


def _statistic_of(ascending: pl.Series, statistic: str) -> float:
    """Return a statistic of sorted values, infinite ones among them: linear interpolation, as numpy."""
    match statistic:
        case "min":
            return float(ascending[0])
        case "max":
            return float(ascending[-1])
        case "mean":
            return float(ascending.sum()) / len(ascending)
    # Exact: a hair above a whole place would reach for the next sample, which may be infinite.
    place = (len(ascending) - 1) * Fraction(statistic[1:]) / 100
    low = float(ascending[math.floor(place)])
    high = float(ascending[math.ceil(place)])
    return high if math.isinf(high) else low + (high - low) * float(place % 1)
