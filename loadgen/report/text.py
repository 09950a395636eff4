"""Summaries and schedules for a terminal."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from loadgen.report.numbertext import number
from loadgen.report.recordedtext import beside, totals_beside, write_flagged, write_transitions
from loadgen.report.servertext import write_server

_ORDER = (
    "ttft",
    "first_text",
    "e2e",
    "itl",
    "user_tokens_per_sec",
    "frame_gap",
    "completion",
    "ttft_from_due",
    "e2e_from_due",
    "lateness",
    "generator_lateness",
    "connect",
)
_COLUMNS = ("p50", "p95", "p99", "max")


def write_summary(summary: dict[str, Any], console: Console | None = None) -> None:
    """Write a run's summary as a person reads it: its verdict first."""
    console = console or Console(highlight=False, soft_wrap=False, emoji=False)
    _verdict(summary["verdict"], console)
    if (recorded := summary.get("recorded")) is not None:
        write_flagged(recorded, console)
    _head(summary, console)
    _accounting(summary, console)
    if recorded is not None:
        write_transitions(recorded, console)
    if summary["classes"]:
        _classes(summary, console)
    _metrics(summary, console)
    _throughput(summary, console)
    _generator(summary, console)
    if (server := summary.get("server")) is not None:
        write_server(server, console)
    if summary["gates"]:
        _gates(summary, console)
    for note in summary["notes"]:
        console.print(f"[yellow]note[/] {escape(note)}")


def _verdict(verdict: dict[str, Any], console: Console) -> None:
    by_level = {level: [reason for reason in verdict["reasons"] if reason["level"] == level] for level in _LEVELS}
    if verdict["valid"]:
        warned = len(by_level["warned"])
        said = f", {warned} warning{'s' if warned > 1 else ''}" if warned else ""
        console.print(f"[bold green]VALID[/]{said}")
    else:
        names = ", ".join(dict.fromkeys(reason["name"] for reason in by_level["invalid"]))
        console.print(f"[bold red]INVALID[/]: {names}")
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for level, style in _LEVELS.items():
        for reason in by_level[level]:
            table.add_row(
                f"[{style}]{reason['name']}[/]", f"{escape(reason['fact'])} [dim]-> {escape(reason['remedy'])}[/]"
            )
    if verdict["reasons"]:
        console.print(table)
    console.print()


_LEVELS = {"invalid": "red", "warned": "yellow"}


def _gates(summary: dict[str, Any], console: Console) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("gate", overflow="fold")
    table.add_column("", no_wrap=True)
    table.add_column("measured", overflow="fold")
    table.add_column("n", justify="right")
    table.add_column("of", overflow="fold")
    for gate in summary["gates"]:
        verdict = "[green]pass[/]" if gate["passed"] else "[bold red]FAIL[/]"
        samples = "" if gate["n"] is None else str(gate["n"])
        table.add_row(escape(gate["gate"]), verdict, escape(gate["words"]), samples, escape(gate["population"]))
    console.print()
    console.print(table)
    if summary["requires_valid"] and not summary["verdict"]["valid"]:
        console.print("[red]the run is INVALID, and these gates require a valid one[/] (--allow-invalid opts out)")


def _head(summary: dict[str, Any], console: Console) -> None:
    schedule, window = summary["schedule"], summary["window"]
    if summary["loop"] == "closed":
        pace = f"closed loop, {schedule['callers']} callers"
    else:
        asked = f"{schedule['nominal_rate']:g}/s asked, " if schedule.get("nominal_rate") else ""
        pace = (
            f"open loop, {asked}{_rate(summary['offered_per_sec'])} drawn, {_rate(summary['submitted_per_sec'])} sent"
        )
    console.print(f"[bold]{escape(summary['run'])}[/]  {escape(summary['target'])}")
    warmup = f" after {window['start_s']:g} s of warm-up" if window["start_s"] else ""
    console.print(f"{pace}; {summary['offered']} requests in {window['length_s']:.1f} s{warmup}")
    ended = summary["ended"]
    if ended["status"] == "crashed":
        console.print(
            f"[red]crashed[/]: {ended['lost_rows']} requests were in flight or had ended in the last second before it; "
            "their rows say unfinished (crash)"
        )
    elif ended["stopped_by"]:
        console.print(f"[yellow]stopped by {ended['stopped_by']}[/]: what was not sent is unsent")


