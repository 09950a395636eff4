"""From options to requests and a schedule: what `run` and `plan` have in common."""

import json
from dataclasses import dataclass
from pathlib import Path

from loadgen.cli.values import pair, seconds
from loadgen.errors import UsageError
from loadgen.plan.arrivals import PROCESSES, Stage, draw, parse_stages, requests_by
from loadgen.plan.recordings.apis import APIS
from loadgen.plan.recordings.edits import Edits
from loadgen.plan.recordings.ours import RecordedRequest, read_recording
from loadgen.plan.recordings.prompts import Prompt, read_prompts, request_of
from loadgen.plan.schedule import SECOND_NS, Schedule, closed_loop, load_csv, open_loop, recorded_times


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

    @property
    def ends(self) -> bool:
        """Whether the source has a length of its own."""
        return self.prompt is None


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


def requests_of(what: What) -> list[RecordedRequest]:
    """Return the requests to send; raises UsageError."""
    given = [name for name in ("recording", "prompts", "prompt") if getattr(what, name) is not None]
    if len(given) != 1:
        said = " and ".join(f"--{name}" for name in given) or "nothing"
        raise UsageError(f"{said} given to send", hint="give one of --recording FILE, --prompts FILE, --prompt TEXT")
    if what.api not in APIS:
        raise UsageError(f"--api {what.api!r} is not known", hint=f"there are {', '.join(APIS)}")
    fields = {}
    for text in what.set:
        key, value = pair(text, option="--set")
        try:
            fields[key] = json.loads(value)
        except ValueError:
            raise UsageError(
                f"--set {key}: {value!r} is not JSON", hint=f"quote a string, as in --set '{key}=\"{value}\"'"
            ) from None
    edits = Edits(model=what.model, max_tokens=what.max_tokens, usage=bool(what.usage), fields=fields)
    if what.recording is not None:
        requests = read_recording(what.recording)
    else:
        if what.model is None:
            raise UsageError("prompts need a model", hint="name it with --model")
        prompts = read_prompts(what.prompts) if what.prompts is not None else [Prompt(what.prompt or "")]
        requests = [request_of(prompt, api=what.api, model=what.model) for prompt in prompts]
        asks_usage = what.usage is not False
        # A prompt's own cap stands; the option is for those that have none.
        edits = Edits(usage=asks_usage, fields=fields)
        capped = Edits(usage=asks_usage, fields=fields, max_tokens=what.max_tokens)
        return [
            (edits if prompt.max_tokens else capped).apply(request)
            for prompt, request in zip(prompts, requests, strict=True)
        ]
    return [edits.apply(request) for request in requests]


def schedule_of(when: When, requests: list[RecordedRequest], *, ends: bool) -> Schedule:
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
    requests: list[RecordedRequest],
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
    requests: list[RecordedRequest],
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
