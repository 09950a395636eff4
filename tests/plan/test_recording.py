"""Recordings, prompts and edits: what is read is what was written, and what is wrong is named by its line."""

import base64
import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.errors import UsageError
from loadgen.plan.recordings.edits import Edits
from loadgen.plan.recordings.importers.found import Asked
from loadgen.plan.recordings.importing import load
from loadgen.plan.recordings.ours import (
    RecordedFrame,
    RecordedRequest,
    RecordedResponse,
    Synthetic,
    parse_line,
    read_recording,
    write_recording,
)
from loadgen.plan.recordings.prompts import APIS, Prompt, read_prompts, request_of

names = st.text(max_size=8)
counts = st.integers(0, 2**40)
jsons = st.recursive(st.none() | st.booleans() | st.integers(-(2**50), 2**50) | names, st.lists, max_leaves=5)
headers = st.dictionaries(
    st.text("abcXYZ019-_.!#$%&'*+^`|~", min_size=1, max_size=8),
    st.text(st.characters(blacklist_characters="\r\n\0", blacklist_categories=["Cs"]), max_size=8),
    max_size=3,
)
bodies = st.one_of(
    st.just({}),
    jsons.map(lambda value: {"body": msgspec.Raw(json.dumps(value, indent=1).replace("\n", " ").encode())}),
    st.binary(max_size=30).map(lambda data: {"body_b64": base64.b64encode(data).decode()}),
)
frames = st.builds(
    RecordedFrame, ms=st.none() | st.floats(0, 1e6), data=st.none() | names, b64=st.none() | st.just("AAEC")
)
responses = st.builds(
    RecordedResponse,
    status=st.none() | st.integers(100, 599),
    headers=st.none() | headers,
    end=st.none() | st.sampled_from(["clean", "cut"]),
    frames=st.none() | st.lists(frames, max_size=3),
    usage=jsons.map(lambda value: msgspec.Raw(json.dumps(value).encode())),
)
synthetics = st.builds(
    Synthetic,
    input_tokens=st.none() | counts,
    hash_ids=st.none() | st.lists(counts, max_size=3),
    block_tokens=st.none() | counts,
)
requests = st.builds(
    lambda fields, body: RecordedRequest(**fields, **body),
    st.fixed_dictionaries(
        {"path": st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=12).map("/".__add__)},
        optional={
            "id": names,
            "at_s": st.floats(0, 1e9),
            "method": st.sampled_from(["GET", "POST", "M-SEARCH"]),
            "headers": headers,
            "klass": names,
            "session": names,
            "model": names,
            "expected_output_tokens": counts,
            "fixed_length": st.booleans(),
            "source": names,
            "response": responses,
            "synthetic": synthetics,
        },
    ),
    bodies,
)


@given(st.lists(requests, min_size=1, max_size=4))
def test_a_written_recording_reads_back_equal(tmp_path_factory, recorded):
    path = tmp_path_factory.mktemp("recording") / "recording.jsonl"

    write_recording(path, recorded)

    assert recorded == read_recording(path)


def test_only_the_path_is_required_and_the_rest_is_null():
    request = parse_line(b'{"path": "/v1/models"}')

    assert RecordedRequest(path="/v1/models") == request
    assert (b"", "GET") == (request.payload, request.verb)


@pytest.mark.parametrize(
    "body",
    [
        b'{ "b" :1.0,\t"a":  "\\u00e9\xc3\xa9" , "n": 1e2 }',
        b"[ 1,2 ]",
        b'"text"',
        b"0.10",
        b'{"same": 1, "same": 2}',
    ],
)
def test_body_bytes_are_kept_as_they_stand_in_the_line(tmp_path, body):
    path = tmp_path / "recording.jsonl"
    path.write_bytes(b'{"body":' + body + b', "path":"/"}\n')

    (once,) = read_recording(path)
    write_recording(path, [once])
    (twice,) = read_recording(path)

    assert (body, body) == (once.payload, twice.payload)
    assert "POST" == once.verb