def _accounting(summary: dict[str, Any], console: Console) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("outcome")
    table.add_column("requests", justify="right")
    table.add_column("%", justify="right")
    table.add_column("why", overflow="fold")
    for outcome, count in summary["outcomes"].items():
        whys = [
            entry
            for entry in summary["details"]
            if entry["outcome"] == outcome and (entry["detail"] or entry["status"])
        ]
        why = ", ".join(_why(entry, count) for entry in whys[:4]) + (", …" if len(whys) > 4 else "")
        style = "" if outcome == "completed" else "yellow"
        table.add_row(outcome, str(count), f"{100 * count / max(summary['offered'], 1):.1f}", escape(why), style=style)
    if summary["slo"]:
        words = f"completed, {' and '.join(summary['slo'])}"
        if summary["good_unmeasurable"]:
            words += f"; for {summary['good_unmeasurable']} completed ones an objective's metric does not exist"
        good = summary["good"]
        table.add_row("good", str(good), f"{100 * good / max(summary['offered'], 1):.1f}", words, style="bold")
    if summary.get("checks"):
        words = "good, and every check passes"
        table.add_row("useful", str(summary["useful"]), f"{summary['useful_pct'] or 0:.1f}", words, style="bold")
    console.print()
    console.print(table)
    if summary.get("checks"):
        _checks(summary["checks"], console)


def _checks(checks: dict[str, Any], console: Console) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("check", overflow="fold")
    for name in ("passed", "failed", "not run"):
        table.add_column(name, justify="right")
    table.add_column("as in", overflow="fold")
    for name, found in checks.items():
        style = "yellow" if found["failed"] or found["not_run"] else ""
        counts = (found["passed"], found["failed"], found["not_run"])
        table.add_row(escape(name), *map(str, counts), escape(found["why"] or ""), style=style)
    console.print()
    console.print(table)


def _why(entry: dict[str, Any], count: int) -> str:
    words = " ".join(
        str(entry[key]) for key in ("status", "detail") if entry[key] and (key, entry[key]) != ("status", 200)
    )
    return words if entry["requests"] == count or not words else f"{words} ({entry['requests']})"


