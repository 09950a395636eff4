"""Every API of the table keeps the same promises: a new one is tested on arrival. Read by the project's own reader."""

import json
from base64 import b64decode
from typing import Any

import httpx
import msgspec
import pytest
import trio
from simulated_client import MS, becomes, connected, http, simulated

from loadgen.drive.single import Observation, observe
from loadgen.net.route import Route
from loadgen.net.target import parse_target
from loadgen.plan.recordings.apis import APIS as ASKED
from loadgen.plan.recordings.prompts import Prompt, request_of
from loadgen.plan.render import render
from loadgen.results.answer import events_of
from loadgen.results.outcome import Rules
from loadgen.servers.simulated import Simulator
from loadgen.servers.simulated.apis import APIS, Api
from loadgen.servers.simulated.babble import Babble
from loadgen.servers.simulated.service import ROUTES
from loadgen.servers.simulated.shapes import FAMILIES
from loadgen.wire.events import Event, Failure, Output, Usage
from loadgen.wire.eventstream import EventStream
from loadgen.wire.formats import FORMATS
from loadgen.wire.framing import FRAMINGS, ServerSentEvents, content_type

EVERY_API = pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
THINKING = pytest.mark.parametrize(
    "api", [api for api in APIS.values() if api.thinks and api.calls], ids=lambda api: api.name
)
WHOLE = pytest.mark.parametrize("api", [api for api in APIS.values() if api.whole], ids=lambda api: api.name)
FORMAT = {name: dialect.name for dialect in FORMATS.values() for name in dialect.encoders}
# Dialects that count reasoning have a place for it.
UNCOUNTED = ("ollama-chat", "ollama-generate", "bedrock-converse")
# Ollama's says a call in one line.
IN_ONE_LINE = ("ollama-chat",)


async def observed(
    simulator: Simulator,
    api: Api,
    *,
    wish: str = "",
    cap: int | None = None,
    prompt: str = "one two three",
    deadline_ns: int = 10_000 * MS,
) -> Observation:
    """Ask once for a stream, as `loadgen` does, and see what becomes of it."""
    asked = request_of(Prompt(prompt, max_tokens=cap), api=api.name, model="sim:1")
    target = parse_target(simulator.url)
    request = render(asked, place=0, authority=target.authority, headers={"x-sim": wish} if wish else {})
    route = Route(target=target, connect_timeout_s=5)
    return await observe(route, request, deadline_ns=deadline_ns, rules=Rules())


def body(api: Api, *, cap: int | None = None, **fields: Any) -> dict[str, Any]:
    asked = json.loads(request_of(Prompt("one two three", max_tokens=cap), api=api.name, model="sim").payload)
    return {name: value for name, value in {**asked, **fields}.items() if value is not None}


def path(api: Api) -> str:
    return ASKED[api.name].path_for("sim")


async def ask(simulator: Simulator, api: Api, *, wish: str = "", **fields: Any) -> httpx.Response:
    async with http(simulator) as client:
        headers = {"x-sim": wish} if wish else {}
        return await client.post(path(api), json=body(api, **fields), headers=headers)


def events(seen: Observation) -> list[Event]:
    return list(events_of(seen.content_type, seen.body))


def said(seen: Observation, kind: str) -> str:
    return "".join(event.text for event in events(seen) if isinstance(event, Output) and event.kind == kind)


def outputs(seen: Observation, kind: str) -> int:
    return sum(isinstance(event, Output) and event.kind == kind for event in events(seen))


def end_of(seen: Observation) -> tuple[str, str | None, str | None]:
    return seen.row.outcome, seen.row.finish_reason, seen.row.detail


# Answers.


@EVERY_API
async def test_an_answer_is_a_stream_that_completes(api: Api) -> None:
    async with simulated(tokens=7) as simulator:
        seen = await observed(simulator, api)

    row = seen.row
    assert ("completed", api.reasons["stop"], None) == end_of(seen)
    assert (FORMAT[api.name], True, api.content_type) == (row.format, row.finished, seen.content_type)
    assert (7, 7, len(said(seen, "text"))) == (row.output_frames, outputs(seen, "text"), row.output_chars)
    assert 7 == len(said(seen, "text").split())
    assert (1, 1) == (simulator.tally.requests, simulator.tally.completed)


