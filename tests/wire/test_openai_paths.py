"""OpenAI's decoder takes short cuts: each says what the long way says."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.wire.events import OTHER, Event, Failure, Finish, Output, Usage
from loadgen.wire.formats.openai import decode
from loadgen.wire.framing import Frame
from loadgen.wire.recognise import recognise

WORD = st.none() | st.sampled_from(["", "a", " ", "é\u2028😀"])
ODD = st.sampled_from([7, True, 1.5, [], {}, ["a"], {"a": "b"}])
FUNCTION = st.fixed_dictionaries(
    {}, optional={"name": WORD, "arguments": WORD | st.just({}) | st.just({"a": 1}) | st.just(7)}
)
CALLS = st.lists(
    st.none() | st.fixed_dictionaries({}, optional={"index": st.just(0), "function": FUNCTION}), max_size=2
)
PARTS = st.lists(
    st.sampled_from(
        [
            {"type": "text", "text": "p"},
            {"type": "text", "text": None},
            {"type": "thinking", "thinking": [{"text": "t"}]},
            {"type": "reasoning.summary", "summary": "s"},
            {"type": "reasoning.encrypted", "data": "x"},
            "a",
        ]
    ),
    max_size=2,
)
DELTA = st.fixed_dictionaries(
    {},
    optional={
        "content": WORD | PARTS | ODD,
        "role": WORD,
        "reasoning_content": WORD | ODD,
        "reasoning": WORD | ODD,
        "reasoning_details": st.none() | PARTS,
        "refusal": WORD,
        "tool_calls": st.none() | CALLS | ODD,
        "function_call": st.none() | FUNCTION,
        "audio": st.none() | st.fixed_dictionaries({}, optional={"transcript": WORD, "data": WORD}),
        "annotations": ODD,
    },
)
ENVELOPE = {
    "index": st.integers(0, 2) | st.none(),
    "finish_reason": st.none() | st.sampled_from(["", "null", "stop", "length"]),
    "logprobs": ODD,
}
CHOICE = st.fixed_dictionaries({}, optional={"delta": st.none() | DELTA, **ENVELOPE}) | st.fixed_dictionaries(
    {}, optional={"text": WORD, **ENVELOPE}
)
COUNTS = st.none() | st.fixed_dictionaries({}, optional={"prompt_tokens": st.integers(0, 9), "completion_tokens": ODD})
CHUNK = st.fixed_dictionaries(
    {"choices": st.lists(CHOICE, max_size=3)},
    optional={
        "usage": COUNTS,
        "x_groq": st.none() | st.fixed_dictionaries({}, optional={"usage": COUNTS}),
        "error": st.none() | st.just({"type": "t"}) | st.just("m") | st.just({}),
        "object": WORD,
        "model": WORD,
    },
)


def said(value: object) -> tuple[Event, ...]:
    return decode(Frame(b"", json.dumps(value).encode()))


@settings(max_examples=300, deadline=None)
@given(CHUNK)
def test_json_that_the_typed_decoder_refuses_says_the_same(chunk):
    data = json.dumps({"logprob": float("-inf"), **chunk}).encode()  # as Python servers write it

    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(data)
    assert said(chunk) == decode(Frame(b"", data))


SILENT = {"index": 9}


@settings(max_examples=400, deadline=None)
@given(CHUNK, CHOICE)
def test_a_chunk_of_one_choice_says_the_same_beside_a_choice_that_says_nothing(chunk, choice):
    alone, beside = chunk | {"choices": [choice]}, chunk | {"choices": [choice, SILENT]}

    assert said(beside) == said(alone)


@pytest.mark.parametrize(
    ("field", "value", "event"),
    [
        ("refusal", "r", Output("refusal", "r")),
        ("reasoning", "r", Output("reasoning", "r")),
        ("reasoning_content", "r", Output("reasoning", "r")),
        ("reasoning_details", [{"text": "r"}], Output("reasoning", "r")),
        ("tool_calls", [{"function": {"arguments": "r"}}], Output("tool", "r")),
        ("function_call", {"arguments": "r"}, Output("tool", "r")),
        ("audio", {"transcript": "r"}, Output("text", "r")),
    ],
)
def test_nothing_that_stands_beside_answer_text_is_lost(field, value, event):
    events = said({"choices": [{"index": 0, "delta": {"content": "a", field: value}, "finish_reason": None}]})

    assert {Output("text", "a"), event} == set(events)


@pytest.mark.parametrize(
    ("beside", "event"),
    [
        ({"usage": {"completion_tokens": 3}}, Usage(output_tokens=3)),
        ({"x_groq": {"usage": {"completion_tokens": 3}}}, Usage(output_tokens=3)),
    ],
)
def test_a_report_beside_answer_text_is_not_lost(beside, event):
    assert (Output("text", "a"), event) == said({"choices": [{"delta": {"content": "a"}}], **beside})


@settings(max_examples=200, deadline=None)
@given(CHUNK)
def test_the_choices_of_a_chunk_speak_for_themselves_alone(chunk):
    bare = {"choices": chunk["choices"]}
    apart = [event for choice in chunk["choices"] for event in said({"choices": [choice]}) if (event,) != OTHER]

    assert (tuple(apart) or OTHER) == said(bare)


@pytest.mark.parametrize("index", [0, 1, 7])
def test_text_and_finish_of_one_frame_are_of_one_choice(index):
    choice = {"index": index, "delta": {"content": "a"}, "finish_reason": "stop"}

    assert (Output("text", "a", index), Finish("stop", index)) == said({"choices": [choice]})


SPEAKING = {"index": 0, "delta": {"content": "a"}, "finish_reason": None}


def test_an_event_named_error_is_a_failure_even_with_answer_text():
    events = decode(Frame(b"error", json.dumps({"choices": [SPEAKING]}).encode()))

    assert [Failure, Output] == [type(event) for event in events]


@pytest.mark.parametrize("extras", [{"object": "error"}, {"detail": "fast"}, {"message": "hi", "code": 7}])
def test_what_would_be_an_error_alone_is_none_beside_choices(extras):
    assert (Output("text", "a"),) == said({"choices": [SPEAKING], **extras})
    assert OTHER == said({"choices": [], **extras})


def test_the_usual_report_wins_over_groqs_own():
    usual, own = {"completion_tokens": 3}, {"usage": {"completion_tokens": 4}}

    assert (Usage(output_tokens=3),) == said({"choices": [], "usage": usual, "x_groq": own})


@pytest.mark.parametrize("choice", [{"finish_reason": "stop"}, {"finish_reason": None, "index": 0}])
def test_a_choice_that_only_finishes_shows_its_dialect(choice):
    assert "openai" == recognise(Frame(b"", json.dumps({"choices": [choice]}).encode())).name
