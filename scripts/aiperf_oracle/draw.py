"""Streams at random: OpenAI chat chunks as servers send them, with their rhythm, and cut into reads anyhow.

What is drawn here is what both sides must agree on. Tool names alone and refusals stand only between outputs, where
they cannot matter; every stream has a usage report and its end marker.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from aiperf_oracle.streams import Differs, Run, Stream

MS = 1_000_000
SECOND = 1000 * MS
Kind = Literal["role", "output", "name", "refusal", "finish", "usage", "done", "inert", "comment"]
Usage = Literal["tail", "finish", "running", "nulls", "early", "none", "zero", "over"]
USAGES: tuple[Usage, ...] = ("tail", "tail", "finish", "running", "nulls", "early")
_WORDS = (*'a}é" \\\n', " the", " queue", "\t ", " 你好", " 🙂", "\u2028", "\r\n", "data: x", " [DONE]")


@dataclass(frozen=True, slots=True)
class Beat:
    """One event of a stream: what stands in its data line, and how long after the last one it comes."""

    wait_ns: int
    kind: Kind
    data: bytes


@dataclass(slots=True)
class Draft:
    """A stream on paper: its events can still be changed."""

    beats: list[Beat]
    tokens: int
    connect_ns: int = 0
    is_cut: bool = False
    line_end: bytes = b"\n"
    lead: bytes = b"data: "

    def places(self, *kinds: Kind) -> list[int]:
        """Return where events of these kinds stand."""
        return [place for place, beat in enumerate(self.beats) if beat.kind in kinds]


Change = Callable[[Random, Draft], Differs]


def log_uniform(rng: Random, low: float, high: float) -> int:
    """Return a whole number whose logarithm is spread evenly."""
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))


def chunk(
    delta: dict[str, Any] | None, *, finish: str | None = None, choice: int = 0, plain: bool = True, **more: Any
) -> bytes:
    """Return a chunk's JSON; without a delta it has no choices."""
    choices = [] if delta is None else [{"index": choice, "delta": delta, "finish_reason": finish}]
    value = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "sim", "choices": choices, **more}
    return json.dumps(value, ensure_ascii=plain, separators=None if plain else (",", ":")).encode()


def draw_draft(rng: Random, *, usages: tuple[Usage, ...] = USAGES, most_tokens: int = 600) -> Draft:
    """Return a stream on paper, with at least one output."""
    tokens = rng.choice((1, 2)) if rng.random() < 0.1 else log_uniform(rng, 2, most_tokens)
    plain = rng.random() < 0.5
    usage = rng.choice(usages)
    frames = _split(rng, tokens)
    thoughts, deltas = _outputs(rng, frames)
    report = _report(rng, usage, tokens, thoughts)
    choices = 2 if rng.random() < 0.08 and len(frames) > 2 else 1
    wait = _rhythm(rng)
    beats: list[Beat] = []

    def add(kind: Kind, delta: dict[str, Any] | None, *, wait_ns: int, **more: Any) -> None:
        if usage == "nulls":
            more.setdefault("usage", None)
        beats.append(Beat(wait_ns, kind, chunk(delta, plain=plain, **more)))

    early = {"usage": {**report, "completion_tokens": 0, "total_tokens": 0}} if usage == "early" else {}
    if rng.random() < 0.2 or early:
        add("inert", None, wait_ns=_late(rng), **early)
    if rng.random() < 0.7:
        add("role", {"role": "assistant", "content": rng.choice(("", None))}, wait_ns=_late(rng))
    reason = rng.choice(("stop", "stop", "length", "tool_calls", "content_filter"))
    ends_on_output = rng.random() < 0.3
    told = 0
    for place, (count, delta) in enumerate(zip(frames, deltas, strict=True)):
        told += count
        last = place == len(frames) - 1
        running = {"usage": {**report, "completion_tokens": told}} if usage == "running" else {}
        if place > 0 and rng.random() < 0.04:
            add(*rng.choice(ASIDES), wait_ns=wait())
        finish = reason if last and ends_on_output else None
        wait_ns = wait() if place else _late(rng)
        add("output", delta, wait_ns=wait_ns, choice=rng.randrange(choices), finish=finish, **running)
    for choice in range(choices):
        with_report = {"usage": report} if usage == "finish" and choice == choices - 1 else {}
        if not ends_on_output or with_report or choices > 1:
            add("finish", {}, wait_ns=_after(rng), choice=choice, finish=reason, **with_report)
    if usage not in ("finish", "none"):
        add("usage", None, wait_ns=_after(rng), usage=report)
    beats.append(Beat(_after(rng), "done", b"[DONE]"))
    for _ in range(rng.choice((0, 0, 0, 1, 3))):
        beats.insert(rng.randrange(len(beats)), Beat(wait(), "comment", b" ping"))
    line_end = b"\r\n" if rng.random() < 0.15 else b"\n"
    return Draft(beats, tokens, line_end=line_end, lead=rng.choice((b"data: ", b"data: ", b"data:")))


