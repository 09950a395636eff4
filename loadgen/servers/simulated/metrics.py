"""What the server tells of itself at /metrics, in vLLM's words."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from loadgen import __version__
from loadgen.servers.simulated.ledger import End, Entry
from loadgen.servers.simulated.slots import Slots

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Its bounds, in seconds.
_TTFT = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
    *(160.0, 640.0, 2560.0),
)
_REQUEST = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0),
    *(1920.0, 7680.0),
)
_TOKEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
_REASONS: dict[End, str] = {"completed": "stop", "errored": "error"}  # of all others: abort
_S = 1e-9


class Metrics:
    """Counts what ends and what is said; the gauges are read when they are asked for."""

    def __init__(self, slots: Slots, *, model: str) -> None:
        self._registry = CollectorRegistry()
        self._labels = {"model_name": model, "engine": "0"}
        self._ttft = self._histogram("time_to_first_token_seconds", _TTFT)
        self._gap = self._histogram("inter_token_latency_seconds", _TOKEN)
        self._per_token = self._histogram("request_time_per_output_token_seconds", _TOKEN)
        self._e2e = self._histogram("e2e_request_latency_seconds", _REQUEST)
        self._queue = self._histogram("request_queue_time_seconds", _REQUEST)
        self._prefill = self._histogram("request_prefill_time_seconds", _REQUEST)
        self._decode = self._histogram("request_decode_time_seconds", _REQUEST)
        self._input = self._counter("prompt_tokens")
        self._output = self._counter("generation_tokens")
        for never in ("num_preemptions", "prefix_cache_queries", "prefix_cache_hits"):
            self._counter(never)
        self._ended = Counter(
            "vllm:request_success", "Requests by how they ended.", [*self._labels, "finished_reason"],
            registry=self._registry,
        )  # fmt: skip
        self._gauge("num_requests_running").set_function(lambda: slots.active)
        self._gauge("num_requests_waiting").set_function(lambda: slots.waiting)
        self._gauge("kv_cache_usage_perc").set_function(lambda: slots.active / slots.most if slots.most else 0.0)
        info = Gauge("loadgen_simulator_info", "What answers.", ["version"], registry=self._registry)
        info.labels(version=__version__).set(1)

    def page(self) -> bytes:
        """Return the exposition, as text."""
        return generate_latest(self._registry)

    def gap(self, ns: int) -> None:
        """Take the time from one token to the next."""
        self._gap.observe(ns * _S)

    def __call__(self, entry: Entry) -> None:
        """Take a request that is over."""
        if entry.started_ns is None:  # it never got a slot
            return
        self._input.inc(entry.input_tokens)
        self._output.inc(entry.tokens)
        self._ended.labels(**self._labels, finished_reason=_REASONS.get(entry.end, "abort")).inc()
        self._queue.observe((entry.started_ns - entry.received_ns) * _S)
        if entry.first_ns is None or entry.last_ns is None:
            return
        self._ttft.observe((entry.first_ns - entry.received_ns) * _S)
        self._prefill.observe((entry.first_ns - entry.started_ns) * _S)
        self._decode.observe((entry.last_ns - entry.first_ns) * _S)
        self._e2e.observe((entry.last_ns - entry.received_ns) * _S)
        if entry.tokens > 1:
            self._per_token.observe((entry.last_ns - entry.first_ns) * _S / (entry.tokens - 1))

    def _histogram(self, name: str, bounds: tuple[float, ...]) -> Histogram:
        return Histogram(
            f"vllm:{name}", name.replace("_", " "), [*self._labels], buckets=bounds, registry=self._registry
        ).labels(**self._labels)

    def _counter(self, name: str) -> Counter:
        return Counter(f"vllm:{name}", name.replace("_", " "), [*self._labels], registry=self._registry).labels(
            **self._labels
        )

    def _gauge(self, name: str) -> Gauge:
        return Gauge(f"vllm:{name}", name.replace("_", " "), [*self._labels], registry=self._registry).labels(
            **self._labels
        )
