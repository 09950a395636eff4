"""Anthropic Messages: every event says one thing, and the counts of a stream are its last."""

import json

import pytest

from loadgen.wire.events import OTHER, End, Event, Failure, Finish, Malformed, Other, Output, Role, Usage
from loadgen.wire.formats.anthropic import METRICS, Decoder, Encoder
from loadgen.wire.frame import Frame
from loadgen.wire.framing import ServerSentEvents
from loadgen.wire.recognise import recognise


def said(*values: object, event: bytes = b"") -> list[Event]:
    """What the frames of one stream say."""
    decode = Decoder().decode
    return [event_ for value in values for event_ in decode(Frame(event, json.dumps(value).encode()))]


def delta(kind: object, **fields: object) -> dict[str, object]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": kind, **fields}}


def start(kind: object, **fields: object) -> dict[str, object]:
    return {"type": "content_block_start", "index": 0, "content_block": {"type": kind, **fields}}


def begun(**usage: object) -> dict[str, object]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "stop_reason": None}
    return {"type": "message_start", "message": {**message, "usage": usage}}


def ended(reason: object = None, **usage: object) -> dict[str, object]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}


TEXT, REASONING, TOOL = Output("text", "a"), Output("reasoning", "a"), Output("tool", "a")
SAYINGS = {
    "text": (delta("text_delta", text="a"), [TEXT]),
    "a blank": (delta("text_delta", text="\n"), [Output("text", "\n")]),
    "empty text": (delta("text_delta", text=""), [Other()]),
    "null text": (delta("text_delta", text=None), [Other()]),
    "no text": (delta("text_delta"), [Other()]),
    "text that is none": (delta("text_delta", text=7), [Other()]),
    "thinking": (delta("thinking_delta", thinking="a", estimated_tokens=9), [REASONING]),
    "empty thinking": (delta("thinking_delta", thinking=""), [Other()]),
    "a signature": (delta("signature_delta", signature="c2VhbA=="), [Other()]),
    "arguments": (delta("input_json_delta", partial_json="a"), [TOOL]),
    "empty arguments": (delta("input_json_delta", partial_json=""), [Other()]),
    "a citation": (delta("citations_delta", citation={"cited_text": "a"}), [Other()]),
    "a compaction": (delta("compaction_delta", content="a", encrypted_content="a"), [Other()]),
    "a delta of the future": (delta("mood_delta", text="a", thinking="a", partial_json="a"), [Other()]),
    "a delta without a type": (delta(None, text="a"), [Other()]),
    "a delta of another type": (delta(7, text="a"), [Other()]),
    "a null delta": ({"type": "content_block_delta", "index": 0, "delta": None}, [Other()]),
    "a delta that is none": ({"type": "content_block_delta", "index": 0, "delta": "a"}, [Other()]),
    "no delta": ({"type": "content_block_delta", "index": 0}, [Other()]),
    "a block of text": (start("text", text=""), [Other()]),
    "a block that begins with text": (start("text", text="a", citations=None), [TEXT]),
    "a block of thinking": (start("thinking", thinking="", signature=""), [Other()]),
    "a block that begins with thinking": (start("thinking", thinking="a", signature=""), [REASONING]),
    "redacted thinking": (start("redacted_thinking", data="b3BhcXVl"), [Other()]),
    "a tool by name": (start("tool_use", id="1", name="f", input={}), [Role()]),
    "a tool without input": (start("tool_use", id="1", name="f"), [Role()]),
    "a tool with its input": (start("tool_use", id="1", name="f", input={"a": 1}), [Output("tool", '{"a":1}')]),
    "a tool with its input as text": (start("tool_use", id="1", name="f", input='{"a"'), [Output("tool", '{"a"')]),
    "a server's tool": (start("server_tool_use", id="1", name="web_search", input={}), [Role()]),
    "an MCP server's tool": (start("mcp_tool_use", id="1", name="f", input={"a": 1}), [Output("tool", '{"a":1}')]),
    "a tool's result": (start("web_search_tool_result", content=[{"text": "a"}], text="a"), [Other()]),
    "an MCP tool's result": (start("mcp_tool_result", content=[{"type": "text", "text": "a"}]), [Other()]),
    "a block of the future": (start("dream", text="a", thinking="a", input={"a": 1}), [Other()]),
    "a null block": ({"type": "content_block_start", "index": 0, "content_block": None}, [Other()]),
    "a block without a type": (start(None, text="a"), [Other()]),
    "the end of a block": ({"type": "content_block_stop", "index": 0}, [Other()]),
    "a ping": ({"type": "ping"}, [Other()]),
    "an event of the future": ({"type": "weather_report", "text": "a", "delta": {"text": "a"}}, [Other()]),
    "a beginning": (begun(), [Role()]),
    "a beginning with content": ({"type": "message_start", "message": {"content": [{"text": "a"}]}}, [Role()]),
    "a beginning without a message": ({"type": "message_start"}, [Role()]),
    "a reason": (ended("end_turn") | {"usage": None}, [Finish("end_turn")]),
    "a null reason": (ended(None) | {"usage": None}, [Other()]),
    "an empty reason": (ended("") | {"usage": None}, [Other()]),
    "a reason that is none": (ended(7) | {"usage": None}, [Other()]),
    "no reason": ({"type": "message_delta", "delta": {}}, [Other()]),
    "a null delta at the end": ({"type": "message_delta", "delta": None, "usage": None}, [Other()]),
    "a refusal": (
        {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": {"category": "c"}}},
        [Finish("refusal")],
    ),
    "no type at all": ({"text": "a"}, [Other()]),
    "nothing": ({}, [Other()]),
}


@pytest.mark.parametrize("name", SAYINGS)
def test_an_event_says_what_the_table_says(name):
    value, events = SAYINGS[name]

    assert events == said(value)


@pytest.mark.parametrize("name", SAYINGS)
def test_the_events_name_says_nothing_beside_its_type(name):
    value, events = SAYINGS[name]
    if "type" in value:
        assert events == said(value, event=b"ping") == said(value, event=value["type"].encode())


@pytest.mark.parametrize("name", SAYINGS)
def test_an_event_without_a_type_is_what_its_name_says(name):
    value, events = SAYINGS[name]
    if "type" in value and value["type"] != "content_block_delta":
        bare = {field: inner for field, inner in value.items() if field != "type"}
        assert events == said(bare, event=value["type"].encode())


def test_a_delta_without_a_type_of_event_is_what_its_name_says():
    bare = {"index": 0, "delta": {"type": "text_delta", "text": "a"}}

    assert [TEXT] == said(bare, event=b"content_block_delta")
    assert [Other()] == said(bare)


# Counts.

USAGES = {
    "the usual": ([begun(input_tokens=20, output_tokens=1), ended("end_turn", output_tokens=7)], Usage(20, 7)),
    "running totals": ([begun(input_tokens=20), ended(output_tokens=4), ended(output_tokens=12)], Usage(20, 12)),
    "a zero at last": ([begun(input_tokens=20), ended(output_tokens=4), ended(output_tokens=0)], Usage(20, 4)),
    "no output": ([begun(input_tokens=20, output_tokens=3), ended("end_turn")], Usage(20, None)),
    "no output at last": ([begun(input_tokens=20), ended(output_tokens=4), ended("end_turn")], Usage(20, 4)),
    "output of zero": ([begun(input_tokens=20, output_tokens=3), ended(output_tokens=0)], Usage(20, 0)),
    "cached": (
        [
            begun(input_tokens=5, cache_creation_input_tokens=7, cache_read_input_tokens=8, output_tokens=1),
            ended(output_tokens=2),
        ],
        Usage(20, 2, 8),
    ),
    "nothing cached": ([begun(input_tokens=20, cache_read_input_tokens=0), ended(output_tokens=2)], Usage(20, 2, 0)),
    "all cached": ([begun(input_tokens=0, cache_read_input_tokens=9), ended(output_tokens=2)], Usage(9, 2, 9)),
    "input at last": ([begun(input_tokens=0), ended(input_tokens=20, output_tokens=2)], Usage(20, 2)),
    "input of zero at last": ([begun(input_tokens=20), ended(input_tokens=0, output_tokens=2)], Usage(20, 2)),
    "input twice": ([begun(input_tokens=20), ended(input_tokens=21, output_tokens=2)], Usage(21, 2)),
    "thinking": (
        [begun(input_tokens=20), ended(output_tokens=9, output_tokens_details={"thinking_tokens": 6})],
        Usage(20, 9, None, 6),
    ),
    "null details": ([ended(output_tokens=9, output_tokens_details=None)], Usage(None, 9)),
    "no beginning": ([ended("end_turn", output_tokens=7)], Usage(None, 7)),
    "strings": ([begun(input_tokens="20"), ended(output_tokens="7")], Usage(20, 7)),
    "floats": ([begun(input_tokens=20.0), ended(output_tokens=7.0)], Usage(20, 7)),
    "nulls": ([begun(input_tokens=None), ended(output_tokens=7, input_tokens=None)], Usage(None, 7)),
    "no counts": ([begun(input_tokens="many"), ended(output_tokens=-1)], Usage()),
    "Bedrock's own": (
        [
            begun(input_tokens=20),
            {"type": "message_stop", METRICS: {"inputTokenCount": 21, "outputTokenCount": 16, "firstByteLatency": 9}},
        ],
        Usage(21, 16),
    ),
    "Bedrock's own after its vendor's": (
        [ended(output_tokens=11), {"type": "message_stop", METRICS: {"outputTokenCount": 12}}],
        Usage(None, 12),
    ),
}


@pytest.mark.parametrize("name", USAGES)
def test_the_last_report_counts_and_keeps_what_it_does_not_say(name):
    values, usage = USAGES[name]

    assert usage == [event for event in said(*values) if isinstance(event, Usage)][-1]


def test_the_seed_of_a_stream_reports_no_output():
    assert [Role(), Usage(20)] == said(begun(input_tokens=20, output_tokens=8))
    assert [Role()] == said(begun(input_tokens=0, output_tokens=8))


@pytest.mark.parametrize("usage", [None, 7, [], "12"])
def test_what_is_no_report_counts_nothing(usage):
    assert [Finish("end_turn")] == said(ended("end_turn") | {"usage": usage})
    assert [Role()] == said({"type": "message_start", "message": {"usage": usage}})


def test_streams_count_apart():
    assert [Role(), Usage(20)] == said(begun(input_tokens=20))
    assert [Usage(None, 7)] == said(ended(output_tokens=7))


# Ends and errors.


def test_only_message_stop_ends_a_stream():
    events = said(begun(), start("text", text=""), ended("end_turn", output_tokens=1), {"type": "message_stop"})

    assert ["Role", "Other", "Usage", "Finish", "End"] == [type(event).__name__ for event in events]
    assert [Other()] == [*Decoder().decode(Frame(b"", b"[DONE]"))]


ERRORS = {
    "the usual": ({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, "overloaded_error"),
    "with a request": ({"type": "error", "error": {"type": "api_error"}, "request_id": "r"}, "api_error"),
    "a code": ({"type": "error", "error": {"code": 529, "message": "m"}}, "529"),
    "a text": ({"type": "error", "error": "it broke"}, "error"),
    "nothing in it": ({"type": "error"}, "error"),
    "at the top": ({"type": "error", "message": "m", "code": "busy"}, "busy"),
    "without a type": ({"error": {"type": "t", "message": "m"}}, "t"),
    "a bare text": ({"error": "it broke"}, "error"),
    "a detail": ({"detail": "not found"}, "error"),
    "a bare message": ({"message": "m", "code": 500}, "500"),
    "beside a ping": ({"type": "ping", "error": {"type": "t"}}, "t"),
    "beside a delta": (delta("text_delta", text="a") | {"error": {"type": "t"}}, "t"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_every_shape_of_error_is_a_failure(name):
    value, detail = ERRORS[name]

    assert [Failure(detail)] == said(value)
    assert [Failure(detail)] == said(value, event=b"error")
    assert [Role(), Failure(detail)] == said(begun(), value)


@pytest.mark.parametrize("error", [None, False, "", {}])
def test_an_error_that_is_not_there_is_none(error):
    assert [TEXT] == said(delta("text_delta", text="a") | {"error": error})
    assert [Other()] == said({"type": "ping", "error": error})


@pytest.mark.parametrize("data", [b"", b"it broke", b"[]", b"7", b"{", b"{}"])
def test_an_event_named_error_is_a_failure_whatever_its_data(data):
    assert [Failure("error")] == [*Decoder().decode(Frame(b"error", data))]


@pytest.mark.parametrize("data", [b"{", b"hello", b"[1]", b"7", b'"a"', b'{"type": "ping"} {"type": "ping"}'])
def test_what_is_no_json_object_is_malformed(data):
    with pytest.raises(Malformed, match=r"^json"):
        Decoder().decode(Frame(b"", data))


@pytest.mark.parametrize("data", [b"", b" ", b"\n", b"[DONE]", b" [DONE]\r"])
def test_a_heartbeat_and_anothers_end_marker_say_nothing(data):
    assert OTHER == Decoder().decode(Frame(b"", data))


@pytest.mark.parametrize("text", [b"\xff", b"\\ud83d", b"\xe2\x80"])
def test_text_that_is_no_unicode_is_still_one_letter_of_output(text):
    (event,) = Decoder().decode(
        Frame(b"", b'{"type":"content_block_delta","delta":{"type":"text_delta","text":"' + text + b'"}}')
    )

    assert ("text", 1) == (event.kind, len(event.text))


# Recognition.

SHOWS = [
    (begun(), "anthropic"),
    (ended(), "anthropic"),
    (start("text", text=""), "anthropic"),
    (delta("text_delta", text="a"), "anthropic"),
    ({"type": "content_block_stop", "index": 0}, "anthropic"),
    ({"type": "message_stop"}, "anthropic"),
    ({"type": "error", "error": {"type": "overloaded_error"}}, "anthropic"),
    ({"type": "error", "error": "it broke"}, "openai"),
    ({"error": {"type": "overloaded_error"}}, "openai"),
    ({"type": "ping"}, None),
    ({"type": "message"}, None),
    ({"type": ["message_start"]}, None),
    ({"type": None}, None),
]


@pytest.mark.parametrize(("value", "name"), SHOWS)
def test_the_dialect_is_told_by_its_types(value, name):
    dialect = recognise(Frame(b"", json.dumps(value).encode()))

    assert name == (dialect.name if dialect else None)


def test_the_dialect_is_told_by_an_events_name_where_there_is_no_type():
    assert "anthropic" == recognise(Frame(b"message_start", b"{}")).name
    assert None is recognise(Frame(b"message_start", b"hello"))
    assert None is recognise(Frame(b"message_start", b'{"type": "notice"}'))


# Writing.


def test_blocks_are_opened_and_closed_around_what_they_hold():
    encoder = Encoder(model="m")
    events = [Role(), REASONING, TEXT, Output("text", "b"), TOOL, Finish("tool_use"), Usage(20, 7), End()]
    wire = b"".join(map(encoder.encode, events))
    frames = ServerSentEvents().feed(wire)

    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    expected = ["message_start", *block, *block[:2], *block[1:], *block, "message_delta", "message_stop"]
    assert expected == [frame.event.decode() for frame in frames]
    assert expected == [json.loads(frame.data)["type"] for frame in frames]
    indexes = [json.loads(frame.data)["index"] for frame in frames if b'"index"' in frame.data]
    assert [0, 0, 0, 1, 1, 1, 1, 2, 2, 2] == indexes
