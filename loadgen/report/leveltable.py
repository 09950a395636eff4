"""Levels as a table: for a terminal, and as CSV."""

import csv
from typing import Any, TextIO

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from loadgen.report.levels import Level, knee

# Key of a level's row, and its heading.
_COLUMNS = (
    ("offered_per_sec", "offered\n/s"),
    ("completed_per_sec", "done\n/s"),
    ("completed_pct", "done\n%"),
    ("goodput_per_sec", "good\n/s"),
    ("useful_pct", "good\n%"),
    ("ttft_p50_ms", "ttft\np50"),
    ("ttft_p95_ms", "ttft\np95"),
    ("itl_p50_ms", "itl\np50"),
    ("e2e_p95_ms", "e2e\np95"),
    ("output_tokens_per_sec", "tokens\n/s"),
    ("server_queue_time_mean_ms", "queue\nmean"),
    ("server_waiting_mean", "queued\nmean"),
)

# Of an arrival that waited for a cap, which ttft does not show.
_FROM_DUE = ("ttft_from_due_p95_ms", "ttft p95\nfrom due")
# Warnings that change what a level means.
_TOLD = ("cap_delay", "session_delay", "backlog", "unsent", "unfinished", "output_lengths")


def write_levels(levels: list[Level], *, target_good_percent: float, console: Console | None = None) -> None:
    """Write levels side by side, the knee marked."""
    console = console or Console(highlight=False)
    rows = [level.as_row() for level in levels]
    best = knee(levels)
    waited = any({"cap_delay", "session_delay"} & {*row["warnings"]} for row in rows)
    columns = [
        (key, heading)
        for key, heading in (*_COLUMNS, _FROM_DUE)
        if any(row.get(key) is not None for row in rows) and key != ("goodput_per_sec" if waited else _FROM_DUE[0])
    ]
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1, 0, 0))
    table.add_column("level", no_wrap=True)
    for _, heading in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for level, row in zip(levels, rows, strict=True):
        verdict = "[green]VALID[/]" if row["valid"] else "[bold red]INVALID[/]"
        mark = " [bold]knee[/]" if level is best else ""
        table.add_row(escape(level.words), *(_cell(row.get(key)) for key, _ in columns), verdict + mark)
    loops = {level.summary["loop"] for level in levels}
    if loops == {"closed"}:
        console.print("closed loop: callers wait for their answers, and the server sets the pace; times in ms")
    else:
        mixed = "; closed-loop levels have no offered rate" if "closed" in loops else ""
        console.print(f"open loop: the schedule sets the pace{mixed}; times in ms")
    console.print(table)
    console.print(_of_the_knee(levels, best, target_good_percent))
    for level in levels:
        for reason in level.summary["verdict"]["reasons"]:
            if reason["level"] == "invalid":
                console.print(f"[red]{escape(level.words)} is INVALID[/]: {escape(reason['fact'])}")
            elif reason["name"] in _TOLD:
                console.print(f"[yellow]{escape(level.words)}[/]: {escape(reason['fact'])}")


def _of_the_knee(levels: list[Level], best: Level | None, target_good_percent: float) -> str:
    slos = " and ".join(dict.fromkeys(slo for level in levels for slo in level.summary["slo"]))
    if not slos:
        return "[dim]no knee: no objective was given (--slo)[/]"
    wanted = f"{target_good_percent:g} % completed with {escape(slos)}"
    if best is None:
        return f"no knee: no level has {wanted}"
    beneath = levels[: levels.index(best)]
    failing = [level.words for level in beneath if not level.meets]
    but = f", although {', '.join(failing)} below it {'does' if len(failing) == 1 else 'do'} not" if failing else ""
    top = "; it is the highest level tried" if best is levels[-1] else ""
    return f"knee: [bold]{escape(best.words)}[/], the highest level with {wanted}{escape(but)}{top}"


def _cell(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.1f}" if abs(value) >= 10 else f"{value:.2f}"


def write_csv(levels: list[Level], file: TextIO) -> None:
    """Write levels as CSV, one row each, under METRICS' names."""
    rows: list[dict[str, Any]] = [level.as_row() for level in levels]
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, "warnings": " ".join(row["warnings"])} for row in rows)
