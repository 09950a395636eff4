"""The shared odd streams, their bytes straight into a reading: right at their own reads and at any cut."""

import base64
import json
import random
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from loadgen.results.outcome import Rules, decide
from loadgen.results.reading import Reading
from loadgen.wire.ending import Ending
from loadgen.wire.formats import FORMATS

Case = dict[str, Any]

FILES = ("cases_public.jsonl", "cases_real_public.jsonl")
EVERY_CUT_BYTES = 8 * 1024  # of larger bodies a choice of cuts
APART_BYTES = 256
DEADLINE_MS = 5000
NS_PER_MS = 1_000_000
UNTIMED = ("outcome", "format", "frames", "output_frames", "output_tokens", "tokens_approximate", "finish_reason")
TIMED = (*UNTIMED, "finished", "ttft_ms", "first_text_ms", "request_latency_ms")
RESPONDED = ("outcome", "format")  # all that counts of what is no model's stream


@cache
def cases(folder: Path) -> list[Case]:
    """Every case, of every format."""
    return [json.loads(line) for name in FILES for line in (folder / "cases" / name).read_text().splitlines()]


def arrivals(case: Case) -> tuple[list[tuple[int, bytes]], bool]:
    """Return the reads before the deadline (ms since the request, bytes), and whether the deadline cut them short."""
    deadline_ms, at_ms, reads = case["request"].get("deadline_ms", DEADLINE_MS), 0, []
    for chunk in case["chunks"]:
        at_ms += chunk["delay_ms"]
        if at_ms > deadline_ms:
            return reads, True
        reads.append((at_ms, base64.b64decode(chunk["b64"])))
    return reads, False


def measured(case: Case, reads: list[tuple[int, bytes]], *, late: bool) -> dict[str, object]:
    """Return the columns of `expect` for a response that comes in these reads."""
    reading = Reading()
    if not case.get("wire", {}).get("no_head"):
        headers = [(name.lower().encode(), value.encode()) for name, value in case["headers"].items()]
        reading.head(case["status"], headers, 1)
        for at_ms, data in reads:
            reading.body(data, at_ms * NS_PER_MS, 0)
    if late or (case["close"] == "stall" and not reading.ended):
        ending = Ending("deadline")
    elif case["close"] == "stall":
        ending = Ending("lingered")
    else:
        ending = Ending("complete" if case["close"] == "clean" else "cut")
    reading.close(reads[-1][0] * NS_PER_MS if reads else 1, clean=ending.how == "complete")
    verdict = decide(reading, ending, rules=Rules(), asked_for_stream=True, fixed_length=False)
    tokens = reading.usage.output_tokens if reading.usage and reading.tokens_reported else reading.output_frames
    return {
        "outcome": verdict.outcome,
        "format": reading.format,
        "frames": reading.frames,
        "output_frames": reading.output_frames,
        "output_tokens": tokens if reading.is_stream else None,
        "tokens_approximate": reading.is_stream and not reading.tokens_reported,
        "finish_reason": verdict.finish_reason,
        "finished": verdict.finished,
        "ttft_ms": in_ms(reading.first_output_ns),
        "first_text_ms": in_ms(reading.first_text_ns),
        "request_latency_ms": in_ms(reading.last_output_ns),
    }


def in_ms(moment_ns: int | None) -> int | None:
    return None if moment_ns is None else moment_ns // NS_PER_MS


def difference(case: Case, columns: tuple[str, ...], reads: list[tuple[int, bytes]], *, late: bool) -> dict[str, Any]:
    """Return what is not as expected: column to (expected, actual)."""
    expect, actual = case["expect"], measured(case, reads, late=late)
    columns = RESPONDED if expect["outcome"] == "responded" else columns
    return {name: (expect[name], actual[name]) for name in columns if expect[name] != actual[name]}


def split(wire: bytes, cuts: set[int]) -> list[tuple[int, bytes]]:
    places = [0, *sorted(cut for cut in cuts if 0 < cut < len(wire)), len(wire)]
    return [(at_ms, wire[start:end]) for at_ms, (start, end) in enumerate(pairwise(places), 1)]


def wrong_splits(case: Case, cut_sets: list[set[int]]) -> list[tuple[str, list[int], dict[str, Any]]]:
    """Return the sets of cuts at which a case reads otherwise than expected."""
    reads, late = arrivals(case)
    wire = b"".join(data for _at_ms, data in reads)
    return [
        (case["id"], sorted(cuts)[:5], wrong)
        for cuts in cut_sets
        if (wrong := difference(case, UNTIMED, split(wire, cuts), late=late))
    ]


def frame_ends(case: Case, wire: bytes) -> list[int]:
    """Return where frames end, as far as that can be told without a framer."""
    kind = case["headers"].get("content-type", "")
    if "eventstream" not in kind:
        return [match.end() for match in re.finditer(rb"\n" if "json" in kind else rb"\n\n|\r\n\r\n|\r\r", wire)]
    ends = [0]
    while ends[-1] + 12 <= len(wire):
        ends.append(ends[-1] + max(16, int.from_bytes(wire[ends[-1] : ends[-1] + 4])))
    return ends


def size(case: Case) -> int:
    return sum(len(data) for _at_ms, data in arrivals(case)[0])


def test_the_files_hold_cases_of_every_outcome_that_bytes_can_have(shared):
    outcomes = {case["expect"]["outcome"] for case in cases(shared)}
    ended = {"completed", "truncated", "noneligible_finish", "api_error", "interrupted", "responded"}

    assert ended | {"rejected", "http_error", "timeout", "protocol_error"} <= outcomes
    assert 300 < len(cases(shared))


def test_the_files_hold_cases_of_every_format_but_responses(shared):
    # Of those there are captures, which another test reads.
    assert {*FORMATS, "other", None} == {case["expect"]["format"] for case in cases(shared)} | {"openai-responses"}


def test_every_case_is_as_expected_at_its_own_reads(shared):
    wrong = {}
    for case in cases(shared):
        reads, late = arrivals(case)
        if found := difference(case, TIMED, reads, late=late):
            wrong[case["id"]] = found

    assert {} == wrong


def test_every_small_case_is_the_same_at_every_cut(shared):
    for case in cases(shared):
        if size(case) <= EVERY_CUT_BYTES:
            # Every place is cut once; cuts so far apart rarely meet in one frame, and cost a fraction of one at a time.
            cuts = [set(range(first, size(case) + 1, APART_BYTES)) for first in range(APART_BYTES)]
            assert [] == wrong_splits(case, cuts)


def test_every_small_case_is_the_same_byte_by_byte(shared):
    for case in cases(shared):
        if size(case) <= EVERY_CUT_BYTES:
            assert [] == wrong_splits(case, [set(range(size(case)))])


def test_every_large_case_is_the_same_around_its_frames_ends_and_at_two_hundred_places(shared):
    for case in cases(shared):
        if size(case) > EVERY_CUT_BYTES:
            wire = b"".join(data for _at_ms, data in arrivals(case)[0])
            chance = random.Random(case["id"])
            places = [chance.randrange(len(wire)) for _ in range(200)]
            cuts = [{end + shift for end in frame_ends(case, wire)} for shift in range(-4, 5)]
            assert [] == wrong_splits(case, cuts + [set(places[first::10]) for first in range(10)])
