"""OpenAI Responses: pieces are output, wholes repeat them, and one event ends the response."""

import json

import pytest

from loadgen.wire.events import END, OTHER, End, Event, Failure, Finish, Malformed, Other, Output, Role, ToolCall, Usage
from loadgen.wire.formats.responses import Decoder, Encoder, with_numbers
from loadgen.wire.frame import Frame
from loadgen.wire.framing import ServerSentEvents
from loadgen.wire.recognise import recognise


def said(*values: object, event: bytes = b"") -> list[Event]:
    """What the frames of one stream say."""
    decode = Decoder().decode
    return [event_ for value in values for event_ in decode(Frame(event, json.dumps(value).encode()))]


def spoken(*values: object) -> list[Event]:
    return [event for event in said(*values) if isinstance(event, Output)]


def piece(stem: str, delta: object = "a", item: object = "item_1", **fields: object) -> dict[str, object]:
    return {"type": f"response.{stem}.delta", "item_id": item, "output_index": 0, "delta": delta, **fields}


def whole(stem: str, item: object = "item_1", **fields: object) -> dict[str, object]:
    return {"type": f"response.{stem}.done", "item_id": item, "output_index": 0, **fields}


def part(item: object = "item_1", **fields: object) -> dict[str, object]:
    return {
        "type": "response.content_part.done",
        "item_id": item,
        "output_index": 0,
        "content_index": 0,
        "part": fields,
    }


def item(kind: str = "message", id: object = "item_1", **fields: object) -> dict[str, object]:
    return {"type": "response.output_item.done", "output_index": 0, "item": {"id": id, "type": kind, **fields}}


def ended(name: str, **fields: object) -> dict[str, object]:
    return {
        "type": f"response.{name}",
        "sequence_number": 9,
        "response": {"id": "resp_1", "object": "response", **fields},
    }


PIECES = {
    "output_text": "text",
    "refusal": "refusal",
    "reasoning_text": "reasoning",
    "reasoning_summary_text": "reasoning",
    "reasoning": "reasoning",
    "reasoning_summary": "reasoning",
    "function_call_arguments": "tool",
    "mcp_call_arguments": "tool",
    "custom_tool_call_input": "tool",
    "code_interpreter_call_code": "tool",
    "shell_call_command": "tool",
    "audio.transcript": "text",
    "output_audio_transcript": "text",
    "words_of_the_future": "text",
    "future_call": "tool",
    "audio": None,
    "output_audio": None,
    "shell_call_output_content": None,
}


@pytest.mark.parametrize("stem", PIECES)
def test_a_piece_is_output_of_its_kind(stem):
    kind = PIECES[stem]

    assert ([Other()] if kind is None else [Output(kind, "a")]) == said(piece(stem, obfuscation="xyz"))
    assert [Other()] * 6 == said(*(piece(stem, delta) for delta in ("", None, 7, {"stdout": "a"}, ["a"], True)))
    assert ([] if kind is None else [Output(kind, "a"), Output(kind, " ")]) == spoken(piece(stem), piece(stem, " "))


SAYINGS = {
    "a beginning": (ended("created", usage=None, status="in_progress"), [Other()]),
    "a queue": (ended("queued"), [Other()]),
    "progress": (ended("in_progress", output=[{"content": [{"text": "a"}]}]), [Other()]),
    "a message opens": ({"type": "response.output_item.added", "item": {"type": "message", "content": []}}, [Role()]),
    "reasoning opens": ({"type": "response.output_item.added", "item": {"type": "reasoning"}}, [Other()]),
    "a tool by name": (
        {"type": "response.output_item.added", "item": {"type": "function_call", "name": "f", "arguments": ""}},
        [Role()],
    ),
    "a tool that opens with arguments": (
        {"type": "response.output_item.added", "item": {"type": "function_call", "name": "f", "arguments": "{}"}},
        [Role()],
    ),
    "nothing opens": ({"type": "response.output_item.added", "item": None}, [Other()]),
    "a part opens": ({"type": "response.content_part.added", "part": {"type": "output_text", "text": ""}}, [Other()]),
    "a command opens": ({"type": "response.shell_call_command.added", "command": ""}, [Other()]),
    "a command that opens whole": (
        {"type": "response.shell_call_command.added", "command": "ls"},
        [Output("tool", "ls")],
    ),
    "an annotation": ({"type": "response.output_text.annotation.added", "annotation": {"text": "a"}}, [Other()]),
    "a search": ({"type": "response.web_search_call.completed", "item_id": "1"}, [Other()]),
    "a tool's failure": ({"type": "response.mcp_call.failed", "item_id": "1"}, [Other()]),
    "an image": ({"type": "response.image_generation_call.partial_image", "partial_image_b64": "YQ=="}, [Other()]),
    "the end of sound": ({"type": "response.audio.done"}, [Other()]),
    "a keepalive": ({"type": "keepalive", "sequence_number": 3}, [Other()]),
    "an event of the future": ({"type": "response.omen", "text": "a", "delta": "a"}, [Other()]),
    "an end of another kind": ({"type": "completed", "response": {"status": "completed"}}, [Other()]),
    "no type": ({"delta": "a"}, [Other()]),
    "nothing": ({}, [Other()]),
}


