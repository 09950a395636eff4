"""Ollama's chat and generate: every line says what its fields say, the last one counts."""

import json

import pytest

from loadgen.wire.events import END, OTHER, End, Event, Failure, Finish, Malformed, Other, Output, Role, Usage
from loadgen.wire.formats.ollama import Encoder, decode
from loadgen.wire.frame import Frame
from loadgen.wire.recognise import recognise

COMMON = {"model": "m", "created_at": "2031-02-03T04:05:06.7Z"}


def said(value: object, *, event: bytes = b"") -> tuple[Event, ...]:
    return decode(Frame(event, json.dumps(value).encode()))


def chat(done: object = False, **fields: object) -> dict[str, object]:
    message = {"role": "assistant", "content": "", **fields}
    return {**COMMON, "message": message, "done": done}


def generate(response: object = "", done: object = False, **fields: object) -> dict[str, object]:
    return {**COMMON, "response": response, "done": done, **fields}


def call(arguments: object, **fields: object) -> dict[str, object]:
    return {"function": {"name": "f", "arguments": arguments, **fields}}


TEXT, REASONING = Output("text", "a"), Output("reasoning", "r")
WHOLE = Output("tool", '{"a":1}')
LINES = {
    "text": (chat(content="a"), (TEXT,)),
    "a blank": (chat(content="\n"), (Output("text", "\n"),)),
    "empty text": (chat(content=""), OTHER),
    "null text": (chat(content=None), OTHER),
    "no text": ({**COMMON, "message": {"role": "assistant"}, "done": False}, OTHER),
    "text that is none": (chat(content=7), OTHER),
    "thinking": (chat(thinking="r"), (REASONING,)),
    "thinking without content": ({**COMMON, "message": {"thinking": "r"}, "done": False}, (REASONING,)),
    "thinking that ends as text begins": (chat(thinking="r", content="a"), (REASONING, TEXT)),
    "null thinking beside text": (chat(thinking=None, content="a"), (TEXT,)),
    "empty thinking beside text": (chat(thinking="", content="a"), (TEXT,)),
    "a call": (chat(tool_calls=[call({"a": 1})]), (WHOLE,)),
    "calls": (chat(tool_calls=[call({"a": 1}), call({"b": [2]})]), (WHOLE, Output("tool", '{"b":[2]}'))),
    "a call beside text": (chat(content="a", tool_calls=[call({"a": 1})]), (TEXT, WHOLE)),
    "a call without arguments": (chat(tool_calls=[call({})]), (Role(),)),
    "a call with null arguments": (chat(tool_calls=[call(None)]), (Role(),)),
    "a call with its arguments as text": (chat(tool_calls=[call('{"a":1}')]), (WHOLE,)),
    "a call with odd arguments": (chat(tool_calls=[{"id": "1", "function": {"arguments": 7}}]), OTHER),
    "broken calls": (chat(tool_calls=[None, "f", {}, {"function": None}]), OTHER),
    "calls that are none": (chat(tool_calls="f"), OTHER),
    "null calls beside text": (chat(content="a", tool_calls=None), (TEXT,)),
    "no calls beside text": (chat(content="a", tool_calls=[]), (TEXT,)),
    "text and logprobs": ({**chat(content="a"), "logprobs": [{"token": "a"}]}, (TEXT,)),
    "generated text": (generate("a"), (TEXT,)),
    "generated thinking": (generate("", thinking="r"), (REASONING,)),
    "generated both": (generate("a", thinking="r"), (REASONING, TEXT)),
    "a generated call": (generate("", tool_calls=[call({"a": 1})]), (WHOLE,)),
    "nothing generated": (generate(""), OTHER),
    "null generated": (generate(None), OTHER),
    "the progress of an image": ({**COMMON, "completed": 3, "total": 9, "done": False}, OTHER),
    "a null message": ({**COMMON, "message": None, "done": False}, OTHER),
    "a message that is none": ({**COMMON, "message": "a", "done": False}, OTHER),
    "text without done": ({"message": {"content": "a"}}, (TEXT,)),
    "null done": (generate("a", None), (TEXT,)),
    "an unknown line": ({"status": "pulling manifest"}, OTHER),
    "nothing": ({}, OTHER),
    "null errors": ({**chat(content="a"), "error": None}, (TEXT,)),
    "an empty error": ({**chat(content="a"), "error": ""}, (TEXT,)),
}


@pytest.mark.parametrize("name", LINES)
def test_a_line_says_what_the_table_says(name):
    value, events = LINES[name]

    assert events == said(value)


