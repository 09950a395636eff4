"""Gates: conditions on a run's numbers, `--fail-if 'NAME OP NUMBER'` and `[goals]`; the grammar of METRICS section 6.

    gate        = name op number
    name        = ("llm" | "run") "." quantity [ "-change-pct" ] [ "[" population "]" ]
    quantity    = metric "-" statistic | total
    statistic   = "p" percentile | "min" | "mean" | "max"
    population  = a class of the recording | "completed" | "offered"
    op          = ">" | ">=" | "<" | "<=" | "==" | "!="

`-` and `_` are alike. A gate fails when it is true, and when its quantity has no samples.
"""

import math
import operator
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from loadgen.errors import UsageError
from loadgen.report.measured import Measured
from loadgen.report.quantities import Quantity, Value, quantity

_GATE = re.compile(
    r"\s*(?P<name>[A-Za-z0-9_.-]+)\s*(?:\[(?P<population>[^\]]+)\])?\s*"
    r"(?P<op>>=|<=|==|!=|>|<)\s*(?P<number>-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*(?P<rest>.*)"
)
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
_HINT = "as in --fail-if 'llm.ttft-p95 > 800'"
# Names of goals that are not their gate's name in camel case.
_GOAL_NAMES = {
    "llmOutputTokenCount": "llm.output-tokens",
    "llmRequestCount": "llm.requests",
    "llmIncompleteCount": "llm.incomplete",
}
_BOUNDS = {"too_high": ">", "too_low": "<"}


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition that must not be true; `number` is in the quantity's own unit."""

    quantity: Quantity
    operator: str
    number: float

    def __str__(self) -> str:
        return f"{self.quantity} {self.operator} {self.number:g}"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a gate: what was measured, over what, and whether that passes."""

    gate: Gate
    value: Value

    @property
    def passed(self) -> bool:
        measured = self.value.number
        return measured is not None and not _OPERATORS[self.gate.operator](measured, self.gate.number)

    @property
    def words(self) -> str:
        """One sentence: what was measured, and how that compares."""
        if self.value.number is None:
            return f"no samples: {self.value.why}"
        unit = f" {self.gate.quantity.unit}" if self.gate.quantity.unit else ""
        is_so = "is not" if self.passed else "is"
        return f"{self.value.number:,.6g}{unit} {is_so} {self.gate.operator} {self.gate.number:g}"

    def as_json(self) -> dict[str, Any]:
        """Return it as `--json` prints it."""
        number = self.value.number
        return {
            "gate": str(self.gate),
            "measured": None if number is None or abs(number) == float("inf") else number,
            "unit": self.gate.quantity.unit,
            "n": self.value.samples,
            "population": self.gate.quantity.population_words,
            "passed": self.passed,
            "words": self.words,
        }


def parse_gate(text: str, *, classes: Collection[str] | None = None) -> Gate:
    """Read one gate; raises UsageError naming the near names, and the classes there are when `classes` is given.

    >>> str(parse_gate("llm.ttft_p95[long]>800"))
    'llm.ttft-p95[long] > 800'
    """
    found = _GATE.fullmatch(text)
    if found is None or math.isinf(float(found["number"])):
        raise UsageError(f"gate {text!r} is not NAME OP NUMBER", hint=_HINT)
    if found["rest"]:
        raise UsageError(f"gate {text!r}: {found['rest']!r} after the number", hint=f"no unit stands there; {_HINT}")
    what = quantity(found["name"], found["population"], shown=f"gate {text!r}", classes=classes)
    return Gate(what, found["op"], float(found["number"]))


def parse_goals(goals: Mapping[str, Any], *, classes: Collection[str] | None = None) -> list[Gate]:
    """Read a configuration's `[goals]`: `llmTtftP95 = {too_high = 800}`, or a gate's name in quotes; raises UsageError.

    >>> [str(gate) for gate in parse_goals({"llmTtftP95": {"too_high": 800}, "run.useful-pct": {"too_low": 99}})]
    ['llm.ttft-p95 > 800', 'run.useful-pct < 99']
    """
    gates = []
    for name, bounds in goals.items():
        is_table = isinstance(bounds, Mapping) and bounds and bounds.keys() <= _BOUNDS.keys()
        if not is_table or not all(_is_number(bound) for bound in bounds.values()):
            raise UsageError(
                f"goal {name}: {bounds!r} is no bound",
                hint="as in llmTtftP95 = {too_high = 800}, or too_low; a name with a dot stands in quotes",
            )
        plain, _, population = name.rstrip("]").partition("[")
        what = quantity(_gate_name(plain), population or None, shown=f"goal {name}", classes=classes)
        gates += [Gate(what, _BOUNDS[bound], float(number)) for bound, number in bounds.items()]
    return gates


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")


def _gate_name(goal: str) -> str:
    """Turn `llmTtftP95` into `llm.ttft-p95`; what is a gate's name already stays."""
    if goal in _GOAL_NAMES:
        return _GOAL_NAMES[goal]
    if "." in goal:
        return goal
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", goal).lower()
    return words.replace("-", ".", 1)


def evaluate(
    gates: list[Gate],
    measured: Measured,
    summary: dict[str, Any],
    *,
    before: tuple[Measured, dict[str, Any]] | None,
    now: tuple[Measured, dict[str, Any]] | None = None,
) -> list[Result]:
    """Hold a run against its gates; `before` is what changes are counted from.

    They are counted to `now`: the run itself, or those of its requests that `before` is about.
    """
    changed = now or (measured, summary)
    return [
        Result(gate, gate.quantity.value(*changed, before=before))
        if gate.quantity.is_change
        else Result(gate, gate.quantity.value(measured, summary))
        for gate in gates
    ]
