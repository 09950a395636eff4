"""`loadgen capacity`: the highest rate that meets the objectives, by probes kept as runs."""

import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loadgen.cli.run import options_of
from loadgen.cli.sweep import like_run, run_level
from loadgen.errors import EXIT_FINE, EXIT_GATE_FAILED, EXIT_INVALID, UsageError

if TYPE_CHECKING:
    from loadgen.report.capacity.probes import Aim, Part, Probe
    from loadgen.report.capacity.search import Answer, Ask
    from loadgen.results.sweepdir import SweepDir

_SEARCH = "Search"
_ADDED: dict[str, tuple[Any, Any]] = {
    "target_good_pct": (
        Annotated[
            float,
            typer.Option(help="Share of offered requests that must be good, in percent.", rich_help_panel=_SEARCH),
        ],
        99.0,
    ),
    "from_": (
        Annotated[
            float | None,
            typer.Option("--from", metavar="R", help="Lowest rate tried; else 1, and lower.", rich_help_panel=_SEARCH),
        ],
        None,
    ),
    "to": (
        Annotated[
            float | None,
            typer.Option(
                "--to", metavar="R", help="Highest rate tried; else doubling finds it.", rich_help_panel=_SEARCH
            ),
        ],
        None,
    ),
    "precision": (
        Annotated[
            str, typer.Option(metavar="PERCENT", help="Gap left between passed and failed.", rich_help_panel=_SEARCH)
        ],
        "5%",
    ),
    "confidence": (
        Annotated[float, typer.Option(help="That no probe is judged wrongly, in percent.", rich_help_panel=_SEARCH)],
        95.0,
    ),
    "longest_probe": (
        Annotated[str, typer.Option(help="No run of a probe is planned for longer.", rich_help_panel=_SEARCH)],
        "15m",
    ),
    "tries": (
        Annotated[
            int, typer.Option(min=1, help="How often a run that comes out INVALID is made.", rich_help_panel=_SEARCH)
        ],
        3,
    ),
    "cool_down": (
        Annotated[str, typer.Option(help="Pause before the next run.", rich_help_panel=_SEARCH)],
        "2s",
    ),
}
# Options of a run that a search decides itself, or that judge one run.
_DECIDED: dict[str, Any] = {
    "rate": None,
    "stages": None,
    "recorded": False,
    "speed": 1.0,
    "schedule": None,
    "concurrency": None,
    "duration": None,
    "fail_if": [],
    "require_valid": None,
    "flag_change": None,
    "junit": None,
    "baseline": None,
}


@like_run(_ADDED, without=_DECIDED)
def capacity(**given: Any) -> None:
    """Find the highest rate at which --target-good-pct of the requests are good: completed, with every --slo met.

    Doubles the rate until it fails, then bisects. Takes the options of `loadgen run`; --requests sets the size of a
    probe's first run instead of what the confidence needs. The same command again goes on where it was stopped.
    Exit 0 with a rate that passed, 1 without one, 3 when only INVALID probes stand in the way.
    """
    as_json = given["json"]
    options = {**options_of(given), **_DECIDED}
    own = {name.rstrip("_"): options.pop(name.rstrip("_")) for name in _ADDED}
    # What is heavy to import waits until here: --help and a wrong option answer at once.
    from loadgen.cli.ordering import order_of, stored
    from loadgen.cli.values import seconds
    from loadgen.report.capacity.search import Answer, advance
    from loadgen.report.capacity.told import as_json as told_of
    from loadgen.results.sweepdir import SweepDir

    aim = _aim(own, options)
    pause_s = seconds(own["cool_down"], option="--cool-down")
    order_of({**options, "rate": aim.lowest or aim.highest or 1.0, "requests": 1})
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{options['label'] or 'capacity'}"
    plan = {
        "search": {name: own[name] for name in own if name not in ("cool_down", "tries")},
        "options": stored(options),
    }
    folder = SweepDir.begin(options["out"] or Path("results") / name, plan)
    prober = _Prober(aim, options, folder, pause_s=pause_s, most_tries=own["tries"])
    probes: dict[float, Probe] = {}
    while not isinstance(step := advance(aim, probes), Answer):
        prober.extend(probes, step)
    told = told_of(aim, probes, step, slos=options["slo"])
    if as_json:
        import msgspec

        typer.echo(msgspec.json.format(msgspec.json.encode({**told, "folder": str(folder.path)}), indent=2).decode())
    else:
        from loadgen.report.capacity.text import write_capacity

        write_capacity(told, arrivals=options["arrivals"])
    typer.echo(f"capacity folder: {folder.path}", err=as_json)
    raise typer.Exit(_exit_code(step))


