"""Readings of any bytes at all: nothing raises, the moments are in order, and every word has its class."""

import json
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.results.histogram import HIGHEST_NS, Histogram
from loadgen.results.outcome import Outcome, Rules, Verdict, decide
from loadgen.results.reading import KIND, Reading
from loadgen.wire.ending import Ending, How
from loadgen.wire.framing import FRAMINGS

SSE, NDJSON, JSON = "text/event-stream", "application/x-ndjson", "application/json"


def chunk(delta: dict[str, object], finish_reason: str | None = None, **fields: object) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return b"data: " + json.dumps({"choices": [choice], **fields}).encode() + b"\n\n"


TEXT, STOP, DONE = chunk({"content": "hé"}), chunk({}, "stop"), b"data: [DONE]\n\n"


def read(*reads: bytes, kind: str = SSE, status: int = 200, clean: bool = True) -> Reading:
    reading = Reading()
    reading.head(status, [(b"content-type", kind.encode())], 1)
    for place, data in enumerate(reads, 1):
        reading.body(data, place * 10, place * 10 - 4)
    reading.close(len(reads) * 10 + 5, clean=clean)
    return reading


def judge(reading: Reading, how: How = "complete", *, asked_for_stream: bool = True) -> Verdict:
    return decide(reading, Ending(how), rules=Rules(), asked_for_stream=asked_for_stream, fixed_length=False)


# Words of servers (FORMATS 1.3).

WORDS = {
    "completed": "stop eos eos_token stop_sequence end_turn STOP end complete tool_calls function_call tool_use",
    "truncated": "length max_tokens model_length MAX_TOKENS max_output_tokens model_context_window_exceeded",
    "noneligible_finish": "content_filter refusal pause_turn guardrail_intervened abort load error cancelled"
    " insufficient_system_resource zzz Stop",
}


@pytest.mark.parametrize(("outcome", "word"), [(name, word) for name, words in WORDS.items() for word in words.split()])
def test_every_word_of_a_server_has_its_class(outcome, word):
    verdict = judge(read(TEXT + chunk({}, word) + DONE))

    assert (outcome, word, True) == (verdict.outcome, verdict.finish_reason, verdict.finished)


# Counts.


@pytest.mark.parametrize(
    ("usage", "tokens", "reported"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 0}, 0, True),
        ({"prompt_tokens": 5}, None, False),
        ({"prompt_tokens": 5, "completion_tokens": None}, None, False),
        ({"prompt_tokens": 5, "completion_tokens": "many"}, None, False),
        ({}, None, False),
    ],
)
def test_a_usage_report_that_counts_no_output_is_none_even_without_output(usage, tokens, reported):
    reading = read(STOP + chunk({}, None, usage=usage) + DONE)

    assert (tokens, reported) == (reading.usage.output_tokens, reading.tokens_reported)


