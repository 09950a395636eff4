"""VALID or INVALID: whether a run measured the server or the generator; METRICS section 5, reason by reason."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from loadgen.report.numbers import samples_needed

Level: TypeAlias = Literal["invalid", "warned"]

# The bounds of METRICS section 5.
_LATENESS_MS, _LATENESS_OF_TTFT = 2.0, 0.01
_LATE_PCT = 1.0
_UNCERTAINTY_MS, _UNCERTAINTY_OF_GAP = 1.0, 0.05
_STANDSTILL_MS = 100.0
_OFF_NOMINAL = 0.05
# Ours: how far mean answer lengths may be from the recording's, in either direction.
_OFF_LENGTH = 0.05
# From here on a share of the time is the likely cause of lateness.
_BUSY_PCT, _SHARED_PCT = 85.0, 5.0
_ALL_PCT = 95.0  # used and waited for: it had work to do all the time


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that spoils a run, or bends its numbers: its figure, and what to do about it."""

    name: str
    level: Level
    fact: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """All reasons, those for INVALID first."""

    reasons: list[Reason]

    @property
    def is_valid(self) -> bool:
        return all(reason.level != "invalid" for reason in self.reasons)

    def as_json(self) -> dict[str, Any]:
        """Return it as `summary.json` keeps it."""
        return {
            "valid": self.is_valid,
            "reasons": [
                {"name": reason.name, "level": reason.level, "fact": reason.fact, "remedy": reason.remedy}
                for reason in self.reasons
            ],
        }


def judge(summary: dict[str, Any], manifest: dict[str, Any]) -> Verdict:
    """Judge a run by its summary (all of it but the verdict and the notes) and its manifest."""
    reasons = [*_invalid(summary), *_load(summary, manifest), *_numbers(summary)]
    return Verdict(sorted(reasons, key=lambda reason: reason.level != "invalid"))


def _invalid(summary: dict[str, Any]) -> Iterator[Reason]:
    generator, process, metrics = summary["generator"], summary["process"], summary["metrics"]
    lateness, ttft = generator["lateness_p99_ms"], metrics.get("ttft", {}).get("p50", 0.0)
    most = max(_LATENESS_MS, _LATENESS_OF_TTFT * ttft)
    if lateness is not None and lateness > most:
        fact = f"generator lateness p99 is {_ms(lateness)}, above {_ms(most)} (2 ms, or 1 % of the median ttft)"
        yield Reason("generator_lateness", "invalid", fact, _remedy_of_lateness(process))
    if (late := generator["late_pct"]) is not None and late > _LATE_PCT:
        bound = f"{_ms(generator['late_ms'])} (1 % of the window, at least 2 ms)"
        fact = f"{late:.1f} % of the requests were sent more than {bound} late"
        yield Reason("sent_late", "invalid", fact, _remedy_of_lateness(process))
    for limit, count in generator["client_limits"].items():
        fact = f"{count} requests met a limit of this machine ({limit}), not of the server"
        yield Reason("client_limit", "invalid", fact, _REMEDIES_OF_LIMITS.get(limit, "give the generator more of it"))
    if (reason := _stamps(summary)) is not None:
        yield reason
    if summary["ended"]["status"] == "crashed":
        lost = summary["ended"]["lost_rows"]
        yield Reason(
            "crashed",
            "invalid",
            f"the load process died before the schedule was exhausted; {lost} requests in flight were lost with it",
            "run it again; dmesg tells if memory ran out",
        )


_REMEDIES_OF_LIMITS = {
    "descriptors": "raise `ulimit -n`",
    "ports": "widen net.ipv4.ip_local_port_range, or have the server keep connections alive",
    "memory": "give the machine more memory, or lower the rate",
}


def _remedy_of_lateness(process: dict[str, Any]) -> str:
    """Name the likely cause by what the process saw of itself."""
    lag = process["loop_lag"]
    waited, used = process.get("core_wait_pct", 0.0), process.get("cpu_pct", 0.0)
    if waited > _SHARED_PCT:
        lower = ", and lower the rate" if waited + used > _ALL_PCT else ""
        return (
            f"something else used its core, for which it waited {waited:.0f} % of the time: give it one of its own "
            f"(taskset -c){lower}"
        )
    if used > _BUSY_PCT:
        return f"it used {used:.0f} % of its core: lower the rate, or use a faster machine"
    if lag is not None and lag["n"] and lag["max"] > _STANDSTILL_MS:
        return f"it stood still for {lag['max']:.0f} ms: was the process, or its machine, paused?"
    return "keep the machine quiet while it measures, and give the generator a core of its own (taskset -c)"