@EVERY_API
async def test_a_stream_reports_its_tokens(api: Api) -> None:
    async with simulated(tokens=7) as simulator, http(simulator) as client:
        asked = body(api)
        if ASKED[api.name].asks_usage:
            asked["stream_options"] = {"include_usage": True}
        answer = await client.post(path(api), json=asked)

    kind = content_type(answer.headers["content-type"])
    usage = [event for event in events_of(kind, answer.content) if isinstance(event, Usage)]
    assert (3, 7) == (usage[-1].input_tokens, usage[-1].output_tokens)


@THINKING
async def test_reasoning_comes_first_and_a_call_last(api: Api) -> None:
    async with simulated(tokens=8) as simulator:
        seen = await observed(simulator, api, wish="reasoning=3,tools=1")

    kinds = [event.kind for event in events(seen) if isinstance(event, Output)]
    arguments = 1 if api.name in IN_ONE_LINE else 4
    assert ["reasoning"] * 3 + ["text"] * 4 + ["tool"] * arguments == kinds
    assert ["text"] == list(json.loads(said(seen, "tool")))
    assert ("completed", api.reasons["tool_calls"], None) == end_of(seen)


@THINKING
async def test_reasoning_counts_as_output_and_is_told_apart_where_it_can_be(api: Api) -> None:
    async with simulated(tokens=8) as simulator:
        seen = await observed(simulator, api, wish="reasoning=3", cap=50)
        capped = await observed(simulator, api, wish="reasoning=3", cap=5)

    usage = [event for event in events(seen) if isinstance(event, Usage)]
    if usage:  # OpenAI's is not asked for it
        assert (11, None if api.name in UNCOUNTED else 3) == (seen.row.output_tokens, seen.row.reasoning_tokens)
    assert (3, 8) == (outputs(seen, "reasoning"), outputs(seen, "text"))
    assert (3, 2) == (outputs(capped, "reasoning"), outputs(capped, "text"))
    assert ("truncated", api.reasons["length"], None) == end_of(capped)


@THINKING
async def test_a_cap_can_leave_nothing_but_reasoning(api: Api) -> None:
    async with simulated(tokens=8) as simulator:
        seen = await observed(simulator, api, wish="reasoning=6", cap=4)

    assert (4, 0) == (outputs(seen, "reasoning"), outputs(seen, "text"))
    assert ("truncated", api.reasons["length"], None) == end_of(seen)


@THINKING
async def test_a_call_that_a_cap_cuts_is_no_json(api: Api) -> None:
    async with simulated(tokens=8) as simulator:
        seen = await observed(simulator, api, wish="tools=1", cap=6)

    assert api.reasons["length"] == seen.row.finish_reason
    if api.name in IN_ONE_LINE:
        assert 0 == outputs(seen, "tool")
    else:
        assert 2 == outputs(seen, "tool")
        with pytest.raises(msgspec.DecodeError):
            msgspec.json.decode(said(seen, "tool"))


@EVERY_API
async def test_an_api_without_a_place_for_it_answers_all_the_same(api: Api) -> None:
    async with simulated(tokens=8) as simulator:
        seen = await observed(simulator, api, wish="reasoning=3,tools=1")

    assert "completed" == seen.row.outcome
    assert api.thinks is (outputs(seen, "reasoning") == 3)
    assert api.calls is (outputs(seen, "tool") > 0)


@EVERY_API
@pytest.mark.parametrize("tokens", [1, 2, 3])
async def test_the_shortest_answers_are_whole(api: Api, tokens: int) -> None:
    async with simulated() as simulator:
        seen = await observed(simulator, api, wish=f"tokens={tokens},reasoning=1,tools=1")

    assert ("completed", True) == (seen.row.outcome, seen.row.finished)
    if api.calls:
        assert ["text"] == list(json.loads(said(seen, "tool")))


