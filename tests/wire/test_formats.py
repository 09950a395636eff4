"""Every dialect of the table keeps the same promises, whatever its framing: a new one is tested on arrival."""

import gc
import json
from base64 import b64decode
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.results.outcome import CAP, NATURAL, Outcome, Rules, Verdict, decide
from loadgen.results.reading import KIND, Reading
from loadgen.wire.ending import COMPLETE, Ending
from loadgen.wire.events import (
    FRAME_KINDS,
    End,
    Event,
    Failure,
    Finish,
    Malformed,
    Other,
    Output,
    OutputKind,
    Role,
    Told,
    ToolCall,
    Usage,
)
from loadgen.wire.formats import FORMATS, Decode, Dialect
from loadgen.wire.frame import Frame
from loadgen.wire.framing import FRAMINGS
from loadgen.wire.recognise import recognise

APIS = {api: dialect for dialect in FORMATS.values() for api in dialect.encoders}
# Of dialects that have a word of their own for a refusal; elsewhere it is text, and the reason tells.
WITH_REFUSALS = ("openai-chat", "openai-responses")
TEXT_ALONE = ("openai-completions",)
DIALECTS = pytest.mark.parametrize("dialect", FORMATS.values(), ids=lambda dialect: dialect.name)
EVERY_API = pytest.mark.parametrize("api", APIS)


def write(api: str, events: Iterable[Told]) -> bytes:
    encoder = APIS[api].encoders[api]("m")
    return b"".join(map(encoder.encode, events))


def frames_of(api: str, wire: bytes) -> list[Frame]:
    framer = FRAMINGS[APIS[api].content_type]()
    return [*framer.feed(wire), *framer.finish()]


def said(api: str, wire: bytes) -> list[Event]:
    """Everything that a wire says, without what says nothing and what only opens."""
    decode = APIS[api].decoder()
    events = [event for frame in frames_of(api, wire) for event in decode(frame)]
    return [event for event in events if not isinstance(event, Other | Role)]


def read(api: str, *reads: bytes, clean: bool = True, accept_missing_end_marker: bool = False) -> Reading:
    return read_as(APIS[api].content_type, reads, clean=clean, accept_missing_end_marker=accept_missing_end_marker)


def read_as(
    content_type: str, reads: Sequence[bytes], *, clean: bool = True, accept_missing_end_marker: bool = False
) -> Reading:
    reading = Reading()
    reading.head(200, [(b"content-type", content_type.encode())], 1)
    for place, data in enumerate(reads, 1):
        reading.body(data, 10 * place, 10 * place - 4)
    reading.close(10 * len(reads) + 5, clean=clean, accept_missing_end_marker=accept_missing_end_marker)
    return reading


def judge(reading: Reading, ending: Ending = COMPLETE, *, fixed_length: bool = False) -> Verdict:
    return decide(reading, ending, rules=Rules(), asked_for_stream=True, fixed_length=fixed_length)


def summary(verdict: Verdict) -> tuple[str, str | None, bool | None]:
    return verdict.outcome, verdict.finish_reason, verdict.finished


def whole(api: str, *, reason: str | None = None, usage: Usage | None = None) -> bytes:
    """An ordinary answer."""
    report = [] if usage is None else [usage]
    ends = [Finish(reason or APIS[api].natural[0]), *report, End()]
    return write(api, [Role(), Output("text", "hé"), Other(), Output("text", " you"), *ends])


def cut(wire: bytes, places: Iterable[int]) -> list[bytes]:
    ends = [0, *sorted(place % (len(wire) + 1) for place in places), len(wire)]
    return [wire[start:end] for start, end in pairwise(ends)]


# What was written is read.

LETTERS = st.text(min_size=1, max_size=20)
WORD = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=40)
OUTPUTS = st.lists(st.builds(Output, st.sampled_from(["text", "reasoning", "tool"]), LETTERS), max_size=6)
USAGE = st.none() | st.builds(Usage, st.integers(1, 2**40), st.integers(0, 2**40))


@EVERY_API
@settings(max_examples=60, deadline=None)
@given(OUTPUTS, WORD.filter(lambda word: word != "null"), USAGE, st.lists(st.integers(0, 10_000), max_size=8))
def test_what_was_written_is_read_at_any_split(api, outputs, reason, usage, places):
    if api in TEXT_ALONE:
        outputs = [Output("text", output.text) for output in outputs]
    report = [] if usage is None else [usage]
    wire = write(api, [Role(), *outputs, Finish(reason), *report, End()])
    reading = read(api, *cut(wire, places))

    assert outputs == [event for event in said(api, wire) if isinstance(event, Output)]
    assert (APIS[api].name, len(outputs)) == (reading.format, reading.output_frames)
    assert sum(len(output.text) for output in outputs) == reading.output_chars
    assert {0: reason} == reading.finishes
    assert (True, None, None) == (reading.ended, reading.failure, reading.malformed)
    assert reading.terminal_ns is not None
    if usage is not None:
        assert usage == reading.usage


