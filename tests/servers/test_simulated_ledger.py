"""The simulator's ledger: each request once, with the moments that its own clock saw."""

import json
from io import BytesIO

import pytest
import trio
from servers.simulated_client import ask, connected, request, simulated

from loadgen.servers.simulated import Entry, LedgerFile

MS = 1_000_000


async def test_an_answer_has_its_moments_in_order_and_its_counts():
    entries: list[Entry] = []
    model = {"ttft_ns": 20 * MS, "itl_ns": 5 * MS, "tokens": 5}
    async with simulated(ledger=entries.append, **model) as simulator, connected(simulator) as client:
        await client.send(request(headers="x-request-id: run-1\r\n", stream=True))
        await client.until(b"[DONE]")

    (entry,) = entries
    assert ("run-1", "/v1/chat/completions", 5, "completed") == (entry.id, entry.path, entry.tokens, entry.end)
    assert entry.received_ns <= entry.started_ns
    assert entry.first_ns - entry.started_ns >= 20 * MS
    assert entry.last_ns - entry.started_ns >= (20 + 4 * 5) * MS
    assert entry.input_tokens > 0


@pytest.mark.parametrize(("fault", "end"), [("cut", "cut"), ("error", "errored"), ("reject", "rejected")])
async def test_a_fault_is_told_as_what_it_was(fault, end):
    entries: list[Entry] = []
    async with simulated(tokens=5, ledger=entries.append) as simulator, connected(simulator) as client:
        await client.send(request(wish=f"fault={fault}"))
        with trio.move_on_after(5):
            while not entries:
                await trio.sleep(0.01)

    assert [end] == [entry.end for entry in entries]


async def test_the_file_has_a_line_for_each():
    file = BytesIO()
    async with simulated(tokens=2, ledger=LedgerFile(file)) as simulator:
        for _ in range(3):
            await ask(simulator)

    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    assert [("completed", 2)] * 3 == [(line["end"], line["tokens"]) for line in lines]
