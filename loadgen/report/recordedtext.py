"""A replay beside its recording, for a terminal: changes under each metric, the flagged ones first."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from loadgen.report.numbertext import number

_TOTALS = {"output_tokens_per_sec": "output tokens/s", "output_tokens": "output tokens"}


def write_flagged(recorded: dict[str, Any], console: Console) -> None:
    """Say which changes are for the worse, or that none is."""
    parts = {"": recorded["changes"], **{f"[{name}]": changes for name, changes in recorded["classes"].items()}}
    flagged: dict[str, list[str]] = {}
    for of, changes in parts.items():
        for change in changes:
            if change["flagged"]:
                said = change["statistic"] or f"{_plain(change, 'was')} -> {_plain(change, 'now')}"
                flagged.setdefault(change["name"] + of, []).append(f"{said} [red]{_percent(change)}[/]")
    among = f"{recorded['requests']} requests that the recording has answers to"
    if recorded["without"]:
        among += f" ({recorded['without']} have none)"
    bound = f"{recorded['flag_change_pct']:g} % or more for the worse"
    if not flagged:
        console.print(f"[green]no change of {bound}[/] against the recording, over {among}")
    else:
        console.print(f"[bold red]changed by {bound}[/] against the recording, over {among}:")
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        for name, words in flagged.items():
            table.add_row(escape(name), *words)
        console.print(table)
    if recorded["untimed"]:
        console.print(f"[dim]{recorded['untimed']} of the recorded answers have no frame times[/]")
    if recorded["why_no_rates"]:
        console.print(f"[dim]no rates are compared: {escape(recorded['why_no_rates'])}[/]")
    console.print()


def write_transitions(recorded: dict[str, Any], console: Console) -> None:
    """Show what became of the requests that had another outcome when they were recorded."""
    moved = [entry for entry in recorded["transitions"] if entry["was"] != entry["now"]]
    if not moved:
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("recorded", "now"):
        table.add_column(name)
    table.add_column("requests", justify="right")
    for entry in recorded["transitions"]:
        style = "yellow" if entry["was"] == "completed" and entry["was"] != entry["now"] else ""
        table.add_row(entry["was"], entry["now"], str(entry["requests"]), style=style)
    console.print()
    console.print(table)


def beside(recorded: dict[str, Any] | None, metric: str, columns: Sequence[str]) -> Iterator[list[str]]:
    """Yield the rows that stand under a metric's: what was recorded, and the change."""
    name, _, of = metric.rstrip("]").partition("[")
    if recorded is None:
        return
    changes = recorded["classes"].get(of, []) if of else recorded["changes"]
    mine = {change["statistic"]: change for change in changes if change["name"] == name}
    if not mine:
        return
    was = [number(mine[column]["was"]) + " " if column in mine else "" for column in columns]
    yield ["[dim]  recorded[/]", *was, str(next(iter(mine.values()))["was_n"]), ""]
    yield ["[dim]  change[/]", *(_cell(mine[column]) if column in mine else "" for column in columns), "", ""]


def totals_beside(recorded: dict[str, Any] | None) -> list[tuple[str, list[str]]]:
    """Return the line of totals: what was recorded, and the change."""
    if recorded is None:
        return []
    totals = [change for change in recorded["changes"] if change["statistic"] is None]
    parts = [
        f"{title} {_plain(change, 'was')} ({_cell(change).strip()})"
        for change in totals
        if (title := _TOTALS.get(change["name"])) is not None
    ]
    return [("recorded", parts)] if parts else []


def _cell(change: dict[str, Any]) -> str:
    return f"[bold red]{_percent(change)}[/]!" if change["flagged"] else f"{_percent(change)} "


def _percent(change: dict[str, Any]) -> str:
    pct = change["change_pct"]
    return "from 0" if pct is None else f"{pct:+.1f} %"


def _plain(change: dict[str, Any], side: Literal["was", "now"]) -> str:
    value = change[side]
    return f"{value:,}" if isinstance(value, int) else number(value)