def _metrics(summary: dict[str, Any], console: Console) -> None:
    rows = [(name, summary["metrics"].get(name)) for name in _ORDER]
    rows += [
        (f"{name}[{of}]", part["metrics"].get(name))
        for of, part in summary["classes"].items()
        for name in ("ttft", "e2e", "itl")
    ]
    shown = [(name, numbers) for name, numbers in rows if numbers is not None]
    if not shown:
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("ms", no_wrap=True)
    for name in (*_COLUMNS, "n", "excluded"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, numbers in shown:
        cells = [number(numbers[column]) + ("*" if column in numbers["too_few_for"] else " ") for column in _COLUMNS]
        table.add_row(escape(_title(name)), *cells, str(numbers["n"]), f"{numbers['excluded_pct']:.1f} %")
        for row in beside(summary.get("recorded"), name, _COLUMNS):
            table.add_row(*row)
    console.print()
    console.print(table)
    if any(set(_COLUMNS) & set(numbers["too_few_for"]) for _, numbers in shown):
        console.print("[dim]* too few samples for this percentile's own 95 % bound[/]")


def _title(name: str) -> str:
    return "user_tokens_per_s" if name == "user_tokens_per_sec" else name


def _classes(summary: dict[str, Any], console: Console) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("class")
    for name in ("offered", "completed", "good", "useful"):
        table.add_column(name, justify="right")
    for name, part in summary["classes"].items():
        counts = (part["offered"], part["outcomes"].get("completed", 0), part["good"])
        table.add_row(escape(name), *map(str, counts), f"{part['useful_pct']:.1f} %")
    console.print()
    console.print(table)


def _throughput(summary: dict[str, Any], console: Console) -> None:
    rates = [f"completed {_rate(summary['completed_per_sec'])}", f"goodput {_rate(summary['goodput_per_sec'])}"]
    lines = [("requests", rates)]
    if (llm := summary.get("llm")) is not None:
        named = {
            "output": llm.get("output_tokens_per_sec"),
            "steady": summary["steady_output_tokens_per_sec"],
            "input": llm.get("input_tokens_per_sec"),
            "per GPU": llm.get("output_tokens_per_sec_per_gpu"),
        }
        lines.append(("tokens/s", [f"{name} {value:,.1f}" for name, value in named.items() if value is not None]))
        if llm["cached_tokens"] is not None and llm["input_tokens"]:
            share = 100 * llm["cached_tokens"] / llm["input_tokens"]
            lines.append(
                ("cached", [f"{llm['cached_tokens']:,} of {llm['input_tokens']:,} input tokens ({share:.1f} %)"])
            )
        lines += totals_beside(summary.get("recorded"))
    if (flight := summary["in_flight"]) is not None:
        lines.append(
            (
                "in flight",
                [f"mean {flight['mean']:.1f}", f"max {flight['max']}", f"slope {flight['slope_per_s']:+.2f}/s"],
            )
        )
    console.print()
    _lines(lines, console)


def _generator(summary: dict[str, Any], console: Console) -> None:
    process, generator = summary["process"], summary["generator"]
    lines = [
        (name, [f"p50 {lag['p50']:.3f}", f"p99 {lag['p99']:.3f}", f"max {lag['max']:.1f} ms"])
        for name in ("read_lag", "loop_lag")
        if (lag := process.get(name)) is not None and lag["n"]
    ]
    parts = []
    if "cpu_pct" in process:
        parts.append(f"CPU {process['cpu_pct']:.0f} % of a core")
        if "core_wait_pct" in process:
            parts.append(f"waiting for it {process['core_wait_pct']:.1f} %")
    if "resident_mib_max" in process:
        parts.append(f"memory {process['resident_mib_max']:.0f} MiB")
        parts.append(f"descriptors {process['descriptors_max']} of {process['descriptors_limit']}")
        parts.append(f"connections {process['connections_max']}")
    lines.append(("generator", parts))
    stamps = [f"{source} {n}" for source, n in sorted(generator["stamp_sources"].items())]
    if generator["stamp_uncertainty_p99_ms"] is not None:
        stamps.append(f"uncertain by p99 {generator['stamp_uncertainty_p99_ms']:.3f} ms")
    if stamps:
        lines.append(("stamps", stamps))
    if generator["resent"]:
        lines.append(("resent", [str(generator["resent"])]))
    if summary["retries"]:
        share = 100 * summary["retries"] / max(summary["offered"], 1)
        lines.append(("retries", [f"{summary['retries']}, offered work {summary['offered_work']} (+{share:.1f} %)"]))
    _lines(lines, console)


def _lines(lines: list[tuple[str, list[str]]], console: Console) -> None:
    for name, parts in lines:
        console.print(f"[dim]{name:<10}[/] " + "  ".join(parts))


def _rate(per_second: float | None) -> str:
    return "-" if per_second is None else f"{per_second:.2f}/s"


def write_schedule(due_ns: Sequence[int], *, title: str, console: Console | None = None) -> None:
    """Write what a schedule holds: count, span, rate, ties, and its arrivals over time."""
    console = console or Console(highlight=False)
    span_s = (due_ns[-1] - due_ns[0]) / 1e9
    rate = f"{(len(due_ns) - 1) / span_s:.3f}/s" if span_s else "-"
    gaps = [b - a for a, b in pairwise(due_ns)]
    mean = sum(gaps) / len(gaps) if gaps else 0
    spread = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5 / mean if mean else 0.0
    console.print(f"[bold]{escape(title)}[/]  {len(due_ns)} requests  span {span_s:.3f} s  mean rate {rate}")
    console.print(f"gap CV {spread:.3f}  ties {gaps.count(0)}  last due {due_ns[-1] / 1e9:.3f} s")
    bins = 60
    width = max(due_ns[-1] + 1, 1) / bins
    counts = Counter(int(at / width) for at in due_ns)
    most = max(counts.values())
    bars = "".join(" ▁▂▃▄▅▆▇█"[-(-8 * counts[i] // most)] for i in range(bins))
    console.print(f"{bars}  at most {most} per {width / 1e9:.2g} s")
