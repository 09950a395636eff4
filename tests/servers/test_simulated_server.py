"""The simulated model server over real sockets: what it answers, and when."""

import socket
import time
from statistics import median
from typing import Any

import msgspec
import pytest
import trio
from simulated_client import (
    CHAT,
    MS,
    TEXT,
    ask,
    becomes,
    body,
    connected,
    events,
    http,
    request,
    simulated,
    text,
    tokens,
    usage,
)

from loadgen.servers.simulated import Model, Simulator, serve
from loadgen.wire.events import End, Finish, Output, Role, Usage

SECOND = 1000 * MS
LAST_CHUNK = b"\r\n0\r\n\r\n"


async def test_a_stream_opens_a_role_says_its_tokens_finishes_and_ends() -> None:
    async with simulated(tokens=2) as simulator:
        seen = events((await ask(simulator, stream=True)).content)

    assert [Role, Output, Output, Finish, End] == [type(event) for event in seen]
    assert Finish("stop") == seen[3]


async def test_a_completions_stream_has_no_role_frame() -> None:
    async with simulated(tokens=2) as simulator:
        seen = events((await ask(simulator, TEXT, stream=True)).content)

    assert [Output, Output, Finish, End] == [type(event) for event in seen]


async def test_usage_is_told_after_the_finish_to_who_asks_for_it() -> None:
    async with simulated(tokens=4) as simulator:
        plain = await ask(simulator, stream=True)
        asking = await ask(
            simulator, stream=True, stream_options={"include_usage": True}, prompt="five words are in here"
        )

    assert [] == usage(plain.content)
    assert [Finish("stop"), Usage(5, 4), End()] == events(asking.content)[-3:]


@pytest.mark.parametrize("path", [CHAT, TEXT])
async def test_a_whole_answer_says_what_its_stream_would_have_said(path: str) -> None:
    async with simulated(tokens=9) as simulator:
        streamed = await ask(simulator, path, stream=True)
    async with simulated(tokens=9) as simulator:
        answer = (await ask(simulator, path)).json()

    choice = answer["choices"][0]
    assert text(streamed.content) == (choice["message"]["content"] if path == CHAT else choice["text"])
    assert ("stop", {"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12}) == (
        choice["finish_reason"],
        answer["usage"],
    )


async def test_the_model_is_listed_and_healthy() -> None:
    async with (
        simulated(name="tiny") as simulator,
        http(simulator) as client,
    ):
        listed = (await client.get("/v1/models")).json()
        health = await client.get("/health")

    assert (["tiny"], 200) == ([model["id"] for model in listed["data"]], health.status_code)


async def test_an_answer_bears_the_name_that_was_asked_for() -> None:
    async with simulated(name="tiny") as simulator:
        asked, unasked = await ask(simulator, model="huge"), await ask(simulator, model=None)

    assert ("huge", "tiny") == (asked.json()["model"], unasked.json()["model"])


@pytest.mark.parametrize(
    ("method", "path", "content", "wish", "status"),
    [
        ("POST", "/nowhere", b"{}", "", 404),
        ("GET", CHAT, b"", "", 405),
        ("POST", "/health", b"", "", 405),
        ("POST", CHAT, b"{not json", "", 400),
        ("POST", CHAT, b"\xff", "", 400),
        ("POST", CHAT, b"[]", "", 400),
        ("POST", CHAT, b'{"prompt": "x"}', "", 400),
        ("POST", TEXT, b'{"messages": []}', "", 400),
        ("POST", TEXT, b'{"prompt": "x", "max_tokens": 0}', "", 400),
        ("POST", TEXT, b'{"prompt": "x"}', "fault=fire", 400),
    ],
)
async def test_a_wrong_request_gets_an_error_object(
    method: str, path: str, content: bytes, wish: str, status: int
) -> None:
    async with simulated() as simulator, http(simulator) as client:
        answer = await client.request(method, path, content=content, headers={"x-sim": wish} if wish else {})

    assert (status, status) == (answer.status_code, answer.json()["error"]["code"])
    assert 0 == simulator.tally.requests


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"max_tokens": 3}, (3, "length")),
        ({"max_completion_tokens": 2, "max_tokens": 3}, (2, "length")),
        ({"max_tokens": 5}, (5, "stop")),
        ({"max_tokens": 9, "ignore_eos": True}, (9, "length")),
    ],
)
async def test_a_cap_holds_streamed_and_whole(stream: bool, fields: dict[str, Any], expected: tuple[int, str]) -> None:
    async with simulated(tokens=5) as simulator:
        answer = await ask(simulator, stream=stream, **fields)

    if stream:
        reasons = [event.reason for event in events(answer.content) if isinstance(event, Finish)]
        assert expected == (tokens(answer.content), *reasons)
    else:
        assert expected == (answer.json()["usage"]["completion_tokens"], answer.json()["choices"][0]["finish_reason"])


