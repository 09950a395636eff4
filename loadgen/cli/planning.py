"""From options to requests and a schedule: what `run` and `plan` have in common."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from loadgen.cli.values import pair, seconds
from loadgen.errors import UsageError
from loadgen.plan.arrivals import PROCESSES, Stage, draw, parse_stages, requests_by
from loadgen.plan.recordings.apis import APIS
from loadgen.plan.recordings.distributions import parse_lengths
from loadgen.plan.recordings.edits import Edits
from loadgen.plan.recordings.importers import OWN
from loadgen.plan.recordings.importers.found import Asked
from loadgen.plan.recordings.importing import load
from loadgen.plan.recordings.made_up import make_up
from loadgen.plan.recordings.nonces import Nonces, with_nonce_place
from loadgen.plan.recordings.ours import RecordedRequest
from loadgen.plan.recordings.prompts import Prompt, read_prompts, request_of
from loadgen.plan.recordings.synthetic import Making, Writer
from loadgen.plan.recordings.tokens import words_of_one_token
from loadgen.plan.recordings.words import TOKENS_PER_WORD, WORDS
from loadgen.plan.schedule import SECOND_NS, Schedule, closed_loop, load_csv, of_their_own, open_loop, recorded_times

# How many prompts are made up for a closed loop that only time ends.
_POOL = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class What:
    """Which requests: exactly one source, and the changes asked for."""

    recording: Path | None
    prompts: Path | None
    prompt: str | None
    model: str | None
    api: str
    max_tokens: int | None
    set: list[str]
    usage: bool | None
    input_tokens: str | None = None
    output_tokens: str | None = None
    prefix_share: float = 0.0
    unique_prefix: bool = False
    tokenizer: Path | None = None
    fix_lengths: bool = False
    seed: int = 0

    @property
    def ends(self) -> bool:
        """Whether the source has a length of its own."""
        return self.prompt is None and self.input_tokens is None


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """Which schedule."""

    rate: float | None
    arrivals: str
    burstiness: float
    stages: str | None
    recorded: bool
    speed: float
    schedule: Path | None
    concurrency: int | None
    requests: int | None
    duration: str | None
    seed: int
    warmup: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is sent, and when; `made_up` says how prompts were made that no recording held."""

    requests: Sequence[RecordedRequest]
    schedule: Schedule
    nonces: Nonces | None = None
    made_up: dict[str, Any] | None = None


def plan_of(what: What, when: When) -> Plan:
    """Return the whole plan; raises UsageError."""
    words = words_of_one_token(what.tokenizer) if what.tokenizer is not None else WORDS
    if what.input_tokens is None:
        requests = requests_of(what, words)
        schedule = schedule_of(when, requests, ends=what.ends)
    else:
        _check_one_source(what)
        drawn = schedule_of(when, [RecordedRequest(path="/")], ends=False)
        count = when.requests or _POOL if drawn.due_ns is None else len(drawn.due_ns)
        requests = _made_up(what, words, count)
        schedule = schedule_of(when, requests, ends=False) if drawn.is_closed else of_their_own(drawn, requests)
    made_up = sum(request.is_made_up for request in requests)
    for option, given in (("--tokenizer", what.tokenizer is not None), ("--fix-lengths", what.fix_lengths)):
        if given and not made_up:
            raise UsageError(f"{option} is for prompts made up to a length", hint="leave it out: these have their text")
    return Plan(
        requests=requests,
        schedule=schedule,
        nonces=Nonces(os.urandom(8).hex(), words=words) if what.unique_prefix else None,
        made_up={"requests": made_up, "tokens_per_word": TOKENS_PER_WORD, "is_exact": what.tokenizer is not None}
        if made_up
        else None,
    )


def requests_of(what: What, words: Sequence[str] = WORDS) -> list[RecordedRequest]:
    """Return the requests to send; raises UsageError."""
    _check_one_source(what)
    edits = Edits(model=what.model, max_tokens=what.max_tokens, usage=bool(what.usage), fields=_fields(what))
    if what.recording is not None:
        recorded = _recorded(what.recording, what)
        making = _making(what, words) if any(map(_is_of_lengths, recorded)) else None
        return [
            making.request(request, place)
            if making is not None and _is_of_lengths(request)
            else _marked(edits.apply(request), what)
            for place, request in enumerate(recorded)
        ]
    model = _model(what)
    prompts = read_prompts(what.prompts) if what.prompts is not None else [Prompt(what.prompt or "")]
    # A prompt's own cap stands; the option is for those that have none.
    edits = Edits(usage=what.usage is not False, fields=edits.fields)
    capped = replace(edits, max_tokens=what.max_tokens)
    return [
        _marked((edits if prompt.max_tokens else capped).apply(request_of(prompt, api=what.api, model=model)), what)
        for prompt in prompts
    ]