def test_above_an_hour_begins_right_after_the_hour():
    histogram = Histogram()
    for duration_ns in (HIGHEST_NS, HIGHEST_NS + HIGHEST_NS // 100, HIGHEST_NS * 11 // 10, HIGHEST_NS * 2):
        histogram.record(duration_ns)

    assert (1, 3) == (histogram.count, histogram.over_range)


def test_of_reports_without_output_tokens_the_last_one_counts():
    reports = [chunk({}, None, usage={"prompt_tokens": count, "completion_tokens": 0}) for count in (5, 6)]

    assert 6 == read(*reports, DONE).usage.input_tokens


def test_the_widest_uncertainty_of_a_stream_is_kept():
    reading = Reading()
    reading.head(200, [(b"content-type", SSE.encode())], 1)
    for at_ns, floor_ns in ((10, 7), (100, 40), (200, 199)):
        reading.body(TEXT + TEXT, at_ns, floor_ns)

    assert 60 == reading.uncertainty_ns


@pytest.mark.parametrize("wire", [b"", b": ping\n\n", b"data: {"])
def test_a_stream_without_a_frame_has_no_format(wire):
    assert (None, False) == (read(wire).format, bool(read(wire).frame_kinds))


@pytest.mark.parametrize("first", ["length", "max_tokens", "zzz", "abort"])
def test_of_choices_that_fare_alike_the_first_gives_the_reason(first):
    second = b'data: {"choices": [{"index": 1, "delta": {"content": "b"}, "finish_reason": "%s"}]}\n\n'
    other = {"length": b"max_tokens", "max_tokens": b"length", "zzz": b"abort", "abort": b"zzz"}[first]

    assert first == judge(read(second % other + TEXT + chunk({}, first) + DONE)).finish_reason


@pytest.mark.parametrize("status", [204, 205])
@pytest.mark.parametrize("kind", [SSE, NDJSON, JSON, ""])
def test_a_status_that_has_no_content_has_responded(status, kind):
    assert ("responded", None) == (judge(read(status=status, kind=kind)).outcome, read(status=status).format)


# Errors.


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        ({"type": "t", "code": "c", "status": "s"}, "t"),
        ({"code": "c", "status": "s"}, "c"),
        ({"type": None, "code": 429}, "429"),
        ({"status": "UNAVAILABLE"}, "UNAVAILABLE"),
        ({"message": "m"}, "error"),
    ],
)
@pytest.mark.parametrize("status", [200, 400, 429])
def test_the_word_of_an_error_object_is_its_type_or_code(status, error, detail):
    for body in ({"error": error}, [{"error": error}]):
        assert detail == judge(read(json.dumps(body).encode(), kind=JSON, status=status)).detail


def test_the_beginning_of_an_endless_answer_is_all_that_is_kept():
    reading = read(*[b"x" * 100_000] * 30, kind="text/html", status=500)

    assert (3_000_000, "http_error", None) == (reading.response_bytes, judge(reading).outcome, judge(reading).detail)


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"message": "m", "type": "t", "code": 400}, "t"),
        ({"message": "m", "code": 400}, "400"),
        ({"object": "error", "message": "m", "type": "t", "code": 400}, "t"),
        ({"error": {"message": "m", "type": "t"}}, "t"),
        ({"error": "m"}, "error"),
        ({"detail": "m"}, "error"),
    ],
)
def test_what_is_an_error_in_a_stream_is_one_as_json(body, detail):
    data = json.dumps(body).encode()

    assert "api_error" == judge(read(b"data: " + data + b"\n\n")).outcome
    assert ("api_error", detail) == (judge(read(data, kind=JSON)).outcome, judge(read(data, kind=JSON)).detail)


@pytest.mark.parametrize("line", [b"hello", b"{", b"[1]", b"7", b'"a"', b"null", b"[DONE", b"\xff"])
@pytest.mark.parametrize("lead", [b"", b'{"t": 1}\n', b'{"choices": [{"delta": {"content": "a"}}]}\n'])
def test_a_line_that_is_no_object_breaks_json_lines(lead, line):
    reading = read(lead + line + b"\n", kind=NDJSON)

    assert "protocol_error" == judge(reading).outcome
    assert (lead.count(b"\n"), True, True) == (len(reading.frame_kinds), reading.ended, reading.broken)


@pytest.mark.parametrize("line", [b"hello", b"{", b"[1]", b"7"])
def test_a_last_line_that_is_no_object_is_a_cut(line):
    assert "interrupted" == judge(read(b'{"choices": [{"delta": {"content": "a"}}]}\n' + line, kind=NDJSON)).outcome


# Invariants (FORMATS 7.4).

