"""The official clients of each API read what the simulated server says, and complain of nothing."""

import json
from typing import Any

import pytest
from realclients.asking import ask_clients

from loadgen.servers.simulated.apis import APIS
from loadgen.servers.simulated.asked import Asked
from loadgen.servers.simulated.babble import CALL, Babble
from loadgen.servers.simulated.fate import Fate, Fates
from loadgen.servers.simulated.model import Model
from loadgen.servers.simulated.wish import wish_from

pytestmark = pytest.mark.clients

SEED = 11
CALLS = "tokens=9,reasoning=4,tools=1"
# A wish and a cap each.
SCENES = {
    "plain": ("tokens=7", None),
    "reasoning and a call": (CALLS, None),
    "a call of one token": ("tokens=1,tools=1", None),
    "capped": ("tokens=7,reasoning=2", 5),
    "capped in its call": (CALLS, 12),
    "error": ("tokens=12,reasoning=2,fault=error", None),
    "rejected": ("fault=reject", None),
    "wrong": ("fault=fire", None),
}
# These put a stream together themselves.
HELPERS = ("openai-chat by its helper", "openai-responses by its helper", "anthropic by its helper")
CLIENTS = (*APIS, "bedrock-anthropic by anthropic", *HELPERS)
ASKED = [
    (client, scene)
    for client in CLIENTS
    for scene in SCENES
    if client not in HELPERS or scene in ("plain", "reasoning and a call")
]
# By API: an error in mid-stream, a rejection, a wrong question, each by its exception, status and word.
FAILED = ("simulated model failed", "rejected, as the", "x-sim: fault must be one")
OPENAI = [("APIError", None, "InternalServerError"), ("RateLimitError", 429, "rate_limit_error")]
OPENAI += [("BadRequestError", 400, "invalid_request_error")]
AMAZON = [("EventStreamError", None, "internalServerException"), ("ThrottlingException", 429, "ThrottlingException")]
AMAZON += [("ValidationException", 400, "ValidationException")]
OLLAMA = [("ResponseError", status, word) for status, word in zip((-1, 429, 400), FAILED, strict=True)]
ERRORS: dict[str, list[tuple[str, int | None, str | None]]] = {
    "openai-chat": OPENAI,
    "openai-completions": OPENAI,
    "openai-responses": [("response.failed", None, "server_error"), *OPENAI[1:]],
    "anthropic": [("APIStatusError", 200, "api_error"), *OPENAI[1:]],
    "ollama-chat": OLLAMA,
    "ollama-generate": OLLAMA,
    "bedrock-converse": AMAZON,
    "bedrock-anthropic": AMAZON,
    "bedrock-anthropic by anthropic": [
        ("APIStatusError", 200, "internalServerException"),
        ("RateLimitError", 429, None),
        ("BadRequestError", 400, None),
    ],
}
WITHOUT_REASONING_COUNT = ("ollama-chat", "ollama-generate", "bedrock-converse")


SERVED = ("--ttft", "1ms", "--itl", "1ms", "--slots", "0", "--seed", str(SEED))


@pytest.fixture(scope="module")
def answers(simulate) -> dict[tuple[str, str], dict[str, Any]]:
    """What every client made of every scene, all asked in one process, one after the other."""
    asked = [{"client": client, "wish": SCENES[scene][0], "cap": SCENES[scene][1]} for client, scene in ASKED]
    return dict(zip(ASKED, ask_clients(simulate(*SERVED), asked), strict=True))


def api_of(client: str) -> str:
    return client.partition(" by ")[0]


@pytest.fixture(scope="module")
def fates() -> dict[tuple[str, str], Fate]:
    """What the server decided for each question: the same seed and order of arrival give the same."""
    drawn, decided = Fates(Model(seed=SEED)), {}
    for client, scene in ASKED:
        if scene != "wrong":  # it never gets so far
            wish, cap = SCENES[scene]
            asked = Asked(
                api=APIS[api_of(client)], model="sim:1", stream=True, include_usage=True, cap=cap, ignore_eos=False,
                input_tokens=5, wish=wish_from(wish),
            )  # fmt: skip
            decided[client, scene] = drawn.draw(asked)
    return decided


def spoken(fate: Fate) -> dict[str, str]:
    """What the server says of each kind, up to a fault."""
    babble, said = Babble(SEED), {"reasoning": "", "text": "", "tool": ""}
    for part in fate.parts:
        if part.start < fate.spoken:
            stop = min(part.stop, fate.spoken)
            said[part.kind] += babble.piece(part, part.start, stop, start=fate.text_start)
    return said


EVERY_ANSWER = pytest.mark.parametrize(("client", "scene"), ASKED)


@EVERY_ANSWER
def test_a_client_complains_of_nothing(answers, client, scene):
    assert [] == answers[client, scene]["complaints"]


@EVERY_ANSWER
def test_a_client_reads_what_was_said(answers, fates, client, scene):
    told = answers[client, scene]
    said = spoken(fates[client, scene]) if scene not in ("rejected", "wrong") else {"reasoning": "", "text": ""}

    assert (said["reasoning"], said["text"]) == (told["reasoning"], told["text"])


@EVERY_ANSWER
def test_a_client_gets_the_calls_that_were_made(answers, fates, client, scene):
    arguments = spoken(fates[client, scene])["tool"] if scene not in ("rejected", "wrong", "error") else ""
    calls = [{"id": CALL.id, "name": CALL.name, "arguments": arguments}] if arguments else []
    if api_of(client) == "ollama-chat":  # its client drops the id, and it says whole calls only
        calls = [{**call, "id": None} for call in calls if scene != "capped in its call"]

    assert calls == answers[client, scene]["calls"]
    if calls and scene != "capped in its call":
        assert ["text"] == list(json.loads(arguments))


@pytest.mark.parametrize(("client", "scene"), [one for one in ASKED if one[1] not in ("error", "rejected", "wrong")])
def test_a_client_is_told_why_it_ended_and_what_it_took(answers, fates, client, scene):
    told, fate, api = answers[client, scene], fates[client, scene], api_of(client)
    reasoning = len(spoken(fate)["reasoning"].split())
    none = 0 if APIS[api].counts_zero else None
    counted = None if api in WITHOUT_REASONING_COUNT else reasoning or none

    assert (APIS[api].reasons[fate.finish_reason], None) == (told["finish"], told["error"])
    assert {"input": 5, "output": fate.tokens, "reasoning": counted} == told["usage"]


@pytest.mark.parametrize("client", ERRORS)
def test_a_client_tells_an_error_by_its_own_name(answers, client):
    for scene, (kind, status, word) in zip(("error", "rejected", "wrong"), ERRORS[client], strict=True):
        error = answers[client, scene]["error"]
        assert (kind, status) == (error["type"], error["status"]), scene
        assert word == error["word"] or (word in FAILED and word in error["word"]), scene


def test_a_recorder_between_them_changes_nothing(answers, simulate, record):
    asked = [{"client": client, "wish": SCENES[scene][0], "cap": SCENES[scene][1]} for client, scene in ASKED]
    recorder = record(simulate(*SERVED))
    through = dict(zip(ASKED, ask_clients(recorder.url, asked), strict=True))
    code, said = recorder.end()

    assert answers == through
    assert (130, True) == (code, f"{len(ASKED)} requests passed on, {len(ASKED)} recorded" in said)


def test_every_api_of_the_server_has_a_client():
    assert set(APIS) == {api_of(client) for client in CLIENTS}
    assert set(ERRORS) == set(CLIENTS) - set(HELPERS)