def _is_of_lengths(request: RecordedRequest) -> bool:
    return request.synthetic is not None and not request.payload


def _marked(request: RecordedRequest, what: What) -> RecordedRequest:
    return with_nonce_place(request) if what.unique_prefix else request


def _check_one_source(what: What) -> None:
    """Check that there is exactly one source, and what goes with each."""
    given = [name for name in ("recording", "prompts", "prompt", "input_tokens") if getattr(what, name) is not None]
    if len(given) != 1:
        said = " and ".join(f"--{name.replace('_', '-')}" for name in given) or "nothing"
        raise UsageError(
            f"{said} given to send",
            hint="give one of --recording FILE, --prompts FILE, --prompt TEXT, --input-tokens with --output-tokens",
        )
    if what.api not in APIS:
        raise UsageError(f"--api {what.api!r} is not known", hint=f"there are {', '.join(APIS)}")
    is_made_up = what.input_tokens is not None
    if is_made_up != (what.output_tokens is not None):
        raise UsageError(
            "--input-tokens and --output-tokens go together", hint="as in --input-tokens 200 --output-tokens 50"
        )
    if not 0 <= what.prefix_share < 1 or (what.prefix_share and not is_made_up):
        raise UsageError(
            f"--prefix-share {what.prefix_share:g}: not a share from 0 to below 1 of made-up prompts",
            hint="as in --input-tokens 200 --output-tokens 50 --prefix-share 0.5",
        )


def _fields(what: What) -> dict[str, Any]:
    fields = {}
    for text in what.set:
        key, value = pair(text, option="--set")
        try:
            fields[key] = json.loads(value)
        except ValueError:
            raise UsageError(
                f"--set {key}: {value!r} is not JSON", hint=f"quote a string, as in --set '{key}=\"{value}\"'"
            ) from None
    return fields


def _model(what: What) -> str:
    if what.model is None:
        raise UsageError("prompts need a model", hint="name it with --model")
    return what.model


def _making(what: What, words: Sequence[str]) -> Making:
    return Making(
        writer=Writer(words, seed=what.seed),
        model=what.model,
        max_tokens=what.max_tokens,
        edits=Edits(usage=what.usage is not False, fields=_fields(what)),
        fix_lengths=what.fix_lengths,
        unique_prefix=what.unique_prefix,
    )


def _made_up(what: What, words: Sequence[str], count: int) -> list[RecordedRequest]:
    return make_up(
        count,
        making=replace(_making(what, words), model=_model(what)),
        api=what.api,
        input_tokens=parse_lengths(what.input_tokens or "", option="--input-tokens"),
        output_tokens=parse_lengths(what.output_tokens or "", option="--output-tokens"),
        prefix_share=what.prefix_share,
        seed=what.seed,
    )


def _recorded(path: Path, what: What) -> list[RecordedRequest]:
    """Read a recording, ours or anybody's that is known; says what it made of another's."""
    loaded = load(path, asked=Asked(api=what.api, model=what.model))
    if loaded.kind != OWN:
        refused = f", {loaded.refused} rows refused" if loaded.refused else ""
        typer.echo(f"note: {path} is read as {loaded.kind}: {len(loaded.requests)} requests{refused}", err=True)
    elif loaded.refused:
        typer.echo(f"note: {path}: its last line breaks off and is left out", err=True)
    return loaded.requests