@pytest.mark.parametrize("name", SAYINGS)
def test_an_event_says_what_the_table_says(name):
    value, events = SAYINGS[name]

    assert events == said(value)
    if "type" in value:
        assert events == said(value, event=value["type"].encode())


def test_an_event_without_a_type_is_what_its_name_says():
    assert [Output("text", "a")] == said({"delta": "a"}, event=b"response.output_text.delta")
    assert [Finish("completed"), *END] == said({"response": {}}, event=b"response.completed")


# What came as a whole counts once, and only of an item of which no piece came.

TEXT, REASONING, TOOL = Output("text", "a"), Output("reasoning", "a"), Output("tool", "a")
MESSAGE = item(content=[{"type": "output_text", "text": "a"}])
CALL = item("function_call", name="f", arguments="a")
WHOLES = {
    "repeats of text": ([piece("output_text"), whole("output_text", text="a"), part(text="a"), MESSAGE], [TEXT]),
    "repeats of arguments": (
        [piece("function_call_arguments"), whole("function_call_arguments", arguments="a"), CALL],
        [TOOL],
    ),
    "repeats of reasoning": (
        [
            piece("reasoning_text", summary_index=None),
            whole("reasoning_text", text="a"),
            item("reasoning", content=[{"type": "reasoning_text", "text": "a"}]),
        ],
        [REASONING],
    ),
    "repeats of a refusal": (
        [piece("refusal"), whole("refusal", refusal="a"), item(content=[{"type": "refusal", "refusal": "a"}])],
        [Output("refusal", "a")],
    ),
    "text that came whole": ([whole("output_text", text="a"), part(text="a"), MESSAGE], [TEXT]),
    "text that came whole twice": ([whole("output_text", text="a")] * 2, [TEXT]),
    "two parts that came whole": (
        [whole("output_text", text="a", content_index=0), whole("output_text", text="b", content_index=1), MESSAGE],
        [TEXT, Output("text", "b")],
    ),
    "a part alone": ([part(type="output_text", text="a"), MESSAGE], [TEXT]),
    "a part of reasoning alone": ([part(type="reasoning_text", text="a")], [REASONING]),
    "a part that is a refusal": ([part(type="refusal", refusal="a")], [Output("refusal", "a")]),
    "a message alone": ([MESSAGE], [TEXT]),
    "a message alone, twice": ([MESSAGE, MESSAGE], [TEXT]),
    "a call alone": ([CALL], [TOOL]),
    "a call alone with an object": ([item("function_call", arguments={"a": 1})], [Output("tool", '{"a":1}')]),
    "a custom call alone": ([item("custom_tool_call", input="a")], [TOOL]),
    "code alone": ([item("code_interpreter_call", code="a", outputs=[{"logs": "b"}])], [TOOL]),
    "reasoning alone": (
        [item("reasoning", summary=[{"type": "summary_text", "text": "a"}], content=None)],
        [REASONING],
    ),
    "arguments that came whole": ([whole("function_call_arguments", arguments="a", name="f"), CALL], [TOOL]),
    "input that came whole": ([whole("custom_tool_call_input", input="a")], [TOOL]),
    "code that came whole": ([whole("code_interpreter_call_code", code="a")], [TOOL]),
    "a command that came whole": ([whole("shell_call_command", command="a")], [TOOL]),
    "a command said at its opening": (
        [
            {"type": "response.shell_call_command.added", "item_id": "item_1", "command": "a"},
            whole("shell_call_command", command="a"),
        ],
        [TOOL],
    ),
    "a transcript that came whole": ([whole("audio.transcript", transcript="a")], [TEXT]),
    "sound that came whole": ([whole("audio", text="a")], []),
    "items apart": (
        [piece("output_text"), whole("output_text", "item_2", text="b") | {"output_index": 1}],
        [TEXT, Output("text", "b")],
    ),
    "another kind of the same item": (
        [piece("reasoning_summary_text"), whole("output_text", text="a")],
        [REASONING, TEXT],
    ),
    "items known by place alone": (
        [piece("output_text", item=None), whole("output_text", None, text="a"), item(id=None, content=[{"text": "a"}])],
        [TEXT],
    ),
    "items known by name alone": (
        [
            {"type": "response.output_text.delta", "item_id": "item_1", "delta": "a"},
            {"type": "response.output_text.done", "item_id": "item_1", "text": "a"},
            {"type": "response.output_item.done", "item": {"id": "item_1", "content": [{"text": "a"}]}},
        ],
        [TEXT],
    ),
    "items not known at all": (
        [
            {"type": "response.output_text.delta", "delta": "a"},
            {"type": "response.output_text.done", "text": "a"},
            {"type": "response.output_item.done", "item": {"content": [{"text": "a"}]}},
        ],
        [TEXT],
    ),
    "items renamed on the way": (
        [piece("output_text"), whole("output_text", "item_9", text="a"), item(id="item_8", content=[{"text": "a"}])],
        [TEXT],
    ),
    "empty wholes": ([whole("output_text", text=""), part(text=""), item(content=[]), item("function_call")], []),
    "the response repeats": (
        [piece("output_text"), ended("completed", output=[{"content": [{"text": "a"}]}])],
        [TEXT],
    ),
    "calls side by side": (
        [
            piece("function_call_arguments", "a", "fc_1"),
            piece("function_call_arguments", "b", "fc_2") | {"output_index": 1},
            piece("function_call_arguments", "c", "fc_1"),
            whole("function_call_arguments", "fc_1", arguments="ac"),
            whole("function_call_arguments", "fc_2", arguments="b") | {"output_index": 1},
        ],
        [TOOL, Output("tool", "b"), Output("tool", "c")],
    ),
}


