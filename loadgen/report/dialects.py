"""What model servers call the things that we ask of them: one table of their metrics, an entry for each dialect.

Families are named as prometheus_client names them: a counter's without its `_total`.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["histogram", "counter", "gauge"]


@dataclass(frozen=True, slots=True)
class ServerMetric:
    """One thing that a server can tell of itself, in our words."""

    name: str
    kind: Kind
    unit: str
    words: str
    adds_up: bool = True  # over replicas: else a gauge's mean is the replicas' mean


SERVER_METRICS: dict[str, ServerMetric] = {
    metric.name: metric
    for metric in (
        ServerMetric("ttft", "histogram", "ms", "a request's arrival to its first token"),
        ServerMetric("queue_time", "histogram", "ms", "a request's wait for its turn"),
        ServerMetric("prefill_time", "histogram", "ms", "a request's turn to its first token"),
        ServerMetric("decode_time", "histogram", "ms", "a request's first to its last token"),
        ServerMetric("e2e", "histogram", "ms", "a request's arrival to its end"),
        ServerMetric("itl", "histogram", "ms", "time per output token, a mean per request"),
        ServerMetric("frame_gap", "histogram", "ms", "time from token to token"),
        ServerMetric("input_tokens", "counter", "tokens", "prompt tokens taken in, cached ones too"),
        ServerMetric("cached_tokens", "counter", "tokens", "prompt tokens that a prefix cache answered"),
        ServerMetric("output_tokens", "counter", "tokens", "tokens generated, whatever became of them"),
        ServerMetric("ended", "counter", "requests", "requests by how they ended"),
        ServerMetric("preemptions", "counter", "requests", "requests that lost their turn"),
        ServerMetric("running", "gauge", "requests", "requests at work"),
        ServerMetric("waiting", "gauge", "requests", "requests that wait"),
        ServerMetric("kv_cache_usage", "gauge", "share", "of the KV cache that is in use", adds_up=False),
    )
}

# By our name: the families that together are it, or its older names. A histogram can stand for a counter by its sum.
Families: TypeAlias = dict[str, tuple[str, ...]]

_VLLM: Families = {
    "ttft": ("vllm:time_to_first_token_seconds",),
    "queue_time": ("vllm:request_queue_time_seconds",),
    "prefill_time": ("vllm:request_prefill_time_seconds",),
    "decode_time": ("vllm:request_decode_time_seconds",),
    "e2e": ("vllm:e2e_request_latency_seconds",),
    "itl": ("vllm:request_time_per_output_token_seconds",),
    "frame_gap": ("vllm:inter_token_latency_seconds",),
    "input_tokens": ("vllm:prompt_tokens",),
    "cached_tokens": ("vllm:prefix_cache_hits",),
    "output_tokens": ("vllm:generation_tokens",),
    "ended": ("vllm:request_success",),
    "preemptions": ("vllm:num_preemptions",),
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting",),
    "kv_cache_usage": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
}
_LLAMACPP: Families = {
    "input_tokens": ("llamacpp:prompt_tokens", "llamacpp:prompt_tokens_cached"),
    "cached_tokens": ("llamacpp:prompt_tokens_cached",),
    "output_tokens": ("llamacpp:tokens_predicted",),
    "running": ("llamacpp:requests_processing",),
    "waiting": ("llamacpp:requests_deferred",),
}
_SGLANG: Families = {
    "ttft": ("sglang:time_to_first_token_seconds",),
    "queue_time": ("sglang:queue_time_seconds",),
    "e2e": ("sglang:e2e_request_latency_seconds",),
    "frame_gap": ("sglang:inter_token_latency_seconds",),
    "input_tokens": ("sglang:prompt_tokens",),
    "cached_tokens": ("sglang:cached_tokens",),
    "output_tokens": ("sglang:generation_tokens",),
    "ended": ("sglang:num_requests",),
    "running": ("sglang:num_running_reqs",),
    "waiting": ("sglang:num_queue_reqs",),
    "kv_cache_usage": ("sglang:token_usage",),
}
_TGI: Families = {
    "queue_time": ("tgi_request_queue_duration",),
    "e2e": ("tgi_request_duration",),
    "itl": ("tgi_request_mean_time_per_token_duration",),
    "input_tokens": ("tgi_request_input_length",),
    "output_tokens": ("tgi_request_generated_tokens",),
    "ended": ("tgi_request_count",),
    "running": ("tgi_batch_current_size",),
    "waiting": ("tgi_queue_size",),
}
_DYNAMO: Families = {
    "ttft": ("dynamo_frontend_time_to_first_token_seconds",),
    "e2e": ("dynamo_frontend_request_duration_seconds",),
    "frame_gap": ("dynamo_frontend_inter_token_latency_seconds",),
    "input_tokens": ("dynamo_frontend_input_sequence_tokens",),
    "cached_tokens": ("dynamo_frontend_cached_tokens",),
    "output_tokens": ("dynamo_frontend_output_tokens",),
    "ended": ("dynamo_frontend_requests",),
    "running": ("dynamo_frontend_inflight_requests",),
    "waiting": ("dynamo_frontend_queued_requests",),
}
DIALECTS: dict[str, Families] = {
    "vllm": _VLLM,
    "llamacpp": _LLAMACPP,
    "sglang": _SGLANG,
    "tgi": _TGI,
    "dynamo": _DYNAMO,
}