def _stamps(summary: dict[str, Any]) -> Reason | None:
    generator, loop_lag = summary["generator"], summary["process"]["loop_lag"]
    bound = max(_UNCERTAINTY_MS, _UNCERTAINTY_OF_GAP * (generator["frame_gap_nonzero_p50_ms"] or 0.0))
    limit = f"above {_ms(bound)} (1 ms, or 5 % of the median frame gap)"
    uncertainty = generator["stamp_uncertainty_p99_ms"]
    if uncertainty is not None and uncertainty > bound:
        fact = f"the stamps of frames are uncertain by {_ms(uncertainty)} at p99, {limit}"
        return Reason("stamp_uncertainty", "invalid", fact, _remedy_of_lateness(summary["process"]))
    without = {source: n for source, n in generator["stamp_sources"].items() if source != "kernel"}
    if without and loop_lag is not None and loop_lag["n"] and loop_lag["p99"] > bound:
        fact = (
            f"frames have no kernel stamps ({', '.join(without)}) and loop lag p99 is {_ms(loop_lag['p99'])}, {limit}"
        )
        return Reason("stamp_uncertainty", "invalid", fact, _remedy_of_lateness(summary["process"]))
    return None


def _load(summary: dict[str, Any], manifest: dict[str, Any]) -> Iterator[Reason]:
    """What makes the load another one than was asked for."""
    schedule, generator, outcomes = summary["schedule"], summary["generator"], summary["outcomes"]
    lag = summary["process"]["loop_lag"]
    if lag is not None and lag["n"] and lag["max"] > _STANDSTILL_MS:
        yield Reason(
            "loop_lag",
            "warned",
            f"the load process stood still for {lag['max']:.0f} ms",
            "was the process, or its machine, paused?",
        )
    if generator["waited_for_a_slot"]:
        keeps = manifest["config"].get("keep_sessions")
        who = "the order of sessions" if keeps else "the cap"
        if keeps and manifest["config"].get("max_concurrency"):
            who = "the cap and the order of sessions"
        fact = (
            f"{who} delayed {generator['waited_for_a_slot']} requests, {_ms(generator['slot_wait_p50_ms'])} at the "
            "median: the load was not the offered one"
        )
        remedy = "read the *_from_due metrics" if keeps else "raise --max-concurrency, or read the *_from_due metrics"
        yield Reason("session_delay" if keeps else "cap_delay", "warned", fact, remedy)
    if summary["loop"] == "closed":
        fact = f"closed loop of {schedule['callers']} callers: the server set the pace"
        yield Reason("closed_loop", "warned", fact, "nothing here is about an arrival rate; --rate makes one")
    nominal, drawn = schedule["nominal_rate"], summary["offered_per_sec"]
    if nominal and drawn is not None and abs(drawn - nominal) > _OFF_NOMINAL * nominal:
        fact = f"the schedule drew {drawn:.2f} requests/s where {nominal:.2f} were asked for"
        yield Reason("nominal_rate", "warned", fact, "make the run longer, or take another --seed")
    if manifest["recording"].get("repeats", schedule["repeats"]) and not manifest["config"].get("cache"):
        fact = "prompts repeat, so a prefix cache may have answered, and no cache condition was stated"
        yield Reason("repeated_prompts", "warned", fact, "state it with --cache, or send more prompts")
    if outcomes.get("unsent"):
        fact = f"{outcomes['unsent']} scheduled requests were never sent"
        remedy = "raise --max-concurrency or --drain" if generator["waited_for_a_slot"] else "let the run end by itself"
        yield Reason("unsent", "warned", fact, remedy)
    if outcomes.get("unfinished"):
        fact = f"{outcomes['unfinished']} requests were still in flight at the end: survivors look fast"
        yield Reason("unfinished", "warned", fact, "give a longer --drain")
    flight = summary["in_flight"]
    if flight and flight["growing"]:
        fact = f"the backlog grew by {flight['slope_per_s']:.1f} requests a second"
        yield Reason("backlog", "warned", fact, "percentiles depend on how long the run was: lower the rate")


def _numbers(summary: dict[str, Any]) -> Iterator[Reason]:
    """What makes the numbers weaker than they look."""
    few = [
        f"{name} {numbers['n']}"
        for name in ("ttft", "e2e", "itl")
        if (numbers := summary["metrics"].get(name)) is not None and "p99" in numbers["too_few_for"]
    ]
    if few:
        fact = f"p99 needs {samples_needed(99)} samples; there are: {', '.join(few)}"
        yield Reason("too_few_samples", "warned", fact, "read the starred percentiles as anecdotes, or run longer")
    if approximate := summary.get("llm", {}).get("token_count_approx_pct"):
        fact = f"{approximate:.0f} % of the finished streams reported no usage: frames were counted as tokens"
        remedy = "servers bundle tokens, so true rates are higher; ask for usage (--usage)"
        yield Reason("approximate_tokens", "warned", fact, remedy)
    answers = summary["answers"]
    if answers["hidden_reasoning"]:
        fact = f"{answers['hidden_reasoning']} streams reasoned in tokens that no frame showed"
        yield Reason("hidden_reasoning", "warned", fact, "their itl spreads hidden work; compare e2e instead")
    was, is_now = answers["expected_output_tokens_mean"], answers["output_tokens_mean"]
    if was and is_now is not None and abs(is_now - was) > _OFF_LENGTH * was:
        fact = (
            f"answers have {is_now:.1f} tokens where the recording's had {was:.1f} ({100 * (is_now / was - 1):+.0f} %)"
        )
        yield Reason(
            "output_lengths", "warned", fact, "fix them with --max-tokens and ignore_eos, or compare per token"
        )


def _ms(value: float) -> str:
    return f"{value:.2f} ms" if value < 10 else f"{value:.0f} ms"
