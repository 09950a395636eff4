"""Amazon Bedrock: Converse's members by the names of their messages, InvokeModel's chunks in their vendors' words."""

import json
from base64 import b64encode

import pytest

from loadgen.wire.events import END, OTHER, Event, Failure, Finish, Malformed, Other, Output, Role, Usage
from loadgen.wire.eventstream import Message
from loadgen.wire.formats.anthropic import METRICS
from loadgen.wire.formats.bedrock import Decoder
from loadgen.wire.frame import Frame
from loadgen.wire.recognise import recognise


def said(name: str, value: object, *, kind: bytes = b"event") -> tuple[Event, ...]:
    """What one message says."""
    return Decoder().decode(Message(name.encode(), json.dumps(value).encode(), kind))


def delta(**fields: object) -> dict[str, object]:
    return {"contentBlockIndex": 0, "delta": fields, "p": "abcdef"}


TEXT, REASONING, TOOL = Output("text", "a"), Output("reasoning", "a"), Output("tool", "a")
MEMBERS = {
    "text": ("contentBlockDelta", delta(text="a"), (TEXT,)),
    "a blank": ("contentBlockDelta", delta(text=" "), (Output("text", " "),)),
    "empty text": ("contentBlockDelta", delta(text=""), OTHER),
    "null text": ("contentBlockDelta", delta(text=None), OTHER),
    "text that is none": ("contentBlockDelta", delta(text=7), OTHER),
    "reasoning": ("contentBlockDelta", delta(reasoningContent={"text": "a"}), (REASONING,)),
    "empty reasoning": ("contentBlockDelta", delta(reasoningContent={"text": ""}), OTHER),
    "a signature": ("contentBlockDelta", delta(reasoningContent={"signature": "c2ln"}), OTHER),
    "redacted reasoning": ("contentBlockDelta", delta(reasoningContent={"redactedContent": "b3A="}), OTHER),
    "reasoning that is none": ("contentBlockDelta", delta(reasoningContent="a"), OTHER),
    "arguments": ("contentBlockDelta", delta(toolUse={"input": "a"}), (TOOL,)),
    "empty arguments": ("contentBlockDelta", delta(toolUse={"input": ""}), OTHER),
    "arguments as an object": ("contentBlockDelta", delta(toolUse={"input": {"a": 1}}), (Output("tool", '{"a":1}'),)),
    "arguments that are none": ("contentBlockDelta", delta(toolUse=7), OTHER),
    "several at once": ("contentBlockDelta", delta(text="a", toolUse={"input": "a"}), (TEXT, TOOL)),
    "text beside null members": ("contentBlockDelta", delta(text="a", toolUse=None, reasoningContent=None), (TEXT,)),
    "a citation": ("contentBlockDelta", delta(citation={"title": "a"}), OTHER),
    "an image": ("contentBlockDelta", delta(image={"source": {"bytes": "YQ=="}}), OTHER),
    "a tool's result": ("contentBlockDelta", delta(toolResult=[{"text": "a"}]), OTHER),
    "a null delta": ("contentBlockDelta", {"delta": None}, OTHER),
    "a delta that is none": ("contentBlockDelta", {"delta": "a"}, OTHER),
    "no delta": ("contentBlockDelta", {}, OTHER),
    "a beginning": ("messageStart", {"role": "assistant", "p": "abc"}, (Role(),)),
    "an empty beginning": ("messageStart", {}, (Role(),)),
    "a tool by name": ("contentBlockStart", {"start": {"toolUse": {"toolUseId": "1", "name": "f"}}}, (Role(),)),
    "a tool with its input": (
        "contentBlockStart",
        {"start": {"toolUse": {"name": "f", "input": {"a": 1}}}},
        (Output("tool", '{"a":1}'),),
    ),
    "a block of another kind": ("contentBlockStart", {"start": {"image": {"format": "png"}}}, OTHER),
    "an empty start": ("contentBlockStart", {"contentBlockIndex": 0, "start": {}}, OTHER),
    "a null start": ("contentBlockStart", {"start": None}, OTHER),
    "the end of a block": ("contentBlockStop", {"contentBlockIndex": 0}, OTHER),
    "a stop": (
        "messageStop",
        {"stopReason": "end_turn", "additionalModelResponseFields": {}},
        (Finish("end_turn"), *END),
    ),
    "a stop without reason": ("messageStop", {}, END),
    "a null reason": ("messageStop", {"stopReason": None}, END),
    "an empty reason": ("messageStop", {"stopReason": ""}, END),
    "usage": ("metadata", {"usage": {"inputTokens": 5, "outputTokens": 7, "totalTokens": 12}}, (Usage(5, 7),)),
    "cached": (
        "metadata",
        {"usage": {"inputTokens": 5, "outputTokens": 7, "cacheReadInputTokens": 8, "cacheWriteInputTokens": 7}},
        (Usage(20, 7, 8),),
    ),
    "usage in strings": ("metadata", {"usage": {"inputTokens": "5", "outputTokens": "7"}}, (Usage(5, 7),)),
    "null usage": ("metadata", {"usage": None, "metrics": {"latencyMs": 1}}, OTHER),
    "no usage": ("metadata", {"metrics": {"latencyMs": 1}}, OTHER),
    "an event of the future": ("weatherReport", {"delta": {"text": "a"}, "text": "a"}, OTHER),
    "a message of no name": ("", {"delta": {"text": "a"}}, OTHER),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_a_member_says_what_the_table_says(name):
    member, value, events = MEMBERS[name]

    assert events == said(member, value)


@pytest.mark.parametrize("name", [name for name, (_member, value, _events) in MEMBERS.items() if value])
def test_a_member_that_a_gateway_relays_says_the_same(name):
    member, value, events = MEMBERS[name]
    frame = Frame(b"", json.dumps({member: value}).encode())

    assert events == Decoder().decode(frame)
    assert events == said("chunk", {"bytes": b64encode(frame.data).decode()})


@pytest.mark.parametrize("data", [b"{", b"[1]", b"7", b"hello", b'{"a": 1} {}'])
def test_a_known_member_that_is_no_object_is_malformed(data):
    for name in (b"contentBlockDelta", b"messageStart", b"messageStop", b"metadata", b"chunk"):
        with pytest.raises(Malformed):
            Decoder().decode(Message(name, data))
    assert OTHER == Decoder().decode(Message(b"weatherReport", data))


def test_an_empty_payload_says_nothing():
    assert OTHER == Decoder().decode(Message(b"", b""))
    assert OTHER == Decoder().decode(Message(b"contentBlockDelta", b""))
    assert OTHER == Decoder().decode(Message(b"chunk", b""))
    assert END == Decoder().decode(Message(b"messageStop", b""))


@pytest.mark.parametrize("kind", [b"exception", b"error"])
@pytest.mark.parametrize("payload", [b'{"message": "slow down"}', b"", b"{", b"hello"])
def test_exceptions_and_errors_are_failures_by_their_name(kind, payload):
    assert (Failure("throttlingException"),) == Decoder().decode(Message(b"throttlingException", payload, kind))
    assert (Failure("error"),) == Decoder().decode(Message(b"", payload, kind))


def test_a_message_of_the_future_says_nothing():
    assert OTHER == said("contentBlockDelta", delta(text="a"), kind=b"omen")


def test_an_exception_that_a_gateway_relays_is_a_failure():
    for value in ({"throttlingException": {"message": "m"}}, {"error": {"type": "throttlingException"}}):
        assert (Failure("throttlingException"),) == Decoder().decode(Frame(b"", json.dumps(value).encode()))
    assert (Failure("error"),) == Decoder().decode(Frame(b"error", b"it broke"))
    assert OTHER == Decoder().decode(Frame(b"", b"[DONE]"))


# InvokeModelWithResponseStream.


def invoked(*values: object) -> list[Event]:
    """What the chunks of one stream say."""
    decode = Decoder().decode
    payloads = [{"bytes": b64encode(json.dumps(value).encode()).decode(), "p": "abc"} for value in values]
    return [event for payload in payloads for event in decode(Message(b"chunk", json.dumps(payload).encode()))]


def text(value: str) -> dict[str, object]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": value}}


MEASURED = {METRICS: {"inputTokenCount": 5, "outputTokenCount": 7, "invocationLatency": 400, "firstByteLatency": 90}}
START = {"type": "message_start", "message": {"usage": {"input_tokens": 4, "output_tokens": 1}}}
STOP = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 6}}
VENDORS = {
    "Anthropic": (
        [START, text("a"), STOP, {"type": "message_stop", **MEASURED}],
        [Role(), Usage(4), TEXT, Usage(4, 6), Finish("end_turn"), Usage(5, 7), *END],
    ),
    "Anthropic without metrics": (
        [text("a"), STOP, {"type": "message_stop"}],
        [TEXT, Usage(None, 6), Finish("end_turn"), *END],
    ),
    "Anthropic with an error": (
        [text("a"), {"type": "error", "error": {"type": "overloaded_error"}}],
        [TEXT, Failure("overloaded_error")],
    ),
    "Anthropic's old form": (
        [{"completion": "a", "stop_reason": None}, {"completion": "", "stop_reason": "stop_sequence", **MEASURED}],
        [TEXT, Finish("stop_sequence"), Usage(5, 7), *END],
    ),
    "Llama": (
        [
            {"generation": "", "prompt_token_count": 5, "generation_token_count": 1, "stop_reason": None},
            {"generation": "a", "prompt_token_count": None, "generation_token_count": 2, "stop_reason": None},
            {"generation": "", "generation_token_count": 7, "stop_reason": "stop", **MEASURED},
        ],
        [Other(), TEXT, Finish("stop"), Usage(5, 7), *END],
    ),
    "Nova": (
        [
            {"messageStart": {"role": "assistant"}},
            {"contentBlockDelta": {"delta": {"text": "a"}, "contentBlockIndex": 0}},
            {"messageStop": {"stopReason": "end_turn"}},
            {"metadata": {"usage": {"inputTokens": 5, "outputTokens": 7}}, **MEASURED},
        ],
        [Role(), TEXT, Finish("end_turn"), *END, Usage(5, 7), Usage(5, 7), *END],
    ),
    "Titan": (
        [{"outputText": "a", "index": 0, "completionReason": "FINISH", "totalOutputTextTokenCount": 7, **MEASURED}],
        [TEXT, Finish("FINISH"), Usage(5, 7), *END],
    ),
    "Mistral": (
        [
            {"outputs": [{"text": "a", "stop_reason": None}]},
            {"outputs": [{"text": "", "stop_reason": "stop"}], **MEASURED},
        ],
        [TEXT, Finish("stop"), Usage(5, 7), *END],
    ),
    "Cohere": (
        [
            {"event_type": "text-generation", "text": "a"},
            {"event_type": "stream-end", "finish_reason": "COMPLETE", **MEASURED},
        ],
        [TEXT, Finish("COMPLETE"), Usage(5, 7), *END],
    ),
    "chunks of OpenAI's": (
        [
            {"choices": [{"index": 0, "delta": {"content": "a"}}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], **MEASURED},
        ],
        [TEXT, Finish("stop"), Usage(5, 7), *END],
    ),
    "nobody": ([{"ping": 1}, {"bytes": "a"}], [Other(), Other()]),
    "nobody, measured": ([{"ping": 1}, MEASURED], [Other(), Usage(5, 7), *END]),
}


