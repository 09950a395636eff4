"""Streams on which the two sides differ, and by exactly how much: METRICS' deliberate differences first, one each.

A change takes a stream on paper, makes it one that shows the difference, and says what that does to our numbers.
"""

import json
from dataclasses import dataclass
from random import Random
from typing import Any

from aiperf_oracle.draw import MS, NAME, REFUSAL, SECOND, USAGES, Beat, Change, Draft, Kind, Usage, chunk, log_uniform
from aiperf_oracle.streams import METRICS, Differs

_ALL = tuple(METRICS)
_OF_FINISHED = ("e2e", "itl", "user_tokens_per_sec")
_OF_TOKENS = ("itl", "user_tokens_per_sec")
_ERROR = json.dumps({"error": {"message": "out of memory", "type": "server_error", "code": 500}}).encode()


def connecting(rng: Random, draft: Draft) -> Differs:
    """Let the request wait for a connection before it is sent."""
    draft.connect_ns = log_uniform(rng, 1000, SECOND)
    return Differs(ttft_ns=-draft.connect_ns, e2e_ns=-draft.connect_ns)


def _first(kind: Kind, delta: dict[str, Any], *, counts_for_us: bool) -> Change:
    """Return what puts a frame before the first output."""

    def change(rng: Random, draft: Draft) -> Differs:
        place = draft.places("output")[0]
        output = draft.beats[place]
        between_ns = rng.randint(0, output.wait_ns)
        draft.beats[place : place + 1] = [
            Beat(output.wait_ns - between_ns, kind, chunk(delta)),
            Beat(between_ns, "output", output.data),
        ]
        return Differs(ttft_ns=-between_ns if counts_for_us else between_ns)

    return change


def _last(kind: Kind, delta: dict[str, Any], *, counts_for_us: bool) -> Change:
    """Return what puts a frame behind the last output."""

    def change(rng: Random, draft: Draft) -> Differs:
        after_ns = log_uniform(rng, 1000, 500 * MS)
        draft.beats.insert(draft.places("output")[-1] + 1, Beat(after_ns, kind, chunk(delta)))
        return Differs(e2e_ns=after_ns if counts_for_us else -after_ns)

    return change


def _alone(kind: Kind, delta: dict[str, Any], *, counts_for_us: bool) -> Change:
    """Return what leaves no other output than frames of one kind."""

    def change(rng: Random, draft: Draft) -> Differs:
        for place in draft.places("output", "name", "refusal"):
            draft.beats[place] = Beat(draft.beats[place].wait_ns, kind, chunk(delta))
        return Differs(only_ours=_ALL) if counts_for_us else Differs(only_theirs=_ALL)

    return change


def without_end_marker(rng: Random, draft: Draft) -> Differs:
    """Leave the end marker out; the message ends cleanly."""
    draft.beats = [beat for beat in draft.beats if beat.kind != "done"]
    return Differs(only_theirs=_OF_FINISHED)


def failing(rng: Random, draft: Draft) -> Differs:
    """Put an error object where the end marker should be."""
    without_end_marker(rng, draft)
    draft.beats.append(Beat(log_uniform(rng, 1000, SECOND), "inert", _ERROR))
    return Differs(only_theirs=_OF_FINISHED)


def cut(rng: Random, draft: Draft) -> Differs:
    """Reset the connection somewhere behind the first output."""
    without_end_marker(rng, draft)
    del draft.beats[rng.randint(draft.places("output")[0] + 1, len(draft.beats)) :]
    draft.is_cut = True
    return Differs(only_ours=("ttft",))


def uncounted(rng: Random, draft: Draft) -> Differs:
    """Change nothing: the server's report is missing or counts no token."""
    return Differs(only_ours=_OF_TOKENS)


def overthinking(rng: Random, draft: Draft) -> Differs:
    """Change nothing: the server reports more reasoning than output, and AIPerf counts the greater."""
    return Differs() if draft.tokens > 1 else Differs(only_theirs=_OF_TOKENS)


def silent(rng: Random, draft: Draft) -> Differs:
    """Take every output out of half of the streams; their reports still count tokens."""
    if rng.random() < 0.5:
        for place in draft.places("output", "name", "refusal"):
            draft.beats[place] = Beat(draft.beats[place].wait_ns, "inert", chunk({}))
    return Differs()


def unchanged(rng: Random, draft: Draft) -> Differs:
    """Change nothing: the difference is the run's."""
    return Differs()


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference: in words, where METRICS names it ("" where it does not), and what makes streams that show it."""

    words: str
    named: str
    change: Change
    usages: tuple[Usage, ...] = USAGES
    wall_ns: int = 0


_LIST = "section 2, the list"
_DETAILS: tuple[Kind, dict[str, Any]] = ("output", {"reasoning_details": [{"type": "reasoning.text", "text": "so"}]})

DIFFERENCES = (
    Difference("the request waits for its connection: our clock starts at the sending", _LIST, connecting),
    Difference("a tool's name alone comes first: no output to us", _LIST, _first(*NAME, counts_for_us=False)),
    Difference("a tool's name alone comes last", _LIST, _last(*NAME, counts_for_us=False)),
    Difference("tools' names are all there is", _LIST, _alone(*NAME, counts_for_us=False)),
    Difference("a refusal comes first: output to us", _LIST, _first(*REFUSAL, counts_for_us=True)),
    Difference("a refusal comes last", _LIST, _last(*REFUSAL, counts_for_us=True)),
    Difference("a refusal is all there is", _LIST, _alone(*REFUSAL, counts_for_us=True)),
    Difference("the end marker is missing: not finished to us", _LIST, without_end_marker),
    Difference("an error object stands in its place", "section 2, finished", failing),
    Difference("the connection is reset: AIPerf leaves the request out", "section 2, populations", cut),
    Difference("no usage report: frames stand for tokens, marked", "section 2, tokens", uncounted, ("none",)),
    Difference("a usage report of zero tokens", "section 2, tokens", uncounted, ("zero",)),
    Difference("more reasoning reported than output: AIPerf counts the greater", "", overthinking, ("over",)),
    Difference("reasoning comes first in `reasoning_details` alone", "", _first(*_DETAILS, counts_for_us=True)),
    Difference("half of the streams finish with tokens and no output: AIPerf drops them", "", silent),
    Difference(
        "the clock shows a real date: AIPerf keeps it in float64, to 256 ns",
        "",
        unchanged,
        wall_ns=1_796_083_200 * 10**9,
    ),
)