async def test_headers_come_at_once_and_the_role_with_the_first_token() -> None:
    async with simulated(ttft_ns=100 * MS, itl_ns=SECOND) as simulator, connected(simulator) as client:
        start = time.monotonic()
        await client.send(request(stream=True))
        await client.until(b"\r\n\r\n")
        headers_s = time.monotonic() - start
        unread = client.seen
        await client.until(b'"role":"assistant"')
        role_s = time.monotonic() - start

        assert b"" == unread
        assert b'"content":" ' in client.seen  # nothing more was received to find it
        assert headers_s < role_s / 2


async def test_a_late_stream_sends_all_that_is_due_in_order() -> None:
    async with simulated(itl_ns=0, tokens=5000) as simulator:
        streamed = await ask(simulator, stream=True)
    async with simulated(itl_ns=0, tokens=5000) as simulator:
        whole = await ask(simulator)

    assert whole.json()["choices"][0]["message"]["content"] == text(streamed.content)


async def test_one_connection_serves_request_after_request() -> None:
    async with simulated(tokens=2) as simulator, connected(simulator) as client:
        for _ in range(3):
            await client.send(request(stream=True))
            await client.until(LAST_CHUNK)
            await client.send(request("/health", method="GET"))
            await client.until(b"\r\n\r\n{}")

    assert 3 == simulator.tally.completed


async def test_pipelined_requests_are_answered_in_their_order() -> None:
    async with simulated(tokens=3) as simulator, connected(simulator) as client:
        await client.send(
            request(stream=True, model="first") + request(model="second") + request(stream=True, model="3rd")
        )
        first, second = await client.until(LAST_CHUNK), await client.until(b"total_tokens")
        third = await client.until(LAST_CHUNK)

    assert [True, True, True] == [b'"first"' in first, b'"second"' in second, b'"3rd"' in third]


async def test_a_thousand_requests_in_one_write_are_all_answered() -> None:
    async with simulated() as simulator, connected(simulator) as client:
        await client.send(request("/health", method="GET") * 1000 + request("/nowhere", method="GET"))
        seen = await client.until(b"there is nothing")

    assert 1000 == seen.count(b"200 OK")


async def test_a_client_that_asks_for_it_is_closed_after_its_answer() -> None:
    async with simulated(tokens=2) as simulator, connected(simulator) as client:
        await client.send(request(stream=True, headers="connection: close\r\n"))
        seen = await client.rest()

    assert b"connection: close" in seen
    assert seen.endswith(LAST_CHUNK)


async def test_a_body_held_back_is_called_for() -> None:
    wire = request(headers="expect: 100-continue\r\n")
    head, payload = wire[: wire.index(b"\r\n\r\n") + 4], wire[wire.index(b"\r\n\r\n") + 4 :]
    async with simulated() as simulator, connected(simulator) as client:
        await client.send(head)
        called = await client.until(b"\r\n\r\n")
        await client.send(payload)
        answer = await client.until(b"\r\n\r\n")

    assert [b"HTTP/1.1 100 Continue", b"HTTP/1.1 200 OK"] == [called.splitlines()[0], answer.splitlines()[0]]


async def test_a_long_body_in_chunks_is_read_whole() -> None:
    payload = msgspec.json.encode(body(prompt="word " * 400_000))

    async def pieces() -> Any:
        for start in range(0, len(payload), 100_000):
            yield payload[start : start + 100_000]

    async with simulated() as simulator, http(simulator) as client:
        answer = await client.post(CHAT, content=pieces())

    assert 400_000 == answer.json()["usage"]["prompt_tokens"]


@pytest.mark.parametrize(
    ("wire", "status"),
    [
        (b"\x16\x03\x01 hello\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n" + b"x" * 100_000, b"413"),
    ],
)
async def test_what_cannot_be_read_is_refused_and_closed(wire: bytes, status: bytes) -> None:
    async with simulated() as simulator, connected(simulator) as client:
        await client.send(wire)
        seen = await client.rest()

    assert status == seen.split(b" ")[1]


async def test_a_stream_is_refused_to_a_client_that_knows_no_chunks() -> None:
    async with simulated() as simulator, connected(simulator) as client:
        await client.send(request(stream=True).replace(b"HTTP/1.1", b"HTTP/1.0"))
        seen = await client.rest()

    assert b"505" == seen.split(b" ")[1]


async def test_beyond_slots_a_request_waits_and_beyond_the_queue_it_is_turned_away() -> None:
    async with (
        simulated(slots=1, queue=1, ttft_ns=60 * SECOND) as simulator,
        connected(simulator) as served,
        connected(simulator) as waiting,
    ):
        for client in (served, waiting):
            await client.send(request(stream=True))
            await client.until(b"\r\n\r\n")
        refused = await ask(simulator, stream=True)

        assert (1, 1) == (simulator.active, simulator.waiting)
    assert (503, "1") == (refused.status_code, refused.headers["retry-after"])
    assert (3, 1) == (simulator.tally.requests, simulator.tally.overflowed)