@EVERY_API
async def test_a_late_stream_says_all_of_it_in_order_whatever_its_parts(api: Api) -> None:
    async with simulated(itl_ns=0, seed=3) as simulator:
        seen = await observed(simulator, api, wish="tokens=3000,reasoning=700,tools=1", cap=9999)

    assert "completed" == seen.row.outcome
    endless, spoken = Babble(3).text(0, 4096) * 2, said(seen, "reasoning") + said(seen, "text")
    _, _, following = endless.partition(spoken)
    words = 1500 if api.calls else 3000
    assert words + 700 * api.thinks == len(spoken.split())
    if api.calls:  # two of its tokens are no words: what opens the object and what closes it
        assert following.split()[1:1499] == json.loads(said(seen, "tool"))["text"].split()


@EVERY_API
async def test_a_cap_stands_where_the_api_has_it(api: Api) -> None:
    async with simulated(tokens=9) as simulator:
        seen = await observed(simulator, api, cap=4)

    assert 4 == outputs(seen, "text")
    assert ("truncated", api.reasons["length"], None) == end_of(seen)


@THINKING
async def test_streams_of_other_parts_at_the_same_time_do_not_mix(api: Api) -> None:
    seen: dict[str, Observation] = {}

    async def one(simulator: Simulator, wish: str) -> None:
        seen[wish] = await observed(simulator, api, wish=wish)

    wishes = ("tokens=30", "tokens=30,reasoning=5", "tokens=1,tools=1", "tokens=1,reasoning=25")
    async with simulated(slots=0) as simulator, trio.open_nursery() as nursery:
        for wish in wishes:
            nursery.start_soon(one, simulator, wish)

    counts = [tuple(outputs(seen[wish], kind) for kind in ("reasoning", "text", "tool")) for wish in wishes]
    assert [(0, 30, 0), (5, 30, 0), (0, 0, 1), (25, 1, 0)] == counts
    assert {"completed"} == {each.row.outcome for each in seen.values()}


@EVERY_API
async def test_the_first_frame_of_output_comes_when_the_first_token_is_due(api: Api) -> None:
    async with simulated(ttft_ns=200 * MS, itl_ns=MS) as simulator:
        row = (await observed(simulator, api)).row

    assert row.headers_ns is not None and row.first_frame_ns is not None
    assert row.first_output_ns is not None and row.sent_ns is not None
    assert row.first_output_ns - row.sent_ns > 190 * MS
    assert row.headers_ns - row.sent_ns < (row.first_output_ns - row.sent_ns) / 2
    # What opens a stream at once is not its first token.
    early = row.first_frame_ns < (row.sent_ns + row.first_output_ns) / 2
    assert early is (api.opens == "at once")


async def test_the_numbers_of_responses_count_its_events() -> None:
    async with simulated(itl_ns=0) as simulator:
        seen = await observed(simulator, APIS["openai-responses"], wish="tokens=1200,reasoning=20,tools=1")

    frames = ServerSentEvents().feed(seen.body)
    numbers = [json.loads(frame.data)["sequence_number"] for frame in frames]
    assert [*range(len(frames))] == numbers
    assert len(numbers) > 1220


@pytest.mark.parametrize("wish", ["", "reasoning=20", "reasoning=20,tools=1"])
async def test_a_response_repeats_at_its_end_what_it_said(wish: str) -> None:
    async with simulated(tokens=40) as simulator:
        seen = await observed(simulator, APIS["openai-responses"], wish=wish)

    *_, last = ServerSentEvents().feed(seen.body)
    again = of_responses(json.loads(last.data)["response"])
    kinds = ("reasoning", "text", "tool")
    assert [said(seen, kind) for kind in kinds] == [again[kind] for kind in kinds]


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("openai-responses", "output_index"),
        ("anthropic", "index"),
        ("bedrock-converse", "contentBlockIndex"),
        ("bedrock-anthropic", "index"),
    ],
)
async def test_every_frame_of_a_part_belongs_to_the_block_that_is_open(name: str, field: str) -> None:
    async with simulated(tokens=40) as simulator:
        for wish, blocks in (("", 1), ("reasoning=20,tools=1", 3), ("tools=1", 2)):
            seen = await observed(simulator, APIS[name], wish=wish)
            values = [json.loads(inner(frame.data)) for frame in FRAMINGS[seen.content_type]().feed(seen.body)]
            places = [value[field] for value in values if field in value]
            assert sorted(places) == places
            assert [*range(blocks)] == sorted(set(places))


