"""What the two sides of the oracle exchange: streams as bytes at given moments, and the numbers made of them."""

import msgspec

# Of a request, in ms and tokens/s: METRICS' names and AIPerf's.
METRICS = {
    "ttft": "time_to_first_token",
    "e2e": "request_latency",
    "itl": "inter_token_latency",
    "user_tokens_per_sec": "output_token_throughput_per_user",
}
RATE = ("output_tokens_per_sec", "output_token_throughput")  # of a run
STATISTICS = ("min", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "max", "mean")


class Differs(msgspec.Struct, frozen=True):
    """How our numbers of a stream are meant to differ: by how much (ours less AIPerf's), and what one side lacks."""

    ttft_ns: int = 0
    e2e_ns: int = 0
    only_ours: tuple[str, ...] = ()
    only_theirs: tuple[str, ...] = ()


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """One request and its response. Moments are ns since the run's start; `tokens` is what the server counts."""

    asked_ns: int  # the client turns to it: what follows may be a wait for a connection
    sent_ns: int  # its first byte is written
    reads: list[tuple[int, bytes]]
    end_ns: int
    is_cut: bool = False  # the message ends with a reset
    tokens: int
    differs: Differs = Differs()


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Streams that are summed up together; `part` is "agree" or names a difference, `wall_ns` is the start's date."""

    part: str
    streams: list[Stream]
    wall_ns: int = 0


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """What one side makes of a run: of each stream the metrics that it has, of each metric its statistics."""

    requests: list[dict[str, float]]
    statistics: dict[str, dict[str, float]]
    output_tokens_per_sec: float | None
    # Ours: percentiles as the summary prints them. AIPerf's: its rate as the export gives it, over the phase.
    printed: dict[str, dict[str, float]] = {}
    exported_tokens_per_sec: float | None = None


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """All the numbers of one side, in the order of the runs, and the versions that made them."""

    versions: dict[str, str]
    numbers: list[Numbers]
