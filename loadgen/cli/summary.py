"""`loadgen summary` and `loadgen recover`: a run's numbers again, from its rows; a crashed run's folder, finished."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loadgen.cli import options as o
from loadgen.errors import UsageError

if TYPE_CHECKING:
    from loadgen.results.rundir import RunDir

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")]


def summary(run: RunFolder, slo: o.SloOption = None, json: o.Json = False) -> None:
    """Print a finished run's summary again, from its rows; --slo judges them anew."""
    from loadgen.results.rundir import RunDir

    rundir = RunDir.open(run)
    if not rundir.requests.is_file():
        raise UsageError(f"{run}: the run is not finished", hint=f"`loadgen recover {run}` makes its files")
    stored = rundir.read_summary()
    if slo:
        from loadgen.report.summary import summarise
        from loadgen.results.slo import parse_slo

        stored = summarise(rundir, [parse_slo(text) for text in slo], generator=stored["generator"])
    print_summary(stored, as_json=json)


def recover(run: RunFolder, json: o.Json = False) -> None:
    """Finish the folder of a run that was killed, from its journal."""
    from loadgen.results.rundir import RunDir

    rundir = RunDir.open(run)
    slos = rundir.read_manifest()["config"].get("slo") or []
    print_summary(close_run(rundir, slos), as_json=json)
    typer.echo(f"run folder: {rundir.path}", err=json)


def close_run(rundir: "RunDir", slos: list[str]) -> dict[str, Any]:
    """Make a run's files from its journal, then its summary; return the summary."""
    from loadgen.report.summary import generator_facts, summarise
    from loadgen.results.finish import finish
    from loadgen.results.slo import parse_slo

    finished = finish(rundir)
    manifest = rundir.read_manifest()
    manifest["status"] = "crashed" if finished.crashed else "stopped" if finished.stopped_by else "finished"
    manifest["stopped_by"] = finished.stopped_by
    manifest["lost_rows"] = finished.lost_rows
    manifest["ended_s"] = finished.end_ns / 1e9
    rundir.write_json(rundir.manifest, manifest)
    made = summarise(rundir, [parse_slo(text) for text in slos], generator=generator_facts(finished))
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
