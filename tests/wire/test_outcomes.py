"""Exactly one outcome per request: METRICS section 3, from the bytes of a response and the end of its exchange."""

import json
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.results.outcome import Rules, Verdict, decide
from loadgen.results.reading import KIND, Reading
from loadgen.wire import framing
from loadgen.wire.ending import COMPLETE, Ending
from loadgen.wire.events import End, Event, Failure, Finish, Output, Role, Usage
from loadgen.wire.formats.openai import Encoder

SSE, NDJSON, JSON = "text/event-stream", "application/x-ndjson", "application/json"
CUT, STOPPED, LINGERED = Ending("cut", "reset"), Ending("stopped"), Ending("lingered")
DEADLINE, ABANDONED = Ending("deadline"), Ending("abandoned", "drain")
ENCODER = Encoder(model="m", id="1", created=0)


def sse(*events: Event) -> bytes:
    return b"".join(map(ENCODER.encode, events))


def text(value: str = "a", choice: int = 0) -> bytes:
    return sse(Output("text", value, choice))


def finish(reason: str = "stop", choice: int = 0) -> bytes:
    return sse(Finish(reason, choice))


ROLE, DONE, ERROR, NONE = sse(Role()), sse(End()), sse(Failure("broke")), b""
TOOL, REASONING, REFUSAL = (sse(Output(kind, "a")) for kind in ("tool", "reasoning", "refusal"))
BROKEN = b"data: {broken\n\n"
GOOD = ROLE + text() + finish() + DONE


def read(
    *reads: bytes,
    status: int | None = 200,
    kind: str = SSE,
    headers: Iterable[tuple[bytes, bytes]] = (),
    clean: bool = True,
    accept_missing_end_marker: bool = False,
) -> Reading:
    """Read a response whose pieces arrive at 10, 20, 30 … ns, each seen 4 ns after the poll before it."""
    reading = Reading()
    if status is not None:
        reading.head(status, [(b"content-type", kind.encode()), *headers], 1)
    at_ns = 0
    for at_ns, piece in enumerate(reads, 1):
        reading.body(piece, 10 * at_ns, 10 * at_ns - 4)
    reading.close(10 * at_ns + 5, clean=clean, accept_missing_end_marker=accept_missing_end_marker)
    return reading


def judge(
    *reads: bytes,
    ending: Ending = COMPLETE,
    rules: Rules | None = None,
    asked_for_stream: bool = True,
    fixed_length: bool = False,
    **response: object,
) -> Verdict:
    rules = rules or Rules()
    reading = read(
        *reads,
        clean=ending.how == "complete",
        accept_missing_end_marker=rules.accept_missing_end_marker,
        **response,  # type: ignore[arg-type]
    )
    return decide(reading, ending, rules=rules, asked_for_stream=asked_for_stream, fixed_length=fixed_length)


def summary(verdict: Verdict) -> tuple[str, str | None, bool | None]:
    return verdict.outcome, verdict.finish_reason, verdict.finished