def inner(data: bytes) -> bytes:
    """What a frame holds, out of the chunk that Bedrock may have put it in."""
    value = json.loads(data)
    return b64decode(value["bytes"]) if "bytes" in value else data


# Whole answers.


@WHOLE
@pytest.mark.parametrize("wish", ["", "reasoning=3", "reasoning=3,tools=1"])
async def test_a_whole_answer_says_what_its_stream_would_have_said(api: Api, wish: str) -> None:
    async with simulated(tokens=9) as simulator:
        streamed = await observed(simulator, api, wish=wish)
    async with simulated(tokens=9) as simulator:
        answer = await ask(simulator, api, wish=wish, stream=False)

    told = WHOLES[api.name](answer.json())
    assert "application/json" == answer.headers["content-type"]
    assert [said(streamed, kind) for kind in ("reasoning", "text")] == [
        told[kind] or "" for kind in ("reasoning", "text")
    ]
    assert said(streamed, "tool") == told["tool"]
    assert (streamed.row.finish_reason, 3) == (told["reason"], told["input"])
    assert 9 + 3 * (api.thinks and bool(wish)) == told["output"]


@WHOLE
async def test_a_whole_answer_fails_with_the_apis_own_error(api: Api) -> None:
    async with simulated() as simulator:
        answer = await ask(simulator, api, wish="fault=error", stream=False)

    assert (500, 1) == (answer.status_code, simulator.tally.errored)
    assert shaped(answer)


@pytest.mark.parametrize("name", ["ollama-chat", "ollama-generate"])
async def test_a_whole_answer_of_ollamas_is_a_completed_one(name: str) -> None:
    api = APIS[name]
    async with simulated(tokens=9) as simulator:
        target = parse_target(simulator.url)
        asked = request_of(Prompt("hi"), api=name, model="sim")
        asked = msgspec.structs.replace(asked, body=msgspec.Raw(msgspec.json.encode(body(api, stream=False))))
        request = render(asked, place=0, authority=target.authority)
        route = Route(target=target, connect_timeout_s=5)
        seen = await observe(route, request, deadline_ns=10_000 * MS, rules=Rules())

    assert ("completed", "stop", None) == end_of(seen)
    assert (9, None) == (seen.row.output_tokens, seen.row.first_output_ns)


@pytest.mark.parametrize("name", ["ollama-chat", "ollama-generate"])
async def test_ollama_streams_unless_it_is_told_not_to(name: str) -> None:
    async with simulated() as simulator:
        answers = [await ask(simulator, APIS[name], stream=stream) for stream in (None, True, False)]

    kinds = [content_type(answer.headers["content-type"]) for answer in answers]
    assert ["application/x-ndjson", "application/x-ndjson", "application/json"] == kinds


def told(reasoning: Any, text: Any, tool: str, reason: str, read: int, written: int) -> dict[str, Any]:
    return {"reasoning": reasoning, "text": text, "tool": tool, "reason": reason, "input": read, "output": written}


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":")) if value else ""


def of_openai(answer: dict[str, Any]) -> dict[str, Any]:
    (choice,), usage = answer["choices"], answer["usage"]
    message = choice.get("message", {})
    calls = message.get("tool_calls", [])
    return told(
        message.get("reasoning_content"),
        message.get("content") if message else choice["text"],
        "".join(call["function"]["arguments"] for call in calls),
        choice["finish_reason"],
        usage["prompt_tokens"],
        usage["completion_tokens"],
    )


