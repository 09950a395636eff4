"""Streams of real servers' Responses, as captured: read as their own repeats say they should be."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from loadgen.results.outcome import Rules, Verdict, decide
from loadgen.results.reading import Reading
from loadgen.wire.ending import COMPLETE

# Name: outcome, reason, output tokens, output frames, all frames. llama.cpp says `completed` at its cap, too.
CAPTURES = {
    "dynamo": ("truncated", "max_output_tokens", 8, 8, 16),
    "vllm": ("truncated", "max_output_tokens", 8, 6, 14),
    "llamacpp": ("completed", "completed", 16, 16, 24),
    "llamacpp_calls": ("completed", "completed", 300, 84, 102),
    "llamacpp_think": ("completed", "completed", 50, 48, 58),
}


def chunks(raw: bytes) -> list[bytes]:
    """Return the data of each chunk of a captured response."""
    _head, _, rest = raw.partition(b"\r\n\r\n")
    found = []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        found.append(rest[: int(size, 16)])
        rest = rest[int(size, 16) + 2 :]
    return [data for data in found if data]


def capture(folder: Path, name: str) -> list[bytes]:
    return chunks((folder / "captures" / f"{name}_responses_stream.raw").read_bytes())


def read(reads: list[bytes]) -> tuple[Reading, Verdict]:
    reading = Reading()
    reading.head(200, [(b"content-type", b"text/event-stream; charset=utf-8")], 1)
    for at_ns, data in enumerate(reads, 1):
        reading.body(data, at_ns, at_ns - 1)
    reading.close(len(reads), clean=True)
    return reading, decide(reading, COMPLETE, rules=Rules(), asked_for_stream=True, fixed_length=False)


def said_whole(response: dict[str, Any]) -> str:
    """Return all that a finished response says it said."""
    parts = [part for item in response["output"] for part in item.get("content") or ()]
    return "".join(part["text"] for part in parts) + "".join(item.get("arguments", "") for item in response["output"])


@pytest.mark.parametrize("name", CAPTURES)
def test_a_captured_stream_is_read_right(shared, name):
    reading, verdict = read(capture(shared, name))
    outcome, reason, tokens, outputs, frames = CAPTURES[name]

    assert (outcome, reason, True) == (verdict.outcome, verdict.finish_reason, verdict.finished)
    assert ("openai-responses", tokens, True) == (reading.format, reading.usage.output_tokens, reading.tokens_reported)
    assert (outputs, frames) == (reading.output_frames, reading.frames)


@pytest.mark.parametrize("name", CAPTURES)
def test_the_letters_of_a_captured_stream_are_those_of_its_final_response(shared, name):
    wire = b"".join(capture(shared, name))
    values = [json.loads(line[6:]) for line in wire.split(b"\n") if line.startswith(b"data: {")]
    pieces = [value["delta"] for value in values if value["type"].endswith(".delta")]
    reading, _verdict = read([wire])

    assert len(said_whole(values[-1]["response"])) == reading.output_chars == sum(map(len, pieces))
    assert len(pieces) == reading.output_frames


@pytest.mark.parametrize("name", CAPTURES)
@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_captured_stream_is_the_same_in_reads_of_any_size(shared, name, size):
    wire = b"".join(capture(shared, name))
    whole, verdict = read([wire])
    split, other = read([wire[start:end] for start, end in pairwise([*range(0, len(wire), size), len(wire)])])

    assert verdict == other
    assert (whole.frame_kinds, whole.frame_bytes, whole.usage, whole.output_chars) == (
        split.frame_kinds,
        split.frame_bytes,
        split.usage,
        split.output_chars,
    )