@pytest.mark.parametrize("name", WHOLES)
def test_what_came_piece_by_piece_is_not_counted_again(name):
    values, outputs = WHOLES[name]

    assert outputs == spoken(*values)


# Ends.

USAGE = {
    "input_tokens": 5,
    "input_tokens_details": {"cached_tokens": 3},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 12,
}
COUNTS = Usage(5, 7, 3, 2)
CAPPED = {"reason": "max_output_tokens"}
ENDS = {
    "completed": (ended("completed", status="completed", usage=USAGE), [COUNTS, Finish("completed"), *END]),
    "without a status": (ended("completed"), [Finish("completed"), *END]),
    "without a response": ({"type": "response.completed"}, [Finish("completed"), *END]),
    "a null response": ({"type": "response.completed", "response": None}, [Finish("completed"), *END]),
    "incomplete": (
        ended("incomplete", status="incomplete", incomplete_details=CAPPED, usage=USAGE),
        [COUNTS, Finish("max_output_tokens"), *END],
    ),
    "incomplete by another name": (
        ended("completed", status="incomplete", incomplete_details=CAPPED),
        [Finish("max_output_tokens"), *END],
    ),
    "filtered": (
        ended("incomplete", incomplete_details={"reason": "content_filter"}),
        [Finish("content_filter"), *END],
    ),
    "incomplete without a reason": (ended("incomplete", incomplete_details=None), [Finish("incomplete"), *END]),
    "a null reason": (ended("incomplete", incomplete_details={"reason": None}), [Finish("incomplete"), *END]),
    "cancelled": (ended("completed", status="cancelled"), [Finish("cancelled"), *END]),
    "failed": (
        ended("failed", status="failed", error={"code": "server_error", "message": "m"}),
        [Failure("server_error")],
    ),
    "failed with a type": (ended("failed", error={"type": "t", "code": "c"}), [Failure("t")]),
    "failed with usage": (ended("failed", error={"code": "c"}, usage=USAGE), [COUNTS, Failure("c")]),
    "failed without an error": (ended("failed", error=None), [Failure("error")]),
    "failed by another name": (ended("completed", status="failed", error={"code": "c"}), [Failure("c")]),
    "null usage": (ended("completed", usage=None), [Finish("completed"), *END]),
    "usage without details": (
        ended("completed", usage={"input_tokens": "5", "output_tokens": 7.0, "input_tokens_details": None}),
        [Usage(5, 7), Finish("completed"), *END],
    ),
    "usage on the way": (ended("in_progress", usage={"output_tokens": 3}), [Usage(None, 3)]),
}


@pytest.mark.parametrize("name", ENDS)
def test_one_event_ends_a_response(name):
    value, events = ENDS[name]

    assert events == said(value)