@pytest.mark.parametrize("name", VENDORS)
def test_chunks_are_read_in_their_vendors_words(name):
    values, events = VENDORS[name]

    assert events == invoked(*values)


@pytest.mark.parametrize("metrics", [None, 7, [], "12"])
def test_metrics_that_are_none_end_nothing(metrics):
    assert [TEXT] == invoked({"generation": "a", METRICS: metrics})
    assert [Other()] == invoked({"type": "ping", METRICS: metrics})


def test_the_words_of_metrics_in_a_text_are_text():
    assert [Output("text", METRICS)] == invoked({"generation": METRICS})


@pytest.mark.parametrize(
    "payload",
    [
        b'{"bytes": "abc"}',
        b'{"bytes": "%%%%"}',
        b'{"bytes": "YQ=x"}',
        b'{"bytes": 7}',
        b'{"bytes": "YQ=="',
        b'{"bytes": "YQ=="}',
        b'{"bytes": "WzFd"}',
        b"[1]",
    ],
)
def test_a_chunk_whose_base64_or_json_does_not_hold_is_malformed(payload):
    for before in ([], [text("b")], [{"generation": "b"}]):
        decode = Decoder().decode
        for value in before:
            inner = b64encode(json.dumps(value).encode()).decode()
            decode(Message(b"chunk", json.dumps({"bytes": inner}).encode()))
        with pytest.raises(Malformed):
            decode(Message(b"chunk", payload))


@pytest.mark.parametrize(
    "payload", [b"{}", b'{"bytes": ""}', b'{"bytes": null}', b'{"p": "abc"}', b'{"bytes": "IA=="}']
)
def test_an_empty_chunk_says_nothing(payload):
    decode = Decoder().decode
    decode(Message(b"chunk", json.dumps({"bytes": b64encode(json.dumps(text("b")).encode()).decode()}).encode()))

    assert OTHER == decode(Message(b"chunk", payload))


# Recognition.


@pytest.mark.parametrize("message", [Message(b"", b""), Message(b"x", b"hello"), Message(b"x", b"{}", b"exception")])
def test_any_message_of_an_event_stream_is_bedrocks(message):
    assert "bedrock" == recognise(message).name


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"messageStart": {"role": "assistant"}}, "bedrock"),
        ({"contentBlockDelta": {"delta": {"text": "a"}}}, "bedrock"),
        ({"messageStop": {}}, "bedrock"),
        ({"metadata": {"usage": {}}}, None),
        ({"messageStart": 7}, None),
    ],
)
def test_a_relayed_stream_is_told_by_its_members(value, name):
    dialect = recognise(Frame(b"", json.dumps(value).encode()))

    assert name == (dialect.name if dialect else None)