def test_a_base64_body_is_its_bytes():
    data = bytes(range(256))

    request = parse_line(json.dumps({"path": "/", "body_b64": base64.b64encode(data).decode()}).encode())

    assert (data, "POST") == (request.payload, request.verb)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"not json", "malformed"),
        (b"[]", "Expected `object`"),
        (b'{"path": "/"', "truncated"),
        (b"{}", "missing required field `path`"),
        (b'{"path": 1}', "$.path"),
        (b'{"path": "/", "pat": 1}', "unknown field `pat`"),
        (b'{"path": "/", "klass": "a"}', "unknown field `klass`"),
        (b'{"path": "/", "response": {"code": 1}}', "unknown field `code`"),
        (b'{"path": "/", "expected_output_tokens": 1.5}', "$.expected_output_tokens"),
        (b'{"path": ""}', "is not an absolute path"),
        (b'{"path": "v1"}', "is not an absolute path"),
        (b'{"path": "http://host/v1"}', "is not an absolute path"),
        (b'{"path": "/a b"}', "is not an absolute path"),
        (b'{"path": "/a\\r\\nx: y"}', "is not an absolute path"),
        (b'{"path": "/\\n"}', "is not an absolute path"),
        ('{"path": "/é"}'.encode(), "is not an absolute path"),
        (b'{"path": "/", "method": "GET /"}', "is not an HTTP token"),
        (b'{"path": "/", "method": ""}', "is not an HTTP token"),
        (b'{"path": "/", "method": "GET\\n"}', "is not an HTTP token"),
        (b'{"path": "/", "headers": {"a b": "c"}}', "header 'a b' cannot be sent"),
        (b'{"path": "/", "headers": {"": "c"}}', "header '' cannot be sent"),
        (b'{"path": "/", "headers": {"a": "b\\r\\nc: d"}}', "header 'a' cannot be sent"),
        (b'{"path": "/", "headers": {"a": "b\\n"}}', "header 'a' cannot be sent"),
        (b'{"path": "/", "headers": {"a": "\\u0000"}}', "header 'a' cannot be sent"),
        (b'{"path": "/", "at_s": -0.5}', "at_s -0.5 is not a time"),
        (b'{"path": "/", "at_s": "soon"}', "$.at_s"),
        (b'{"path": "/", "body": {}, "body_b64": "AA=="}', "both body and body_b64 are given"),
        (b'{"path": "/", "body_b64": "A"}', "body_b64: "),
        (b'{"path": "/", "body_b64": "AA==!"}', "body_b64: "),
        (b'{"path": "/", "body_b64": "\xc3\xa9"}', "ASCII"),
        (b'{"path": "/", "id": "\xff"}', "utf-8"),
    ],
)
def test_a_wrong_line_is_named_by_its_number(tmp_path, line, words):
    path = tmp_path / "recording.jsonl"
    path.write_bytes(b'{"path": "/"}\n\n  \t\r\n' + line + b'\n{"path": "/"}\n')

    with pytest.raises(UsageError) as raised:
        read_recording(path)

    fact, hint = str(raised.value).splitlines()
    assert fact.startswith(f"{path}:4: ") and words.lower() in fact.lower()
    assert hint.startswith("hint: ")


def test_an_error_does_not_repeat_a_header_value(tmp_path):
    path = tmp_path / "recording.jsonl"
    path.write_bytes(b'{"path": "/", "headers": {"authorization": "hunter2\\n"}}\n')

    with pytest.raises(UsageError) as raised:
        read_recording(path)

    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "No such file or directory"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: path.write_bytes(b""), "no request in it"),
        (lambda path: path.write_bytes(b"\n \r\n"), "no request in it"),
    ],
)
def test_a_file_without_requests_is_a_usage_error(tmp_path, make, words):
    path: Path = tmp_path / "recording.jsonl"
    make(path)

    with pytest.raises(UsageError) as raised:
        read_recording(path)

    assert f"{path}: {words}" == str(raised.value).splitlines()[0]


def test_line_ends_may_be_crlf_and_the_last_may_lack_its_own(tmp_path):
    path = tmp_path / "recording.jsonl"
    path.write_bytes(b'{"path": "/a"}\r\n{"path": "/b"}')

    assert ["/a", "/b"] == [request.path for request in read_recording(path)]


def test_a_torn_last_line_is_left_out_and_one_before_the_last_is_not(tmp_path):
    path = tmp_path / "recording.jsonl"
    path.write_bytes(b'{"path": "/a"}\n{"path": "/b')

    loaded = load(path, asked=Asked())
    path.write_bytes(b'{"path": "/b\n{"path": "/a"}\n')

    assert (["/a"], 1) == ([request.path for request in loaded.requests], loaded.refused)
    with pytest.raises(UsageError, match=":1: "):
        load(path, asked=Asked())


def test_prompts_are_read_in_both_forms(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text(
        "why is the sky blue?\r\n"
        "\n"
        '{"prompt": "two\\nlines", "class": "long", "max_tokens": 7}\n'
        '{"prompt": "no class"}\n'
        "  spaces stay  \n"
    )

    expected = [
        Prompt("why is the sky blue?"),
        Prompt("two\nlines", "long", 7),
        Prompt("no class"),
        Prompt("  spaces stay  "),
    ]
    assert expected == read_prompts(path)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"prompt": 1}', "$.prompt"),
        (b'{"text": "a"}', "text"),
        (b'{"class": "a"}', "missing required field `prompt`"),
        (b'{"prompt": "a"', "truncated"),
        (b"\xff\xfe", "utf-8"),
    ],
)
def test_a_wrong_prompt_is_named_by_its_number(tmp_path, line, words):
    path = tmp_path / "prompts.txt"
    path.write_bytes(b"fine\n" + line + b"\n")

    with pytest.raises(UsageError) as raised:
        read_prompts(path)

    fact = str(raised.value).splitlines()[0]
    assert fact.startswith(f"{path}:2: ") and words in fact