PIECES = st.one_of(
    st.sampled_from([TEXT, STOP, DONE, chunk({"role": "assistant", "content": ""}), chunk({"reasoning": "r"})]),
    st.sampled_from([chunk({"content": "b"}, "length", usage={"completion_tokens": 3}), b": ping\n\n", b"data:\n\n"]),
    st.sampled_from([b"data: {\n\n", b'data: {"error": {}}\n\n', b'data: {"error": "m"}\n\n', b"event: error\n"]),
    st.sampled_from([b'{"choices": []}\n', b"data: ", b"\n", b"\r", b"\xef\xbb\xbf", b'"', b"}", b"[", b"\xff"]),
    st.sampled_from([b'data: {"choices": [' + b"[" * 3_000 + b"\n\n", b'data: {"choices": [{"delta": {"content": 1']),
    st.binary(max_size=9),
)
READS = st.lists(st.lists(PIECES, max_size=4).map(b"".join), max_size=6)


@settings(max_examples=300, deadline=None)
@given(READS, st.sampled_from([*FRAMINGS, JSON, ""]), st.sampled_from(get_args(How)), st.booleans())
def test_any_bytes_have_one_outcome_and_moments_in_order(reads, kind, how, asked_for_stream):
    reading = read(*reads, kind=kind, clean=how == "complete")
    verdict = judge(reading, how, asked_for_stream=asked_for_stream)

    assert verdict.outcome in get_args(Outcome)
    moments = [reading.headers_ns, reading.first_frame_ns, reading.first_output_ns]
    later = [reading.last_output_ns, reading.terminal_ns]
    happened = [at for at in (*moments, *later) if at is not None]
    assert sorted(happened) == happened
    assert (reading.first_output_ns is None) == (reading.last_output_ns is None) == (reading.output_frames == 0)
    assert sorted(reading.frame_at_ns) == list(reading.frame_at_ns)
    assert len(reading.frame_at_ns) == len(reading.frame_bytes) == len(reading.frame_kinds)
    assert sum(map(len, reads)) == reading.response_bytes
    assert reading.output_frames == sum(code <= KIND["refusal"] for code in reading.frame_kinds)


@settings(max_examples=200, deadline=None)
@given(READS, st.sampled_from(sorted(FRAMINGS)), st.booleans())
def test_only_the_last_frame_can_end_a_stream(reads, kind, clean):
    reading = read(*reads, kind=kind, clean=clean)
    ends = {place for place, code in enumerate(reading.frame_kinds) if code in (KIND["done"], KIND["error"])}
    said_end = reading.terminal_ns is not None or reading.failure is not None

    assert ends <= ({len(reading.frame_kinds) - 1} if said_end else set())
    assert reading.ended == (said_end or reading.malformed is not None)


@settings(max_examples=200, deadline=None)
@given(READS, st.sampled_from(["interrupted", "timeout", "unfinished"]))
def test_no_stream_that_broke_off_is_completed_without_its_end_marker(reads, outcome):
    how = {"interrupted": "cut", "timeout": "deadline", "unfinished": "abandoned"}[outcome]
    reading = read(*reads, clean=False)

    if not reading.ended:
        assert (outcome, False) == (judge(reading, how).outcome, judge(reading, how).finished)


def test_output_letters_are_the_sum_of_what_was_said():
    reads = [TEXT, chunk({"reasoning": "why"}), chunk({"content": "b", "refusal": "no"}), STOP, DONE]

    assert 2 + 3 + 1 + 2 == read(*reads).output_chars
    assert 2 + 3 + 1 + 2 == read(b"".join(reads)).output_chars


def test_every_cut_between_reads_of_a_stream_gives_each_frame_the_moment_of_its_last_byte():
    wire = TEXT + STOP + DONE
    ends = [len(TEXT), len(TEXT + STOP), len(wire)]

    for cuts in ({1, 9, 50}, set(ends), {ends[0] - 1, ends[1] + 1}, set(range(len(wire)))):
        places = sorted({0, *cuts, len(wire)})
        reading = read(*(wire[start:end] for start, end in pairwise(places)))
        expected = [10 * next(place for place, at in enumerate(places) if at >= end) for end in ends]
        assert expected == list(reading.frame_at_ns)
