"""Exactly one outcome per scheduled request: the table of METRICS section 3, in its order of precedence."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from loadgen.results.reading import Reading
from loadgen.wire.ending import Ending
from loadgen.wire.formats import FORMATS

Outcome: TypeAlias = Literal[
    "completed",
    "truncated",
    "noneligible_finish",
    "rejected",
    "http_error",
    "api_error",
    "interrupted",
    "timeout",
    "protocol_error",
    "connect_error",
    "client_limit",
    "unfinished",
    "unsent",
    "responded",
]

# What servers say when generation ended by itself, and when a limit on tokens ended it. Compatible servers speak one
# dialect and keep another's words, and no word is natural here and a limit there: a dialect takes those of all.
NATURAL = frozenset(word for dialect in FORMATS.values() for word in dialect.natural)
CAP = frozenset(word for dialect in FORMATS.values() for word in dialect.cap)
REJECT_STATUS = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class Rules:
    """What the user lets count as what; the defaults are METRICS'."""

    natural: frozenset[str] = field(default=NATURAL)
    reject_status: frozenset[int] = field(default=REJECT_STATUS)
    accept_missing_end_marker: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one request, and the words for it."""

    outcome: Outcome
    detail: str | None = None
    finish_reason: str | None = None
    finished: bool | None = False


def decide(reading: Reading, ending: Ending, *, rules: Rules, asked_for_stream: bool, fixed_length: bool) -> Verdict:
    """Decide what became of a request whose response is `reading` and whose exchange ended as `ending`."""
    status = reading.status
    if ending.how == "connect":
        return Verdict("connect_error", ending.detail)
    if ending.how == "limit":
        return Verdict("client_limit", ending.detail)
    if status is None:
        return _without_end(ending)
    if status in rules.reject_status:
        return Verdict("rejected", reading.error_word())
    if not 200 <= status < 300:
        return Verdict("http_error", reading.error_word())
    if not reading.is_stream:
        return _no_stream(reading, ending, asked_for_stream or reading.mislabelled)
    if reading.failure is not None:
        return Verdict("api_error", reading.failure, _worst(reading, rules, fixed_length)[1])
    if reading.malformed is not None:
        return Verdict("protocol_error", reading.malformed, _worst(reading, rules, fixed_length)[1])
    outcome, reason, detail = _worst(reading, rules, fixed_length)
    if reading.terminal_ns is not None:
        return Verdict(outcome, detail, reason, finished=ending.how == "complete")
    if ending.how != "complete":
        return _without_end(ending, reason)
    if reading.format in (None, "other") and reading.frame_kinds:
        return Verdict("responded", "other_feed", finished=None)
    return Verdict("interrupted", "no_end_marker" if reading.frame_kinds else "no_frames", reason)


def _without_end(ending: Ending, reason: str | None = None) -> Verdict:
    """An exchange that broke off: its own end is all there is to say."""
    match ending.how:
        case "deadline":
            return Verdict("timeout", None, reason)
        case "abandoned":
            return Verdict("unfinished", ending.detail, reason)
        case "malformed":
            return Verdict("protocol_error", ending.detail, reason)
    return Verdict("interrupted", ending.detail, reason)


def _no_stream(reading: Reading, ending: Ending, asked_for_stream: bool) -> Verdict:
    is_empty = reading.status in (204, 205)
    if asked_for_stream and not reading.encoded and not is_empty:
        if (error := reading.error_word()) is not None:
            return Verdict("api_error", error)
        return Verdict("protocol_error", f"not_a_stream:{reading.content_type or 'no_content_type'}")
    if ending.how != "complete":
        return _without_end(ending)
    return Verdict("responded", "encoded" if reading.encoded else None, finished=None)


_GOODNESS: dict[Outcome, int] = {"noneligible_finish": 0, "truncated": 1, "completed": 2}


def _worst(reading: Reading, rules: Rules, fixed_length: bool) -> tuple[Outcome, str | None, str | None]:
    """Return outcome, finish reason and detail of the least favourable choice."""
    natural = rules.natural
    if fixed_length and reading.format in FORMATS:
        natural = natural | {FORMATS[reading.format].cap[0]}
    worst: tuple[Outcome, str | None, str | None] = ("noneligible_finish", None, "no_finish_reason")
    best_yet = 3
    for choice in sorted(reading.choices):
        reason = reading.finishes.get(choice)
        outcome: Outcome = "noneligible_finish"
        detail = None
        if reason is None:
            detail = "no_finish_reason"
        elif reason in natural and choice in reading.answered:
            outcome = "completed"
        elif reason in CAP:
            outcome = "truncated"
        elif reason in natural:
            detail = "no_answer"
        if _GOODNESS[outcome] < best_yet:
            worst, best_yet = (outcome, reason, detail), _GOODNESS[outcome]
    return worst