def schedule_of(when: When, requests: Sequence[RecordedRequest], *, ends: bool) -> Schedule:
    """Return the schedule asked for; `ends` says whether the requests end by themselves. Raises UsageError."""
    ways = {
        "--rate": when.rate is not None,
        "--stages": when.stages is not None,
        "--recorded": when.recorded,
        "--schedule": when.schedule is not None,
        "--concurrency": when.concurrency is not None,
    }
    chosen = [name for name, given in ways.items() if given]
    if len(chosen) != 1:
        raise UsageError(f"{' and '.join(chosen) or 'no schedule'} given", hint=f"give one of {', '.join(ways)}")
    if when.arrivals not in PROCESSES:
        raise UsageError(f"--arrivals {when.arrivals!r} is not known", hint=f"there are {', '.join(PROCESSES)}")
    for option, value in (("--rate", when.rate), ("--speed", when.speed), ("--burstiness", when.burstiness)):
        if value is not None and not 0 < value < 1e9:
            raise UsageError(f"{option} {value:g} is not above 0", hint=f"as in {option} 2.5")
    warmup_s = seconds(when.warmup, option="--warmup")
    duration_s = None if when.duration is None else seconds(when.duration, option="--duration")
    if duration_s == 0:
        raise UsageError("--duration is 0", hint="give a time above 0")
    count = when.requests
    if count is None and duration_s is None and (when.rate or when.concurrency):
        if not ends:
            raise UsageError("the run has no end", hint="give --requests N or --duration D")
        count = len(requests)
    if when.concurrency is not None:
        return closed_loop(requests, callers=when.concurrency, count=count, warmup_s=warmup_s, length_s=duration_s)
    if when.rate is not None:
        return _by_rate(when, when.rate, requests, count=count, duration_s=duration_s, warmup_s=warmup_s)
    if when.stages is not None:
        stages = parse_stages(when.stages, seconds)
        length_s = duration_s or sum(stage.duration_s for stage in stages)
        nominal = requests_by(stages, length_s) / length_s if count is None else None
        times = draw(stages, arrivals=when.arrivals, seed=when.seed, burstiness=when.burstiness)
        return _in_window(requests, list(times), None, count, length_s, warmup_s, nominal)
    if when.schedule is not None:
        due_ns, places = load_csv(when.schedule)
        if places is not None and max(places) >= len(requests):
            places = [place % len(requests) for place in places]
        return _in_window(requests, [at / SECOND_NS for at in due_ns], places, count, duration_s, warmup_s, None)
    times_s, order = recorded_times(requests, speed=when.speed, limit=count, until_s=duration_s)
    return _in_window(requests, times_s, order, count, duration_s, warmup_s, None)


def _by_rate(
    when: When,
    rate: float,
    requests: Sequence[RecordedRequest],
    *,
    count: int | None,
    duration_s: float | None,
    warmup_s: float,
) -> Schedule:
    forever = [Stage(rate, rate, float("inf"))]
    times = draw(forever, arrivals=when.arrivals, seed=when.seed, burstiness=when.burstiness)
    # In whole nanoseconds, as requests are due: 33 / 1.1 is a hair below 30.
    begin_ns = round(warmup_s * SECOND_NS)
    end_ns = None if duration_s is None else round((warmup_s + duration_s) * SECOND_NS)
    due: list[float] = []
    measured = 0
    for at in times:
        at_ns = round(at * SECOND_NS)
        if measured == count or (end_ns is not None and at_ns >= end_ns):
            break
        due.append(at)
        measured += at_ns >= begin_ns
    length_s = duration_s if duration_s is not None else (count or 0) / rate
    return open_loop(requests, due, warmup_s=warmup_s, length_s=length_s, nominal_rate=rate)


def _in_window(
    requests: Sequence[RecordedRequest],
    times: list[float],
    places: list[int] | None,
    count: int | None,
    length_s: float | None,
    warmup_s: float,
    nominal_rate: float | None,
) -> Schedule:
    """A schedule of given times: its own beginning, played once before, is the warm-up."""
    places = places if places is not None else [seq % len(requests) for seq in range(len(times))]

    def comes_before(at: float, end_s: float) -> bool:
        return round(at * SECOND_NS) < round(end_s * SECOND_NS)

    pairs = zip(times, places, strict=True)
    kept = [(at, place) for at, place in pairs if length_s is None or comes_before(at, length_s)][:count]
    before = [(at, place) for at, place in kept if comes_before(at, warmup_s)]
    played = before + [(at + warmup_s, place) for at, place in kept]
    return open_loop(
        requests,
        [at for at, _ in played],
        which=[place for _, place in played],
        warmup_s=warmup_s,
        length_s=length_s,
        nominal_rate=nominal_rate,
    )
