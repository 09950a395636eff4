"""OpenAI's two dialects: every event survives its encoding, and every oddity servers send has one reading."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.wire.events import END, OTHER, End, Event, Failure, Finish, Malformed, Other, Output, Role, Usage
from loadgen.wire.formats.openai import Encoder, decode
from loadgen.wire.framing import Frame, ServerSentEvents
from loadgen.wire.recognise import recognise

TEXT = st.text(min_size=1)
WORD = st.text("abcdefghijklmnopqrstuvwxyz_0123456789", min_size=1, max_size=80)
COUNT = st.none() | st.integers(0, 2**63 - 1)
CHOICE = st.integers(0, 100)
USAGE = st.builds(Usage, COUNT, COUNT, COUNT, COUNT)
COMMON = st.one_of(
    st.builds(Finish, WORD.filter(lambda reason: reason != "null"), CHOICE),
    USAGE,
    st.just(End()),
    st.builds(Failure, WORD),
    st.just(Other()),
)
CHAT_EVENT = st.one_of(
    st.builds(Output, st.sampled_from(["text", "reasoning", "tool", "refusal"]), TEXT, CHOICE),
    st.builds(Role, CHOICE),
    COMMON,
)
COMPLETIONS_EVENT = st.one_of(st.builds(Output, st.just("text"), TEXT, CHOICE), COMMON)


def there_and_back(event: Event, *, chat: bool) -> list[tuple[Event, ...]]:
    wire = Encoder(model="é", id="1", created=0, chat=chat).encode(event)
    return [decode(frame) for frame in ServerSentEvents().feed(wire)]


@settings(max_examples=300, deadline=None)
@given(CHAT_EVENT)
def test_every_chat_event_decodes_to_itself(event):
    assert [(event,)] == there_and_back(event, chat=True)


@settings(max_examples=200, deadline=None)
@given(COMPLETIONS_EVENT)
def test_every_completions_event_decodes_to_itself(event):
    assert [(event,)] == there_and_back(event, chat=False)


@settings(max_examples=50, deadline=None)
@given(CHAT_EVENT, st.booleans())
def test_every_encoded_frame_shows_its_dialect(event, chat):
    wire = Encoder(model="m", id="1", created=0, chat=chat).encode(event if chat else Output("text", "a"))

    assert ["openai"] == [recognise(frame).name for frame in ServerSentEvents().feed(wire)]


def said(value: object, *, event: bytes = b"") -> tuple[Event, ...]:
    return decode(Frame(event, json.dumps(value).encode()))


def text(value: str, choice: int = 0) -> Output:
    return Output("text", value, choice)


def reasoning(value: str) -> Output:
    return Output("reasoning", value)


def tool(value: str) -> Output:
    return Output("tool", value)


DETAIL = {"type": "reasoning.text", "text": "r", "id": None, "format": "f", "index": 0}
DELTAS = {
    "a role with empty content": ({"role": "assistant", "content": ""}, (Role(),)),
    "a role with null content": ({"role": "assistant", "content": None}, (Role(),)),
    "a role with text": ({"role": "assistant", "content": "a"}, (text("a"),)),
    "text": ({"content": "a"}, (text("a"),)),
    "a blank": ({"content": " "}, (text(" "),)),
    "a newline": ({"content": "\n"}, (text("\n"),)),
    "empty text": ({"content": ""}, OTHER),
    "null text": ({"content": None}, OTHER),
    "nothing": ({}, OTHER),
    "no delta": (None, OTHER),
    "parts": ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": ""}]}, (text("a"),)),
    "thinking parts": (
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "r"}]}, {"type": "text", "text": "a"}]},
        (reasoning("r"), text("a")),
    ),
    "parts of no use": ({"content": ["a", None, {"type": "reference", "reference_ids": [1]}]}, OTHER),
    "a refusal": ({"refusal": "no"}, (Output("refusal", "no"),)),
    "a null refusal beside text": ({"content": "a", "refusal": None}, (text("a"),)),
    "reasoning_content": ({"reasoning_content": "r", "content": None}, (reasoning("r"),)),
    "reasoning": ({"reasoning": "r", "content": ""}, (reasoning("r"),)),
    "the same reasoning under both keys": ({"reasoning_content": "r", "reasoning": "r"}, (reasoning("r"),)),
    "an empty reasoning_content beside reasoning": ({"reasoning_content": "", "reasoning": "r"}, (reasoning("r"),)),
    "reasoning and its details": ({"reasoning": "r", "reasoning_details": [DETAIL]}, (reasoning("r"),)),
    "details alone": ({"content": "", "reasoning_details": [DETAIL]}, (reasoning("r"),)),
    "a summary": ({"reasoning_details": [{"type": "reasoning.summary", "summary": "s"}]}, (reasoning("s"),)),
    "encrypted details": ({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]}, OTHER),
    "reasoning that ends as text begins": ({"reasoning_content": "r", "content": "a"}, (reasoning("r"), text("a"))),
    "thinking_blocks beside reasoning_content": (
        {"reasoning_content": "r", "thinking_blocks": [{"type": "thinking", "thinking": "r"}]},
        (reasoning("r"),),
    ),
    "empty text beside empty reasoning": ({"content": "", "reasoning_content": ""}, OTHER),
    "a tool's name": ({"tool_calls": [{"index": 0, "id": "1", "function": {"name": "f", "arguments": ""}}]}, (Role(),)),
    "a tool's name without arguments": ({"tool_calls": [{"index": 0, "function": {"name": "f"}}]}, (Role(),)),
    "a tool's name with null arguments": ({"tool_calls": [{"function": {"name": "f", "arguments": None}}]}, (Role(),)),
    "arguments": ({"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}, (tool("{"),)),
    "arguments without an index": ({"tool_calls": [{"function": {"arguments": "{"}}]}, (tool("{"),)),
    "whole calls": (
        {
            "tool_calls": [
                {"function": {"name": "f", "arguments": "{}"}},
                {"function": {"name": "g", "arguments": "[]"}},
            ]
        },
        (tool("{}"), tool("[]")),
    ),
    "arguments as an object": (
        {"tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
        (tool('{"a":1}'),),
    ),
    "arguments as an empty object": ({"tool_calls": [{"function": {"name": "f", "arguments": {}}}]}, (Role(),)),
    "null tool calls": ({"content": "a", "tool_calls": None}, (text("a"),)),
    "no tool calls": ({"content": "", "tool_calls": []}, OTHER),
    "broken tool calls": ({"tool_calls": [None, "f", {"function": None}]}, OTHER),
    "a function's name": ({"function_call": {"name": "f", "arguments": ""}}, (Role(),)),
    "a function's arguments": ({"function_call": {"arguments": "{"}}, (tool("{"),)),
    "a transcript": ({"audio": {"id": "1", "transcript": "t", "data": "AAAA"}}, (text("t"),)),
    "sound alone": ({"audio": {"data": "AAAA"}}, OTHER),
    "the end of sound": ({"audio": {"expires_at": 1}}, OTHER),
    "extras": ({"annotations": [{}], "hidden_states": [1], "provider_specific_fields": {"a": "b"}}, OTHER),
    "content of another type": ({"content": 7}, OTHER),
    "text beside arguments": (
        {"content": "a", "tool_calls": [{"function": {"arguments": "{"}}]},
        (text("a"), tool("{")),
    ),
    "text beside a refusal": ({"content": "a", "refusal": "no"}, (text("a"), Output("refusal", "no"))),
    "text beside a function's arguments": (
        {"content": "a", "function_call": {"arguments": "{"}},
        (text("a"), tool("{")),
    ),
    "text beside reasoning details": ({"content": "a", "reasoning_details": [DETAIL]}, (reasoning("r"), text("a"))),
    "text beside a transcript": ({"content": "a", "audio": {"transcript": "t"}}, (text("a"), text("t"))),
}


@pytest.mark.parametrize("name", DELTAS)
def test_a_delta_says_what_the_table_says(name):
    delta, events = DELTAS[name]

    assert events == said({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


@pytest.mark.parametrize("name", DELTAS)
def test_a_finish_beside_a_delta_comes_after_it(name):
    delta, events = DELTAS[name]
    expected = (*(event for event in events if event != Other()), Finish("stop"))

    assert expected == said({"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]})


def test_a_choice_without_delta_index_or_finish_says_nothing():
    assert OTHER == said({"choices": [{"index": 0}]})
    assert OTHER == said({"choices": [{}]})


@pytest.mark.parametrize(
    ("value", "events"),
    [
        ("a", (text("a"),)),
        (" ", (text(" "),)),
        ("", OTHER),
        (None, OTHER),
    ],
)
def test_completions_carry_their_text_in_the_choice(value, events):
    choice = {"index": 0, "text": value, "logprobs": None, "finish_reason": None}

    assert events == said({"object": "text_completion", "choices": [choice]})


def test_completions_may_bring_their_last_text_with_the_finish():
    assert (text("a"), Finish("length")) == said({"choices": [{"index": 0, "text": "a", "finish_reason": "length"}]})


@pytest.mark.parametrize("reason", [None, "", "null", 7, {}, False])
def test_what_is_no_finish_reason_finishes_nothing(reason):
    assert (text("a"),) == said({"choices": [{"delta": {"content": "a"}, "finish_reason": reason}]})
    assert OTHER == said({"choices": [{"delta": {}, "finish_reason": reason}]})


@pytest.mark.parametrize("reason", ["stop", "length", "content_filter: SAFETY", "no such reason", "STOP"])
def test_a_finish_reason_is_the_servers_own_word(reason):
    assert (Finish(reason),) == said({"choices": [{"delta": {}, "finish_reason": reason}]})


def test_a_frame_of_several_choices_says_something_of_each():
    choices = [
        {"index": 1, "delta": {"content": "b"}},
        {"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"},
        {"index": 2, "delta": {"role": "assistant"}},
        {"index": 3, "text": "d", "finish_reason": "length"},
    ]
    expected = (text("b", 1), text("a", 0), Finish("stop", 0), Role(2), text("d", 3), Finish("length", 3))

    assert expected == said({"choices": choices})


def test_a_choice_other_than_the_first_keeps_its_index():
    assert (text("b", 1),) == said({"choices": [{"index": 1, "delta": {"content": "b"}}]})
    assert (Finish("stop", 1),) == said({"choices": [{"index": 1, "delta": {}, "finish_reason": "stop"}]})


@pytest.mark.parametrize("index", [None, "0", "x", [0]])
def test_an_index_that_is_no_number_is_the_first_choice(index):
    assert (text("a"),) == said({"choices": [{"index": index, "delta": {"content": "a"}}]})


FULL_USAGE = {
    "prompt_tokens": 1,
    "completion_tokens": 2,
    "total_tokens": 3,
    "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 5, "rejected_prediction_tokens": 0},
}
STOPPED = {"index": 0, "delta": {}, "finish_reason": "stop"}
SPEAKING = {"index": 0, "delta": {"content": "a"}, "finish_reason": None}
USAGES = {
    "its own chunk": ({"choices": [], "usage": FULL_USAGE}, (Usage(1, 2, 4, 5),)),
    "its own chunk without choices": ({"usage": FULL_USAGE}, (Usage(1, 2, 4, 5),)),
    "null choices": ({"choices": None, "usage": FULL_USAGE}, (Usage(1, 2, 4, 5),)),
    "on the finish": ({"choices": [STOPPED], "usage": {"completion_tokens": 2}}, (Finish("stop"), Usage(None, 2))),
    "on every chunk": ({"choices": [SPEAKING], "usage": {"completion_tokens": 2}}, (text("a"), Usage(None, 2))),
    "in x_groq": (
        {"choices": [STOPPED], "x_groq": {"usage": {"completion_tokens": 2}}},
        (Finish("stop"), Usage(None, 2)),
    ),
    "in x_groq beside text": (
        {"choices": [SPEAKING], "x_groq": {"usage": {"completion_tokens": 2}}},
        (text("a"), Usage(None, 2)),
    ),
    "x_groq without": ({"choices": [STOPPED], "x_groq": {"id": "1"}}, (Finish("stop"),)),
    "null beside text": ({"choices": [SPEAKING], "usage": None}, (text("a"),)),
    "null": ({"choices": [], "usage": None}, OTHER),
    "no object": ({"choices": [], "usage": 7}, OTHER),
    "zero": ({"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0}}, (Usage(0, 0),)),
    "strings": ({"choices": [], "usage": {"prompt_tokens": "1", "completion_tokens": "2"}}, (Usage(1, 2),)),
    "floats": ({"choices": [], "usage": {"prompt_tokens": 1.0, "completion_tokens": 2.0}}, (Usage(1, 2),)),
    "no counts": ({"choices": [], "usage": {"prompt_tokens": True, "completion_tokens": -1}}, (Usage(),)),
    "null details": (
        {"choices": [], "usage": FULL_USAGE | {"prompt_tokens_details": None, "completion_tokens_details": None}},
        (Usage(1, 2),),
    ),
    "DeepSeek's cache": ({"choices": [], "usage": {"prompt_cache_hit_tokens": 4}}, (Usage(cached_tokens=4),)),
}


@pytest.mark.parametrize("name", USAGES)
def test_a_usage_report_is_read_wherever_it_stands(name):
    value, events = USAGES[name]

    assert events == said(value)


ERRORS = {
    "an object": ({"error": {"message": "m", "type": "t", "param": None, "code": 5}}, "t"),
    "a code as a number": ({"error": {"message": "m", "code": 500}}, "500"),
    "a code as a word": ({"error": {"message": "m", "type": None, "code": "c"}}, "c"),
    "neither": ({"error": {"message": "m"}}, "error"),
    "a string": ({"error": "it broke"}, "error"),
    "a type of several words": ({"error": {"type": "rate limit\nreached"}}, "rate_limit_reached"),
    "vLLM's old form": ({"object": "error", "message": "m", "type": "t", "code": 400}, "400"),
    "a bare message": ({"message": "m", "type": "t", "code": 40303}, "40303"),
    "a detail": ({"detail": "not found"}, "error"),
    "details": ({"detail": [{"loc": ["body"], "msg": "m", "type": "t"}]}, "error"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_every_shape_of_error_is_a_failure(name):
    value, detail = ERRORS[name]

    assert (Failure(detail),) == said(value)
    assert [Failure] == [type(event) for event in said(value, event=b"error")]
    assert "openai" == recognise(Frame(b"", json.dumps(value).encode())).name


@pytest.mark.parametrize("error", [None, False, "", {}])
def test_an_error_that_is_not_there_is_none(error):
    assert (text("a"),) == said({"error": error, "choices": [SPEAKING]})


def test_an_error_beside_choices_is_a_failure():
    choice = {"index": 0, "delta": {"content": ""}, "finish_reason": "error"}

    assert (Failure("t"), Finish("error")) == said({"error": {"type": "t"}, "choices": [choice]})
    assert (Failure("t"), text("a")) == said({"error": {"type": "t"}, "choices": [SPEAKING]})


def test_an_error_beside_broken_choices_is_a_failure():
    assert (Failure("t"),) == said({"error": {"type": "t"}, "choices": "none"})


@pytest.mark.parametrize("data", [b'{"code": 400}', b"{}", b"", b"it broke", b'"it broke"', b"[]"])
def test_an_event_named_error_is_a_failure_whatever_its_data(data):
    assert [Failure] == [type(event) for event in decode(Frame(b"error", data))]


@pytest.mark.parametrize("data", [b"[DONE]", b" [DONE]", b"[DONE] ", b"\t[DONE]\r", b"[DONE]\n"])
def test_the_end_marker_is_told_after_stripping(data):
    assert END == decode(Frame(b"", data))


@pytest.mark.parametrize(
    "data", [b"", b" ", b"\n", b"{}", b'{"choices": []}', b'{"choices": [null]}', b'{"choices": 1}']
)
def test_a_frame_that_says_nothing_is_other(data):
    assert OTHER == decode(Frame(b"", data))


@pytest.mark.parametrize(
    "data", [b"{", b"DONE", b"[done]", b"hello", b'{"choices": [}', b"[DONE][DONE]", b"[1]", b"7", b'"a"']
)
def test_what_is_no_json_object_is_malformed(data):
    with pytest.raises(Malformed, match=r"^json"):
        decode(Frame(b"", data))


@pytest.mark.parametrize(
    "data",
    [
        b'{"choices": [{"delta": {"content": "' + b"\xff" + b'"}}]}',
        b'{"choices": [{"delta": {"content": "\\ud83d"}}]}',
    ],
)
def test_text_that_is_no_unicode_is_still_one_letter_of_output(data):
    (event,) = decode(Frame(b"", data))

    assert ("text", 1) == (event.kind, len(event.text))


@pytest.mark.parametrize(
    "data",
    [
        b'{"choices": ' + b"[" * 100_000,
        b'{"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"x": ' * 100_000 + b"1" + b"}" * 100_000,
        b'{"choices": [], "usage": ' + b'{"a": ' * 5_000 + b"1" + b"}" * 5_000 + b"}",
        b'{"error": {"code": ' + b"9" * 5_000 + b"}}",
        b'{"choices": [], "usage": {"completion_tokens": ' + b"9" * 5_000 + b"}}",
        b'{"choices": [], "usage": {"completion_tokens": 1e999}}',
        b'{"choices": [], "usage": {"completion_tokens": NaN}}',
    ],
    ids=["open", "closed", "unknown", "usage", "code", "count", "infinite", "nan"],
)
def test_no_frame_raises_anything_but_malformed(data):
    assert kinds_or_reason(data) in ([Other], [Usage], [Failure], "json")


def kinds_or_reason(data: bytes) -> list[type] | str:
    try:
        return [type(event) for event in decode(Frame(b"", data))]
    except Malformed as error:
        return str(error)


SHOWS = [
    (b"", b"[DONE]", "openai"),
    (b"", b" [DONE] ", "openai"),
    (b"", b'{"object": "chat.completion.chunk", "choices": [{"index": 0}]}', "openai"),
    (b"", b'{"object": "chat.completion.chunk"}', "openai"),
    (b"", b'{"choices": [{"delta": {}}]}', "openai"),
    (b"", b'{"object": "", "choices": [{"delta": {"content": "a"}}]}', "openai"),
    (b"", b'{"choices": [{"delta": null}]}', "openai"),
    (b"", b'{"choices": [{}, {"delta": {}}]}', "openai"),
    (b"", b'{"object": "text_completion"}', "openai"),
    (b"", b'{"choices": [{"text": ""}]}', "openai"),
    (b"", b'{"choices": []}', "openai"),
    (b"", b'{"error": {"message": "m"}}', "openai"),
    (b"", b'{"error": "m"}', "openai"),
    (b"", b'{"detail": "m"}', "openai"),
    (b"", b'{"message": "m", "code": 400}', "openai"),
    (b"", b'{"object": "error", "message": "m"}', "openai"),
    (b"error", b'{"code": 400}', "openai"),
    (b"", b"", None),
    (b"", b" ", None),
    (b"", b"hello", None),
    (b"", b"[]", None),
    (b"", b"7", None),
    (b"", b"{}", None),
    (b"", b'{"temperature": 21}', None),
    (b"", b'{"jsonrpc": "2.0", "result": {}}', None),
    (b"", b'{"candidates": [{"content": {}}]}', None),
    (b"", b'{"error": null}', None),
    (b"", b'{"choices": null}', None),
    (b"", b'{"choices": ["a"]}', None),
    (b"", b'{"message": "m"}', None),
    (b"", b'{"code": 400}', None),
    (b"update", b'{"temperature": 21}', None),
]


@pytest.mark.parametrize(("event", "data", "name"), SHOWS)
def test_a_dialect_is_told_from_the_frame_itself(event, data, name):
    dialect = recognise(Frame(event, data))

    assert name == (dialect.name if dialect else None)


def test_recognition_never_raises():
    for data in (b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5_000, b"\xff", b'"\\ud83d"', b"NaN"):
        assert None is recognise(Frame(b"", data))