def lay_out(rng: Random, draft: Draft, differs: Differs, *, asked_ns: int) -> Stream:
    """Return a stream as its bytes arrive: events that come together share reads, others are torn over several."""
    tears = rng.choice((0.0, 0.1, 0.5))
    at_ns = sent_ns = asked_ns + draft.connect_ns
    reads: list[tuple[int, bytes]] = []

    def arrive(moment_ns: int, data: bytes) -> None:
        if reads and reads[-1][0] == moment_ns and rng.random() < 0.9:
            reads[-1] = (moment_ns, reads[-1][1] + data)
        else:
            reads.append((moment_ns, data))

    for beat in draft.beats:
        line = b":" + beat.data if beat.kind == "comment" else draft.lead + beat.data
        whole = line + 2 * draft.line_end
        if rng.random() < tears:
            # Not inside a last CR LF: there the two do differ, since to us a CR ends its line at once.
            torn = rng.randint(1, len(whole) - len(draft.line_end))
            arrive(rng.choice((at_ns, rng.randint(at_ns, at_ns + beat.wait_ns))), whole[:torn])
            whole = whole[torn:]
        at_ns += beat.wait_ns
        arrive(at_ns, whole)
    if draft.beats[-1].kind == "done" and rng.random() < 0.1:  # servers forget the last blank line
        reads[-1] = (at_ns, reads[-1][1][: -len(draft.line_end)])
    return Stream(
        asked_ns=asked_ns,
        sent_ns=sent_ns,
        reads=[read for read in reads if read[1]],
        end_ns=at_ns + 1 + rng.choice((0, log_uniform(rng, 1000, 100 * MS))),
        is_cut=draft.is_cut,
        tokens=draft.tokens,
        differs=differs,
    )


def draw_run(
    rng: Random,
    part: str,
    *,
    change: Change | None = None,
    usages: tuple[Usage, ...] = USAGES,
    sizes: tuple[int, ...] = (1, 2, 3, 5, 8, 13, 21, 34),
    most_tokens: int = 600,
    wall_ns: int = 0,
) -> Run:
    """Return a run of drawn streams, each changed by `change`, which says what that does to the numbers."""
    between_ns = log_uniform(rng, 1 * MS, 2 * SECOND)
    at_ns = 0
    streams = []
    for _ in range(rng.choice(sizes)):
        draft = draw_draft(rng, usages=usages, most_tokens=most_tokens)
        differs = change(rng, draft) if change else Differs()
        streams.append(lay_out(rng, draft, differs, asked_ns=at_ns))
        at_ns += rng.choice((0, round(rng.expovariate(1 / between_ns)), between_ns))
    return Run(part=part, streams=streams, wall_ns=wall_ns)


