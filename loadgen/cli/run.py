"""`loadgen run`: one run at one level."""

import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from loadgen.cli import options as o
from loadgen.errors import EXIT_FINE, EXIT_SIGINT, EXIT_SIGTERM, UsageError

_SIGNAL_EXITS = {None: EXIT_FINE, "SIGINT": EXIT_SIGINT, "SIGTERM": EXIT_SIGTERM}


def run(
    target: Annotated[str, typer.Argument(help="An origin, or a full endpoint URL.", metavar="TARGET")],
    recording: o.Recording = None,
    prompts: o.Prompts = None,
    prompt: o.PromptText = None,
    model: o.Model = None,
    api: o.Api = "openai-chat",
    max_tokens: o.MaxTokens = None,
    set_: o.Set = None,
    usage: o.Usage = None,
    rate: o.Rate = None,
    arrivals: o.Arrivals = "constant",
    burstiness: o.Burstiness = 1.0,
    stages: o.Stages = None,
    recorded: o.Recorded = False,
    speed: o.Speed = 1.0,
    schedule: o.ScheduleFile = None,
    concurrency: o.Concurrency = None,
    requests: o.Requests = None,
    duration: o.Duration = None,
    seed: o.Seed = 0,
    warmup: o.Warmup = "0s",
    drain: o.Drain = None,
    max_concurrency: o.MaxConcurrency = None,
    deadline: o.Deadline = "600s",
    connect_timeout: o.ConnectTimeout = "10s",
    header: o.Header = None,
    api_key_env: o.ApiKeyEnv = "LLM_API_KEY",
    request_id: o.RequestId = True,
    slo: o.SloOption = None,
    finish: o.Finish = None,
    reject_status: o.RejectStatus = "429,503",
    accept_missing_end_marker: o.AcceptMissingEndMarker = False,
    out: o.Out = None,
    label: o.Label = None,
    cache: o.Cache = None,
    server: o.Server = None,
    gpus: o.Gpus = None,
    json: o.Json = False,
) -> None:
    """Send recorded prompts when a schedule says so, time every frame, say what a user got.

    Open loop unless --concurrency is given: nothing waits for an answer. Prints the summary and the run's folder.
    """
    given = {name.rstrip("_"): value for name, value in locals().items() if name not in ("target", "json")}
    # What is heavy to import waits until here: --help and a wrong option answer at once.
    from loadgen.cli.planning import What, When, requests_of, schedule_of
    from loadgen.cli.progress import Progress
    from loadgen.cli.values import header as parse_header
    from loadgen.cli.values import pair, seconds
    from loadgen.drive.driver import Conduct
    from loadgen.drive.order import Order, carry_out
    from loadgen.net.target import parse_target
    from loadgen.plan.schedule import SECOND_NS
    from loadgen.results.outcome import NATURAL, Rules
    from loadgen.results.secrets import masked_header

    what = What(
        recording=recording,
        prompts=prompts,
        prompt=prompt,
        model=model,
        api=api,
        max_tokens=max_tokens,
        set=set_ or [],
        usage=usage,
    )
    when = When(
        rate=rate,
        arrivals=arrivals,
        burstiness=burstiness,
        stages=stages,
        recorded=recorded,
        speed=speed,
        schedule=schedule,
        concurrency=concurrency,
        requests=requests,
        duration=duration,
        seed=seed,
        warmup=warmup,
    )
    where = parse_target(target)
    headers = dict(parse_header(text) for text in header or [])
    _check_slos(slo or [])
    rules = Rules(
        natural=frozenset(finish.split(",")) if finish else NATURAL,
        reject_status=_statuses(reject_status),
        accept_missing_end_marker=accept_missing_end_marker,
    )
    to_send = requests_of(what)
    planned = schedule_of(when, to_send, ends=what.ends)
    folder = out if out is not None else _default_folder(label)
    conduct = Conduct(
        run=_slug(folder.resolve().name),
        deadline_ns=round(_positive(seconds(deadline, option="--deadline"), "--deadline") * SECOND_NS),
        drain_ns=None if drain is None else round(seconds(drain, option="--drain") * SECOND_NS),
        max_concurrency=max_concurrency,
        sends_request_id=request_id,
        rules=rules,
        secret=_key(api_key_env),
    )
    config = {name: _plain(value) for name, value in given.items()}
    config["header"] = [f"{name}: {masked_header(name, value)}" for name, value in headers.items()]
    config["server"] = dict(pair(text, option="--server") for text in server or [])
    order = Order(
        target=where,
        requests=to_send,
        schedule=planned,
        conduct=conduct,
        out=folder,
        headers=headers,
        connect_timeout_s=_positive(seconds(connect_timeout, option="--connect-timeout"), "--connect-timeout"),
        config=config,
        label=label,
    )
    progress = Progress(planned) if sys.stderr.isatty() else None
    rundir, stopped_by = carry_out(
        order,
        on_progress=progress.show if progress else None,
        warn=lambda words: typer.echo(f"note: {words}", err=True),
    )
    if progress:
        progress.clear()
    from loadgen.cli.summary import close_run, print_summary

    print_summary(close_run(rundir, slo or []), as_json=json)
    typer.echo(f"run folder: {rundir.path}", err=json)
    raise typer.Exit(_SIGNAL_EXITS[stopped_by])


def _check_slos(texts: list[str]) -> None:
    """Refuse an unknown metric before anything is sent; polars is only loaded where there is one to check."""
    if texts:
        from loadgen.results.slo import parse_slo

        for text in texts:
            parse_slo(text)


def _key(variable: str) -> str | None:
    """Read the key of an environment variable; raises UsageError, which does not repeat it."""
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"the key in {variable} cannot stand in a header", hint="it holds a line break or worse")
    return key or None


def _statuses(text: str) -> frozenset[int]:
    try:
        return frozenset(int(status) for status in text.split(","))
    except ValueError:
        raise UsageError(f"--reject-status {text!r} is not a list of statuses", hint="as in 429,503,529") from None


def _positive(value: float, option: str) -> float:
    if value <= 0:
        raise UsageError(f"{option} is 0", hint="give a time above 0")
    return value


def _slug(name: str) -> str:
    """A run's name as it can stand in a header."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name) or "run"


def _default_folder(label: str | None) -> Path:
    return Path("results") / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{_slug(label or 'run')}"


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else value
