"""`loadgen summary` and `loadgen recover`: a run's numbers again, from its rows; a crashed run's folder, finished."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loadgen.cli import options as o
from loadgen.cli.exporting import check_formats, write_exports
from loadgen.cli.judging import Judging
from loadgen.errors import EXIT_FINE

if TYPE_CHECKING:
    from loadgen.results.rundir import RunDir

_NOTHING_ASKED = Judging()
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")]


def summary(
    run: RunFolder,
    slo: o.SloOption = None,
    fail_if: o.FailIf = None,
    require_valid: o.RequireValid = None,
    junit: o.Junit = None,
    baseline: o.Baseline = None,
    flag_change: o.FlagChange = None,
    export: o.Export = None,
    out: o.ExportTo = None,
    json: o.Json = False,
) -> None:
    """Print a finished run's summary again, from its rows; --slo and --fail-if judge them anew.

    --export writes the run for other tools, as judged now.
    """
    check_formats(export or [], into=out)
    from loadgen.report.measured import Measured
    from loadgen.results.rundir import RunDir
    from loadgen.results.slo import parse_slo

    rundir = RunDir.finished(run)
    stored = rundir.read_summary()
    judging = Judging(
        slo=slo or [],
        fail_if=fail_if or [],
        require_valid=require_valid,
        junit=junit,
        baseline=baseline,
        flag_change=flag_change,
    )
    if judging.asks_anything or export:
        measured = Measured.read(rundir, [parse_slo(text) for text in slo or stored["slo"]])
        classes = measured.offered["class"].drop_nulls().unique()
        judging.check(classes, has_recorded=measured.recorded is not None)
        if judging.asks_anything:
            stored = judging.summarise(measured, stored["process"])
        if export:
            write_exports(export, measured, stored, into=out or run)
    else:
        judging.check((), has_recorded=False)
    # Without a new judgement a JUnit file tells the run's own.
    code = judging.conclude(stored) if judging.asks_anything or junit else EXIT_FINE
    print_summary(stored, as_json=json)
    raise typer.Exit(code)


def recover(run: RunFolder, json: o.Json = False) -> None:
    """Finish the folder of a run that was killed, from its journal."""
    from loadgen.results.rundir import RunDir

    rundir = RunDir.open(run)
    config = rundir.read_manifest()["config"]
    judging = Judging(
        slo=config.get("slo") or [],
        fail_if=config.get("fail_if") or [],
        goals=config.get("goals") or {},
        require_valid=config.get("require_valid"),
        baseline=Path(config["baseline"]) if config.get("baseline") else None,
    )
    print_summary(close_run(rundir, judging), as_json=json)
    typer.echo(f"run folder: {rundir.path}", err=json)


def close_run(rundir: "RunDir", judging: Judging = _NOTHING_ASKED) -> dict[str, Any]:
    """Make a run's files from its journal, then its judged summary; return the summary."""
    from loadgen.report.generator import process_facts
    from loadgen.report.measured import Measured
    from loadgen.results.finish import finish
    from loadgen.results.slo import parse_slo

    finished = finish(rundir)
    manifest = rundir.read_manifest()
    manifest["status"] = "crashed" if finished.crashed else "stopped" if finished.stopped_by else "finished"
    manifest["stopped_by"] = finished.stopped_by
    manifest["lost_rows"] = finished.lost_rows
    manifest["ended_s"] = finished.end_ns / 1e9
    rundir.write_json(rundir.manifest, manifest)
    measured = Measured.read(rundir, [parse_slo(text) for text in judging.slo])
    made = judging.summarise(measured, process_facts(finished, manifest))
    rundir.write_json(rundir.summary, made)
    rundir.drop_journal()
    return made


def print_summary(made: dict[str, Any], *, as_json: bool) -> None:
    """Write a summary to standard output."""
    if as_json:
        import msgspec

        typer.echo(msgspec.json.format(msgspec.json.encode(made), indent=2).decode())
    else:
        from loadgen.report.text import write_summary

        write_summary(made)
