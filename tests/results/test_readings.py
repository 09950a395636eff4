"""Readings of any bytes at all: nothing raises, the moments are in order, and every word has its class."""

import json
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.results import reading as reading_module
from loadgen.results.histogram import HIGHEST_NS, Histogram
from loadgen.results.outcome import Outcome, Rules, Verdict, decide
from loadgen.results.reading import FRAMES_KEPT, KIND, Reading
from loadgen.wire import eventstream
from loadgen.wire.ending import Ending, How
from loadgen.wire.formats.invoke import event_message, failure
from loadgen.wire.framing import FRAMINGS

SSE, NDJSON, JSON = "text/event-stream", "application/x-ndjson", "application/json"
AWS = "application/vnd.amazon.eventstream"


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


# Streams that never told (METRICS section 3).

ERROR = {"error": {"type": "busy", "message": "m"}}
UNTOLD = {
    "an error": (SSE, b"data: " + json.dumps(ERROR).encode() + b"\n\n", "openai", "api_error"),
    "an error by its name": (SSE, b"event: error\ndata: it broke\n\n", "openai", "api_error"),
    "the end marker": (SSE, b"data: [DONE]\n\n", "openai", "noneligible_finish"),
    "empty choices": (SSE, b'data: {"choices": []}\n\n', "openai", "interrupted"),
    "pings": (SSE, b'event: ping\ndata: {"type": "ping"}\n\n' * 2, "other", "responded"),
    "pings and an error": (SSE, b'data: {"type": "ping"}\n\ndata: {"error": "m"}\n\n', "openai", "api_error"),
    "heartbeats": (SSE, b"data:\n\n" * 2, "other", "responded"),
    "an error line": (NDJSON, json.dumps(ERROR).encode() + b"\n", "ollama", "api_error"),
    "an error line without its end": (NDJSON, b'{"error": "no memory left"}', "ollama", "api_error"),
    "a download": (NDJSON, b'{"status": "pulling"}\n{"status": "success"}\n', "other", "responded"),
    "a message": (AWS, eventstream.encode({}, b""), "bedrock", "interrupted"),
    "another service's": (AWS, event_message("initial-response", {}), "bedrock", "interrupted"),
    "an exception": (AWS, failure("throttlingException"), "bedrock", "api_error"),
}


@pytest.mark.parametrize("name", UNTOLD)
def test_a_stream_that_never_told_is_of_its_framings_dialect_or_other(name):
    kind, wire, dialect, outcome = UNTOLD[name]

    for reads in ([wire], [wire[at : at + 1] for at in range(len(wire))]):
        reading = read(*reads, kind=kind)
        assert (dialect, outcome) == (reading.format, judge(reading).outcome)
    if outcome == "responded":
        assert "interrupted" == judge(read(wire, kind=kind, clean=False), "cut").outcome
        assert (None, None, 0) == (reading.first_output_ns, reading.usage, reading.output_frames)


@pytest.mark.parametrize("kind", sorted(FRAMINGS))
def test_a_stream_without_a_byte_is_interrupted(kind):
    for reads in ([], [b""]):
        verdict = judge(read(*reads, kind=kind))
        assert ("interrupted", "no_frames") == (verdict.outcome, verdict.detail)


# Bodies that their content type misnames.


@pytest.mark.parametrize(
    ("body", "outcome", "detail"),
    [
        (json.dumps(ERROR).encode(), "api_error", "busy"),
        (b"\xef\xbb\xbf" + json.dumps(ERROR).encode(), "api_error", "busy"),
        (b'[{"error": "m"}]', "api_error", "error"),
        (b'{"choices": []}', "protocol_error", "not_a_stream:text/event-stream"),
        (b"<!DOCTYPE html>\n<html>", "protocol_error", "not_a_stream:text/event-stream"),
        (eventstream.encode({}, b""), "protocol_error", "not_a_stream:text/event-stream"),
        (b'{"broken', "protocol_error", "not_a_stream:text/event-stream"),
    ],
)
def test_a_body_that_cannot_be_events_is_judged_as_an_answer_that_is_no_stream(body, outcome, detail):
    for reads in ([body], [body[at : at + 1] for at in range(len(body))], [b"", body[:2], body[2:]]):
        reading = read(*reads)
        for asked in (True, False):
            verdict = judge(reading, asked_for_stream=asked)
            assert (outcome, detail) == (verdict.outcome, verdict.detail)
        assert (None, 0, False, False) == (reading.format, reading.frames, reading.is_stream, reading.broken)
        assert len(body) == reading.response_bytes


@pytest.mark.parametrize("how", get_args(How))
def test_no_way_to_end_makes_a_misnamed_body_a_stream(how):
    expected = {"connect": "connect_error", "limit": "client_limit"}

    assert expected.get(how, "protocol_error") == judge(read(b'{"a": 1}', clean=how == "complete"), how).outcome


# Ollama's answer as one object.

OBJECT = {"model": "m", "done": True, "done_reason": "stop", "eval_count": 7, "prompt_eval_count": 5}
CHAT = json.dumps({**OBJECT, "message": {"role": "assistant", "content": "hé"}}, indent=1).encode()
GENERATED = json.dumps({**OBJECT, "response": "hé", "context": [1] * 500_000}).encode()


