"""`loadgen report`: one self-contained HTML file of a run, a sweep, or two runs compared."""

from pathlib import Path
from typing import Annotated

import typer

from loadgen.cli import options as o
from loadgen.errors import UsageError


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="A run's folder, a sweep's, or several runs'.")],
    out: Annotated[
        Path | None, typer.Option(help="The file; by default report.html in the (first) run's folder.")
    ] = None,
    primary: Annotated[str, typer.Option(metavar="METRIC-pNN", help="Of a comparison: what decides.")] = "ttft-p95",
    allow_different: Annotated[
        bool, typer.Option("--allow-different", help="Compare runs of other conditions, and list these.")
    ] = False,
    target_good_pct: o.TargetGood = 99.0,
) -> None:
    """Write a page that needs no network: a run; the levels of a sweep; two runs of one schedule, compared."""
    page = _page(runs, primary=primary, allow_different=allow_different, target_good_pct=target_good_pct)
    path = out or runs[0] / "report.html"
    try:
        path.write_text(page, "utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="give an --out that can be written") from None
    typer.echo(f"report: {path}")


def _page(runs: list[Path], *, primary: str, allow_different: bool, target_good_pct: float) -> str:
    from loadgen.cli.table import rundirs_of
    from loadgen.report.compare import Run, Side, compare, parse_primary
    from loadgen.report.levels import levels_of
    from loadgen.report.page import comparison_page, run_page, sweep_page
    from loadgen.results.sweepdir import SweepDir

    is_sweep = any(SweepDir(path).plan.is_file() for path in runs)
    rundirs = rundirs_of(runs)
    if len(rundirs) == 1 and not is_sweep:
        run = Run.read(rundirs[0].path)
        return run_page(run.measured, run.summary)
    if len(rundirs) == 2 and not is_sweep:
        a, b = (Run.read(rundir.path) for rundir in rundirs)
        if a.schedule_sha256 == b.schedule_sha256 or allow_different:
            sides = Side("A", [a]), Side("B", [b])
            made = compare(*sides, primary=parse_primary(primary), allow_different=allow_different)
            return comparison_page(made, a.measured, b.measured)
    levels = levels_of(
        [(rundir.read_manifest(), rundir.read_summary()) for rundir in rundirs], target_good_percent=target_good_pct
    )
    return sweep_page(levels, title=runs[0].resolve().name, target_good_percent=target_good_pct)
