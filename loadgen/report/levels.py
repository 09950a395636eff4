"""Runs side by side, one a level; and the knee: the highest level that still meets the objectives."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from loadgen.report.dialects import SERVER_METRICS

Kind: TypeAlias = Literal["rate", "callers", "cap", "run"]


@dataclass(frozen=True, slots=True)
class Level:
    """One run as a row: what was asked of it, and its summary."""

    kind: Kind
    value: float | None
    summary: dict[str, Any]
    meets: bool | None  # None without objectives

    @property
    def words(self) -> str:
        """The level as a person says it; a closed loop's is its callers, never a rate."""
        match self.kind:
            case "callers":
                return f"{self.value:g} callers"
            case "cap":
                return f"cap {self.value:g}"
            case "rate":
                return f"{self.value:g}/s"
        return str(self.summary["label"] or self.summary["run"])

    def as_row(self) -> dict[str, Any]:
        """Return its numbers under METRICS' names, flat; None where there are none."""
        summary = self.summary
        llm = summary.get("llm", {})
        closed = summary["loop"] == "closed"
        row: dict[str, Any] = {
            "level": self.words,
            "loop": summary["loop"],
            self.kind: self.value,
            "run": summary["run"],
            "valid": summary["verdict"]["valid"],
            "warnings": [reason["name"] for reason in summary["verdict"]["reasons"] if reason["level"] == "warned"],
            "offered": summary["offered"],
            **({} if closed else {"offered_per_sec": summary["offered_per_sec"]}),
            "submitted_per_sec": summary["submitted_per_sec"],
            "completed_per_sec": summary["completed_per_sec"],
            "completed_pct": _percent(summary["outcomes"].get("completed", 0), summary["offered"]),
            "goodput_per_sec": summary["goodput_per_sec"],
            "useful_pct": summary["useful_pct"],
        }
        for metric in ("ttft", "itl", "e2e"):
            numbers = summary["metrics"].get(metric, {})
            row |= {f"{metric}_{name}_ms": numbers.get(name) for name in ("p50", "p95", "p99", "max")}
        row["ttft_from_due_p95_ms"] = summary["metrics"].get("ttft_from_due", {}).get("p95")
        row["output_tokens_per_sec"] = llm.get("output_tokens_per_sec")
        row["steady_output_tokens_per_sec"] = summary["steady_output_tokens_per_sec"]
        row["generator_lateness_p99_ms"] = summary["generator"]["lateness_p99_ms"]
        return row | _of_servers(summary.get("server"))


def _of_servers(server: dict[str, Any] | None) -> dict[str, Any]:
    """What the servers told, under `server_` and our names; every metric of the table has its columns."""
    row: dict[str, Any] = {}
    for metric in SERVER_METRICS.values() if server else ():
        found = server["metrics"].get(metric.name, {}) if server else {}
        for statistic in {"histogram": ("mean", "p95"), "counter": ("total",), "gauge": ("mean", "max")}[metric.kind]:
            unit = "_ms" if metric.unit == "ms" else ""
            row[f"server_{metric.name}_{statistic}{unit}"] = found.get(statistic)
    return row


def levels_of(runs: list[tuple[dict[str, Any], dict[str, Any]]], *, target_good_percent: float) -> list[Level]:
    """Return runs (manifest and summary of each) as levels, ascending; by what tells them apart.

    A level meets its objectives when the run is VALID and at least `target_good_percent` of what was offered is useful.
    """
    kind = _kind([manifest for manifest, _ in runs])
    levels = [
        Level(kind, _value(kind, manifest), summary, _meets(summary, target_good_percent)) for manifest, summary in runs
    ]
    return sorted(levels, key=lambda level: (level.value is None, level.value or 0.0))


def knee(levels: list[Level]) -> Level | None:
    """Return the highest level that meets its objectives, None when none does."""
    return next((level for level in reversed(levels) if level.meets), None)


def _kind(manifests: list[dict[str, Any]]) -> Kind:
    def values(kind: Kind) -> list[float | None]:
        return [_value(kind, manifest) for manifest in manifests]

    kinds: tuple[Kind, ...] = ("callers", "rate", "cap")
    known = [kind for kind in kinds if None not in values(kind)]
    telling = [kind for kind in known if len(set(values(kind))) > 1]
    return (telling or known or ["run"])[0]


def _value(kind: Kind, manifest: dict[str, Any]) -> float | None:
    values: dict[Kind, float | None] = {
        "callers": manifest["schedule"]["callers"],
        "rate": manifest["schedule"]["nominal_rate"],
        "cap": manifest["config"].get("max_concurrency"),
    }
    return values.get(kind)


def _meets(summary: dict[str, Any], target_good_percent: float) -> bool | None:
    if not summary["slo"]:
        return None
    useful = summary["useful_pct"]
    return summary["verdict"]["valid"] and useful is not None and useful >= target_good_percent


def _percent(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None