FINISHED_STREAMS = {
    "text": (GOOD, "completed", "stop"),
    "arguments": (TOOL + finish("tool_calls") + DONE, "completed", "tool_calls"),
    "arguments that end with stop": (TOOL + finish("stop") + DONE, "completed", "stop"),
    "reasoning and then text": (REASONING + text() + finish() + DONE, "completed", "stop"),
    "a blank": (text(" ") + finish() + DONE, "completed", "stop"),
    "usage between": (text() + finish() + sse(Usage(1, 1)) + DONE, "completed", "stop"),
    "no blank line at the end": (text() + finish() + b"data: [DONE]", "completed", "stop"),
    "a cap": (text() + finish("length") + DONE, "truncated", "length"),
    "a cap before any output": (finish("length") + DONE, "truncated", "length"),
    "a cap in reasoning": (REASONING + finish("length") + DONE, "truncated", "length"),
    "max_tokens": (text() + finish("max_tokens") + DONE, "truncated", "max_tokens"),
    "a filter": (text() + finish("content_filter") + DONE, "noneligible_finish", "content_filter"),
    "an abort": (text() + finish("abort") + DONE, "noneligible_finish", "abort"),
    "a word nobody knows": (text() + finish("zzz") + DONE, "noneligible_finish", "zzz"),
    "no reason": (text() + DONE, "noneligible_finish", None),
    "a reason of null": (text() + finish("null") + DONE, "noneligible_finish", None),
    "an empty reason": (text() + finish("") + DONE, "noneligible_finish", None),
    "no output": (ROLE + finish() + DONE, "noneligible_finish", "stop"),
    "reasoning alone": (REASONING + finish() + DONE, "noneligible_finish", "stop"),
    "a refusal alone": (REFUSAL + finish() + DONE, "noneligible_finish", "stop"),
    "a tool's name alone": (sse(Role()) + finish("tool_calls") + DONE, "noneligible_finish", "tool_calls"),
    "nothing but the end": (DONE, "noneligible_finish", None),
}
NATURAL_WORDS = ["stop", "eos", "eos_token", "stop_sequence", "end_turn", "tool_calls", "function_call", "tool_use"]
CAP_WORDS = ["length", "max_tokens", "max_output_tokens", "model_context_window_exceeded"]


@pytest.mark.parametrize("name", FINISHED_STREAMS)
def test_an_ended_stream_is_judged_by_its_finish_and_its_answer(name):
    wire, outcome, reason = FINISHED_STREAMS[name]

    assert (outcome, reason, True) == summary(judge(wire))


@pytest.mark.parametrize("reason", NATURAL_WORDS)
def test_a_natural_finish_completes(reason):
    assert "completed" == judge(text() + finish(reason) + DONE).outcome


@pytest.mark.parametrize("reason", CAP_WORDS)
def test_a_cap_truncates(reason):
    assert "truncated" == judge(text() + finish(reason) + DONE).outcome


@pytest.mark.parametrize("name", FINISHED_STREAMS)
@pytest.mark.parametrize("ending", [CUT, LINGERED, DEADLINE, ABANDONED, Ending("malformed", "chunk_size")])
def test_after_the_end_marker_the_connection_can_only_unfinish(name, ending):
    wire, outcome, reason = FINISHED_STREAMS[name]
    if not wire.endswith(b"\n\n"):
        wire += b"\n\n"

    assert (outcome, reason, False) == summary(judge(wire, ending=ending))


@pytest.mark.parametrize(
    "more", [ERROR, BROKEN, text("b"), finish("length"), DONE, sse(Usage(9, 9)), b"data: {", b"\xff"]
)
@pytest.mark.parametrize("in_one_read", [True, False])
def test_after_the_end_marker_nothing_that_is_said_changes_the_reading(more, in_one_read):
    plain = read(GOOD)
    reading = read(GOOD + more) if in_one_read else read(GOOD, more)

    assert ("completed", "stop", True) == summary(judge(GOOD + more) if in_one_read else judge(GOOD, more))
    assert said(plain) == said(reading)


@pytest.mark.parametrize(
    ("reason", "fixed_length", "outcome"),
    [
        ("length", True, "completed"),
        ("stop", True, "completed"),
        ("length", False, "truncated"),
        ("max_tokens", True, "truncated"),
        ("content_filter", True, "noneligible_finish"),
    ],
)
def test_length_is_natural_where_the_request_fixed_it(reason, fixed_length, outcome):
    assert outcome == judge(text() + finish(reason) + DONE, fixed_length=fixed_length).outcome


def test_a_fixed_length_without_an_answer_is_no_completion():
    assert "completed" != judge(ROLE + finish("length") + DONE, fixed_length=True).outcome


