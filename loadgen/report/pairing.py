"""The client's numbers beside the server's: the same thing seen from both ends, and where the time went."""

from collections.abc import Iterator, Mapping
from typing import Any

# The client's name is the server's: METRICS section 2 names them, and what vLLM calls each.
_TIMES = ("ttft", "queue_time", "prefill_time", "decode_time", "e2e", "itl", "frame_gap")
_TOTALS = ("output_tokens", "input_tokens", "cached_tokens")


def pairs(client: Mapping[str, Any], server: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each thing that the server told, with what the client saw of it (None where it cannot see it)."""
    for name in _TIMES:
        if name in server:
            yield {"name": name, "unit": "ms", "client": _numbers(client.get(name)), "server": _numbers(server[name])}
    for name in _TOTALS:
        if name in server and name in client:
            totals = {"client": {"total": client[name]["total"]}, "server": {"total": server[name]["total"]}}
            yield {"name": name, "unit": "tokens", **totals}
    if "in_flight" in client and "running" in server:
        # Their means add up, their highest need not have come together.
        told = server["running"]["mean"] + server.get("waiting", {"mean": 0.0})["mean"]
        yield {"name": "in_flight", "unit": "requests", "client": client["in_flight"], "server": {"mean": told}}


def _numbers(of: Mapping[str, Any] | None) -> dict[str, Any] | None:
    kept = ("n", "mean", "p50", "p95", "p50_between", "p95_between")
    return None if of is None else {name: of[name] for name in kept if name in of}


def where_the_time_went(client: Mapping[str, Any], server: Mapping[str, Any]) -> str | None:
    """Say in one sentence what the time to the first token was spent on; None where the two cannot be set beside.

    Means add up, percentiles do not: the shares are of the mean, and the queue's p95 stands beside ttft's.
    """
    seen, told, queue = client.get("ttft"), server.get("ttft"), server.get("queue_time")
    if seen is None or "mean" not in seen:
        return None
    if told is None:
        if queue is None:
            return None
        rest = seen["mean"] - queue["mean"]
        words = [f"{_ms(queue['mean'])} is queue time on the server", f"{_ms(rest)} its prefill and the way here"]
    elif queue is None:
        words = [f"{_ms(told['mean'])} passed on the server", f"{_ms(seen['mean'] - told['mean'])} on the way"]
    else:
        words = [
            f"{_ms(queue['mean'])} is queue time on the server",
            f"{_ms(told['mean'] - queue['mean'])} prefill and its first token",
            f"{_ms(seen['mean'] - told['mean'])} delivery",
        ]
    said = f"of {_ms(seen['mean'])} of mean ttft " + ", ".join(words)
    if queue is not None and "p95" in queue:
        low, high = queue["p95_between"]
        between = f"above {_ms(low)}" if high is None else f"between {_ms(low)} and {_ms(high)}, by its buckets"
        said += f"; at p95 ttft is {_ms(seen['p95'])} and queue time {between}"
    return said


def _ms(value: float) -> str:
    return f"{value:.0f} ms" if abs(value) >= 10 else f"{value:.1f} ms"