def _exit_code(answer: "Answer") -> int:
    if answer.passed is not None:
        return EXIT_FINE
    return EXIT_INVALID if answer.ended == "generator" else EXIT_GATE_FAILED


def _aim(own: dict[str, Any], options: dict[str, Any]) -> "Aim":
    """Return what is looked for; raises UsageError."""
    from loadgen.cli.values import seconds
    from loadgen.report.capacity.probes import Aim
    from loadgen.report.capacity.reading import patience_s
    from loadgen.results.slo import parse_slo

    if not options["slo"]:
        raise UsageError("no objective given", hint="as in --slo 'ttft<500ms'")
    if options["goals"]:
        raise UsageError("goals judge one run, not a search", hint="leave [goals] out, and say --slo")
    for name in ("target_good_pct", "confidence"):
        if not 0 < own[name] < 100:
            raise UsageError(
                f"--{name.replace('_', '-')} {own[name]:g} is not between 0 and 100",
                hint="no number of requests shows that all of them would be good",
            )
    lowest, highest = own["from"], own["to"]
    for option, rate in (("--from", lowest), ("--to", highest)):
        if rate is not None and not 0 < rate < 1e9:
            raise UsageError(f"{option} {rate:g} is not a rate", hint="requests per second, above 0")
    if lowest is not None and highest is not None and lowest >= highest:
        raise UsageError(f"--from {lowest:g} is not below --to {highest:g}", hint="give a lower one")
    aim = Aim(
        good_share=own["target_good_pct"] / 100,
        patience_s=patience_s([parse_slo(text) for text in options["slo"]]),
        precision=_precision(own["precision"]),
        confidence=own["confidence"] / 100,
        lowest=lowest,
        highest=highest,
        requests=options["requests"],
        longest_s=seconds(own["longest_probe"], option="--longest-probe"),
    )
    if aim.requests is not None and aim.requests < aim.fewest:
        raise UsageError(
            f"--requests {aim.requests}: even extended, a probe could not pass",
            hint=f"it takes {aim.needed} good ones; leave --requests out, or give {aim.fewest} or more",
        )
    return aim


def _precision(text: str) -> float:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?%?", text.strip())
    percent = float(found[1]) if found else 0.0
    if not 0.1 <= percent <= 100:
        raise UsageError(f"--precision {text!r} is not a percentage", hint="from 0.1% to 100%, as in 5%")
    return percent / 100


class _Prober:
    """Makes the runs that a search asks for, and reads again those that were made before."""

    def __init__(
        self, aim: "Aim", options: dict[str, Any], folder: "SweepDir", *, pause_s: float, most_tries: int
    ) -> None:
        self._aim = aim
        self._options = options
        self._folder = folder
        self._pause_s = pause_s
        self._most_tries = most_tries
        self._is_first = True

    def extend(self, probes: "dict[float, Probe]", ask: "Ask") -> None:
        """Add the part that is asked for; an INVALID run is made again, a few times."""
        from loadgen.report.capacity.probes import Probe

        probe = probes.setdefault(ask.rate, Probe(ask.rate))
        aim, place = self._aim, len(probe.parts)
        requests = aim.scout(ask.rate) if ask.is_scout else aim.part(ask.rate, probe.whole_parts)
        name = f"rate-{ask.rate:g}" + ("" if not place else f"-more{place}")
        # Another seed, or an extension would send what was sent before.
        seed = self._options["seed"] + place
        part = self._before(name, ask)
        tries = 0
        while (part is None or not part.valid) and tries < self._most_tries:
            self._make(name, {**self._options, "rate": ask.rate, "requests": requests, "seed": seed})
            part = self._before(name, ask)
            tries += 1
        assert part is not None
        probe.parts.append(part)
        typer.echo(f"{name}: {_shown(probe, aim)}", err=True)

    def _before(self, name: str, ask: "Ask") -> "Part | None":
        from loadgen.report.capacity.reading import read_part

        rundir = self._folder.finished(name)
        return None if rundir is None else read_part(rundir, is_scout=ask.is_scout)

    def _make(self, name: str, options: dict[str, Any]) -> None:
        if not self._is_first:
            time.sleep(self._pause_s)
        self._is_first = False
        code = run_level(options, self._folder.next_try(name).path)
        if code != EXIT_FINE:
            raise typer.Exit(code)


def _shown(probe: "Probe", aim: "Aim") -> str:
    useful = probe.useful
    judgement = probe.judgement(aim)
    words = {"invalid": "INVALID", "open": "scouted" if probe.is_scouted else "undecided, extended"}.get(
        judgement, judgement
    )
    grows = ", the backlog grows" if probe.backlog_grows else ""
    return f"{useful.count(True)} of {len(useful)} good{grows}: {words}"
