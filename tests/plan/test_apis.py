"""Each kind of API: how it is asked, capped, opened; contract tests over the table."""

import json

import msgspec
import pytest

from loadgen.plan.recordings.apis import APIS, api_of_path
from loadgen.plan.recordings.edits import Edits
from loadgen.plan.recordings.ours import RecordedRequest
from loadgen.plan.recordings.prompts import Prompt, request_of
from loadgen.plan.render import Keys, RenderedRequest, render

ARN = "arn:aws:bedrock:eu-west-1::foundation-model/anthropic.claude-3-haiku-20240307-v1:0"


def asked(api: str, prompt: Prompt = Prompt("hi"), model: str = "m") -> RecordedRequest:  # noqa: B008 (frozen)
    return request_of(prompt, api=api, model=model)


def body_of(request: RecordedRequest) -> dict:
    return json.loads(request.payload)


def sent(request: RecordedRequest, **keys: str) -> RenderedRequest:
    return render(request, place=0, authority="host", keys=Keys(**keys))


def headers_of(request: RenderedRequest) -> dict[str, str]:
    lines = request.head_for(None).decode().split("\r\n")[1:-2]
    return dict(line.split(": ", 1) for line in lines)


@pytest.mark.parametrize(
    ("api", "path", "body"),
    [
        (
            "openai-responses",
            "/v1/responses",
            {"model": "m", "input": "hi", "stream": True, "store": False, "max_output_tokens": 7},
        ),
        (
            "anthropic",
            "/v1/messages",
            {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True, "max_tokens": 7},
        ),
        (
            "ollama-chat",
            "/api/chat",
            {
                "model": "m",
                "messages": [{"role": "user", "content": "hi"}],
                "stream": True,
                "options": {"num_predict": 7},
            },
        ),
        (
            "ollama-generate",
            "/api/generate",
            {"model": "m", "prompt": "hi", "stream": True, "options": {"num_predict": 7}},
        ),
        (
            "bedrock-converse",
            "/model/m/converse-stream",
            {"messages": [{"role": "user", "content": [{"text": "hi"}]}], "inferenceConfig": {"maxTokens": 7}},
        ),
        (
            "bedrock-anthropic",
            "/model/m/invoke-with-response-stream",
            {
                "anthropic_version": "bedrock-2023-05-31",
                "messages": [{"role": "user", "content": "hi"}],
                "max_tokens": 7,
            },
        ),
    ],
)
def test_a_prompt_is_asked_as_its_api_wants_it(api, path, body):
    request = asked(api, Prompt("hi", max_tokens=7))

    assert (path, body) == (request.path, body_of(request))


@pytest.mark.parametrize("api", APIS)
def test_what_a_prompt_becomes_asks_for_a_stream(api):
    assert sent(asked(api)).asked_for_stream


@pytest.mark.parametrize("api", APIS)
def test_a_path_tells_its_own_api(api):
    path = asked(api).path

    assert [APIS[api]] * 3 == [api_of_path(path), api_of_path(f"/gateway{path}"), api_of_path(f"{path}?a=b")]


def test_other_paths_tell_no_api():
    assert [None] * 4 == [api_of_path(path) for path in ("/", "/v1/embeddings", "/v1/chat", "/model/m/converse")]


@pytest.mark.parametrize("api", [name for name, kind in APIS.items() if kind.names_model_in_path])
def test_a_model_in_a_path_is_one_segment(api):
    path = asked(api, model=ARN).path

    assert 4 == len(path.split("/"))
    assert "%2Fanthropic.claude-3-haiku-20240307-v1%3A0" in path


@pytest.mark.parametrize("api", APIS)
def test_an_edit_puts_a_cap_where_the_api_has_it(api):
    edited = body_of(Edits(max_tokens=9).apply(asked(api, Prompt("hi", max_tokens=7))))

    assert body_of(asked(api, Prompt("hi", max_tokens=9))) == edited


