"""A replay held against its recording: what the same requests got then, and what they get now; METRICS section 6."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import polars as pl

from loadgen.report.measured import Measured, Population
from loadgen.report.summary import part
from loadgen.report.transitions import transitions
from loadgen.results.finish import frame_gaps
from loadgen.results.slo import with_good

_STATISTICS = ("p50", "p95", "max")
# What is shown of either side, and which direction is the wrong one.
_METRICS: dict[str, Literal["up", "down"]] = {
    "ttft": "up",
    "first_text": "up",
    "e2e": "up",
    "itl": "up",
    "user_tokens_per_sec": "down",
    "frame_gap": "up",
}
_TOTALS: dict[str, tuple[str, Literal["up", "down"] | None]] = {
    "output_tokens_per_sec": ("tokens/s", "down"),
    "output_tokens": ("tokens", None),
    "input_tokens": ("tokens", None),
    "requests": ("streams", None),
    "incomplete": ("streams", "up"),
    "token_count_approx_pct": ("%", "up"),
}


@dataclass(frozen=True, slots=True)
class Side:
    """The rows of one side, and the numbers that they make."""

    measured: Measured
    numbers: dict[str, Any]

    @classmethod
    def of(cls, measured: Measured, *, has_rates: bool) -> "Side":
        parts = {"": measured.of_all()} | {name: measured.of_class(name) for name in _classes(measured)}
        numbers = {name: _numbers(measured, population, has_rates=has_rates) for name, population in parts.items()}
        return cls(measured, numbers.pop("") | {"classes": numbers})


@dataclass(frozen=True, slots=True)
class Replay:
    """The requests of a run whose recording has their answers, on both sides; `without` counts the others.

    `why_no_rates` says why the two have no rates to compare; empty where they have.
    """

    now: Side
    was: Side
    without: int
    why_no_rates: str


def replay_of(measured: Measured) -> Replay | None:
    """Return both sides of a replay; None where the recording has no answer to any request of the window."""
    recorded = measured.recorded
    if recorded is None:
        return None
    same = measured.offered.join(recorded.rows, on="place", how="semi")
    if not len(same):
        return None
    now = replace(
        measured, offered=same, attempts=same, gaps=measured.gaps.join(same, on=["seq", "attempt"], how="semi")
    )
    key = same.select("seq", "attempt", "place", "class", "phase", "due_ns")
    rows = key.join(recorded.rows.drop("class", "due_ns"), on="place", how="left")
    rows = with_good(rows, measured.slos)  # no recorded answer was checked
    frames = key.select("seq", "attempt", "place").join(recorded.frames, on="place").drop("place")
    was = replace(
        measured, everything=rows, attempts=rows, offered=rows, frames=frames, gaps=frame_gaps(rows, frames), lags={}
    )
    why = _why_no_rates(measured, rows)
    return Replay(Side.of(now, has_rates=True), Side.of(was, has_rates=not why), len(measured.offered) - len(same), why)


def against_recording(replay: Replay, *, flag_change: float) -> dict[str, Any]:
    """Return what `summary.json` says of it: every change, those of `flag_change` percent the wrong way flagged."""
    now, was = replay.now.numbers, replay.was.numbers
    rows = replay.was.measured.offered
    return {
        "requests": len(rows),
        "without": replay.without,
        "untimed": int((rows["last_output_ns"].is_null() & (rows["output_tokens"] > 0)).sum()),
        "flag_change_pct": flag_change,
        "why_no_rates": replay.why_no_rates,
        "changes": list(_changes(was, now, flag_change)),
        "classes": {
            name: list(_changes(was["classes"][name], now["classes"][name], flag_change)) for name in now["classes"]
        },
        "transitions": transitions(rows, replay.now.measured.offered),
    }


def change_pct(was: float, now: float) -> float | None:
    """Return (new - old) / old in percent; None from zero to something else.

    >>> change_pct(200.0, 250.0), change_pct(0.0, 0.0), change_pct(0.0, 3.0)
    (25.0, 0.0, None)
    """
    if was == now:
        return 0.0
    return 100 * (now - was) / was if was else None


def _changes(was: dict[str, Any], now: dict[str, Any], flag_change: float) -> Iterator[dict[str, Any]]:
    for name, wrong in _METRICS.items():
        before, after = was["metrics"].get(name), now["metrics"].get(name)
        if before is None or after is None:
            continue
        for statistic in _STATISTICS:
            change = _change(before[statistic], after[statistic], wrong, flag_change)
            of = {"name": name, "statistic": statistic, "unit": after["unit"]}
            yield of | change | {"was_n": before["n"], "now_n": after["n"]}
    before, after = was.get("llm", {}), now.get("llm", {})
    for name, (unit, direction) in _TOTALS.items():
        if before.get(name) is not None and after.get(name) is not None:
            change = _change(before[name], after[name], direction, flag_change)
            yield {"name": name, "statistic": None, "unit": unit} | change


def _change(was: float, now: float, wrong: Literal["up", "down"] | None, flag_change: float) -> dict[str, Any]:
    pct = change_pct(was, now)
    worse = (now - was) * (1 if wrong == "up" else -1) > 0
    is_large = pct is None or abs(pct) >= flag_change
    return {"was": was, "now": now, "change_pct": pct, "flagged": wrong is not None and worse and is_large}


def _classes(measured: Measured) -> list[str]:
    return measured.offered["class"].drop_nulls().unique().sort().to_list()


def _numbers(measured: Measured, population: Population, *, has_rates: bool) -> dict[str, Any]:
    numbers = part(measured, population)
    return numbers if has_rates else _without_rates(numbers)


def _without_rates(numbers: dict[str, Any]) -> dict[str, Any]:
    kept = {name: None if name.endswith("_per_sec") else value for name, value in numbers.items()}
    return kept | {"llm": _without_rates(numbers["llm"])} if "llm" in numbers else kept


def _why_no_rates(measured: Measured, rows: pl.DataFrame) -> str:
    """A rate is of a load: the recording's is comparable only where the run offered the same one."""
    config, schedule = measured.manifest["config"], measured.manifest["schedule"]
    if not config.get("recorded"):
        return "the run did not keep the recorded times (--recorded)"
    if config.get("speed", 1.0) != 1.0:
        return f"the run was {config['speed']:g} times as fast as the recording"
    if schedule["repeats"]:
        return "the recording was sent more than once"
    return "the recording does not say when each request was sent" if rows["fired_ns"].null_count() else ""
