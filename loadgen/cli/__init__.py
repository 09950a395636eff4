"""The command line: each command parses, calls, prints, exits."""

import sys
import traceback

import typer

from loadgen import __version__
from loadgen.cli.capacity import capacity
from loadgen.cli.compare import compare
from loadgen.cli.imports import import_
from loadgen.cli.plan import plan
from loadgen.cli.probe import probe
from loadgen.cli.record import record
from loadgen.cli.report import report
from loadgen.cli.run import run
from loadgen.cli.simulate import simulate
from loadgen.cli.summary import recover, summary
from loadgen.cli.sweep import sweep
from loadgen.cli.table import table
from loadgen.errors import EXIT_FAULT, LoadgenError

app = typer.Typer(
    name="loadgen",
    help="An open-loop load generator for streaming model servers that knows its own error.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        typer.echo(f"loadgen {__version__}")
        raise typer.Exit


for command in (run, sweep, capacity, table, compare, report, summary, probe, plan, record, simulate, recover):
    app.command()(command)
app.command("import")(import_)


def main() -> None:
    """Run the command line; every error of ours becomes one line, a hint, and its exit code."""
    try:
        app()
    except LoadgenError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(EXIT_FAULT)
    except Exception:
        traceback.print_exc()
        typer.echo("error: that is a fault of loadgen's own\nhint: what was measured is in the run's journal", err=True)
        sys.exit(EXIT_FAULT)
