"""`loadgen run`: one run at one level."""

import sys
from collections.abc import Mapping
from typing import Any

import typer

from loadgen.cli import options as o
from loadgen.cli.config import GOALS
from loadgen.errors import EXIT_SIGINT, EXIT_SIGTERM

_SIGNAL_EXITS = {"SIGINT": EXIT_SIGINT, "SIGTERM": EXIT_SIGTERM}


def run(
    context: typer.Context,
    target: o.Target = None,
    config: o.Config = None,
    recording: o.Recording = None,
    prompts: o.Prompts = None,
    prompt: o.PromptText = None,
    model: o.Model = None,
    api: o.Api = "openai-chat",
    max_tokens: o.MaxTokens = None,
    set_: o.Set = None,
    usage: o.Usage = None,
    input_tokens: o.InputTokens = None,
    output_tokens: o.OutputTokens = None,
    prefix_share: o.PrefixShare = 0.0,
    unique_prefix: o.UniquePrefix = False,
    tokenizer: o.TokenizerFile = None,
    fix_lengths: o.FixLengths = False,
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
    keep_sessions: o.KeepSessions = False,
    deadline: o.Deadline = "600s",
    deadline_from: o.DeadlineFrom = "sent",
    connect_timeout: o.ConnectTimeout = "10s",
    retries: o.Retries = 0,
    retry_cap: o.RetryCap = "60s",
    header: o.Header = None,
    api_key_env: o.ApiKeyEnv = "LLM_API_KEY",
    request_id: o.RequestId = True,
    cacert: o.CaCert = None,
    cert: o.Cert = None,
    key: o.Key = None,
    insecure: o.Insecure = False,
    http2: o.Http2 = False,
    proxy: o.Proxy = None,
    slo: o.SloOption = None,
    check: o.Check = None,
    finish: o.Finish = None,
    reject_status: o.RejectStatus = "429,503",
    accept_missing_end_marker: o.AcceptMissingEndMarker = False,
    fail_if: o.FailIf = None,
    require_valid: o.RequireValid = None,
    junit: o.Junit = None,
    baseline: o.Baseline = None,
    flag_change: o.FlagChange = None,
    out: o.Out = None,
    label: o.Label = None,
    cache: o.Cache = None,
    server: o.Server = None,
    gpus: o.Gpus = None,
    keep_bodies: o.KeepBodies = False,
    metrics_url: o.MetricsUrl = None,
    metrics_every: o.MetricsEvery = "1s",
    json: o.Json = False,
) -> None:
    """Send recorded prompts when a schedule says so, time every frame, say what a user got.

    Open loop unless --concurrency is given: nothing waits for an answer. Prints the summary and the run's folder.
    """
    raise typer.Exit(carry_out_and_judge(options_of(locals()), as_json=json))


def options_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a command's arguments as options by name, goals with them: what an order is made of, and a config too."""
    context: typer.Context = given["context"]
    repeatable = {parameter.name for parameter in context.command.params if getattr(parameter, "multiple", False)}
    options = {
        name.rstrip("_"): list(value or ()) if name in repeatable else value
        for name, value in given.items()
        if name not in ("context", "config", "json")
    }
    return options | {"goals": context.meta.get(GOALS, {})}


def carry_out_and_judge(options: Mapping[str, Any], *, as_json: bool) -> int:
    """Do the run, print its summary and folder; return the exit code."""
    # What is heavy to import waits until here: --help and a wrong option answer at once.
    from loadgen.cli.ordering import judging_of, order_of
    from loadgen.cli.progress import Progress
    from loadgen.drive.order import carry_out

    order = order_of(options)
    progress = Progress(order.schedule) if sys.stderr.isatty() else None
    rundir, stopped_by = carry_out(
        order,
        on_progress=progress.show if progress else None,
        warn=lambda words: typer.echo(f"note: {words}", err=True),
    )
    if progress:
        progress.clear()
    from loadgen.cli.summary import close_run, print_summary

    judging = judging_of(options)
    summary = close_run(rundir, judging)
    print_summary(summary, as_json=as_json)
    typer.echo(f"run folder: {rundir.path}", err=as_json)
    code = judging.conclude(summary)
    return _SIGNAL_EXITS.get(stopped_by or "", code)
