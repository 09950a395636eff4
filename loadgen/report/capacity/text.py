"""A search's answer for a terminal."""

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

_STYLES = {"passed": "green", "failed": "red", "undecided": "yellow", "invalid": "bold red", "scouted": "dim"}


def write_capacity(told: dict[str, Any], *, arrivals: str, console: Console | None = None) -> None:
    """Write the probes as a table, then the answer."""
    console = console or Console(highlight=False, emoji=False)
    console.print(f"open loop, {arrivals} arrivals; good: completed with {escape(' and '.join(told['slo']))}")
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for heading in ("rate/s", "requests", "good %", "bounds %"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("backlog", no_wrap=True)
    table.add_column("probe", no_wrap=True)
    for probe in told["probes"]:
        style = _STYLES[probe["judgement"]]
        words = probe["judgement"] if probe["judgement"] != "invalid" else "INVALID"
        bounds = f"{probe['good_low_pct']:.2f} .. {probe['good_high_pct']:.2f}" if probe["requests"] else "-"
        table.add_row(
            f"{probe['rate']:g}",
            str(probe["requests"]),
            "-" if probe["good_pct"] is None else f"{probe['good_pct']:.2f}",
            bounds,
            "grows" if probe["backlog_grows"] else "",
            f"[{style}]{words}[/]",
        )
    console.print(table)
    for probe in told["probes"]:
        for note in probe["invalid"]:
            console.print(f"[red]{probe['rate']:g}/s is INVALID[/], and no evidence: {escape(note)}")
    console.print(f"[bold]{escape(told['words'])}[/]")
    if told["limit"]:
        console.print(f"limit {escape(told['limit'])}")
    console.print(f"[dim]{escape(told['method'])}[/]")
