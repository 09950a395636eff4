"""The simulator's /metrics: what its own ledger says, in vLLM's words."""

import pytest
import trio
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from servers.simulated_client import ask, http, simulated

from loadgen.report.dialects import DIALECTS
from loadgen.servers.simulated import Entry, Simulator

MS = 1_000_000


async def metrics(simulator: Simulator) -> dict[str, Metric]:
    async with http(simulator) as client:
        page = await client.get("/metrics")
    assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {family.name: family for family in text_string_to_metric_families(page.text)}


def value(family: Metric, suffix: str) -> float:
    (found,) = (sample.value for sample in family.samples if sample.name == family.name + suffix)
    return found


async def test_its_histograms_hold_what_the_ledger_says():
    entries: list[Entry] = []
    async with simulated(slots=1, tokens=5, ttft_ns=20 * MS, ledger=entries.append) as simulator:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(lambda: ask(simulator, stream=True))
        told = await metrics(simulator)

    moments = {
        "time_to_first_token_seconds": [entry.first_ns - entry.received_ns for entry in entries],
        "request_queue_time_seconds": [entry.started_ns - entry.received_ns for entry in entries],
        "request_prefill_time_seconds": [entry.first_ns - entry.started_ns for entry in entries],
        "request_decode_time_seconds": [entry.last_ns - entry.first_ns for entry in entries],
        "e2e_request_latency_seconds": [entry.last_ns - entry.received_ns for entry in entries],
        "inter_token_latency_seconds": [entry.last_ns - entry.first_ns for entry in entries],  # its gaps, together
    }
    assert {name: pytest.approx(sum(spans) / 1e9) for name, spans in moments.items()} == {
        name: value(told[f"vllm:{name}"], "_sum") for name in moments
    }
    assert 15 == value(told["vllm:generation_tokens"], "_total") == sum(entry.tokens for entry in entries)
    assert sum(entry.input_tokens for entry in entries) == value(told["vllm:prompt_tokens"], "_total")


async def test_its_gauges_are_of_the_moment():
    async with simulated(slots=1, tokens=2, ttft_ns=500 * MS) as simulator, trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(lambda: ask(simulator))
        with trio.fail_after(5):
            while simulator.waiting < 2:
                await trio.sleep(0.01)
        told = await metrics(simulator)

    assert (1, 2, 1) == tuple(
        value(told[f"vllm:{name}"], "")
        for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
    )


async def test_what_was_turned_away_is_in_no_latency_and_what_broke_off_counts_as_aborted():
    async with simulated(tokens=5) as simulator:
        await ask(simulator, wish="fault=reject")
        await ask(simulator, wish="fault=error")
        await ask(simulator)
        told = await metrics(simulator)

    ended = {
        sample.labels["finished_reason"]: sample.value
        for sample in told["vllm:request_success"].samples
        if sample.name.endswith("_total")
    }
    assert {"stop": 1, "error": 1} == ended
    assert 2 == value(told["vllm:time_to_first_token_seconds"], "_count")


async def test_what_it_tells_is_known_to_the_table_of_dialects():
    async with simulated() as simulator:
        await ask(simulator)
        told = await metrics(simulator)

    known = {family for families in DIALECTS["vllm"].values() for family in families}
    ours = {name for name in told if name.startswith("vllm:") and not name.endswith("_created")}
    assert ours <= known | {"vllm:prefix_cache_queries"}