A_STOPS, B_STOPS = text("a", 0) + finish("stop", 0), text("b", 1) + finish("stop", 1)
CHOICES = {
    "both complete": (A_STOPS + B_STOPS, "completed", "stop"),
    "interleaved": (text("a", 1) + text("b", 0) + finish("stop", 1) + finish("stop", 0), "completed", "stop"),
    "one is capped": (A_STOPS + text("b", 1) + finish("length", 1), "truncated", "length"),
    "the first is capped": (text("a", 0) + finish("length", 0) + B_STOPS, "truncated", "length"),
    "one is filtered": (
        text("a") + finish("length") + text("b", 1) + finish("content_filter", 1),
        None,
        "content_filter",
    ),
    "one never finishes": (A_STOPS + text("b", 1), None, None),
    "one never speaks": (A_STOPS + sse(Role(1)) + finish("stop", 1), None, "stop"),
    "one only opens": (A_STOPS + sse(Role(1)), None, None),
    "the third is capped": (A_STOPS + B_STOPS + text("c", 2) + finish("length", 2), "truncated", "length"),
}


@pytest.mark.parametrize("name", CHOICES)
def test_of_several_choices_the_least_favourable_decides(name):
    wire, outcome, reason = CHOICES[name]
    verdict = judge(wire + DONE)

    assert (outcome or "noneligible_finish") == verdict.outcome
    assert reason == verdict.finish_reason


def test_the_users_finish_words_replace_the_natural_ones():
    rules = Rules(natural=frozenset({"zzz"}))

    assert "completed" == judge(text() + finish("zzz") + DONE, rules=rules).outcome
    assert "noneligible_finish" == judge(text() + finish("stop") + DONE, rules=rules).outcome
    assert "truncated" == judge(text() + finish("length") + DONE, rules=rules).outcome


def test_a_cap_that_the_user_calls_natural_completes():
    rules = Rules(natural=frozenset({"stop", "length"}))

    assert "completed" == judge(text() + finish("length") + DONE, rules=rules).outcome


@pytest.mark.parametrize(
    ("status", "reject_status", "outcome"),
    [
        (429, None, "rejected"),
        (503, None, "rejected"),
        (529, None, "http_error"),
        (500, None, "http_error"),
        (400, None, "http_error"),
        (404, None, "http_error"),
        (301, None, "http_error"),
        (304, None, "http_error"),
        (529, frozenset({529}), "rejected"),
        (429, frozenset({529}), "http_error"),
    ],
)
@pytest.mark.parametrize("body", [GOOD, ERROR, b"", b"<html>", b'{"error": {"type": "busy"}}'])
@pytest.mark.parametrize("ending", [COMPLETE, CUT, DEADLINE, ABANDONED])
def test_the_status_comes_before_everything(status, reject_status, outcome, body, ending):
    rules = Rules(reject_status=reject_status) if reject_status else Rules()

    for kind in (SSE, JSON, "text/html"):
        verdict = judge(body, status=status, kind=kind, rules=rules, ending=ending)
        assert (outcome, None, False) == summary(verdict)


def test_a_rejection_keeps_the_servers_word_and_its_advice():
    reading = read(b'{"error": {"type": "busy"}}', status=429, kind=JSON, headers=[(b"retry-after", b" 7 ")])

    assert ("busy", "7") == (reading.error_word(), reading.retry_after)
    assert "busy" == judge(b'{"error": {"type": "busy"}}', status=429, kind=JSON).detail


INTERRUPTED = [
    NONE,
    b": ping\n\n",
    ROLE,
    ROLE + text(),
    text() + finish(),
    text() + finish() + b"data: [DON",
    b"data: [D",
]


@pytest.mark.parametrize("wire", INTERRUPTED)
def test_without_its_end_marker_a_stream_is_judged_by_how_it_ended(wire):
    reason = "stop" if b'"stop"' in wire else None

    assert ("interrupted", reason, False) == summary(judge(wire))
    assert ("interrupted", reason, False) == summary(judge(wire, ending=CUT))
    assert ("timeout", reason, False) == summary(judge(wire, ending=DEADLINE))
    assert ("unfinished", reason, False) == summary(judge(wire, ending=ABANDONED))
    assert ("protocol_error", reason, False) == summary(judge(wire, ending=Ending("malformed", "chunk_size")))