def _split(rng: Random, tokens: int) -> list[int]:
    """Return how many tokens each output frame carries."""
    most = rng.choice((1, 1, 1, 2, 4, 8, 32, tokens))
    counts = []
    while tokens:
        counts.append(rng.randint(1, min(most, tokens)))
        tokens -= counts[-1]
    return counts


def _text(rng: Random, count: int) -> str:
    return "".join(rng.choices(_WORDS, k=min(count, 8)))


def _outputs(rng: Random, frames: list[int]) -> tuple[int, list[dict[str, Any]]]:
    """Return how many tokens were thought, not said, and a delta for each frame: reasoning, then text, then tools."""
    thinking = rng.randint(0, len(frames)) if rng.random() < 0.35 else 0
    calling = rng.randint(thinking, len(frames)) if rng.random() < 0.3 else len(frames)
    key = rng.choice(("reasoning_content", "reasoning"))
    deltas: list[dict[str, Any]] = []
    for place, count in enumerate(frames):
        said = _text(rng, count)
        delta: dict[str, Any]
        beside: tuple[dict[str, Any], ...]
        if place < thinking:
            delta = {key: said}
            beside = ({}, {"content": None}, {"content": ""}, {"content": "so"})
        elif place < calling:
            delta = {"content": said}
            beside = ({}, {"role": "assistant"}, {"tool_calls": [], "refusal": None})
        else:
            named = {"name": "look_up"} if place == calling or rng.random() < 0.1 else {}
            call = {"index": 0, "type": "function", "function": {**named, "arguments": said}}
            delta = {"tool_calls": [call]}
            beside = ({}, {"content": None}, {"content": "and"})
        deltas.append({**delta, **rng.choice(beside)})
    return sum(frames[:thinking]), deltas


def _report(rng: Random, usage: Usage, tokens: int, thoughts: int) -> dict[str, Any]:
    given = rng.randint(1, 4000)
    counted = 0 if usage == "zero" else tokens
    report: dict[str, Any] = {"prompt_tokens": given, "completion_tokens": counted, "total_tokens": given + counted}
    if thoughts or usage == "over" or rng.random() < 0.3:
        thought = counted + rng.randint(2, 500) if usage == "over" else min(thoughts, counted)
        report["completion_tokens_details"] = {"reasoning_tokens": thought}
    if rng.random() < 0.2:
        report["prompt_tokens_details"] = {"cached_tokens": rng.randint(0, given)}
    return report


def _rhythm(rng: Random) -> Callable[[], int]:
    """Return what draws the gaps of one stream: none, even, random, or now and then seconds."""
    mean_ns = log_uniform(rng, MS // 10, 200 * MS)
    rhythms: dict[Callable[[], int], int] = {
        lambda: 0: 1,
        lambda: mean_ns: 3,
        lambda: round(rng.expovariate(1 / mean_ns)): 5,
        lambda: rng.choice((0, mean_ns)): 2,
        lambda: log_uniform(rng, 1, 5 * SECOND) if rng.random() < 0.05 else rng.randint(0, 2 * mean_ns): 3,
    }
    return rng.choices([*rhythms], weights=[*rhythms.values()])[0]


def _late(rng: Random) -> int:
    return 0 if rng.random() < 0.1 else log_uniform(rng, 1000, 5 * SECOND)


def _after(rng: Random) -> int:
    return 0 if rng.random() < 0.6 else log_uniform(rng, 1000, SECOND)


_NAMED = {"tool_calls": [{"index": 0, "id": "t", "type": "function", "function": {"name": "look_up", "arguments": ""}}]}
NAME: tuple[Kind, dict[str, Any]] = ("name", _NAMED)
REFUSAL: tuple[Kind, dict[str, Any]] = ("refusal", {"refusal": "I can't"})
# What stands between outputs and changes nothing there.
ASIDES: tuple[tuple[Kind, dict[str, Any]], ...] = (NAME, REFUSAL, ("inert", {}), ("inert", {"content": ""}))