@EVERY_API
@settings(max_examples=40, deadline=None)
@given(OUTPUTS, WORD, st.lists(st.integers(0, 10_000), max_size=8))
def test_an_error_that_was_written_ends_what_is_read(api, outputs, detail, places):
    if api in TEXT_ALONE:
        outputs = [Output("text", output.text) for output in outputs]
    wire = write(api, [Role(), *outputs, Failure(detail)])

    assert [*outputs, Failure(detail)] == said(api, wire)
    verdict = judge(read(api, *cut(wire, places)))
    assert ("api_error", detail) == (verdict.outcome, verdict.detail)


@EVERY_API
def test_an_output_is_one_frame_that_says_just_this(api):
    for kind in get_args(OutputKind):
        output = Output("text" if api in TEXT_ALONE else kind, " a\n")
        shown = output if kind != "refusal" or api in WITH_REFUSALS else Output("text", " a\n")
        assert [shown] == said(api, write(api, [output]))


CALLS = (
    *(ToolCall("c1", "first"), Output("tool", '{"a":'), Output("tool", "1}")),
    *(ToolCall("c2", "second"), Output("tool", '{"b":"c"}')),
)


@EVERY_API
def test_a_call_that_was_opened_is_named_before_its_arguments_which_are_its_own(api):
    wire = write(api, [Role(), Output("text", "a"), *CALLS, Finish(APIS[api].natural[0]), End()])
    decode = APIS[api].decoder()
    outputs = [event for frame in frames_of(api, wire) for event in decode(frame) if isinstance(event, Output)]
    pieces = [output.text for output in outputs if output.kind == "tool"]

    assert "completed" == judge(read(api, wire)).outcome
    if api in TEXT_ALONE:  # it has no place for a call's name: its arguments are text
        assert 'a{"a":1}{"b":"c"}' == "".join(output.text for output in outputs)
        return
    assert pieces in (['{"a":', "1}", '{"b":"c"}'], ['{"a":1}', '{"b":"c"}'])
    data = b"".join(opened(frame.data) for frame in frames_of(api, wire))
    assert data.index(b'"first"') < data.index(b'"second"')
    if not api.startswith("ollama"):  # there the name comes with the arguments
        named = write(api, [Role(), ToolCall("c1", "first")])
        assert {"role", "other"} >= {FRAME_KINDS[kind] for kind in read(api, named).frame_kinds}
        assert b'"c1"' in b"".join(opened(frame.data) for frame in frames_of(api, named))


def opened(data: bytes) -> bytes:
    """What a frame holds, out of the chunk that Bedrock may have put it in."""
    value = json.loads(data) if data.startswith(b"{") else {}
    return b64decode(value["bytes"]) if "bytes" in value else data


@pytest.mark.parametrize("api", ["ollama-chat", "ollama-generate"])
def test_a_call_whose_arguments_never_close_is_not_said(api):
    wire = write(api, [ToolCall("c1", "first"), Output("tool", '{"a":'), Finish("length"), End()])

    assert [Finish("length"), End()] == said(api, wire)


@EVERY_API
def test_after_an_error_the_end_adds_no_good_one(api):
    wire = write(api, [Role(), Output("text", "a"), Failure("broke"), End()])
    verdict = judge(read(api, wire))

    assert ("api_error", "broke") == (verdict.outcome, verdict.detail)
    assert not any(isinstance(event, Finish) for event in said(api, wire))
    if api not in ("openai-chat", "openai-completions"):  # [DONE] says nothing of how it went
        assert End() not in said(api, wire)


@EVERY_API
def test_a_ping_is_a_frame_that_says_nothing(api):
    for wire in (write(api, [Role(), Other()]), whole(api)):
        bare = write(api, [Other()])
        assert 1 == len(frames_of(api, bare))
        assert len(frames_of(api, wire)) < len(frames_of(api, wire + bare))
        assert said(api, wire) == said(api, wire + bare)


@EVERY_API
def test_reports_are_read_whole(api):
    usage = Usage(20, 9, 5, 3)
    reading = read(api, whole(api, usage=usage))

    assert (20, 9) == (reading.usage.input_tokens, reading.usage.output_tokens)
    assert reading.usage.cached_tokens in (5, None)
    assert reading.usage.reasoning_tokens in (3, None)