def test_an_end_marker_that_a_cut_left_open_did_not_arrive():
    for tail in (b"data: [DONE]", b"data: [DONE]\n"):
        assert "interrupted" == judge(text() + finish() + tail, ending=CUT).outcome
        assert "completed" == judge(text() + finish() + tail).outcome


@pytest.mark.parametrize(
    ("wire", "ending", "expected"),
    [
        (text() + finish(), COMPLETE, ("completed", "stop", True)),
        (text() + finish("length"), COMPLETE, ("truncated", "length", True)),
        (text() + finish("abort"), COMPLETE, ("noneligible_finish", "abort", True)),
        (text() + finish(), CUT, ("interrupted", "stop", False)),
        (text() + finish(), DEADLINE, ("timeout", "stop", False)),
        (text(), COMPLETE, ("interrupted", None, False)),
        (NONE, COMPLETE, ("interrupted", None, False)),
        (text() + ERROR + finish(), COMPLETE, ("api_error", None, False)),
        (text() + finish() + BROKEN, COMPLETE, ("protocol_error", "stop", False)),
    ],
)
def test_a_missing_end_marker_is_accepted_only_after_a_finish_and_a_clean_end(wire, ending, expected):
    assert expected == summary(judge(wire, ending=ending, rules=Rules(accept_missing_end_marker=True)))


@pytest.mark.parametrize("lead", [NONE, ROLE, ROLE + text(), text() + finish()])
@pytest.mark.parametrize("after", [NONE, DONE, text() + DONE, finish("length") + DONE, BROKEN])
@pytest.mark.parametrize("ending", [COMPLETE, CUT, LINGERED, DEADLINE, ABANDONED])
def test_an_error_in_the_stream_is_an_api_error_whatever_follows(lead, after, ending):
    verdict = judge(lead + ERROR + after, ending=ending)

    assert ("api_error", "broke", False) == (verdict.outcome, verdict.detail, verdict.finished)


@pytest.mark.parametrize(
    "wire",
    [
        b'event: error\ndata: {"message": "m"}\n\n',
        b'error: {"code": 400}\n\ndata: [DONE]\n\n',
        b'data: {"detail": "m"}\n\n',
        b'data: {"error": "m"}',
        text() + b'data: {"choices": [{"delta": {}, "finish_reason": "error"}], "error": {"code": 502}}\n\n' + DONE,
        text() + b"event: error\ndata: it broke\n\n",
    ],
)
def test_every_form_of_error_is_an_api_error(wire):
    assert "api_error" == judge(wire).outcome


@pytest.mark.parametrize("lead", [ROLE, text() + finish()])
@pytest.mark.parametrize("after", [NONE, DONE, ERROR])
@pytest.mark.parametrize("ending", [COMPLETE, STOPPED, CUT, DEADLINE])
def test_a_broken_frame_is_a_protocol_error_whatever_follows(lead, after, ending):
    verdict = judge(lead + BROKEN + after, ending=ending)

    assert ("protocol_error", "json", False) == (verdict.outcome, verdict.detail, verdict.finished)


def test_a_frame_beyond_the_bound_is_a_protocol_error(monkeypatch):
    monkeypatch.setattr(framing, "MAX_FRAME_BYTES", 512)
    verdict = judge(text(), b"data: " + b"x" * 600, b"x" * 600, ending=STOPPED)

    assert ("protocol_error", "frame_too_large") == (verdict.outcome, verdict.detail)


def test_a_deeply_nested_frame_never_raises():
    for lead in (NONE, text()):
        for deep in (b'data: {"choices": ' + b"[" * 100_000, b'data: {"x": ' * 3_000):
            for end in (NONE, b"\n\n"):
                assert judge(lead + deep + end).outcome in ("responded", "protocol_error", "interrupted")