async def test_who_waits_longest_gets_the_next_slot() -> None:
    ended = []

    async def one(simulator: Simulator, name: int) -> None:
        await ask(simulator, stream=True)
        ended.append(name)

    async with simulated(slots=1, ttft_ns=10 * MS) as simulator, trio.open_nursery() as nursery:
        for name in range(4):
            nursery.start_soon(one, simulator, name)
            await becomes(name + 1, lambda: simulator.tally.requests)

    assert [0, 1, 2, 3] == ended


async def test_without_a_limit_on_slots_nobody_waits() -> None:
    async with simulated(slots=0, queue=0, ttft_ns=50 * MS) as simulator, trio.open_nursery() as nursery:
        for _ in range(40):
            nursery.start_soon(ask, simulator)
        await becomes(40, lambda: simulator.tally.completed)

    assert (0, 0) == (simulator.waiting, simulator.tally.overflowed)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_frees_its_slot_for_who_waits(stream: bool) -> None:
    async with simulated(slots=1, ttft_ns=0) as simulator, connected(simulator) as waiting:
        async with connected(simulator) as leaving:
            await leaving.send(request(stream=stream, wish="itl_ms=60000"))
            await becomes(1, lambda: simulator.active)
            await waiting.send(request(stream=True))
            await becomes(1, lambda: simulator.waiting)
        await waiting.until(LAST_CHUNK)

    assert (0, 0, 1, 1) == (simulator.active, simulator.waiting, simulator.tally.left, simulator.tally.completed)


async def test_a_client_that_leaves_the_queue_gives_up_its_place() -> None:
    async with simulated(slots=1, queue=1, ttft_ns=60 * SECOND) as simulator, connected(simulator) as served:
        await served.send(request(stream=True))
        await becomes(1, lambda: simulator.active)
        async with connected(simulator) as leaving:
            await leaving.send(request(stream=True))
            await becomes(1, lambda: simulator.waiting)
        await becomes(0, lambda: simulator.waiting)

        assert (1, 1) == (simulator.active, simulator.tally.left)


async def test_a_slow_reader_holds_nobody_else_and_loses_nothing() -> None:
    slow_tokens = 60_000
    async with simulated(slots=0) as simulator, connected(simulator) as slow:
        slow.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        await slow.send(request(stream=True, wish=f"itl_ms=0,tokens={slow_tokens}", headers="connection: close\r\n"))
        await becomes(1, lambda: simulator.tally.completed)  # all of it is written; most of it is kept back
        others = [await ask(simulator, stream=True) for _ in range(3)]
        slow.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        seen = await slow.rest()

    assert [5, 5, 5] == [tokens(other.content) for other in others]
    assert slow_tokens == seen.count(b'"content":" ')
    assert seen.endswith(LAST_CHUNK)


async def test_a_longer_prompt_takes_longer_to_its_first_token() -> None:
    async def ttft_s(simulator: Simulator, words: int) -> float:
        async with connected(simulator) as client:
            start = time.monotonic()
            await client.send(request(stream=True, prompt="w " * words))
            await client.until(b'"content":" ')
            return time.monotonic() - start

    async with simulated(ttft_ns=0, prefill_ns_per_token=MS) as simulator:
        short_s, long_s = await ttft_s(simulator, 20), await ttft_s(simulator, 400)

    assert long_s > 4 * short_s


async def test_a_fuller_batch_slows_every_stream_in_it() -> None:
    async def one(simulator: Simulator, seconds: list[float]) -> None:
        start = time.monotonic()
        await ask(simulator, stream=True)
        seconds.append(time.monotonic() - start)

    alone: list[float] = []
    together: list[float] = []
    async with simulated(slots=0, itl_ns=4 * MS, tokens=30, slowdown=1.0) as simulator:
        await one(simulator, alone)
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(one, simulator, together)

    assert median(together) > 2 * alone[0]


async def test_the_pacing_counts_each_tokens_frame() -> None:
    async with simulated(tokens=7) as simulator:
        before = simulator.pacing()
        await ask(simulator, stream=True)

    pacing = simulator.pacing()
    assert before is None
    assert pacing is not None
    assert 7 == pacing.count
    assert 0 <= pacing.p50_ms <= pacing.p99_ms <= pacing.max_ms


async def test_a_server_that_is_cancelled_closes_every_connection() -> None:
    async with trio.open_nursery() as nursery:
        simulator = await nursery.start(serve, Model(ttft_ns=60 * SECOND))
        async with connected(simulator) as idle, connected(simulator) as busy:
            await busy.send(request(stream=True))
            await busy.until(b"\r\n\r\n")
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                assert (b"", b"") == (await idle.rest(), await busy.rest())


async def test_a_taken_port_is_an_os_error() -> None:
    async with simulated() as simulator:
        with pytest.raises(OSError, match="in use"):
            await serve(Model(), port=simulator.port)