DONE = {"done_reason": "stop", "eval_count": 7, "prompt_eval_count": 5, "total_duration": 9, "load_duration": 1}
LAST = {
    "the usual": (chat(True) | DONE, (Usage(5, 7), Finish("stop"), *END)),
    "with text": (chat(True, content="a") | DONE, (TEXT, Usage(5, 7), Finish("stop"), *END)),
    "with a call": (chat(True, tool_calls=[call({"a": 1})]) | DONE, (WHOLE, Usage(5, 7), Finish("stop"), *END)),
    "generated": (generate("a", True, context=[1, 2], **DONE), (TEXT, Usage(5, 7), Finish("stop"), *END)),
    "a cap": (chat(True) | DONE | {"done_reason": "length"}, (Usage(5, 7), Finish("length"), *END)),
    "a load": (generate("", True, done_reason="load"), (Finish("load"), *END)),
    "an unload": (generate("", True, done_reason="unload"), (Finish("unload"), *END)),
    "no reason": (chat(True), END),
    "a null reason": (chat(True) | {"done_reason": None}, END),
    "an empty reason": (chat(True) | {"done_reason": ""}, END),
    "input alone": (chat(True) | {"prompt_eval_count": 5}, (Usage(5, None), *END)),
    "output alone": (chat(True) | {"eval_count": 7}, (Usage(None, 7), *END)),
    "zero": (chat(True) | {"eval_count": 0}, (Usage(None, 0), *END)),
    "strings": (chat(True) | {"eval_count": "7", "prompt_eval_count": "5"}, (Usage(5, 7), *END)),
    "no counts": (chat(True) | {"eval_count": "many", "prompt_eval_count": -1}, END),
    "no message": ({**COMMON, "done": True, **DONE}, (Usage(5, 7), Finish("stop"), *END)),
}


@pytest.mark.parametrize("name", LAST)
def test_the_last_line_says_how_it_ended_after_what_it_holds(name):
    value, events = LAST[name]

    assert events == said(value)


@pytest.mark.parametrize("done", [None, False, 0, 1, "true", "", {}, []])
def test_only_true_is_done(done):
    assert End() not in said(chat(done) | DONE)


def test_counts_before_the_last_line_are_no_report():
    assert (TEXT,) == said(chat(content="a") | {"eval_count": 3, "done_reason": "stop"})


ERRORS = {
    "a text": ({"error": "no memory left"}, "no_memory_left"),
    "with a status": ({"error": "sign in", "status": 401, "signin_url": "u"}, "sign_in"),
    "an object": ({"error": {"type": "t", "message": "m"}}, "t"),
    "a detail": ({"detail": "not found"}, "error"),
    "a bare message": ({"message": "m", "code": 500}, "500"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_every_shape_of_error_is_a_failure(name):
    value, detail = ERRORS[name]

    assert (Failure(detail),) == said(value)
    assert "ollama" == recognise(Frame(b"", json.dumps(value).encode()), is_line=True).name


def test_an_error_beside_text_is_a_failure_and_the_text_was_said():
    assert (TEXT, Failure("it_broke")) == said(chat(content="a") | {"error": "it broke"})
    assert (TEXT, Failure("it_broke")) == said(generate("a", True, error="it broke"))


@pytest.mark.parametrize("data", [b"", b"it broke", b"[]", b"7", b"{", b"{}", b'{"code": 7}'])
def test_an_event_named_error_is_a_failure_whatever_its_data(data):
    assert [Failure] == [type(event) for event in decode(Frame(b"error", data))]


@pytest.mark.parametrize("data", [b"{", b"hello", b"[1]", b"7", b'"a"', b'{"done": false} {"done": false}'])
def test_what_is_no_json_object_is_malformed(data):
    with pytest.raises(Malformed, match=r"^json"):
        decode(Frame(b"", data))


@pytest.mark.parametrize("data", [b"", b" ", b"[DONE]"])
def test_a_heartbeat_and_anothers_end_marker_say_nothing(data):
    assert OTHER == decode(Frame(b"", data))


@pytest.mark.parametrize("text", [b"\xff", b"\\ud83d"])
def test_text_that_is_no_unicode_is_still_one_letter_of_output(text):
    (event,) = decode(Frame(b"", b'{"message": {"content": "' + text + b'"}, "done": false}'))

    assert ("text", 1) == (event.kind, len(event.text))


SHOWS = [
    (chat(content="a"), "ollama"),
    (chat(True), "ollama"),
    (generate("a"), "ollama"),
    ({"response": "a", "done": False}, "ollama"),
    ({"message": None, "done": True}, "ollama"),
    ({"response": "a", "done": None}, None),
    ({"response": "a"}, None),
    ({"done": True}, None),
    ({"status": "success"}, None),
    ({"status": "pulling", "total": 9, "completed": 1}, None),
]


@pytest.mark.parametrize(("value", "name"), SHOWS)
@pytest.mark.parametrize("is_line", [True, False])
def test_the_dialect_is_told_by_done_and_an_answer_in_any_framing(value, name, is_line):
    dialect = recognise(Frame(b"", json.dumps(value).encode()), is_line=is_line)

    assert name == (dialect.name if dialect else None)


def test_chunks_of_openais_are_openais_as_lines_too():
    chunk = {"choices": [{"delta": {"content": "a"}}], "object": "chat.completion.chunk"}

    assert "openai" == recognise(Frame(b"", json.dumps(chunk).encode()), is_line=True).name
    assert "anthropic" == recognise(Frame(b"", b'{"type": "message_start"}'), is_line=True).name


def test_arguments_are_written_as_the_object_they_are():
    for is_chat in (True, False):
        line = json.loads(Encoder(model="m", chat=is_chat).encode(Output("tool", '{"a": 1}')))
        calls = line["message"]["tool_calls"] if is_chat else line["tool_calls"]
        assert {"a": 1} == calls[0]["function"]["arguments"]
    assert [Other()] == [*decode(Frame(b"", Encoder(model="m").encode(Role())))]