def of_responses(answer: dict[str, Any]) -> dict[str, Any]:
    items = {item["type"]: item for item in answer["output"]}
    return told(
        items["reasoning"]["content"][0]["text"] if "reasoning" in items else "",
        items["message"]["content"][0]["text"],
        items["function_call"]["arguments"] if "function_call" in items else "",
        answer["status"],
        answer["usage"]["input_tokens"],
        answer["usage"]["output_tokens"],
    )


def of_anthropic(answer: dict[str, Any]) -> dict[str, Any]:
    blocks = {block["type"]: block for block in answer["content"]}
    return told(
        blocks.get("thinking", {}).get("thinking"),
        blocks["text"]["text"],
        compact(blocks.get("tool_use", {}).get("input")),
        answer["stop_reason"],
        answer["usage"]["input_tokens"],
        answer["usage"]["output_tokens"],
    )


def of_ollama(answer: dict[str, Any]) -> dict[str, Any]:
    message = answer.get("message", answer)
    calls = message.get("tool_calls", [])
    return told(
        message.get("thinking"),
        message.get("content", message.get("response")),
        "".join(compact(call["function"]["arguments"]) for call in calls),
        answer["done_reason"],
        answer["prompt_eval_count"],
        answer["eval_count"],
    )


WHOLES = {
    "openai-chat": of_openai,
    "openai-completions": of_openai,
    "openai-responses": of_responses,
    "anthropic": of_anthropic,
    "ollama-chat": of_ollama,
    "ollama-generate": of_ollama,
}


# Faults.


@EVERY_API
async def test_an_error_in_mid_stream_is_the_apis_own(api: Api) -> None:
    async with simulated(tokens=20) as simulator:
        seen = await observed(simulator, api, wish="fault=error")

    said_word = next(event.detail for event in events(seen) if isinstance(event, Failure))
    assert ("api_error", said_word) == (seen.row.outcome, seen.row.detail)
    assert api.failure.replace(" ", "_") == said_word
    assert 1 <= seen.row.output_frames < 20
    assert 1 == simulator.tally.errored


@EVERY_API
@pytest.mark.parametrize(("fault", "detail"), [("cut", "closed"), ("reset", "reset")])
async def test_a_stream_that_breaks_off_is_interrupted(api: Api, fault: str, detail: str) -> None:
    async with simulated(tokens=20) as simulator:
        seen = await observed(simulator, api, wish=f"fault={fault}")

    assert ("interrupted", None, detail) == end_of(seen)
    assert 1 <= seen.row.output_frames < 20
    assert 1 == getattr(simulator.tally, fault)


@EVERY_API
async def test_a_stalled_stream_runs_into_the_deadline(api: Api) -> None:
    async with simulated(tokens=20) as simulator:
        seen = await observed(simulator, api, wish="fault=stall", deadline_ns=150 * MS)
        await becomes(0, lambda: simulator.active)

    assert ("timeout", 1) == (seen.row.outcome, simulator.tally.stalled)
    assert 1 <= seen.row.output_frames < 20


@EVERY_API
async def test_a_rejected_request_is_told_in_the_apis_own_way(api: Api) -> None:
    async with simulated() as simulator:
        seen = await observed(simulator, api, wish="fault=reject")
        answer = await ask(simulator, api, wish="fault=reject")

    assert ("rejected", 429, 1.0) == (seen.row.outcome, seen.row.status, seen.row.retry_after_s)
    assert seen.row.detail in ("rate_limit_error", "ThrottlingException", "error")
    assert shaped(answer)


@EVERY_API
async def test_shares_of_faults_hold_in_every_api(api: Api) -> None:
    async with simulated(tokens=3, itl_ns=0, ttft_ns=0, error_pct=50, cut_pct=50) as simulator:
        outcomes = {(await observed(simulator, api)).row.outcome for _ in range(12)}

    assert {"api_error", "interrupted"} == outcomes


# What is asked wrongly.


