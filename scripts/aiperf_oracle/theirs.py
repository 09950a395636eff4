"""AIPerf's side: drawn streams through its own client, reader, endpoint, parser, metrics and accumulator.

Runs in AIPerf's environment: python -m aiperf_oracle.theirs RUNS NUMBERS (msgpack files). Only the network and the
clock are not AIPerf's.
"""

import asyncio
import importlib.metadata
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import msgspec
from aiperf.common.accumulator_protocols import ExportContext
from aiperf.common.enums import CreditPhase
from aiperf.common.models import RequestRecord
from aiperf.common.models.record_models import MetricResult, RecordContext
from aiperf.config.config import BenchmarkConfig
from aiperf.config.resolution.plan import BenchmarkRun
from aiperf.metrics.accumulator import MetricsAccumulator
from aiperf.metrics.metric_dicts import MetricRecordDict
from aiperf.metrics.metric_registry import MetricRegistry
from aiperf.post_processors.metric_record_processor import MetricRecordProcessor
from aiperf.records.inference_result_parser import InferenceResultParser
from aiperf.records.record_processor_service import RecordProcessor
from aiperf.transports import aiohttp_client, sse_utils

from aiperf_oracle.streams import METRICS, RATE, STATISTICS, Numbers, Run, Side, Stream

# AIPerf takes a moment of 0 for none. A clock near 0 keeps its wall clock exact, too: it counts ns in float64.
ORIGIN_NS = 1_000_000_000
CONFIG = {
    "models": ["sim"],
    "endpoint": {
        "urls": ["http://127.0.0.1:1/v1/chat/completions"],
        "type": "chat",
        "streaming": True,
        "use_server_token_count": True,
    },
    "datasets": [{"name": "main", "type": "synthetic", "entries": 1, "prompts": {"isl": 1}}],
    "phases": [{"name": "profiling", "type": "concurrency", "requests": 1, "concurrency": 1}],
}


class Clock:
    """What AIPerf's client takes for the module `time`."""

    def __init__(self) -> None:
        self.now_ns = 0  # since the run's start
        self.wall_ns = 0

    def perf_counter_ns(self) -> int:
        return ORIGIN_NS + self.now_ns

    def time_ns(self) -> int:
        return self.wall_ns + ORIGIN_NS + self.now_ns


class Network:
    """What AIPerf's client takes for the module `aiohttp`: one stream answers the next request."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.stream: Stream | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(aiohttp, name)

    @asynccontextmanager
    async def ClientSession(self, **settings: Any) -> AsyncIterator["Network"]:  # noqa: N802 - aiohttp's name for it
        yield self

    @asynccontextmanager
    async def request(self, method: str, url: str, **settings: Any) -> AsyncIterator[SimpleNamespace]:
        """Answer with the stream; the clock stands at its first byte."""
        stream = self.stream
        assert stream is not None
        self.clock.now_ns = stream.reads[0][0]
        yield SimpleNamespace(
            status=200,
            content_type="text/event-stream",
            content=SimpleNamespace(iter_any=lambda: self._reads(stream)),
        )

    async def _reads(self, stream: Stream) -> AsyncIterator[bytes]:
        for at_ns, data in stream.reads:
            self.clock.now_ns = at_ns
            yield data
        self.clock.now_ns = stream.end_ns
        if stream.is_cut:
            raise aiohttp.ClientPayloadError("Response payload is not completed")


class Theirs:
    """AIPerf's parts, put together as its worker and its record processor do."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.network = Network(self.clock)
        for module in (aiohttp_client, sse_utils):
            module.time = self.clock
        self.client = aiohttp_client.AioHttpClient()
        aiohttp_client.aiohttp = self.network
        config = BenchmarkConfig(**CONFIG)
        self.run = BenchmarkRun(benchmark_id="oracle", cfg=config, artifact_dir=Path("unused"), cli_command=None)
        self.parser = InferenceResultParser(run=self.run)
        self.processor = MetricRecordProcessor(run=self.run)

    async def numbers(self, run: Run) -> Numbers:
        """Return what AIPerf makes of a run."""
        self.clock.wall_ns = run.wall_ns
        accumulator = MetricsAccumulator(run=self.run)
        requests = []
        for seq, stream in enumerate(run.streams):
            record = await self._receive(seq, stream)
            last_ns = record.responses[-1].perf_ns if record.responses else None
            parsed = await self.parser.parse_request_record(record)
            metadata = RecordProcessor._create_metric_record_metadata(
                SimpleNamespace(service_id="oracle"), record, "worker", last_ns
            )
            data = await self.processor.process_record(parsed, metadata)
            await accumulator.process_record(data)
            shown = MetricRecordDict(data.metrics).to_display_dict(MetricRegistry)
            requests.append({name: float(shown[tag].value) for name, tag in METRICS.items() if tag in shown})
        whole = await self._export(accumulator)
        # As its records manager asks: over the phase, here from the first request to the last message's end.
        start_ns = run.wall_ns + ORIGIN_NS + min(stream.asked_ns for stream in run.streams)
        end_ns = run.wall_ns + ORIGIN_NS + max(stream.end_ns for stream in run.streams)
        phase = await self._export(accumulator, start_ns=start_ns, end_ns=end_ns)
        return Numbers(
            requests=requests,
            statistics={name: _statistics(whole[tag]) for name, tag in METRICS.items() if tag in whole},
            output_tokens_per_sec=_rate(whole),
            exported_tokens_per_sec=_rate(phase),
        )

    async def _receive(self, seq: int, stream: Stream) -> RequestRecord:
        """Return the record of a stream, as AIPerf's client makes it and its worker completes it."""
        self.network.stream = stream
        self.clock.now_ns = stream.asked_ns
        record = await self.client.post_request("http://127.0.0.1:1/v1/chat/completions", b"{}", {})
        record.model_name = "sim"
        record.request_info = RecordContext(
            credit_num=seq,
            credit_phase=CreditPhase.PROFILING,
            conversation_id=str(seq),
            turn_index=0,
            x_request_id=str(seq),
            x_correlation_id=str(seq),
        )
        return record

    @staticmethod
    async def _export(accumulator: MetricsAccumulator, **window: int) -> dict[str, MetricResult]:
        return (await accumulator.export_results(ExportContext(phase=CreditPhase.PROFILING, **window))).results


def _statistics(result: MetricResult) -> dict[str, float]:
    return {name: getattr(result, "avg" if name == "mean" else name) for name in STATISTICS}


def _rate(results: dict[str, MetricResult]) -> float | None:
    return results[RATE[1]].avg if RATE[1] in results else None


async def measure(runs: list[Run]) -> list[Numbers]:
    """Return what AIPerf makes of the runs."""
    theirs = Theirs()
    numbers = [await theirs.numbers(run) for run in runs]
    await theirs.client.close()
    return numbers


def main(runs_path: str, numbers_path: str) -> None:
    logging.disable(logging.CRITICAL)  # it warns of every stream without a usage report
    runs = msgspec.msgpack.decode(Path(runs_path).read_bytes(), type=list[Run])
    numbers = asyncio.run(measure(runs))
    versions = {name: importlib.metadata.version(name) for name in ("aiperf", "numpy")}
    Path(numbers_path).write_bytes(msgspec.msgpack.encode(Side(versions=versions, numbers=numbers)))


if __name__ == "__main__":
    main(*sys.argv[1:])
