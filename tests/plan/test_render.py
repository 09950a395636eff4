"""Rendering: which headers are sent, whose wins, and that the head frames the body."""

import json

import msgspec
import pytest

from loadgen import __version__
from loadgen.errors import UsageError
from loadgen.net.target import Target, parse_target
from loadgen.plan.recordings.ours import RecordedRequest
from loadgen.plan.render import Keys, RenderedRequest, render


def rendered(
    body: object = None, *, recorded: dict[str, str] | None = None, given: dict[str, str] | None = None, **options
) -> RenderedRequest:
    """Render a request with this body, recorded headers, and those of --header."""
    raw = msgspec.Raw(b"null" if body is None else json.dumps(body).encode())
    fields = {name: options.pop(name) for name in ("method", "fixed_length", "model", "id") if name in options}
    request = RecordedRequest(path="/v1/chat", body=raw, headers=recorded, **fields)
    return render(request, place=4, authority="host:1", headers=given, **options)


def lines_of(request: RenderedRequest, request_id: str | None = None) -> list[str]:
    head = request.head_for(request_id).decode("latin-1")
    assert head.endswith("\r\n\r\n")
    return head[:-4].split("\r\n")


def headers_of(request: RenderedRequest, request_id: str | None = None) -> dict[str, str]:
    pairs = [line.split(": ", 1) for line in lines_of(request, request_id)[1:]]
    assert len(pairs) == len({name for name, _ in pairs})
    return dict(pairs)  # type: ignore[arg-type]


def test_a_streaming_request_is_sent_with_these_lines_and_no_others():
    request = rendered({"stream": True})

    assert [
        "POST /v1/chat HTTP/1.1",
        "host: host:1",
        f"user-agent: loadgen/{__version__}",
        "accept: text/event-stream",
        "accept-encoding: identity",
        "content-type: application/json",
        "content-length: 16",
    ] == lines_of(request)
    assert b'{"stream": true}' == request.body


def test_a_request_without_a_body_is_a_get_without_length_or_type():
    assert [
        "GET /v1/chat HTTP/1.1",
        "host: host:1",
        f"user-agent: loadgen/{__version__}",
        "accept: */*",
        "accept-encoding: identity",
    ] == lines_of(rendered())


@pytest.mark.parametrize(
    ("method", "body", "length"),
    [
        ("POST", None, "0"),
        ("PUT", None, "0"),
        ("PATCH", None, "0"),
        ("GET", None, None),
        ("DELETE", None, None),
        ("HEAD", None, None),
        ("POST", {"text": "é"}, "18"),
        ("GET", {}, "2"),
        ("DELETE", {}, "2"),
    ],
)
def test_the_length_is_said_where_there_may_be_a_body(method, body, length):
    request = rendered(body, method=method)

    assert length == headers_of(request).get("content-length")
    assert lines_of(request)[0].startswith(f"{method} ")
    assert len(request.body) == int(length or 0)


def test_the_length_counts_bytes_not_letters():
    request = render(
        RecordedRequest(path="/", body=msgspec.Raw('"é"'.encode())), place=0, authority="host", headers=None
    )

    assert "4" == headers_of(request)["content-length"]


@pytest.mark.parametrize(
    ("recorded", "given", "name", "value"),
    [
        # Recorded ones win over defaults,
        ({"User-Agent": "theirs"}, None, "user-agent", "theirs"),
        ({"ACCEPT": "text/plain"}, None, "accept", "text/plain"),
        ({"Accept-Encoding": "gzip"}, None, "accept-encoding", "gzip"),
        ({"Content-Type": "application/x"}, None, "content-type", "application/x"),
        ({"X-Team": "red"}, None, "x-team", "red"),
        # and those of --header over recorded ones.
        ({"X-Team": "red"}, {"x-team": "blue"}, "x-team", "blue"),
        ({"accept-encoding": "gzip"}, {"Accept-Encoding": "br"}, "accept-encoding", "br"),
        (None, {"User-Agent": "mine"}, "user-agent", "mine"),
        ({"X-Team": "red"}, {"X-Other": "1"}, "x-team", "red"),
    ],
)
def test_a_header_of_the_command_wins_over_a_recorded_one_and_that_over_ours(recorded, given, name, value):
    assert value == headers_of(rendered({}, recorded=recorded, given=given))[name]


@pytest.mark.parametrize("source", ["recorded", "given"])
@pytest.mark.parametrize(
    "name",
    [
        "Connection",
        "Keep-Alive",
        "Proxy-Connection",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
        "Expect",
        "X-Request-Id",
    ],
)
def test_what_belongs_to_a_connection_or_a_send_is_not_replayed(source, name):
    assert name.lower() not in headers_of(rendered({}, **{source: {name: "theirs"}}))


@pytest.mark.parametrize("source", ["recorded", "given"])
@pytest.mark.parametrize(("name", "value"), [("Host", "host:1"), ("Content-Length", "2")])
def test_host_and_length_are_those_of_this_send(source, name, value):
    assert value == headers_of(rendered({}, **{source: {name: "999"}}))[name.lower()]


@pytest.mark.parametrize(
    ("recorded", "given", "key", "sent"),
    [
        (None, None, None, None),
        (None, None, "", None),
        (None, None, "k", "Bearer k"),
        ({"Authorization": "Basic x"}, None, "k", "Basic x"),
        (None, {"AUTHORIZATION": "Basic y"}, "k", "Basic y"),
        ({"authorization": "Basic x"}, {"authorization": "Basic y"}, "k", "Basic y"),
    ],
)
def test_the_key_is_sent_only_where_no_authorization_is_given(recorded, given, key, sent):
    assert sent == headers_of(rendered({}, recorded=recorded, given=given, keys=Keys(api=key))).get("authorization")