@pytest.mark.parametrize("kind", [JSON, "text/html", "text/plain", "application/octet-stream", ""])
@pytest.mark.parametrize("ending", [COMPLETE, CUT, DEADLINE, ABANDONED])
def test_an_answer_that_is_no_stream_is_a_protocol_error_where_one_was_asked_for(kind, ending):
    for body in (b'{"choices": [{"message": {"content": "a"}}]}', GOOD, b""):
        verdict = judge(body, kind=kind, ending=ending)
        assert ("protocol_error", "not_a_stream") == (verdict.outcome, (verdict.detail or "").partition(":")[0])


@pytest.mark.parametrize(
    "body", [{"error": {"type": "t"}}, {"error": "m"}, {"detail": "m"}, {"object": "error"}, [{"error": {}}]]
)
def test_an_error_as_json_is_an_api_error(body):
    assert "api_error" == judge(json.dumps(body).encode(), kind=JSON).outcome


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        (COMPLETE, ("responded", None, None)),
        (CUT, ("interrupted", None, False)),
        (DEADLINE, ("timeout", None, False)),
        (ABANDONED, ("unfinished", None, False)),
    ],
)
def test_an_answer_to_a_request_for_no_stream_only_has_to_end(ending, expected):
    assert expected == summary(judge(b'{"choices": []}', kind=JSON, ending=ending, asked_for_stream=False))


def test_a_stream_is_read_even_where_none_was_asked_for():
    assert ("completed", "stop", True) == summary(judge(GOOD, asked_for_stream=False))


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("kind", [SSE, JSON])
def test_an_encoded_body_is_not_split_into_frames(asked, kind):
    headers = [(b"content-encoding", b"gzip")]
    verdict = judge(GOOD, kind=kind, headers=headers, asked_for_stream=asked)

    assert ("responded", "encoded", None) == (verdict.outcome, verdict.detail, verdict.finished)
    assert (0, False) == (len(read(GOOD, kind=kind, headers=headers).frame_kinds), read(headers=headers).is_stream)
    assert "interrupted" == judge(GOOD, kind=kind, headers=headers, asked_for_stream=asked, ending=CUT).outcome
    assert "timeout" == judge(GOOD, kind=kind, headers=headers, asked_for_stream=asked, ending=DEADLINE).outcome


def test_identity_is_no_encoding():
    assert "completed" == judge(GOOD, headers=[(b"content-encoding", b"Identity")]).outcome


@pytest.mark.parametrize("kind", [SSE, NDJSON, JSON, ""])
def test_no_content_has_responded(kind):
    assert ("responded", None, None) == summary(judge(status=204, kind=kind))


FEEDS = [
    (SSE, b"data: hello\n\n", 1),
    (SSE, b'event: weather\ndata: {"t": 1}\n\n' * 3, 3),
    (SSE, b"data:\n\n", 1),
    (NDJSON, b'{"t": 1}\n{"t": 2}', 2),
]


@pytest.mark.parametrize(("kind", "wire", "frames"), FEEDS)
def test_another_feed_is_timed_frame_by_frame_and_judged_by_its_end(kind, wire, frames):
    reading = read(wire, kind=kind)

    assert ("other", frames, 0) == (reading.format, len(reading.frame_kinds), reading.output_frames)
    assert (10, None) == (reading.first_frame_ns, reading.first_output_ns)
    assert ("responded", None, None) == summary(judge(wire, kind=kind))
    assert ("interrupted", None, False) == summary(judge(wire, kind=kind, ending=CUT))
    assert ("timeout", None, False) == summary(judge(wire, kind=kind, ending=DEADLINE))
    assert ("unfinished", None, False) == summary(judge(wire, kind=kind, ending=ABANDONED))


def test_a_line_that_is_no_json_breaks_json_lines_even_of_another_feed():
    assert "protocol_error" == judge(b'{"t": 1}\nhello\n', kind=NDJSON).outcome


