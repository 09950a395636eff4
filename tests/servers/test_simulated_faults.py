"""What a server does wrong, done on purpose."""

import httpx
import pytest
import trio
from simulated_client import CHAT, MS, ask, becomes, connected, events, http, request, simulated, tokens

from loadgen.wire.events import End, Failure

LAST_CHUNK = b"\r\n0\r\n\r\n"


async def test_a_rejected_request_is_told_when_to_come_back() -> None:
    async with simulated() as simulator:
        answer = await ask(simulator, stream=True, wish="fault=reject")

    assert (429, "1", 1) == (answer.status_code, answer.headers["retry-after"], simulator.tally.rejected)


async def test_a_server_that_rejects_all_does_so_with_429_and_503() -> None:
    async with simulated(reject_pct=100) as simulator:
        answers = [await ask(simulator) for _ in range(16)]

    assert {429, 503} == {answer.status_code for answer in answers}
    assert {"1"} == {answer.headers["retry-after"] for answer in answers}


async def test_a_cut_stream_ends_cleanly_but_without_its_end() -> None:
    async with simulated(tokens=20) as simulator, connected(simulator) as client:
        await client.send(request(stream=True, wish="fault=cut"))
        seen = await client.rest()

    assert 1 <= seen.count(b'"content":" ') < 20
    assert not seen.endswith(LAST_CHUNK)
    assert (1, 0) == (simulator.tally.cut, simulator.active)


async def test_a_reset_stream_ends_in_a_reset() -> None:
    async with simulated(tokens=20) as simulator, connected(simulator) as client:
        await client.send(request(stream=True, wish="fault=reset"))
        with pytest.raises(trio.BrokenResourceError):
            await client.rest()

    assert b'"content":" ' in client.seen
    assert (1, 0) == (simulator.tally.reset, simulator.active)


@pytest.mark.parametrize("fault", ["cut", "reset"])
async def test_a_whole_answer_is_cut_in_its_middle(fault: str) -> None:
    async with simulated(tokens=20) as simulator:
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
            await ask(simulator, wish=f"fault={fault}")

    assert 1 == simulator.tally.cut + simulator.tally.reset


@pytest.mark.parametrize("stream", [True, False])
async def test_a_stalled_answer_is_silent_until_its_time_is_over(stream: bool) -> None:
    async with simulated(tokens=20, stall_ns=100 * MS) as simulator, connected(simulator) as client:
        await client.send(request(stream=stream, wish="fault=stall"))
        await becomes(1, lambda: simulator.tally.stalled)
        held = simulator.active
        seen = await client.rest()

    assert (1, 0) == (held, simulator.active)
    assert stream is (b'"content":" ' in seen)
    assert not seen.endswith(LAST_CHUNK)


async def test_a_stalled_answer_frees_its_slot_when_the_client_leaves() -> None:
    async with simulated(tokens=20) as simulator:
        async with connected(simulator) as client:
            await client.send(request(stream=True, wish="fault=stall"))
            await becomes(1, lambda: simulator.tally.stalled)
        await becomes(0, lambda: simulator.active)

    assert 0 == simulator.tally.left


async def test_a_failed_stream_says_so_in_a_frame_and_still_ends() -> None:
    async with simulated(tokens=20) as simulator:
        answer = await ask(simulator, stream=True, wish="fault=error")

    assert [Failure("InternalServerError"), End()] == events(answer.content)[-2:]
    assert (200, True) == (answer.status_code, 1 <= tokens(answer.content) < 20)


async def test_a_failed_whole_answer_is_a_500() -> None:
    async with simulated() as simulator:
        answer = await ask(simulator, wish="fault=error")

    assert (500, 500, 1) == (answer.status_code, answer.json()["error"]["code"], simulator.tally.errored)


async def test_the_same_seed_and_order_give_the_same_answers_and_faults() -> None:
    async def seen(seed: int) -> list[bytes]:
        settings = {"seed": seed, "tokens_spread": 0.5, "reject_pct": 25, "error_pct": 25, "itl_ns": 0, "ttft_ns": 0}
        async with simulated(**settings) as simulator:
            return [(await ask(simulator, stream=True)).content for _ in range(12)]

    first = await seen(3)

    assert first == await seen(3)
    assert first != await seen(4)


async def test_a_connection_outlives_a_failed_stream() -> None:
    async with (
        simulated() as simulator,
        http(simulator) as client,
    ):
        asked = {"stream": True, "messages": [{"role": "user", "content": "x"}]}
        await client.post(CHAT, json=asked, headers={"x-sim": "fault=error"})
        answer = await client.post(CHAT, json=asked)

    assert 5 == tokens(answer.content)