ERRORS = {
    "the usual": ({"type": "error", "code": "server_error", "message": "m", "sequence_number": 3}, "server_error"),
    "a null code": ({"type": "error", "code": None, "message": "m"}, "error"),
    "nested": ({"type": "error", "error": {"type": "t", "code": "c"}}, "t"),
    "without a type": ({"error": {"code": "c", "message": "m"}}, "c"),
    "a text": ({"error": "it broke"}, "error"),
    "a detail": ({"detail": "not found"}, "error"),
    "a bare message": ({"message": "m", "code": 500}, "500"),
    "beside a piece": (piece("output_text", error={"code": "c"}), "c"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_every_shape_of_error_is_a_failure(name):
    value, detail = ERRORS[name]

    assert [Failure(detail)] == said(value)
    assert [Failure(detail)] == said(value, event=b"error")
    assert [TEXT, Failure(detail)] == said(piece("output_text"), value)


@pytest.mark.parametrize("error", [None, False, "", {}])
def test_an_error_that_is_not_there_is_none(error):
    assert [TEXT, TEXT] == said(*[piece("output_text", error=error)] * 2)


@pytest.mark.parametrize("data", [b"", b"it broke", b"[]", b"{", b"{}"])
def test_an_event_named_error_is_a_failure_whatever_its_data(data):
    assert [Failure("error")] == [*Decoder().decode(Frame(b"error", data))]


@pytest.mark.parametrize("data", [b"{", b"hello", b"[1]", b"7"])
def test_what_is_no_json_object_is_malformed(data):
    with pytest.raises(Malformed, match=r"^json"):
        Decoder().decode(Frame(b"", data))


@pytest.mark.parametrize("data", [b"", b" ", b"[DONE]"])
def test_a_heartbeat_and_anothers_end_marker_say_nothing(data):
    assert OTHER == Decoder().decode(Frame(b"", data))


SHOWS = [
    (ended("created"), "openai-responses"),
    (piece("output_text"), "openai-responses"),
    ({"type": "response.omen"}, "openai-responses"),
    ({"type": "error", "code": "c", "message": "m", "sequence_number": 0}, "openai-responses"),
    ({"type": "error", "error": {"code": "c"}, "sequence_number": 0}, "openai-responses"),
    ({"type": "error", "code": "c", "message": "m"}, "openai"),
    ({"type": "keepalive"}, None),
    ({"type": "responses"}, None),
    ({"type": None}, None),
]


@pytest.mark.parametrize(("value", "name"), SHOWS)
def test_the_dialect_is_told_by_its_types(value, name):
    dialect = recognise(Frame(b"", json.dumps(value).encode()))

    assert name == (dialect.name if dialect else None)


def test_the_dialect_is_told_by_an_events_name_where_there_is_no_type():
    assert "openai-responses" == recognise(Frame(b"response.created", b"{}")).name
    assert None is recognise(Frame(b"response.created", b"hello"))


def test_a_stream_is_written_as_items_that_open_and_close():
    encoder = Encoder(model="m")
    events = [Role(), REASONING, TEXT, Output("text", "b"), TOOL, Finish("completed"), Usage(5, 7), End()]
    frames = ServerSentEvents().feed(b"".join(map(encoder.encode, events)))
    values = [json.loads(frame.data) for frame in frames]

    assert [*range(len(values))] == [value["sequence_number"] for value in values]
    assert [frame.event.decode() for frame in frames] == [value["type"] for value in values]
    (message,) = (value["item"] for value in values if value["type"].endswith("item.done") and "role" in value["item"])
    assert "ab" == message["content"][0]["text"]
    assert ["reasoning", "message", "function_call"] == [item["type"] for item in values[-1]["response"]["output"]]


def test_a_stream_may_be_written_without_numbers():
    encoder = Encoder(model="m", numbered=False)

    assert encoder.encode(TEXT) != encoder.encode(TEXT) == encoder.encode(TEXT)
    assert b"sequence_number" not in encoder.encode(End())


def test_numbers_that_are_added_are_those_that_would_have_been_written():
    events = [Role(), REASONING, TEXT, Output("text", '\n\n"type"'), ToolCall("c", "n"), TOOL, Usage(5, 7), End()]
    numbered, bare = Encoder(model="m"), Encoder(model="m", numbered=False)
    expected = b"".join(map(numbered.encode, events))

    assert expected == with_numbers(b"".join(map(bare.encode, events)), 0)
    assert b"" == with_numbers(b"", 3)


def test_a_response_that_failed_says_so_at_its_end():
    encoder = Encoder(model="m")
    frames = ServerSentEvents().feed(b"".join(map(encoder.encode, [Role(), TEXT, Failure("server_error"), End()])))
    ended = json.loads(frames[-1].data)["response"]

    assert [b"error", b"response.failed"] == [frame.event for frame in frames[-2:]]
    assert ("failed", "server_error") == (ended["status"], ended["error"]["code"])