def test_data_must_be_json_only_once_a_dialect_is_told():
    assert "completed" == judge(b"data: hello\n\n" + GOOD).outcome
    assert "protocol_error" == judge(ROLE + b"data: hello\n\n" + GOOD).outcome


def test_chunks_as_json_lines_are_the_same_stream():
    wire = b"".join(line.removeprefix(b"data: ") + b"\n" for line in GOOD.split(b"\n\n") if line)

    assert ("completed", "stop", True) == summary(judge(wire, kind=NDJSON))


@pytest.mark.parametrize(
    ("ending", "outcome"),
    [
        (Ending("connect", "refused"), "connect_error"),
        (Ending("limit", "descriptors"), "client_limit"),
        (CUT, "interrupted"),
        (DEADLINE, "timeout"),
        (ABANDONED, "unfinished"),
        (Ending("malformed", "status_line"), "protocol_error"),
    ],
)
def test_an_exchange_without_a_response_is_named_by_its_end(ending, outcome):
    verdict = judge(status=None, ending=ending)

    assert (outcome, ending.detail, None, False) == (
        verdict.outcome,
        verdict.detail,
        verdict.finish_reason,
        verdict.finished,
    )


FRAMES = {
    "up to and with the end": (GOOD + text() + DONE, ["role", "text", "finish", "done"]),
    "up to and with the error": (text() + ERROR + finish() + DONE, ["text", "error"]),
    "without the broken one": (text() + BROKEN + text(), ["text"]),
    "without comments": (b": a\n\n:\n\n" + text() + b": b\n" + DONE, ["text", "done"]),
    "with heartbeats": (b"data:\n\n" + text() + b"data: \n\n" + DONE, ["other", "text", "other", "done"]),
    "of every kind": (
        ROLE + REASONING + text() + TOOL + REFUSAL + finish() + sse(Usage(1, 2)) + DONE,
        ["role", "reasoning", "text", "tool", "refusal", "finish", "usage", "done"],
    ),
    "by what leads": (
        b'data: {"choices": [{"delta": {"reasoning": "r", "content": "a"}, "finish_reason": "stop"}], "usage": {}}\n\n',
        ["text"],
    ),
}


@pytest.mark.parametrize("name", FRAMES)
def test_frames_are_counted(name):
    wire, kinds = FRAMES[name]
    names = {code: kind for kind, code in KIND.items()}

    assert kinds == [names[code] for code in read(wire).frame_kinds]


def test_each_moment_is_that_of_the_read_that_completed_its_frame():
    reading = read(b": ping\n\n", ROLE, REASONING, text()[:9], text()[9:], text(), finish(), sse(Usage(1, 2)), DONE)

    assert (1, 20, 30, 50, 60, 90) == (
        reading.headers_ns,
        reading.first_frame_ns,
        reading.first_output_ns,
        reading.first_text_ns,
        reading.last_output_ns,
        reading.terminal_ns,
    )
    assert [20, 30, 50, 60, 70, 80, 90] == list(reading.frame_at_ns)


def test_roles_names_usage_and_finishes_are_no_output():
    reading = read(ROLE + finish() + sse(Usage(1, 2)) + DONE)

    assert (0, 0, None, None) == (
        reading.output_frames,
        reading.output_chars,
        reading.first_output_ns,
        reading.last_output_ns,
    )


def test_what_a_stream_said_is_kept_when_it_breaks_off():
    for tail in (ERROR, BROKEN, NONE):
        reading = read(ROLE, text("é😀"), REASONING, tail, clean=False)
        assert (2, 3, 20, 30) == (
            reading.output_frames,
            reading.output_chars,
            reading.first_text_ns,
            reading.last_output_ns,
        )


