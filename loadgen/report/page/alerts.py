"""What a reader must know before the numbers, beside the verdict's own reasons."""

from collections.abc import Iterator
from typing import Any


def alerts(summary: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Yield each alert: its name, its words, and how bad it is."""
    llm = summary.get("llm", {})
    if llm.get("incomplete"):
        words = f"{llm['incomplete']} of {llm['requests']} streams ended before their end marker"
        yield {"level": "warned", "name": "cut streams", "words": words}
    recorded = summary.get("recorded")
    if recorded:
        flagged = [change for change in recorded["changes"] if change["flagged"]]
        bound = f"{recorded['flag_change_pct']:g} % or more for the worse"
        if flagged:
            names = dict.fromkeys(
                f"{change['name']} {change['statistic'] or ''}".strip() for change in flagged
            )  # fmt: skip
            yield {
                "level": "invalid",
                "name": "changed",
                "words": f"by {bound} against the recording: {', '.join(names)}",
            }
        else:
            yield {"level": "fine", "name": "recorded", "words": f"no change of {bound} against the recording"}
    for alert in summary.get("server", {}).get("alerts", []):
        yield {"level": "warned", "name": "server", "words": alert}
    ended = summary["ended"]
    if ended.get("stopped_by"):
        yield {"level": "warned", "name": "stopped", "words": f"by {ended['stopped_by']}: what was not sent is unsent"}
