"""`loadgen import`: anybody's recording or trace to ours, and what is in it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from loadgen.cli import options as o
from loadgen.errors import UsageError


def import_(
    source: Annotated[Path, typer.Argument(help="File or folder; - is standard input.", metavar="SOURCE")],
    out: Annotated[Path | None, typer.Option(help="Recording to write; without it, only the report is made.")] = None,
    model: Annotated[str | None, typer.Option(help="Model, where the source names none.")] = None,
    api: o.Api = "openai-chat",
    window: Annotated[str | None, typer.Option(metavar="START:END", help="Only these arrivals, as in 10m:20m.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most this many requests.")] = None,
    spread_ties: Annotated[
        str | None, typer.Option(metavar="uniform", help="Spread requests of one time inside its quantum.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of that spread.")] = 0,
    speed: Annotated[float, typer.Option(help="Make the times this much faster.")] = 1.0,
    map_model: Annotated[
        list[str] | None, typer.Option(metavar="OLD=NEW", help="Ask another model instead; repeatable.")
    ] = None,
    class_by: Annotated[
        str | None, typer.Option(metavar="LENGTH:TOKENS", help="Classes short and long, as in input_tokens:1000.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Turn anybody's recording or trace into ours, and say what it holds and what it lacks.

    Recognised by content: our own recordings, OpenAI batches, ShareGPT, HAR, proxymock RRPairs, LiteLLM and Langfuse
    logs, AIPerf exports and inputs, vLLM results and datasets, mitmproxy flows, and the Mooncake, Bailian, Azure and
    BurstGPT traces. gzip'd files are read too. Secrets in headers and query strings are dropped.
    """
    from loadgen.cli.values import pair, seconds
    from loadgen.plan.recordings.apis import APIS
    from loadgen.plan.recordings.importers.found import Asked
    from loadgen.plan.recordings.importing import Changes, import_recording, parse_class_by
    from loadgen.plan.recordings.spreading import SPREADS

    if api not in APIS:
        raise UsageError(f"--api {api!r} is not known", hint=f"there are {', '.join(APIS)}")
    if APIS[api].names_model_in_path and model is None:
        raise UsageError(f"--api {api} asks a model by its path", hint="name it with --model")
    if spread_ties is not None and spread_ties not in SPREADS:
        raise UsageError(f"--spread-ties {spread_ties!r} is not known", hint=f"there is {', '.join(SPREADS)}")
    if not 0 < speed < 1e9:
        raise UsageError(f"--speed {speed:g} is not above 0", hint="as in --speed 2")
    window_s = None
    if window is not None:
        start, colon, end = window.partition(":")
        window_s = (
            seconds(start, option="--window") if start else 0.0,
            seconds(end, option="--window") if end else float("inf"),
        )
        if not colon or window_s[0] >= window_s[1]:
            raise UsageError(f"--window {window!r} is not START:END", hint="as in --window 10m:20m")
    changes = Changes(
        window_s=window_s,
        limit=limit,
        spread_ties=spread_ties,
        seed=seed,
        speed=speed,
        map_model=dict(pair(text, option="--map-model") for text in map_model or []),
        class_by=parse_class_by(class_by) if class_by is not None else None,
    )
    report = import_recording(source, out, asked=Asked(api=api, model=model), changes=changes)
    if json:
        import msgspec

        typer.echo(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    else:
        _write(report)
    if out is not None:
        typer.echo(f"recording: {out}", err=json)


def _write(report: dict[str, Any]) -> None:
    """Write a report as a person reads it."""
    typer.echo(f"{report['source']}  {report['kind']}  {report['rows']:,} requests")
    for name, said in _lines(report):
        typer.echo(f"{name:<14} {said}")


def _lines(report: dict[str, Any]) -> list[tuple[str, str]]:
    lines = _arrivals(report)
    for name in ("input_tokens", "output_tokens"):
        if (of := report[name]) is not None:
            known = "" if of["n"] == report["rows"] else f"  of {of['n']:,} requests"
            said = f"mean {of['mean']:,.1f}  p50 {of['p50']:,.1f}  p99 {of['p99']:,.1f}  max {of['max']:,}{known}"
            lines.append((name.replace("_", " "), said))
    for name in ("classes", "models"):
        if report[name]:
            lines.append((name, ", ".join(f"{of} {rows:,}" for of, rows in report[name].items())))
    if report["lacks"]:
        lacking = (f"{of}{_share(rows, report['rows'])}" for of, rows in report["lacks"].items())
        lines.append(("lacks", ", ".join(lacking)))
    for of in report["refused"]["reasons"]:
        rows = f"{of['rows']:,} rows, the first {of['first_row']:,}" if of["rows"] > 1 else f"row {of['first_row']:,}"
        lines.append(("refused", f"{of['reason']} ({rows})"))
    if report["changes"]:
        lines.append(("changed", ", ".join(_changes(report["changes"]))))
    return lines


def _arrivals(report: dict[str, Any]) -> list[tuple[str, str]]:
    if report["span_s"] is None:
        return []
    rate, cv, quantum, exact = (report[name] for name in ("mean_rate_per_s", "gap_cv", "quantum_s", "resolution_s"))
    said = f"span {report['span_s']:,.3f} s"
    said += f"  mean rate {rate:.4f}/s  gap CV {cv:.3f}" if rate is not None else ""
    said += "" if report["is_in_order"] else "  not in order of time"
    lines = [("arrivals", said)]
    if quantum is not None:
        written = f", written to {_duration(exact)}" if exact != quantum else ""
        lines += [("quantum", f"{_duration(quantum)}{written}"), ("ties", _ties(report))]
    return [*lines, ("time zone", report["zone"] or "none stated")]


def _ties(report: dict[str, Any]) -> str:
    if not report["tied_rows"]:
        return "none"
    times, most = report["distinct_times"], report["most_at_once"]
    rows = times + report["tied_rows"]
    return f"{rows:,} requests at {times:,} different times, at most {most:,} at one"


def _changes(changes: dict[str, Any]) -> Iterator[str]:
    for name, value in changes.items():
        match value:
            case dict():
                said = " ".join(f"{old}={new}" for old, new in value.items())
            case [start, end]:
                said = f"from {start:g} s on" if end is None else f"from {start:g} to {end:g} s"
            case float():
                said = f"{value:g}"
            case _:
                said = str(value)
        yield f"{name.removesuffix('_s').replace('_', ' ')} {said}"


def _share(rows: int, of: int) -> str:
    return "" if rows == of else f" ({rows:,} of {of:,})"


def _duration(seconds: float) -> str:
    """A step of time in the unit that shows it whole.

    >>> _duration(3.0), _duration(0.001), _duration(1e-07)
    ('3 s', '1 ms', '100 ns')
    """
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        count = round(seconds * 1e9) / size
        if count >= 1 and count == int(count):
            return f"{int(count)} {unit}"
    return f"{round(seconds * 1e9)} ns"
