"""Bodies as clients really sent them: read for what they ask, sent as they are, refused by their line."""

import base64
import json

import pytest

from loadgen.errors import UsageError
from loadgen.plan.recordings.edits import Edits
from loadgen.plan.recordings.ours import RecordedRequest, parse_line, read_recording
from loadgen.plan.render import RenderedRequest, render


def recorded(body: bytes) -> RecordedRequest:
    return RecordedRequest(path="/", body_b64=base64.b64encode(body).decode())


def rendered(body: bytes) -> RenderedRequest:
    return render(recorded(body), place=0, authority="host")


@pytest.mark.parametrize(
    "text", [b"\\ud83d", b"\\udc00\\ud800", b"\xff", b"\xed\xa0\xbd"], ids=["high", "pair turned", "no utf-8", "cesu"]
)
def test_letters_that_are_none_hide_nothing_of_what_was_asked(text):
    body = b'{"stream": true, "ignore_eos": true, "model": "m", "prompt": "' + text + b'"}'
    request = rendered(body)

    assert (body, True, True, "m") == (request.body, request.asked_for_stream, request.fixed_length, request.model)


@pytest.mark.parametrize(
    ("body", "fixed"),
    [
        (b'{"min_tokens": 5, "max_tokens": null, "max_completion_tokens": 5}', True),
        (b'{"min_tokens": 5, "max_tokens": 5, "max_completion_tokens": null}', True),
        (b'{"min_tokens": 5, "max_tokens": null, "max_completion_tokens": 6}', False),
        (b'{"min_tokens": null, "max_completion_tokens": null}', False),
    ],
)
def test_a_cap_of_null_is_no_cap(body, fixed):
    assert fixed == rendered(body).fixed_length


@pytest.mark.parametrize("options", [b"null", b"[1]", b'"x"', b"true", b"7"])
def test_stream_options_that_are_none_are_replaced(options):
    edited = Edits(usage=True).apply(recorded(b'{"stream": true, "stream_options": ' + options + b"}"))

    assert {"stream": True, "stream_options": {"include_usage": True}} == json.loads(edited.payload)


@pytest.mark.parametrize("body", [b"[" * 5_000 + b"]" * 5_000, b"[" * 5_000, b'{"a":' * 200_000])
def test_a_body_that_goes_too_deep_is_sent_as_it_is(body):
    request = rendered(body)

    assert (body, False, None) == (request.body, request.asked_for_stream, request.model)


def test_a_body_that_goes_too_deep_cannot_be_edited():
    with pytest.raises(UsageError, match=r"cannot be changed\nhint: "):
        Edits(model="m").apply(recorded(b"[" * 5_000 + b"]" * 5_000))


def test_a_line_that_goes_too_deep_is_named_by_its_number(tmp_path):
    path = tmp_path / "recording.jsonl"
    path.write_bytes(b'{"path": "/"}\n{"path": "/", "body": ' + b"[" * 5_000 + b"]" * 5_000 + b"}\n")

    with pytest.raises(UsageError) as raised:
        read_recording(path)

    assert str(raised.value).startswith(f"{path}:2: ")


def test_a_pair_of_escapes_that_is_one_letter_is_kept_as_escapes():
    body = b'{"prompt": "\\ud83d\\ude00"}'

    assert body == parse_line(b'{"path": "/", "body": ' + body + b"}").payload
