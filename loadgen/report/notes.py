"""What a reader must know before believing a run's numbers, in words."""

from typing import Any


def notes(summary: dict[str, Any], manifest: dict[str, Any], *, hidden_reasoning: int) -> list[str]:
    """Return one sentence for each thing about the run that bends its numbers."""
    said = [*_all_alike(summary), *_load(summary, manifest), *_answers(summary, hidden_reasoning)]
    flight = summary["in_flight"]
    if flight and flight["growing"]:
        said.append(
            f"the backlog grew by {flight['slope_per_s']:.1f} requests a second: these percentiles depend on how long "
            "the run was"
        )
    return said


def _load(summary: dict[str, Any], manifest: dict[str, Any]) -> list[str]:
    schedule, generator, outcomes = summary["schedule"], summary["generator"], summary["outcomes"]
    said = []
    if summary["loop"] == "closed":
        said.append(
            f"closed loop of {schedule['callers']} callers: the server set the pace, so nothing here is about an "
            "arrival rate"
        )
    if schedule["repeats"]:
        words = "the recording is shorter than the run and was sent again from its start"
        if not manifest["config"].get("cache"):
            words += "; no cache condition was stated (--cache), so a prefix cache may have answered"
        said.append(words)
    nominal, drawn = schedule["nominal_rate"], summary["offered_per_sec"]
    if nominal and drawn is not None and abs(drawn / nominal - 1) > 0.05:
        said.append(f"the schedule drew {drawn:.2f} requests/s where {nominal:.2f} were asked for")
    if generator["waited_for_a_slot"]:
        said.append(
            f"the cap delayed {generator['waited_for_a_slot']} requests, {generator['slot_wait_p50_ms']:.0f} ms at the "
            "median: the load was not the offered one"
        )
    if outcomes.get("client_limit"):
        said.append(f"{outcomes['client_limit']} requests met a limit of this machine: not the server's doing")
    if outcomes.get("unsent"):
        said.append(f"{outcomes['unsent']} scheduled requests were never sent")
    if outcomes.get("unfinished"):
        said.append(f"{outcomes['unfinished']} requests were still in flight at the end: survivors look fast")
    return said


# What a status that every request gets usually means.
_REMEDIES = {
    401: "the key is read from the environment variable of --api-key-env",
    403: "the key is read from the environment variable of --api-key-env",
    404: "check the path of the target and of the recording, and the model's name",
    405: "check the path of the target and of the recording",
}


def _all_alike(summary: dict[str, Any]) -> list[str]:
    """When not one request got an answer, the reason is one mistake rather than a thousand faults."""
    said = []
    for entry in summary["details"]:
        status, detail = entry["status"], entry["detail"] or ""
        if entry["requests"] < summary["offered"]:
            continue
        if status in _REMEDIES:
            said.append(f"every request was answered {status}: {_REMEDIES[status]}")
        elif detail.startswith("not_a_stream"):
            kind = detail.partition(":")[2]
            said.append(f"every answer was {kind} where a stream was asked for: is this the streaming endpoint?")
        elif entry["outcome"] == "interrupted" and detail == "no_end_marker":
            said.append("no stream had an end marker: --accept-missing-end-marker is for servers that never send one")
    return said


def _answers(summary: dict[str, Any], hidden_reasoning: int) -> list[str]:
    said = []
    config = summary["rules"]
    if config["accept_missing_end_marker"]:
        said.append("a clean end after a finish reason was taken for the end marker (--accept-missing-end-marker)")
    encoded = sum(entry["requests"] for entry in summary["details"] if entry["detail"] == "encoded")
    if encoded:
        said.append(f"{encoded} answers were compressed and not measured as streams; send Accept-Encoding: identity")
    if (approximate := summary.get("llm", {}).get("token_count_approx_pct")) is not None and approximate > 0:
        said.append(
            f"{approximate:.0f} % of the finished streams reported no usage: their frames were counted as tokens, and "
            "servers bundle tokens"
        )
    if hidden_reasoning:
        said.append(
            f"{hidden_reasoning} streams reasoned in tokens that no frame showed: their itl spreads hidden work"
        )
    return said
