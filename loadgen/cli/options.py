"""The options that several commands share, each named and explained once."""

from pathlib import Path
from typing import Annotated

import typer

from loadgen.cli.config import load_config

_WHAT, _WHEN, _HOW, _JUDGE, _KEEP = "What is sent", "When", "How", "Judge", "Keep"

Target = Annotated[str | None, typer.Argument(help="An origin, or a full endpoint URL.", metavar="TARGET")]
Config = Annotated[
    Path | None,
    typer.Option(
        help="Options from a TOML file, or from the run.json of a run to repeat; the command line wins.",
        is_eager=True,
        callback=load_config,
    ),
]
Recording = Annotated[
    Path | None,
    typer.Option(help="Recording or trace, any that import knows; - is standard input.", rich_help_panel=_WHAT),
]
Prompts = Annotated[
    Path | None,
    typer.Option(help="A prompt a line, or JSON lines with prompt, class, max_tokens.", rich_help_panel=_WHAT),
]
PromptText = Annotated[str | None, typer.Option("--prompt", help="One prompt, sent every time.", rich_help_panel=_WHAT)]
Model = Annotated[str | None, typer.Option(help="Model name; prompts need it.", rich_help_panel=_WHAT)]
Api = Annotated[
    str,
    typer.Option(
        help="How prompts are asked: openai-chat, openai-completions, openai-responses, anthropic, ollama-chat, "
        "ollama-generate, bedrock-converse or bedrock-anthropic.",
        rich_help_panel=_WHAT,
    ),
]
MaxTokens = Annotated[int | None, typer.Option(min=1, help="Cap on the answer's tokens.", rich_help_panel=_WHAT)]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=JSON", help="Set a body field.", rich_help_panel=_WHAT)
]
Usage = Annotated[
    bool | None,
    typer.Option(
        "--usage/--no-usage", help="Ask for a usage report; on for prompts, off for recordings.", rich_help_panel=_WHAT
    ),
]
InputTokens = Annotated[
    str | None,
    typer.Option(
        metavar="DIST",
        help="Make prompts up, this long: 200, 100..400 or lognormal:MEDIAN,SIGMA; each its own.",
        rich_help_panel=_WHAT,
    ),
]
OutputTokens = Annotated[
    str | None, typer.Option(metavar="DIST", help="How long their answers may be.", rich_help_panel=_WHAT)
]
PrefixShare = Annotated[
    float, typer.Option(help="Share of each made-up prompt that is one common prefix.", rich_help_panel=_WHAT)
]
UniquePrefix = Annotated[
    bool,
    typer.Option("--unique-prefix", help="A nonce first in each prompt, against caches.", rich_help_panel=_WHAT),
]
TokenizerFile = Annotated[
    Path | None,
    typer.Option("--tokenizer", help="The model's tokenizer.json: makes made-up lengths exact.", rich_help_panel=_WHAT),
]
FixLengths = Annotated[
    bool,
    typer.Option(
        "--fix-lengths", help="Ask for answers of just the recorded length (ignore_eos).", rich_help_panel=_WHAT
    ),
]
Rate = Annotated[float | None, typer.Option(help="Requests per second.", rich_help_panel=_WHEN)]
Arrivals = Annotated[str, typer.Option(help="constant, poisson or gamma.", rich_help_panel=_WHEN)]
Burstiness = Annotated[float, typer.Option(help="Shape of gamma arrivals; below 1 they burst.", rich_help_panel=_WHEN)]
Stages = Annotated[str | None, typer.Option(help="Rates and ramps, as in 5@30s,5..50@60s.", rich_help_panel=_WHEN)]
Recorded = Annotated[bool, typer.Option("--recorded", help="Send at the recorded times.", rich_help_panel=_WHEN)]
Speed = Annotated[float, typer.Option(help="Play recorded times this much faster.", rich_help_panel=_WHEN)]
ScheduleFile = Annotated[
    Path | None, typer.Option("--schedule", help="Due times from a schedule file.", rich_help_panel=_WHEN)
]
Concurrency = Annotated[
    int | None,
    typer.Option(min=1, help="Closed loop: this many callers, each waiting for its answer.", rich_help_panel=_WHEN),
]
Requests = Annotated[int | None, typer.Option(min=1, help="Measured requests.", rich_help_panel=_WHEN)]
Duration = Annotated[str | None, typer.Option(help="Length of the schedule, as in 30s.", rich_help_panel=_WHEN)]
Seed = Annotated[int, typer.Option(help="Seed of the schedule's draw and of made-up prompts.", rich_help_panel=_WHEN)]
Warmup = Annotated[str, typer.Option(help="Sent before the measured window, and left out.", rich_help_panel=_WHEN)]
Drain = Annotated[
    str | None,
    typer.Option(help="Wait for answers after the last send; by default the deadline.", rich_help_panel=_WHEN),
]
KeepSessions = Annotated[
    bool,
    typer.Option(
        "--keep-sessions", help="A request waits for the one before it in its session.", rich_help_panel=_WHEN
    ),
]
MaxConcurrency = Annotated[
    int | None, typer.Option(min=1, help="Arrivals beyond this many in flight wait.", rich_help_panel=_WHEN)
]
Deadline = Annotated[str, typer.Option(help="For the whole request.", rich_help_panel=_HOW)]
DeadlineFrom = Annotated[
    str,
    typer.Option(help="When it begins to count: sent, or due, which adds waiting and retries.", rich_help_panel=_HOW),
]
ConnectTimeout = Annotated[str, typer.Option(help="For a new connection.", rich_help_panel=_HOW)]
Retries = Annotated[
    int, typer.Option(min=0, help="Send a rejected or unconnected request again, this often.", rich_help_panel=_HOW)
]
RetryCap = Annotated[
    str, typer.Option(help="Longest wait before a retry, whatever Retry-After says.", rich_help_panel=_HOW)
]
Header = Annotated[
    list[str] | None, typer.Option(metavar="'K: V'", help="Send a header; repeatable.", rich_help_panel=_HOW)
]
ApiKeyEnv = Annotated[
    str, typer.Option(metavar="NAME", help="Environment variable with the bearer token.", rich_help_panel=_HOW)
]
RequestId = Annotated[
    bool, typer.Option("--request-id/--no-request-id", help="Send x-request-id: RUN-SEQ.", rich_help_panel=_HOW)
]
CaCert = Annotated[
    Path | None,
    typer.Option("--cacert", help="Authorities to trust (PEM) instead of the system's.", rich_help_panel=_HOW),
]
Cert = Annotated[Path | None, typer.Option(help="Client certificate (PEM).", rich_help_panel=_HOW)]
Key = Annotated[Path | None, typer.Option(help="Its key, where it is not in the same file.", rich_help_panel=_HOW)]
Insecure = Annotated[bool, typer.Option("--insecure", help="Trust any certificate.", rich_help_panel=_HOW)]
Http2 = Annotated[bool, typer.Option("--http2", help="Speak HTTP/2, over the second transport.", rich_help_panel=_HOW)]
Proxy = Annotated[
    str | None, typer.Option(metavar="URL", help="Go through a proxy, over the second transport.", rich_help_panel=_HOW)
]
SloOption = Annotated[
    list[str] | None,
    typer.Option(
        "--slo", metavar="'ttft<500ms'", help="What a good request meets; repeatable.", rich_help_panel=_JUDGE
    ),
]
Finish = Annotated[
    str | None,
    typer.Option(help="Finish reasons that count as natural, as in stop,tool_calls.", rich_help_panel=_JUDGE),
]
RejectStatus = Annotated[str, typer.Option(help="Statuses that count as rejected.", rich_help_panel=_JUDGE)]
AcceptMissingEndMarker = Annotated[
    bool,
    typer.Option(
        "--accept-missing-end-marker",
        help="A clean end after a finish reason completes a stream.",
        rich_help_panel=_JUDGE,
    ),
]
Check = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME[=ARG]",
        help="An answer is useful when it passes: json, json-fields=a,b.c, json-schema=FILE, regex=, not-regex=, "
        "min-chars=N, python=module:function; repeatable.",
        rich_help_panel=_JUDGE,
    ),
]
FailIf = Annotated[
    list[str] | None,
    typer.Option(
        metavar="'NAME OP NUMBER'",
        help="Exit 1 when true, as in 'llm.ttft-p95 > 800'; repeatable.",
        rich_help_panel=_JUDGE,
    ),
]
RequireValid = Annotated[
    bool | None,
    typer.Option(
        "--require-valid/--allow-invalid",
        help="Exit 3 when the run is INVALID; with gates or goals it is required.",
        rich_help_panel=_JUDGE,
    ),
]
Junit = Annotated[Path | None, typer.Option(help="Write the gates as JUnit XML.", rich_help_panel=_JUDGE)]
FlagChange = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        metavar="PERCENT",
        help="Flag a change of so much for the worse; 10 if not given.",
        rich_help_panel=_JUDGE,
    ),
]
Baseline = Annotated[
    Path | None,
    typer.Option(
        metavar="RUN", help="The run that -change-pct gates count from; else the recording.", rich_help_panel=_JUDGE
    ),
]
Out = Annotated[Path | None, typer.Option(help="Run folder; by default results/<utc>-<label>.", rich_help_panel=_KEEP)]
Label = Annotated[str | None, typer.Option(help="A word for this run.", rich_help_panel=_KEEP)]
Cache = Annotated[
    str | None, typer.Option(help="Cache condition: cold, warm, as-recorded or words.", rich_help_panel=_KEEP)
]
Server = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="A fact about the server, stored; repeatable.", rich_help_panel=_KEEP),
]
KeepBodies = Annotated[
    bool, typer.Option("--keep-bodies", help="Keep prompts and answers in the run folder.", rich_help_panel=_KEEP)
]
MetricsUrl = Annotated[
    list[str] | None,
    typer.Option(
        "--metrics-url",
        metavar="URL",
        help="Scrape this server's metrics beside the load; repeatable.",
        rich_help_panel=_KEEP,
    ),
]
MetricsEvery = Annotated[str, typer.Option(help="How often they are scraped.", rich_help_panel=_KEEP)]
Gpus = Annotated[
    int | None, typer.Option(min=1, help="GPUs behind the target, for rates per GPU.", rich_help_panel=_KEEP)
]
Export = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FORMAT", help="Write it as csv, hgrm, aiperf-json or llm-d; repeatable.", rich_help_panel=_KEEP
    ),
]
ExportTo = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Where; by default the run's folder.", rich_help_panel=_KEEP)
]
TargetGood = Annotated[
    float,
    typer.Option(
        min=0, max=100, help="Share of good requests that the knee still has, in percent.", rich_help_panel=_JUDGE
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.", rich_help_panel=_KEEP)]