def test_the_request_id_is_the_last_line_and_all_that_differs_between_sends():
    request = rendered({})

    assert "x-request-id: run-7" == lines_of(request, "run-7")[-1]
    assert lines_of(request) == lines_of(request, "run-7")[:-1]
    assert "x-request-id" not in headers_of(request)


def test_the_targets_own_path_replaces_the_recorded_one():
    request = rendered({}, path="/v2?x=1")

    assert ("POST /v2?x=1 HTTP/1.1", "/v2?x=1") == (lines_of(request)[0], request.path)


def test_a_letter_outside_latin_1_does_not_break_the_head():
    assert "?" == headers_of(rendered({}, recorded={"x-name": "\u4f60"}))["x-name"]
    assert "é" == headers_of(rendered({}, recorded={"x-name": "é"}))["x-name"]


@pytest.mark.parametrize(
    ("body", "asked"),
    [
        ({"stream": True}, True),
        ({"stream": False}, False),
        ({"stream": 1}, False),
        ({"stream": "true"}, False),
        ({}, False),
        (["stream"], False),
        (None, False),
    ],
)
def test_a_stream_was_asked_for_where_the_body_says_so(body, asked):
    request = rendered(body)

    assert asked == request.asked_for_stream
    assert asked == (headers_of(request)["accept"] == "text/event-stream")


@pytest.mark.parametrize(
    ("body", "recorded", "fixed"),
    [
        ({"ignore_eos": True}, None, True),
        ({"ignore_eos": False}, None, False),
        ({"min_tokens": 5, "max_tokens": 5}, None, True),
        ({"min_tokens": 5, "max_completion_tokens": 5}, None, True),
        ({"min_tokens": 4, "max_tokens": 5}, None, False),
        ({"max_tokens": 5}, None, False),
        ({"min_tokens": None, "max_tokens": None}, None, False),
        ({}, True, True),
        ({}, False, False),
        (None, True, True),
    ],
)
def test_a_length_is_fixed_by_the_body_or_the_recording(body, recorded, fixed):
    assert fixed == rendered(body, fixed_length=recorded).fixed_length


@pytest.mark.parametrize(
    ("body", "recorded", "model"),
    [
        ({"model": "m"}, None, "m"),
        ({"model": "m"}, "recorded", "recorded"),
        ({"model": 3}, None, None),
        ({}, None, None),
        (None, "recorded", "recorded"),
    ],
)
def test_the_model_is_the_recordings_or_the_bodys(body, recorded, model):
    assert model == rendered(body, model=recorded).model


def test_a_request_without_an_id_is_called_by_its_place():
    assert ("4", "seven") == (rendered().id, rendered(id="seven").id)


def test_a_body_that_is_no_json_is_sent_as_it_is():
    request = render(RecordedRequest(path="/", body_b64="/wD/"), place=0, authority="host")

    assert (b"\xff\x00\xff", False, "3") == (
        request.body,
        request.asked_for_stream,
        headers_of(request)["content-length"],
    )


# Where it goes.


@pytest.mark.parametrize(
    ("text", "target", "authority"),
    [
        ("http://host:8000", Target("http", "host", 8000), "host:8000"),
        ("http://host:8000/", Target("http", "host", 8000), "host:8000"),
        ("http://host", Target("http", "host", 80), "host"),
        ("http://host:80", Target("http", "host", 80), "host"),
        ("host:8000", Target("http", "host", 8000), "host:8000"),
        ("host", Target("http", "host", 80), "host"),
        ("127.0.0.1:1", Target("http", "127.0.0.1", 1), "127.0.0.1:1"),
        ("HTTP://HOST:8000", Target("http", "host", 8000), "host:8000"),
        ("http://[::1]:8000", Target("http", "::1", 8000), "[::1]:8000"),
        ("[::1]", Target("http", "::1", 80), "[::1]"),
        ("http://host/v1/chat", Target("http", "host", 80, "/v1/chat"), "host"),
        ("host:1/v1?a=b&c", Target("http", "host", 1, "/v1?a=b&c"), "host:1"),
    ],
)
def test_a_target_is_read_as_a_person_writes_it(text, target, authority):
    found = parse_target(text)

    assert (target, authority) == (found, found.authority)
    assert found == parse_target(str(found))


def test_a_query_without_a_path_is_asked_of_the_root():
    assert "/?x=1" == parse_target("http://host?x=1").path


def test_a_fragment_is_not_sent():
    assert "/v1" == parse_target("http://host/v1#part").path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no host"),
        ("http://", "names no host"),
        ("http://:8000", "names no host"),
        ("http://user:password@host", "target"),
        ("http://host/a b", "names no host"),
        ("http://host/a\r\nx: y", "names no host"),
        ("ftp://host", "scheme 'ftp' is not supported"),
        ("http://host:port", "Port"),
        ("http://host:99999", "Port"),
        ("http://[::1", "IPv6"),
        ("http://host:0", "0"),
        ("http://host/é", "é"),
    ],
)
def test_a_wrong_target_is_named_with_a_hint(text, words):
    with pytest.raises(UsageError) as raised:
        parse_target(text)

    fact, hint = str(raised.value).splitlines()
    assert words in fact
    assert hint.startswith("hint: ")


def test_an_error_does_not_repeat_a_password():
    with pytest.raises(UsageError) as raised:
        parse_target("http://user:hunter2@host")

    assert "hunter2" not in str(raised.value)