@pytest.mark.parametrize(
    ("reports", "output_tokens", "reported"),
    [
        ([], None, False),
        ([Usage(5, 7)], 7, True),
        ([Usage(5, 0), Usage(5, 1), Usage(5, 7)], 7, True),
        ([Usage(5, 7), Usage(5, 9)], 9, True),
        ([Usage(5, 0)], 0, False),
        ([Usage(5, None)], None, False),
    ],
)
def test_the_last_usage_report_counts_and_zero_beside_output_is_none(reports, output_tokens, reported):
    reading = read(text() + finish() + sse(*reports) + DONE)

    assert reported == reading.tokens_reported
    assert output_tokens == (reading.usage.output_tokens if reading.usage else None)


def test_zero_tokens_without_output_are_reported():
    assert read(ROLE + finish() + sse(Usage(5, 0)) + DONE).tokens_reported


@pytest.mark.parametrize(
    ("reads", "uncertainty_ns"),
    [
        ([ROLE, text(), text(), finish() + DONE], 0),
        ([ROLE + text(), text() + finish() + sse(Usage(1, 2)) + DONE], 0),
        ([text() + text(), DONE], 4),
        ([text() + b"data: x", b"\n\n"], 0),
        ([text() + ROLE + finish() + text() + DONE], 4),
        ([DONE + text() + text()], 0),
        ([text()[:9], text()[9:] + text()[:9], text()[9:]], 0),
        ([text()[:9], text()[9:] + text()], 4),
    ],
)
def test_only_outputs_that_share_a_read_are_uncertain(reads, uncertainty_ns):
    assert uncertainty_ns == read(*reads).uncertainty_ns


def said(reading: Reading) -> dict[str, object]:
    """What a reading says whatever the reads were."""
    names = ("format", "failure", "malformed", "ended", "broken", "usage", "choices", "answered", "finishes")
    counts = ("output_frames", "output_chars", "tokens_reported", "frame_kinds", "frame_bytes")
    return {name: getattr(reading, name) for name in (*names, *counts)}


EVENT = st.one_of(
    st.builds(
        Output, st.sampled_from(["text", "reasoning", "tool", "refusal"]), st.sampled_from("aé😀"), st.integers(0, 2)
    ),
    st.builds(Role, st.integers(0, 2)),
    st.builds(Finish, st.sampled_from(["stop", "length", "abort"]), st.integers(0, 2)),
    st.builds(Usage, st.none() | st.integers(0, 9), st.none() | st.integers(0, 9)),
).map(lambda event: sse(event))
ODD = st.sampled_from(
    [DONE, ERROR, BROKEN, b": ping\n\n", b"data:\n\n", b"data: [DONE]", b"event: x\n", b"\r\n", b"data: {"]
)
WIRE = st.tuples(
    st.lists(EVENT, max_size=6), st.lists(ODD, max_size=2), st.lists(EVENT, max_size=2), st.just([DONE])
).map(lambda parts: b"".join(piece for part in parts for piece in part))


@settings(max_examples=200, deadline=None)
@given(WIRE, st.lists(st.integers(0, 3000), max_size=8), st.booleans())
def test_any_split_of_a_stream_gives_the_same_reading(wire, cuts, clean):
    places = [0, *sorted(cut % (len(wire) + 1) for cut in cuts), len(wire)]
    whole = read(wire, clean=clean)
    split = read(*(wire[start:end] for start, end in pairwise(places)), clean=clean)

    assert said(whole) == said(split)
    assert (whole.terminal_ns is None) == (split.terminal_ns is None)


@pytest.mark.parametrize("name", FINISHED_STREAMS)
def test_every_single_cut_of_a_finished_stream_gives_the_same_verdict(name):
    wire, outcome, reason = FINISHED_STREAMS[name]

    for cut in range(len(wire) + 1):
        assert (outcome, reason, True) == summary(judge(wire[:cut], wire[cut:])), cut


def test_a_copy_of_a_stream_that_stops_anywhere_never_completes():
    wire = ROLE + text() + finish() + sse(Usage(1, 2)) + DONE

    for end in range(len(wire)):
        assert judge(wire[:end], ending=CUT).outcome == "interrupted", end