@pytest.mark.parametrize("body", [CHAT, GENERATED], ids=["chat", "generate"])
@pytest.mark.parametrize("kind", [JSON, "Application/JSON; charset=utf-8"])
@pytest.mark.parametrize("asked_for_stream", [True, False])
def test_an_ollama_answer_as_one_object_is_accepted(body, kind, asked_for_stream):
    for reads in ([body], [body[:9], body[9:-1], body[-1:]]):
        reading = read(*reads, kind=kind)
        verdict = judge(reading, asked_for_stream=asked_for_stream)

        assert ("completed", "stop", True) == (verdict.outcome, verdict.finish_reason, verdict.finished)
        assert ("ollama", 7, 5, True) == (
            reading.format,
            reading.usage.output_tokens,
            reading.usage.input_tokens,
            reading.tokens_reported,
        )
        assert (1, 1, 2, True) == (reading.frames, reading.output_frames, reading.output_chars, reading.is_stream)


def test_an_answer_as_one_object_has_an_end_but_no_first_output():
    reading = read(CHAT[:9], CHAT[9:], kind=JSON)

    assert (None, None) == (reading.first_output_ns, reading.first_text_ns)
    assert (25, 25, 25) == (reading.first_frame_ns, reading.last_output_ns, reading.terminal_ns)


def test_a_cap_and_a_load_as_one_object_have_their_outcome():
    for word, outcome in (("length", "truncated"), ("load", "noneligible_finish"), (None, "noneligible_finish")):
        body = json.dumps({**OBJECT, "response": "a", "done_reason": word}).encode()
        assert outcome == judge(read(body, kind=JSON)).outcome


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({**OBJECT, "done": False, "response": "a"}).encode(),
        json.dumps({**OBJECT, "done": "true", "response": "a"}).encode(),
        json.dumps(OBJECT).encode(),
        CHAT + b"\n" + CHAT,
        CHAT[:-1],
        b"[" + CHAT + b"]",
    ],
)
def test_any_other_object_is_no_stream(body):
    assert ("protocol_error", "not_a_stream:application/json") == (
        judge(read(body, kind=JSON)).outcome,
        judge(read(body, kind=JSON)).detail,
    )
    assert "responded" == judge(read(body, kind=JSON), asked_for_stream=False).outcome


@pytest.mark.parametrize("kind", ["text/plain", "text/html", "application/problem+json", ""])
def test_an_ollama_answer_of_another_type_is_no_stream(kind):
    assert "protocol_error" == judge(read(CHAT, kind=kind)).outcome


@pytest.mark.parametrize("how", ["cut", "deadline", "abandoned"])
def test_an_ollama_answer_whose_end_did_not_come_is_no_stream(how):
    assert "protocol_error" == judge(read(CHAT, kind=JSON, clean=False), how).outcome


@pytest.mark.parametrize(("status", "outcome"), [(400, "http_error"), (429, "rejected"), (204, "responded")])
def test_an_ollama_answer_with_another_status_is_none(status, outcome):
    reading = read(CHAT, kind=JSON, status=status)

    assert (outcome, None, 0) == (judge(reading).outcome, reading.format, reading.frames)


# Bedrock's report comes after its end.

BEGIN = event_message("messageStart", {"role": "assistant"})
PIECE = event_message("contentBlockDelta", {"delta": {"text": "hé"}})
END = event_message("messageStop", {"stopReason": "end_turn"})
REPORT = event_message("metadata", {"usage": {"inputTokens": 5, "outputTokens": 7}})
ANSWER = BEGIN + PIECE + END


@pytest.mark.parametrize("after", [[REPORT], [PIECE, REPORT], [event_message("omen", {}), REPORT], [END, REPORT]])
def test_a_report_after_the_end_is_read_and_nothing_else_is(after):
    late = b"".join(after)
    for reads in ([ANSWER + late], [ANSWER, late], [ANSWER, *(late[at : at + 1] for at in range(len(late)))]):
        reading = read(*reads, kind=AWS)
        assert ("completed", True) == (judge(reading).outcome, judge(reading).finished)
        assert (7, 5, 4, 1) == (
            reading.usage.output_tokens,
            reading.usage.input_tokens,
            reading.frames,
            reading.output_frames,
        )


def test_the_end_of_a_stream_is_its_marker_and_not_its_report():
    reading = read(BEGIN, PIECE, END, REPORT, kind=AWS)

    assert (20, 30, True) == (reading.last_output_ns, reading.terminal_ns, reading.ended)
    assert [10, 20, 30, 40] == list(reading.frame_at_ns)


@pytest.mark.parametrize("after", [b"", failure("busy"), REPORT[:-1], b"\xff" * 20, event_message("metadata", {})])
def test_without_a_report_after_the_end_frames_are_counted(after):
    for reads in ([ANSWER + after], [ANSWER, after]):
        reading = read(*reads, kind=AWS)
        assert ("completed", False, 3) == (judge(reading).outcome, reading.tokens_reported, reading.frames)
        assert (None, None, False) == (reading.failure, reading.malformed, reading.broken)


