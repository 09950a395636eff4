"""What a reader should know of a run besides its verdict, in words."""

from collections.abc import Iterator
from typing import Any


def notes(summary: dict[str, Any]) -> list[str]:
    """Return one sentence for each such thing; `summary` is all of it but these and the verdict."""
    return [*_all_alike(summary), *_sending(summary), *_prompts(summary), *_answers(summary)]


# What a status that every request gets usually means.
_REMEDIES = {
    401: "the key is read from the environment variable of --api-key-env",
    403: "the key is read from the environment variable of --api-key-env",
    404: "check the path of the target and of the recording, and the model's name",
    405: "check the path of the target and of the recording",
}


def _all_alike(summary: dict[str, Any]) -> Iterator[str]:
    """When not one request got an answer, the reason is one mistake rather than a thousand faults."""
    for entry in summary["details"]:
        status, detail = entry["status"], entry["detail"] or ""
        if entry["requests"] < summary["offered"]:
            continue
        if status in _REMEDIES:
            yield f"every request was answered {status}: {_REMEDIES[status]}"
        elif detail.startswith("not_a_stream"):
            kind = detail.partition(":")[2]
            yield f"every answer was {kind} where a stream was asked for: is this the streaming endpoint?"
        elif entry["outcome"] == "interrupted" and detail == "no_end_marker":
            yield "no stream had an end marker: --accept-missing-end-marker is for servers that never send one"


def _sending(summary: dict[str, Any]) -> Iterator[str]:
    if summary["schedule"]["repeats"]:
        yield "the recording is shorter than the run and was sent again from its start"
    if summary["generator"]["stamp_sources"].get("chunk"):
        lag = summary["process"]["loop_lag"]
        coarser = (
            f"by the loop's lag, p50 {lag['p50']:.2f} and p99 {lag['p99']:.2f} ms" if lag and lag["n"] else "later"
        )
        spoken = " and ".join(sorted(summary["generator"]["transports"]))
        yield (
            f"the second transport ran ({spoken}): frames are stamped when Python was handed a chunk, not when the "
            f"kernel had it; they are late {coarser}"
        )


def _prompts(summary: dict[str, Any]) -> Iterator[str]:
    made_up = summary.get("made_up")
    if made_up and made_up["is_exact"]:
        yield f"{made_up['requests']} prompts were made up, their tokens counted by the tokenizer given"
    elif made_up:
        yield (
            f"{made_up['requests']} prompts were made up at {made_up['tokens_per_word']} token a word: their lengths "
            "are approximate; --tokenizer makes them exact"
        )


def _answers(summary: dict[str, Any]) -> Iterator[str]:
    if summary["rules"]["accept_missing_end_marker"]:
        yield "a clean end after a finish reason was taken for the end marker (--accept-missing-end-marker)"
    encoded = sum(entry["requests"] for entry in summary["details"] if entry["detail"] == "encoded")
    if encoded:
        yield f"{encoded} answers were compressed and not measured as streams; send Accept-Encoding: identity"