def test_an_edit_keeps_to_the_cap_that_a_body_has():
    request = RecordedRequest(
        path="/v1/chat/completions", body=msgspec.Raw(b'{"max_completion_tokens": 5, "stream": true}')
    )

    assert {"max_completion_tokens": 9, "stream": True} == body_of(Edits(max_tokens=9).apply(request))


@pytest.mark.parametrize("api", APIS)
def test_another_model_takes_the_place_of_the_recorded_one(api):
    edited = Edits(model="other:1").apply(asked(api))

    assert asked(api, model="other:1").path == edited.path
    assert body_of(asked(api, model="other:1")) == body_of(edited)


def test_another_model_in_a_gateways_path_keeps_the_rest_of_it():
    request = RecordedRequest(path="/gw/model/a%3A1/converse-stream?x=1", body=msgspec.Raw(b'{"messages": []}'))

    assert "/gw/model/b%3A2/converse-stream?x=1" == Edits(model="b:2").apply(request).path


@pytest.mark.parametrize("api", APIS)
def test_usage_is_asked_for_only_where_it_has_to_be(api):
    body = body_of(Edits(usage=True).apply(asked(api)))

    assert ({"include_usage": True} if api in ("openai-chat", "openai-completions") else None) == body.get(
        "stream_options"
    )


@pytest.mark.parametrize("api", APIS)
def test_temperature_stands_where_the_api_has_it(api):
    body = body_of(Edits(temperature=0).apply(asked(api)))

    for key in APIS[api].temperature:
        body = body[key]
    assert 0 == body


@pytest.mark.parametrize(
    ("api", "header"),
    [
        ("openai-chat", ("authorization", "Bearer k")),
        ("openai-completions", ("authorization", "Bearer k")),
        ("openai-responses", ("authorization", "Bearer k")),
        ("anthropic", ("x-api-key", "k")),
        ("bedrock-converse", ("authorization", "Bearer aws")),
        ("bedrock-anthropic", ("authorization", "Bearer aws")),
    ],
)
def test_each_api_has_its_own_way_to_show_a_key(api, header):
    headers = headers_of(sent(asked(api), api="k", bedrock="aws"))

    assert [header] == [(name, value) for name, value in headers.items() if name in ("authorization", "x-api-key")]


def test_a_key_of_ones_own_in_any_header_stands():
    request = msgspec.structs.replace(asked("anthropic"), headers={"Authorization": "Bearer mine"})

    headers = headers_of(sent(request, api="k"))

    assert ("Bearer mine", None) == (headers["authorization"], headers.get("x-api-key"))


def test_anthropics_version_is_stated_unless_a_recording_has_another():
    given = msgspec.structs.replace(asked("anthropic"), headers={"Anthropic-Version": "2026-10-21"})

    assert "2023-06-01" == headers_of(sent(asked("anthropic")))["anthropic-version"]
    assert "2026-10-21" == headers_of(sent(given))["anthropic-version"]


@pytest.mark.parametrize("api", APIS)
def test_only_what_needs_a_signature_and_has_no_token_is_to_be_signed(api):
    assert APIS[api].signed == sent(asked(api), api="k").to_sign
    assert not sent(asked(api), api="k", bedrock="aws").to_sign


@pytest.mark.parametrize(
    ("path", "body", "asks"),
    [
        ("/api/chat", b'{"messages": []}', True),
        ("/api/generate", b'{"prompt": "x", "stream": false}', False),
        ("/model/m/converse-stream", b'{"messages": []}', True),
        ("/model/m/converse", b'{"messages": []}', False),
        ("/v1/messages", b'{"messages": []}', False),
        ("/v1/messages", b'{"messages": [], "stream": true}', True),
    ],
)
def test_a_stream_is_asked_for_by_its_key_and_without_one_by_some_paths(path, body, asks):
    assert asks == sent(RecordedRequest(path=path, body=msgspec.Raw(body))).asked_for_stream
