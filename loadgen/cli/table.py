"""`loadgen table`: runs side by side, one a level."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loadgen.cli import options as o
from loadgen.errors import UsageError

if TYPE_CHECKING:
    from loadgen.results.rundir import RunDir


def table(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, or of sweeps.")],
    slo: o.SloOption = None,
    target_good_pct: o.TargetGood = 99.0,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Put levels side by side and mark the knee: the highest level that meets the objectives."""
    print_levels(rundirs_of(runs), slo or [], target_good_pct, as_csv=csv, as_json=json)


def print_levels(
    rundirs: "list[RunDir]", slos: list[str], target_good_pct: float, *, as_csv: bool = False, as_json: bool = False
) -> None:
    """Write the levels of finished runs to standard output; `slos` judge them anew."""
    from loadgen.report.levels import knee, levels_of
    from loadgen.report.leveltable import write_csv, write_levels

    runs = [(rundir.read_manifest(), _summary(rundir, slos)) for rundir in rundirs]
    levels = levels_of(runs, target_good_percent=target_good_pct)
    if as_csv:
        write_csv(levels, sys.stdout)
    elif as_json:
        import msgspec

        best = knee(levels)
        told = {"levels": [level.as_row() for level in levels], "knee": best.words if best else None}
        typer.echo(msgspec.json.format(msgspec.json.encode(told), indent=2).decode())
    else:
        write_levels(levels, target_good_percent=target_good_pct)


def _summary(rundir: "RunDir", slos: list[str]) -> dict[str, Any]:
    stored = rundir.read_summary()
    if not slos:
        return stored
    from loadgen.report.measured import Measured
    from loadgen.report.summary import summarise
    from loadgen.results.slo import parse_slo

    return summarise(Measured.read(rundir, [parse_slo(text) for text in slos]), stored["process"])


def rundirs_of(paths: list[Path]) -> "list[RunDir]":
    """Return the finished runs in these folders; a sweep's folder stands for its levels. Raises UsageError."""
    from loadgen.results.rundir import RunDir
    from loadgen.results.sweepdir import SweepDir

    found: list[RunDir] = []
    for path in paths:
        sweep = SweepDir(path)
        if sweep.plan.is_file():
            found += sweep.all_finished()
        else:
            found.append(RunDir.finished(path))
    if not found:
        raise UsageError(f"{paths[0]}: no level of this sweep is finished", hint="the same `loadgen sweep` goes on")
    return found