# What is read is the same wherever the network cut it.


def told(reading: Reading) -> dict[str, object]:
    names = ("format", "failure", "malformed", "ended", "broken", "usage", "choices", "answered", "finishes")
    counts = ("frames", "output_frames", "output_chars", "tokens_reported", "frame_kinds", "frame_bytes")
    return {name: getattr(reading, name) for name in (*names, *counts)}


@EVERY_API
def test_every_single_cut_and_every_byte_alone_give_the_same_reading(api):
    wire = whole(api, usage=Usage(3, 2))
    expected = told(read(api, wire))

    assert expected == told(read(api, *(wire[at : at + 1] for at in range(len(wire)))))
    for place in range(len(wire) + 1):
        assert expected == told(read(api, wire[:place], wire[place:])), place


@EVERY_API
def test_a_frame_has_the_moment_of_its_last_byte(api):
    wire = whole(api, usage=Usage(3, 2))
    at_ns = list(read(api, *(wire[at : at + 1] for at in range(len(wire)))).frame_at_ns)
    framer, ends = FRAMINGS[APIS[api].content_type](), []
    for place in range(len(wire)):
        ends += [10 * (place + 1)] * len(framer.feed(wire[place : place + 1]))

    assert ends == at_ns


@EVERY_API
def test_a_copy_that_stops_anywhere_completes_only_with_its_end_marker(api):
    wire = whole(api)
    (end_ns,) = {read(api, *(wire[at : at + 1] for at in range(len(wire)))).terminal_ns}

    for size in range(len(wire)):
        for ending in (COMPLETE, Ending("cut", "closed")):
            verdict = judge(read(api, wire[:size], clean=ending is COMPLETE), ending)
            # At a clean end a last line may lack its newline.
            least = end_ns // 10 - (4 if ending is COMPLETE else 0)
            assert size >= least or verdict.outcome == "interrupted", size


# Outcomes.


@EVERY_API
def test_an_ordinary_answer_completes_and_its_moments_are_known(api):
    events = [Role()], [Output("text", "a")], [Output("text", "b")], [Finish(APIS[api].natural[0])], [Usage(3, 2)]
    encoder = APIS[api].encoders[api]("m")
    reads = [b"".join(map(encoder.encode, said)) for said in (*events, [End()])]
    reading = read(api, *reads)

    assert ("completed", APIS[api].natural[0], True) == summary(judge(reading))
    assert (20, 20, 30, 60) == (
        reading.first_output_ns,
        reading.first_text_ns,
        reading.last_output_ns,
        reading.terminal_ns,
    )
    assert (True, 2) == (reading.tokens_reported, reading.usage.output_tokens)


@EVERY_API
def test_the_dialects_own_words_have_their_class(api):
    for word in APIS[api].natural:
        assert ("completed", word, True) == summary(judge(read(api, whole(api, reason=word))))
    for word in APIS[api].cap:
        assert ("truncated", word, True) == summary(judge(read(api, whole(api, reason=word))))
    for word in ("refusal", "content_filter", "no such word"):
        assert ("noneligible_finish", word, True) == summary(judge(read(api, whole(api, reason=word))))


@EVERY_API
def test_a_request_that_fixed_its_length_ends_naturally_at_its_own_limit(api):
    limit, *others = APIS[api].cap

    assert "completed" == judge(read(api, whole(api, reason=limit)), fixed_length=True).outcome
    for word in others:
        assert "truncated" == judge(read(api, whole(api, reason=word)), fixed_length=True).outcome


def test_no_word_is_both_natural_and_a_limit():
    assert set() == NATURAL & CAP


@EVERY_API
def test_arguments_answer_and_reasoning_alone_does_not(api):
    ends = [Finish(APIS[api].natural[0]), End()]
    kinds = ("text",) if api in TEXT_ALONE else ("text", "tool")

    for kind in kinds:
        assert "completed" == judge(read(api, write(api, [Role(), Output(kind, "a"), *ends]))).outcome
    for events in ([Role()], [Role()] if api in TEXT_ALONE else [Role(), Output("reasoning", "a")]):
        verdict = judge(read(api, write(api, [*events, *ends])))
        assert ("noneligible_finish", "no_answer") == (verdict.outcome, verdict.detail)


@EVERY_API
@pytest.mark.parametrize("how", ["cut", "lingered", "deadline", "abandoned"])
def test_after_the_end_marker_the_connection_can_only_unfinish(api, how):
    wire = whole(api, usage=Usage(3, 2))

    assert ("completed", APIS[api].natural[0], False) == summary(judge(read(api, wire, clean=False), Ending(how)))