def shaped(answer: httpx.Response) -> bool:
    """Whether an error is in the shape of the path's family."""
    path, error = answer.request.url.path, answer.json()
    if path.startswith("/v1/messages"):
        shaped = {"type", "error", "request_id"} == set(error) and {"type", "message"} == set(error["error"])
        return bool(shaped and error["type"] == "error")
    if path.startswith("/api/"):
        return {"error"} == set(error) and isinstance(error["error"], str)
    if path.startswith("/model/"):
        named = answer.headers["x-amzn-errortype"]
        return {"message"} == set(error) and named.endswith("Exception")
    return {"error"} == set(error) and answer.status_code == error["error"]["code"]


@EVERY_API
@pytest.mark.parametrize("content", [b"{not json", b"[]", b"\xff", b"{}", b'{"stream": 7}', b"[" * 5000])
async def test_what_cannot_be_understood_is_a_400_of_the_apis_own(api: Api, content: bytes) -> None:
    async with simulated() as simulator, http(simulator) as client:
        answer = await client.post(path(api), content=content)

    assert (400, 0) == (answer.status_code, simulator.tally.requests)
    assert shaped(answer)


@EVERY_API
async def test_a_wish_that_means_nothing_is_a_400_of_the_apis_own(api: Api) -> None:
    async with simulated() as simulator:
        answer = await ask(simulator, api, wish="fault=fire")

    assert 400 == answer.status_code
    assert shaped(answer)


@EVERY_API
async def test_another_method_is_a_405_of_the_apis_own(api: Api) -> None:
    async with simulated() as simulator, http(simulator) as client:
        answer = await client.get(path(api))

    assert (405, "POST") == (answer.status_code, answer.headers["allow"])
    assert shaped(answer)


@EVERY_API
async def test_a_full_server_says_so_in_the_apis_own_way(api: Api) -> None:
    async with simulated(slots=1, queue=0, ttft_ns=60_000 * MS) as simulator, trio.open_nursery() as nursery:
        nursery.start_soon(observed, simulator, api)
        await becomes(1, lambda: simulator.active)
        answer = await ask(simulator, api)
        nursery.cancel_scope.cancel()

    assert (503, "1", 1) == (answer.status_code, answer.headers["retry-after"], simulator.tally.overflowed)
    assert shaped(answer)


@EVERY_API
async def test_a_cap_of_no_number_is_refused(api: Api) -> None:
    asked = body(api, cap=5)
    place = asked
    *outer, name = ASKED[api.name].caps[0]
    for key in outer:
        place = place[key]
    place[name] = "many"
    async with simulated() as simulator, http(simulator) as client:
        answer = await client.post(path(api), json=asked)

    assert 400 == answer.status_code


@pytest.mark.parametrize("start", [*FAMILIES, "/v1/"])
async def test_a_path_of_no_api_is_a_404_of_its_family(start: str) -> None:
    async with simulated() as simulator, http(simulator) as client:
        answer = await client.post(f"{start.rstrip('/')}/nothing/here", json={})

    assert 404 == answer.status_code
    assert shaped(answer)


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        ("anthropic", {"max_tokens": None}, "max_tokens"),
        ("bedrock-anthropic", {"max_tokens": None}, "max_tokens"),
        ("bedrock-anthropic", {"anthropic_version": None}, "anthropic_version"),
        ("openai-responses", {"input": None}, "input"),
        ("ollama-generate", {"prompt": None}, "prompt"),
        ("ollama-chat", {"messages": []}, "messages"),
        ("bedrock-converse", {"messages": []}, "messages"),
    ],
)
async def test_what_an_api_insists_on_is_named_where_it_is_missing(
    name: str, fields: dict[str, Any], words: str
) -> None:
    async with simulated() as simulator:
        answer = await ask(simulator, APIS[name], **fields)

    assert 400 == answer.status_code
    assert words in answer.text


