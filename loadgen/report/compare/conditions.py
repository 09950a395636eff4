"""What two runs differ in besides what is compared: conditions that forbid a comparison, and all the rest."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not the same on both sides."""

    name: str
    a: Any
    b: Any

    def __str__(self) -> str:
        return f"{self.name}: {_said(self.a)} / {_said(self.b)}"


# Of a run's options: where these differ, other work was asked for or other rules decided what became of it.
CONDITIONS = {
    "cache": "cache condition",
    "deadline": "deadline",
    "deadline_from": "where the deadline counts from",
    "drain": "drain",
    "retries": "retries",
    "retry_cap": "retry cap",
    "model": "model",
    "api": "API",
    "set": "body fields (sampling)",
    "max_tokens": "output cap",
    "fix_lengths": "fixed output lengths",
    "usage": "usage asked for",
    "unique_prefix": "unique prefixes",
    "max_concurrency": "cap on requests in flight",
    "keep_sessions": "order of sessions",
    "concurrency": "callers",
    "slo": "objectives",
    "check": "checks",
    "finish": "natural finish reasons",
    "reject_status": "statuses of rejection",
    "accept_missing_end_marker": "end-marker rule",
}
_NOTHING: tuple[Any, ...] = (None, False, [], {}, "")
# What says where and how a run was done, and nothing of what it measured.
_NEVER = frozenset(
    (
        *("label", "out", "target", "fail_if", "goals", "require_valid", "flag_change", "baseline", "junit", "config"),
        *("metrics_url", "metrics_every", "keep_bodies", "server", "api_key_env"),
    )
)


def conditions(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Difference]:
    """Return in which conditions two manifests differ: a comparison of such runs has to be asked for."""
    return [
        Difference(words, a["config"].get(name), b["config"].get(name))
        for name, words in CONDITIONS.items()
        if _differ(a["config"].get(name), b["config"].get(name))
    ]


def serving(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Difference]:
    """Return which serving variables (`--server KEY=VALUE`) differ; more than one is no clean comparison."""
    left, right = a["config"].get("server") or {}, b["config"].get("server") or {}
    return list(_of_each(left, right, sorted({*left, *right})))


def others(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Difference]:
    """Return the options that differ and are neither conditions nor serving variables."""
    left, right = a["config"], b["config"]
    return list(_of_each(left, right, sorted({*left, *right} - {*CONDITIONS} - _NEVER)))


def _of_each(a: Mapping[str, Any], b: Mapping[str, Any], names: list[str]) -> Iterator[Difference]:
    for name in names:
        if _differ(a.get(name), b.get(name)):
            yield Difference(name, a.get(name), b.get(name))


def _differ(a: Any, b: Any) -> bool:
    """Whether two options differ; one that an older version did not have was not given."""
    return a != b and (a not in _NOTHING or b not in _NOTHING)


def _said(value: Any) -> str:
    return "not stated" if value in _NOTHING else str(value)