@EVERY_API
def test_after_the_end_marker_nothing_that_is_said_changes_the_outcome(api):
    wire = whole(api)
    expected = summary(judge(read(api, wire)))
    more = (write(api, [Failure("broke")]), write(api, [Output("text", "b")]), whole(api), b"\xff{garbage", wire[:9])

    for after in more:
        for reads in ([wire + after], [wire, after], [wire, *(after[at : at + 1] for at in range(len(after)))]):
            reading = read(api, *reads)
            assert expected == summary(judge(reading))
            assert 2 == reading.output_frames


@EVERY_API
def test_a_missing_end_marker_is_accepted_after_a_finish_where_asked(api):
    wire = whole(api)
    for size in range(len(wire)):
        reading = read(api, wire[:size], accept_missing_end_marker=True)
        outcome = judge(reading).outcome
        assert outcome == ("completed" if reading.finishes else "interrupted"), size


# Recognition.


@EVERY_API
def test_the_first_telling_frame_of_a_stream_tells_its_dialect_alone(api):
    is_line = APIS[api].content_type == "application/x-ndjson"
    shown = [recognise(frame, is_line=is_line) for frame in frames_of(api, whole(api, usage=Usage(3, 2)))]

    assert {APIS[api].name} == {dialect.name for dialect in shown if dialect is not None}
    assert APIS[api].name == next(dialect.name for dialect in shown if dialect)


@DIALECTS
def test_a_dialect_stands_under_its_name_and_has_a_framing(dialect: Dialect):
    assert dialect is FORMATS[dialect.name]
    assert dialect.content_type in FRAMINGS
    assert dialect.encoders
    assert dialect.natural
    assert dialect.cap


@EVERY_API
@pytest.mark.parametrize("kind", ["application/json", "text/plain", "application/octet-stream", ""])
def test_a_stream_under_no_streams_content_type_is_a_protocol_error_that_names_it(api, kind):
    reading = read_as(kind, [whole(api)])
    verdict = judge(reading)

    assert ("protocol_error", f"not_a_stream:{kind or 'no_content_type'}") == (verdict.outcome, verdict.detail)
    assert (None, 0, False) == (reading.format, reading.frames, reading.is_stream)


@EVERY_API
@pytest.mark.parametrize("kind", sorted({dialect.content_type for dialect in FORMATS.values()}))
def test_a_stream_under_another_framings_content_type_is_a_protocol_error_that_names_it(api, kind):
    wire = whole(api)
    if kind == APIS[api].content_type:
        return
    for reads in ([wire], [wire[at : at + 1] for at in range(len(wire))], [b"", wire[:5], wire[5:]]):
        reading = read_as(kind, reads)
        verdict = judge(reading)
        assert ("protocol_error", f"not_a_stream:{kind}") == (verdict.outcome, verdict.detail)
        assert (None, 0, False) == (reading.format, reading.frames, reading.is_stream)


@EVERY_API
@pytest.mark.parametrize("coding", ["gzip", "br", "zstd", "GZIP", "identity, gzip"])
def test_an_encoded_stream_is_not_split(api, coding):
    reading = Reading()
    kind = APIS[api].content_type.encode()
    reading.head(200, [(b"content-type", kind), (b"content-encoding", coding.encode())], 1)
    reading.body(whole(api), 10, 5)
    reading.close(20, clean=True)

    assert ("responded", "encoded") == (judge(reading).outcome, judge(reading).detail)
    assert (0, None, False) == (reading.frames, reading.format, reading.is_stream)


# Nothing that a server can say breaks a decoder.

NAMES = st.sampled_from(
    [
        *("type", "delta", "text", "content", "message", "response", "done", "error", "usage", "choices"),
        *("input", "output", "tool_calls", "toolUse", "function", "arguments", "content_block", "item"),
        *("item_id", "part", "bytes", "p", "thinking", "reasoningContent", "partial_json", "stop_reason"),
        *("stopReason", "done_reason", "eval_count", "output_tokens", "input_tokens", "outputTokens"),
        *("amazon-bedrock-invocationMetrics", "outputTokenCount", "messageStop", "metadata", "contentBlockDelta"),
        *("start", "status", "incomplete_details", "reason", "code", "generation", "outputs", "detail"),
        *("name", "output_index", "content_index", "summary"),
    ]
)
TYPES = st.sampled_from(
    [
        *("message_start", "message_delta", "message_stop", "content_block_start", "content_block_delta"),
        *("text_delta", "thinking_delta", "input_json_delta", "tool_use", "error", "ping", "text", "thinking"),
        *("message", "reasoning", "response.created", "response.completed", "response.incomplete"),
        *("response.failed", "response.output_item.done", "response.output_text.delta"),
        *("response.output_text.done", "response.content_part.done", "response.x.delta"),
        *("response.function_call_arguments.done", "response.output_item.added", "response.audio.delta"),
    ]
)
LEAF = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | TYPES | st.just("\ud83d")
VALUE = st.recursive(
    LEAF, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5), max_leaves=12
)
OBJECT = st.dictionaries(NAMES, VALUE, max_size=6)
EVENT_NAMES = st.sampled_from([b"", b"error", b"ping", b"message_stop", b"content_block_delta", b"response.completed"])