@EVERY_API
async def test_a_stream_is_refused_to_a_client_that_knows_no_chunks(api: Api) -> None:
    payload = json.dumps(body(api)).encode()
    async with simulated() as simulator, connected(simulator) as client:
        await client.send(
            b"POST %b HTTP/1.0\r\ncontent-length: %d\r\n\r\n%b" % (path(api).encode(), len(payload), payload)
        )
        seen = await client.rest()

    assert b"505" == seen.split(b" ")[1]


# What is asked.


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        ("openai-responses", {"input": "five words are in here"}, 5),
        ("openai-responses", {"input": [{"role": "user", "content": [{"type": "input_text", "text": "a b"}]}]}, 2),
        ("openai-responses", {"input": "a b", "instructions": "be brief"}, 4),
        ("anthropic", {"system": "be brief"}, 5),
        ("anthropic", {"system": [{"type": "text", "text": "be very brief"}]}, 6),
        (
            "anthropic",
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "a b"}, {"type": "image"}]}]},
            2,
        ),
        ("ollama-chat", {"messages": [{"role": "user", "content": "a b", "images": []}]}, 2),
        ("ollama-generate", {"prompt": "a b", "system": "c"}, 3),
        ("ollama-generate", {"prompt": ""}, 1),
        ("bedrock-converse", {"system": [{"text": "be brief"}]}, 5),
        ("bedrock-anthropic", {"system": "be brief"}, 5),
    ],
)
async def test_prompts_are_counted_in_words_wherever_they_stand(
    name: str, fields: dict[str, Any], expected: int
) -> None:
    async with simulated() as simulator:
        answer = await ask(simulator, APIS[name], **fields)

    kind = content_type(answer.headers["content-type"])
    assert expected == [event for event in events_of(kind, answer.content) if isinstance(event, Usage)][-1].input_tokens


@pytest.mark.parametrize("most", [-1, -2, 0])
async def test_ollamas_number_below_one_is_no_cap(most: int) -> None:
    async with simulated(tokens=6) as simulator:
        answer = await ask(simulator, APIS["ollama-chat"], stream=False, options={"num_predict": most})

    assert (6, "stop") == (answer.json()["eval_count"], answer.json()["done_reason"])


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses", "ollama-chat", "anthropic"])
async def test_an_answer_bears_the_name_that_was_asked_for(name: str) -> None:
    async with simulated(name="tiny") as simulator:
        asked = await ask(simulator, APIS[name], stream=False, model="huge")
        unasked = await ask(simulator, APIS[name], stream=False, model=None)

    assert ("huge", "tiny") == (asked.json()["model"], unasked.json()["model"])


async def test_a_model_in_a_path_is_one_segment_decoded() -> None:
    asked = body(APIS["bedrock-anthropic"])
    async with simulated() as simulator, http(simulator) as client:
        answer = await client.post("/model/arn%3Aaws%2Fm/invoke-with-response-stream", json=asked)
        raw = await client.post("/model/m:0/invoke-with-response-stream", json=asked)
        deeper = await client.post("/model/a/b/invoke-with-response-stream", json=asked)
        nameless = await client.post("/model//invoke-with-response-stream", json=asked)

    assert b'"model":"arn:aws/m"' in b"".join(frames(answer))
    assert b'"model":"m:0"' in b"".join(frames(raw))
    assert [404, 404] == [deeper.status_code, nameless.status_code]


def frames(answer: httpx.Response) -> list[bytes]:
    return [inner(message.data) for message in EventStream().feed(answer.content)]


# The table.


def test_every_api_that_can_be_asked_is_served_on_its_path() -> None:
    assert list(ASKED) == list(APIS)
    for api in APIS.values():
        assert ("POST", api.path) == (ROUTES[api.path][0], ASKED[api.name].path)


@EVERY_API
def test_its_words_have_the_classes_that_the_reader_gives_them(api: Api) -> None:
    dialect = FORMATS[FORMAT[api.name]]

    assert {api.reasons["stop"], api.reasons["tool_calls"]} <= set(dialect.natural)
    assert dialect.cap[0] == api.reasons["length"]
    assert set(WHOLES) == {api.name for api in APIS.values() if api.whole}
