"""`loadgen sweep`: one run per level, everything else the same, then the table."""

import inspect
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from loadgen.cli import options as o
from loadgen.cli.run import options_of, run
from loadgen.errors import EXIT_FINE, EXIT_GATE_FAILED, EXIT_INVALID, UsageError

_LEVELS = "Levels"
_ADDED: dict[str, tuple[Any, Any]] = {
    "rates": (
        Annotated[
            str | None, typer.Option(metavar="R,R…", help="One run per rate, as in 2,4,8.", rich_help_panel=_LEVELS)
        ],
        None,
    ),
    "concurrency": (
        Annotated[
            str | None,
            typer.Option(metavar="N,N…", help="Closed loop: one run per number of callers.", rich_help_panel=_LEVELS),
        ],
        None,
    ),
    "max_concurrency": (
        Annotated[
            str | None,
            typer.Option(metavar="N,N…", help="One run per cap on requests in flight.", rich_help_panel=_LEVELS),
        ],
        None,
    ),
    "cool_down": (
        Annotated[str, typer.Option(help="Pause before the next level.", rich_help_panel=_LEVELS)],
        "5s",
    ),
    "target_good_pct": (o.TargetGood, 99.0),
}
_NOT_OURS = ("junit", "baseline")


def like_run(
    added: Mapping[str, tuple[Any, Any]], *, without: Collection[str]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command every option of `loadgen run` but some, and those that are its own instead or beside them."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters = dict(inspect.signature(run).parameters)
        for name, (annotation, default) in added.items():
            parameters[name] = inspect.Parameter(
                name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=annotation, default=default
            )
        kept = [parameter for name, parameter in parameters.items() if name not in without]
        command.__signature__ = inspect.Signature(kept)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in kept}
        return command

    return decorate


@like_run(_ADDED, without=_NOT_OURS)
def sweep(**given: Any) -> None:
    """Do one run per level of --rates, --concurrency or --max-concurrency, then show the levels side by side.

    Takes every option of `loadgen run`. The same command again goes on where it was stopped: finished levels are
    skipped.
    """
    as_json = given["json"]
    options = {**options_of(given), "junit": None, "baseline": None}
    target_good_pct = options.pop("target_good_pct")
    cool_down = options.pop("cool_down")
    levels = dict(_levels(options))
    # What is heavy to import waits until here: --help and a wrong option answer at once.
    from loadgen.cli.ordering import order_of, stored
    from loadgen.cli.table import print_levels
    from loadgen.cli.values import seconds
    from loadgen.results.sweepdir import SweepDir

    cool_down_s = seconds(cool_down, option="--cool-down")
    for level in levels.values():
        order_of(level)
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{options['label'] or 'sweep'}"
    folder = SweepDir.begin(
        options["out"] or Path("results") / name, {"levels": list(levels), "options": stored(options)}
    )
    worst = EXIT_FINE
    is_first = True
    for name, level in levels.items():
        if (before := folder.finished(name)) is not None:
            typer.echo(f"{name}: finished before, {before.path}", err=True)
            continue
        if not is_first:
            time.sleep(cool_down_s)
        is_first = False
        code = run_level(level, folder.next_try(name).path)
        typer.echo(f"{name}: exit {code}", err=True)
        if code not in (EXIT_FINE, EXIT_GATE_FAILED, EXIT_INVALID):
            raise typer.Exit(code)
        worst = max(worst, code)
    done = [rundir for name in levels if (rundir := folder.finished(name)) is not None]
    print_levels(done, [], target_good_pct, as_json=as_json)
    typer.echo(f"sweep folder: {folder.path}", err=as_json)
    raise typer.Exit(worst)


def _levels(options: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each level's name and options; raises UsageError where there are none, or two kinds of them."""
    given = {name: options[name] for name in ("rates", "concurrency", "max_concurrency") if options[name] is not None}
    lists = {name: [part.strip() for part in text.split(",")] for name, text in given.items()}
    swept = [name for name, values in lists.items() if len(values) > 1] or list(lists)
    fixed = {"max_concurrency"} if len(swept) == 2 and "max_concurrency" in swept else set()
    chosen = [name for name in swept if name not in fixed]
    if len(chosen) != 1:
        raise UsageError(
            f"{' and '.join('--' + name.replace('_', '-') for name in chosen) or 'no levels'} given",
            hint="give one of --rates 2,4,8, --concurrency 1,2,4, --max-concurrency 8,16",
        )
    kind, short, number = {
        "rates": ("rate", "rate", float),
        "concurrency": ("concurrency", "callers", int),
        "max_concurrency": ("max_concurrency", "cap", int),
    }[chosen[0]]
    plain = {name: value for name, value in options.items() if name != "rates"}
    for name in lists.keys() - {chosen[0]}:
        plain["rate" if name == "rates" else name] = _number(name, lists[name][0], float if name == "rates" else int)
    for text in dict.fromkeys(lists[chosen[0]]):
        value = _number(chosen[0], text, number)
        yield f"{short}-{value:g}", plain | {kind: value}


def _number(option: str, text: str, kind: Callable[[str], float]) -> float:
    try:
        value = kind(text)
    except ValueError:
        value = 0
    if not 0 < value < 1e9:
        raise UsageError(f"--{option.replace('_', '-')}: {text!r} is not a level", hint="as in 2,4,8")
    return value


def run_level(options: Mapping[str, Any], out: Path) -> int:
    """Do one level in a process of its own, so that each starts alike; return its exit code."""
    import msgspec

    command = [sys.executable, "-m", "loadgen", "run", "--config", "-", "--out", str(out)]
    config = {name: str(value) if isinstance(value, Path) else value for name, value in options.items()}
    del config["out"], config["junit"], config["baseline"]
    # By standard input, since headers may hold secrets; in a session of its own, since signals are passed on below.
    level = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
    with level, _passing_signals_to(level):
        level.communicate(msgspec.json.encode(config))
    return level.returncode if level.returncode >= 0 else 128 - level.returncode


@contextmanager
def _passing_signals_to(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    def pass_on(number: int, frame: object) -> None:
        process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