def is_sound(decode: Decode, frame: Frame) -> bool:
    """Whether a decoder says only sound things of a frame, or that it is malformed."""
    try:
        events = decode(frame)
    except Malformed as error:
        return str(error) in ("json", "json_not_an_object", "base64")
    assert events
    for event in events:
        assert not isinstance(event, Output) or event.text
        assert not isinstance(event, Finish) or event.reason
        assert not isinstance(event, Failure) or event.detail
        assert not isinstance(event, Usage) or all(
            count is None or 0 <= count < 2**63
            for count in (event.input_tokens, event.output_tokens, event.cached_tokens, event.reasoning_tokens)
        )
    return True


@DIALECTS
@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(EVENT_NAMES, OBJECT), min_size=1, max_size=4))
def test_no_object_raises_anything_but_malformed(dialect, objects):
    decode = dialect.decoder()
    for name, value in objects:
        frame = Frame(name, json.dumps(value).encode())
        assert {shown.name for shown in (recognise(frame), recognise(frame, is_line=True)) if shown} <= set(FORMATS)
        assert is_sound(decode, frame)


@DIALECTS
@pytest.mark.parametrize(
    "data",
    [
        *(b"", b" ", b"{", b"[1]", b"7", b'"a"', b"null", b"hello", b"\xff", b"[DONE]", b'{"type": "\\ud83d"}'),
        *(b"[" * 100_000, b'{"delta":' * 100_000, b'{"delta":' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001, b"9" * 5_000),
        *(b'{"error": {"code": ' + b"9" * 5_000 + b"}}", b'{"usage": {"output_tokens": NaN}}', b'{"delta": 1e999}'),
        b'{"message": {"tool_calls": [{"function": {"arguments": {"a": "\\ud83d", "b": 1' + b"0" * 30 + b"}}}]}}",
    ],
    ids=lambda data: repr(data[:20]),
)
@pytest.mark.parametrize("event", [b"", b"error"])
def test_no_bytes_raise_anything_but_malformed(dialect, data, event):
    assert is_sound(dialect.decoder(), Frame(event, data))


@DIALECTS
@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=30), max_size=6))
def test_any_bytes_give_a_verdict(dialect, reads):
    assert judge(read_as(dialect.content_type, reads)).outcome in get_args(Outcome)


@EVERY_API
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_damaged_stream_gives_a_verdict_that_no_split_changes(api, data):
    wire = bytearray(whole(api, usage=Usage(3, 2)))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(wire) - 1))
        wire[at] = data.draw(st.integers(0, 255))
    places = data.draw(st.lists(st.integers(0, len(wire)), max_size=6))
    one, other = read(api, bytes(wire)), read(api, *cut(bytes(wire), places))

    assert told(one) == told(other)
    assert judge(one) == judge(other)


@EVERY_API
def test_a_stream_that_was_read_leaves_nothing_to_collect(api):
    wires = [whole(api, usage=Usage(3, 2)), write(api, [Role(), Failure("broke")]), b"\xff" * 20, whole(api)[:-1]]
    gc.collect()
    gc.disable()
    try:
        for wire in wires:
            judge(read(api, wire))
        assert 0 == gc.collect()
    finally:
        gc.enable()


def test_the_names_are_those_of_the_contract():
    assert {"openai", "openai-responses", "anthropic", "ollama", "bedrock"} == set(FORMATS)
    openai = {"openai-chat", "openai-completions", "openai-responses"}
    assert openai | {"anthropic", "ollama-chat", "ollama-generate", "bedrock-converse", "bedrock-anthropic"} == set(
        APIS
    )


@EVERY_API
def test_frames_are_counted_by_what_leads_them(api):
    reading = read(api, whole(api, usage=Usage(3, 2)))

    assert reading.frames == len(reading.frame_kinds) == len(reading.frame_at_ns) == len(reading.frame_bytes)
    assert 2 == bytes(reading.frame_kinds).count(KIND["text"])
    assert 0 == bytes(reading.frame_kinds).count(KIND["error"])