def test_a_prompt_file_error_hints_at_prompts(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_bytes(b'{"prompt": 1}\n')

    with pytest.raises(UsageError) as raised:
        read_prompts(path)

    assert "prompt" in str(raised.value).splitlines()[1]


@pytest.mark.parametrize(
    ("api", "path", "body"),
    [
        (
            "openai-chat",
            "/v1/chat/completions",
            {"model": "m", "messages": [{"role": "user", "content": "hé"}], "stream": True, "max_tokens": 3},
        ),
        ("openai-completions", "/v1/completions", {"model": "m", "prompt": "hé", "stream": True, "max_tokens": 3}),
    ],
)
def test_a_prompt_becomes_a_streaming_request(api, path, body):
    request = request_of(Prompt("hé", "short", 3), api=api, model="m")

    assert body == json.loads(request.payload)
    assert (path, "short", "m", "POST") == (request.path, request.klass, request.model, request.verb)


@pytest.mark.parametrize("api", APIS)
def test_a_prompt_without_a_cap_sends_one_only_where_the_api_insists(api):
    body = json.loads(request_of(Prompt("hi"), api=api, model="m").payload)

    assert (APIS[api].needs_cap is not None) == ("max_tokens" in body)
    assert not {"options", "inferenceConfig", "max_output_tokens"} & body.keys()


def recorded(body: bytes, **fields) -> RecordedRequest:
    return RecordedRequest(path="/v1/chat/completions", body=msgspec.Raw(body), **fields)


@given(requests)
def test_no_edit_leaves_a_request_as_it_was(request_):
    assert request_ == Edits().apply(request_)


@pytest.mark.parametrize(
    ("edits", "before", "after"),
    [
        ({"model": "new"}, {"model": "old", "n": 1}, {"model": "new", "n": 1}),
        ({"model": "new"}, {}, {"model": "new"}),
        ({"max_tokens": 5}, {"max_tokens": 9, "stream": True}, {"max_tokens": 5, "stream": True}),
        ({"fields": {"temperature": 0}}, {"temperature": 1}, {"temperature": 0}),
        ({"fields": {"a": {"b": None}}}, {"a": {"c": 1}}, {"a": {"b": None}}),
        ({"usage": True}, {"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
        (
            {"usage": True},
            {"stream": True, "stream_options": {"x": 1, "include_usage": False}},
            {"stream": True, "stream_options": {"x": 1, "include_usage": True}},
        ),
        (
            {"usage": True},
            {"stream": True, "stream_options": None},
            {"stream": True, "stream_options": {"include_usage": True}},
        ),
        ({"usage": True}, {"stream": False}, {"stream": False}),
        ({"usage": True}, {"prompt": "x"}, {"prompt": "x"}),
        (
            {"usage": True, "fields": {"stream": True}},
            {"stream": False},
            {"stream": True, "stream_options": {"include_usage": True}},
        ),
    ],
)
def test_an_edit_changes_what_it_names_and_nothing_else(edits, before, after):
    request = recorded(json.dumps(before).encode(), id="a", at_s=1.5, klass="short")

    edited = Edits(**edits).apply(request)

    assert after == json.loads(edited.payload)
    assert ("a", 1.5, "short", request.path) == (edited.id, edited.at_s, edited.klass, edited.path)


@pytest.mark.parametrize(
    ("edits", "field", "value"),
    [
        ({"model": "option", "fields": {"model": "set"}}, "model", "set"),
        ({"max_tokens": 1, "fields": {"max_tokens": 2}}, "max_tokens", 2),
    ],
)
def test_a_set_field_wins_over_the_other_options(edits, field, value):
    edited = Edits(**edits).apply(recorded(b'{"model": "recorded", "max_tokens": 9}'))

    assert value == json.loads(edited.payload)[field]


def test_usage_leaves_the_bytes_of_a_body_that_does_not_stream():
    body = b'{ "prompt":"x",  "n": 1.0 }'

    assert body == Edits(usage=True).apply(recorded(body)).payload


def test_an_edited_model_is_the_requests_model():
    assert "new" == Edits(model="new").apply(recorded(b'{"model": "old"}', model="old")).model


def test_a_base64_body_that_is_an_object_can_be_edited():
    request = RecordedRequest(path="/", body_b64=base64.b64encode(b'{"a": 1}').decode())

    edited = Edits(fields={"b": 2}).apply(request)

    assert {"a": 1, "b": 2} == json.loads(edited.payload)
    assert edited == parse_line(msgspec.json.encode(edited))


@pytest.mark.parametrize("body", [b"[1]", b'"x"', b"1"])
def test_a_body_that_is_no_object_cannot_be_edited(body):
    with pytest.raises(UsageError, match="cannot be changed\nhint: "):
        Edits(model="m").apply(recorded(body, id="seven"))


def test_a_request_without_a_body_has_nothing_to_edit():
    request = RecordedRequest(path="/v1/models")

    assert request == Edits(model="m", usage=True, fields={"a": 1}).apply(request)
