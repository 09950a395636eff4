"""`loadgen compare`: two runs, or two groups of repeats, of the same schedule."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadgen.cli import options as o
from loadgen.errors import EXIT_FINE, EXIT_GATE_FAILED, UsageError

if TYPE_CHECKING:
    from loadgen.report.compare import Side

_Group = Annotated[str, typer.Argument(metavar="RUN[,RUN…]", help="A run's folder, or repeats of it.")]


def compare(
    a: _Group,
    b: _Group,
    primary: Annotated[
        str, typer.Option(metavar="METRIC-pNN", help="What decides, named before looking; the rest is exploratory.")
    ] = "ttft-p95",
    allow_different: Annotated[
        bool, typer.Option("--allow-different", help="Compare runs of other conditions, and list these.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the intervals.")] = 0,
    fail_if: o.FailIf = None,
    json: o.Json = False,
) -> None:
    """Hold run B against run A: outcomes, paired differences with intervals, and one sentence on what they show."""
    from loadgen.report.compare import compare as compared
    from loadgen.report.compare import parse_primary
    from loadgen.report.gates import evaluate, parse_gate

    decides = parse_primary(primary)
    sides = [_side(label, text) for label, text in (("A", a), ("B", b))]
    classes = {name for side in sides for name in side.offered["class"].drop_nulls().unique()}
    gates = [parse_gate(text, classes=classes) for text in fail_if or []]
    made = compared(sides[0], sides[1], primary=decides, seed=seed, allow_different=allow_different)
    first, second = (side.first for side in sides)
    results = evaluate(gates, second.measured, second.summary, before=(first.measured, first.summary))
    made["gates"] = [result.as_json() for result in results]
    if json:
        import msgspec

        typer.echo(msgspec.json.format(msgspec.json.encode(made), indent=2).decode())
    else:
        from loadgen.report.compare.text import write_comparison

        write_comparison(made)
    raise typer.Exit(EXIT_FINE if all(result.passed for result in results) else EXIT_GATE_FAILED)


def _side(label: str, text: str) -> "Side":
    from loadgen.report.compare import Run, Side

    paths = [Path(part) for part in text.split(",") if part]
    if not paths or len({path.resolve() for path in paths}) < len(paths):
        fault = "a run is named twice" if paths else "no run is named"
        raise UsageError(f"{label}: {fault}", hint="as in loadgen compare results/a1,results/a2 results/b1,results/b2")
    return Side(label, [Run.read(path) for path in paths])
