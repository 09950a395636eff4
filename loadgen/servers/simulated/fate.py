"""What becomes of one request, decided when it arrives."""

import random

import msgspec

from loadgen.servers.simulated.asked import Asked
from loadgen.servers.simulated.babble import LENGTH
from loadgen.servers.simulated.model import Model
from loadgen.servers.simulated.part import Part, Reason, parts_of
from loadgen.servers.simulated.wish import Fault


class Fate(msgspec.Struct, frozen=True):
    """One request's answer before it is given; `spoken` of its `tokens` come before its fault, all without one.

    Its `parts` are made of these tokens.
    """

    tokens: int
    parts: tuple[Part, ...]
    spoken: int
    finish_reason: Reason
    first_ns: int  # from holding a slot to the first token
    itl_ns: int
    fault: Fault | None
    reject_status: int
    text_start: int
    jitter_seed: int


class Fates:
    """Draws fates from one seeded generator, in order of arrival."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._rng = random.Random(f"fates {model.seed}")
        # Apart from the others', so that a share of calls changes nothing else.
        self._calls = random.Random(f"calls {model.seed}")

    def draw(self, asked: Asked) -> Fate:
        """Return what becomes of the next request."""
        model, wish, rng = self._model, asked.wish, self._rng
        # As many draws whatever is asked: one request's wishes must not change the fates of those after it.
        lot, coin, place, length, start = (rng.random() for _ in range(5))
        jitter_seed = rng.getrandbits(32)

        calls_drawn = 100 * self._calls.random() < model.tools_pct

        drawn = wish.tokens or max(1, round(model.tokens * (1 + model.tokens_spread * (2 * length - 1))))
        reasoning = 0
        if asked.api.thinks:
            reasoning = model.reasoning if wish.reasoning is None else wish.reasoning
        calls = asked.api.calls and (calls_drawn if wish.tools is None else wish.tools > 0)
        tokens = reasoning + drawn
        finish_reason: Reason = "tool_calls" if calls else "stop"
        if asked.cap is not None and (asked.ignore_eos or asked.cap < tokens):
            if asked.ignore_eos:
                drawn = max(1, asked.cap - reasoning)
            tokens, finish_reason = asked.cap, "length"
        arguments = drawn - drawn // 2 if calls else 0
        fault = wish.fault or self._fault(100 * lot, coin)
        prefilled_ns = model.ttft_ns + model.prefill_ns_per_token * asked.input_tokens
        return Fate(
            tokens=tokens,
            parts=parts_of(reasoning=reasoning, text=drawn - arguments, arguments=arguments, most=tokens),
            spoken=tokens if fault is None else 1 + int(place * (tokens - 1)),
            finish_reason=finish_reason,
            first_ns=prefilled_ns if wish.ttft_ns is None else wish.ttft_ns,
            itl_ns=model.itl_ns if wish.itl_ns is None else wish.itl_ns,
            fault=fault,
            reject_status=503 if coin < 0.5 and wish.fault is None else 429,
            text_start=int(start * LENGTH),
            jitter_seed=jitter_seed,
        )

    def _fault(self, lot: float, coin: float) -> Fault | None:
        model = self._model
        cut: Fault = "cut" if coin < 0.5 else "reset"
        shares: tuple[tuple[Fault, float], ...] = (
            ("reject", model.reject_pct),
            (cut, model.cut_pct),
            ("stall", model.stall_pct),
            ("error", model.error_pct),
        )
        for fault, share in shares:
            if lot < share:
                return fault
            lot -= share
        return None