def test_a_report_before_what_breaks_off_is_kept():
    for reads in ([ANSWER + REPORT + b"\xff" * 20], [ANSWER, REPORT + b"\xff" * 20, REPORT]):
        assert (7, 4) == (read(*reads, kind=AWS).usage.output_tokens, read(*reads, kind=AWS).frames)


@pytest.mark.parametrize("broken", [b"\xff" * 20, PIECE[:-1] + b"\0", failure("busy")])
def test_nothing_after_an_error_is_read(broken):
    for reads in ([BEGIN + PIECE + broken + END + REPORT], [BEGIN, PIECE, broken, END, REPORT]):
        reading = read(*reads, kind=AWS)
        assert (None, None, 1) == (reading.usage, reading.terminal_ns, reading.output_frames)
        assert judge(reading).outcome == ("api_error" if broken == failure("busy") else "protocol_error")


def test_frames_before_a_broken_one_are_kept_even_of_the_same_read():
    lines = b'{"response": "a", "done": false}\n'
    for kind, good, bad in ((AWS, PIECE, b"\xff" * 20), (SSE, TEXT, b"data: {\n\n"), (NDJSON, lines, b"{\n")):
        for reads in ([good + good + bad + good], [good, good, bad, good]):
            reading = read(*reads, kind=kind)
            assert ("protocol_error", 2, True) == (judge(reading).outcome, reading.output_frames, reading.broken)


def test_frames_of_a_broken_read_share_a_stamp_and_are_uncertain():
    assert 4 == read(BEGIN + PIECE + PIECE + b"\xff" * 20, kind=AWS).uncertainty_ns
    assert 0 == read(BEGIN + PIECE + b"\xff" * 20, kind=AWS).uncertainty_ns


# Long streams.


def test_of_a_long_stream_the_beginning_is_stored_and_everything_is_counted(monkeypatch):
    monkeypatch.setattr(reading_module, "FRAMES_KEPT", 10)
    for per_read in (1, 3, 50):
        wires = [TEXT] * 37 + [STOP + DONE]
        reads = [b"".join(wires[at : at + per_read]) for at in range(0, len(wires), per_read)]
        reading = read(*reads)

        assert (39, 37, 74, 10) == (
            reading.frames,
            reading.output_frames,
            reading.output_chars,
            len(reading.frame_kinds),
        )
        assert (10, 10) == (len(reading.frame_at_ns), len(reading.frame_bytes))
        moments = [10 * (place // per_read + 1) for place in range(10)]
        assert moments == list(reading.frame_at_ns)
        assert (10, 10 * len(reads)) == (reading.first_frame_ns, reading.terminal_ns)
        assert "completed" == judge(reading).outcome


def test_a_stream_of_a_million_frames_is_measured_in_flat_memory():
    reading = Reading()
    reading.head(200, [(b"content-type", SSE.encode())], 1)
    read_of_many = TEXT * 500
    for at_ns in range(2_000):
        reading.body(read_of_many, at_ns, at_ns - 1)
    reading.body(DONE, 2_000, 1_999)
    reading.close(2_001, clean=True)

    assert (1_000_001, 1_000_000, 1_999) == (reading.frames, reading.output_frames, reading.last_output_ns)
    assert FRAMES_KEPT == len(reading.frame_kinds) == len(reading.frame_at_ns) == len(reading.frame_bytes)
    assert (
        sum(map(len, (reading.frame_kinds, reading.frame_at_ns.tobytes(), reading.frame_bytes.tobytes()))) < 2_000_000
    )


# Headers and words.


@pytest.mark.parametrize("codings", [[b"gzip"], [b"gzip", b"identity"], [b"identity", b"br"], [b"identity, gzip"]])
def test_any_coding_but_identity_is_encoded(codings):
    reading = Reading()
    reading.head(200, [(b"content-type", SSE.encode()), *((b"content-encoding", coding) for coding in codings)], 1)

    assert (True, False) == (reading.encoded, reading.is_stream)


@pytest.mark.parametrize(("status", "outcome"), [(429, "rejected"), (424, "http_error"), (500, "http_error")])
def test_amazons_name_of_an_error_is_in_a_header(status, outcome):
    reading = Reading()
    name = (b"x-amzn-errortype", b"ThrottlingException:http://internal.amazon.com/coral/")
    reading.head(status, [(b"content-type", JSON.encode()), name], 1)
    reading.body(b'{"message": "slow down"}', 10, 5)

    assert (outcome, "ThrottlingException") == (judge(reading).outcome, judge(reading).detail)


@pytest.mark.parametrize("field", ["finish_reason", "error"])
def test_a_word_that_is_no_unicode_can_be_stored(field):
    value = {"choices": [{"delta": {"content": "a"}, "finish_reason": "\ud83d"}]}
    wire = json.dumps(value if field == "finish_reason" else {"error": {"type": "\ud83d"}}).encode()
    verdict = judge(read(b"data: " + wire + b"\n\n" + DONE))

    assert "?" == (verdict.finish_reason if field == "finish_reason" else verdict.detail)


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

    if not reading.ended and not reading.mislabelled:
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
