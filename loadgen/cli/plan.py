"""`loadgen plan`: draw a schedule and save it, or look at one."""

from pathlib import Path
from typing import Annotated

import typer

from loadgen.cli import options as o
from loadgen.errors import UsageError


def plan(
    show: Annotated[Path | None, typer.Option(help="Look at a schedule file instead of drawing one.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where to save the schedule (CSV).")] = None,
    recording: o.Recording = None,
    rate: o.Rate = None,
    arrivals: o.Arrivals = "constant",
    burstiness: o.Burstiness = 1.0,
    stages: o.Stages = None,
    recorded: o.Recorded = False,
    speed: o.Speed = 1.0,
    requests: o.Requests = None,
    duration: o.Duration = None,
    seed: o.Seed = 0,
) -> None:
    """Draw a schedule from one seeded generator and save it; `loadgen run --schedule` plays it."""
    from loadgen.cli.planning import When, schedule_of
    from loadgen.plan.recordings.importers.found import Asked
    from loadgen.plan.recordings.importing import load
    from loadgen.plan.recordings.ours import RecordedRequest
    from loadgen.plan.schedule import load_csv, save_csv
    from loadgen.report.text import write_schedule

    if show is not None:
        write_schedule(load_csv(show)[0], title=str(show))
        return
    if out is None:
        raise UsageError("neither --out nor --show given", hint="`loadgen plan --rate 5 --duration 1m --out x.csv`")
    known = load(recording, asked=Asked()).requests if recording is not None else [RecordedRequest(path="/")]
    when = When(
        rate=rate,
        arrivals=arrivals,
        burstiness=burstiness,
        stages=stages,
        recorded=recorded,
        speed=speed,
        schedule=None,
        concurrency=None,
        requests=requests,
        duration=duration,
        seed=seed,
        warmup="0s",
    )
    drawn = schedule_of(when, known, ends=recording is not None)
    try:
        save_csv(out, drawn, with_places=recording is not None)
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror}", hint="give an --out that you can write") from None
    write_schedule(drawn.due_ns or [], title=str(out))
