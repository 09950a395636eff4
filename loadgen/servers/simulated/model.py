"""What is simulated: the numbers of one model server."""

import math
from dataclasses import dataclass

_NEVER_NEGATIVE = (
    "ttft_ns",
    "itl_ns",
    "prefill_ns_per_token",
    "slots",
    "queue",
    "slowdown",
    "jitter",
    "stall_ns",
    "reasoning",
)
_PERCENTAGES = ("reject_pct", "cut_pct", "stall_pct", "error_pct")


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One model server; raises ValueError, naming the field, for a value that no server can have.

    The same seed and the same order of arrival give the same lengths, texts and faults.
    """

    name: str = "sim"
    ttft_ns: int = 200_000_000  # from holding a slot to the first token, prefill aside
    prefill_ns_per_token: int = 0  # added to the first token's time, for each input token
    itl_ns: int = 20_000_000  # from token to token, alone in the batch
    slowdown: float = 0.0  # itl grows by this share for every other request that holds a slot
    jitter: float = 0.0  # sigma of the lognormal factor on each itl; its median is 1
    tokens: int = 100  # length of an answer that no cap cuts short
    tokens_spread: float = 0.0  # 0..1: lengths are uniform within tokens * (1 +- spread)
    reasoning: int = 0  # tokens that come before these
    tools_pct: float = 0.0  # answers that end in a call of a tool, where the API has a place for one
    slots: int = 16  # requests served at once; 0: no limit
    queue: int = 64  # requests that may wait for a slot, first come first served; one more gets 503
    reject_pct: float = 0.0  # answered 429 or 503
    cut_pct: float = 0.0  # cut in mid answer, half by a clean close and half by a reset
    stall_pct: float = 0.0  # silent from mid answer on
    error_pct: float = 0.0  # an error in the stream
    stall_ns: int = 60_000_000_000  # a stalled stream is closed after this long
    seed: int = 1

    def __post_init__(self) -> None:
        for field in _NEVER_NEGATIVE:
            value = getattr(self, field)
            if not (value >= 0 and math.isfinite(value)):
                raise ValueError(f"{field} must not be negative, not {value}")
        if self.tokens < 1:
            raise ValueError(f"tokens must be at least 1, not {self.tokens}")
        if not 0 <= self.tokens_spread <= 1:
            raise ValueError(f"tokens_spread must lie in 0..1, not {self.tokens_spread}")
        for field in (*_PERCENTAGES, "tools_pct"):
            value = getattr(self, field)
            if not 0 <= value <= 100:
                raise ValueError(f"{field} must lie in 0..100, not {value}")
        total = sum(getattr(self, field) for field in _PERCENTAGES)
        if total > 100:
            raise ValueError(
                f"{', '.join(_PERCENTAGES)} add up to {total:g}: faults exclude each other, 100 is all there is"
            )
