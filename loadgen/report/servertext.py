"""The servers' own numbers for a terminal, beside the client's."""

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from loadgen.report.numbertext import number

_COLUMNS = ("mean", "p50", "p95")


def write_server(server: dict[str, Any], console: Console) -> None:
    """Show what was scraped, the pairs, the gauges, and what went wrong with it."""
    console.print()
    for replica in server["replicas"]:
        who = " ".join(
            filter(None, (replica["dialect"] or "no known dialect", replica["version"] or replica["server"]))
        )
        console.print(
            f"[dim]server[/]     {escape(replica['url'])}  {escape(who)}, {replica['scrapes'] - replica['failed']} of "
            f"{replica['scrapes']} scrapes"
        )
    timed = [pair for pair in server["pairs"] if pair["unit"] == "ms"]
    if timed:
        _times(timed, server, console)
    _totals(server, console)
    if server["where"]:
        console.print(f"[bold]{escape(server['where'])}[/]")
    for alert in server["alerts"]:
        console.print(f"[yellow]server[/] {escape(alert)}")


def _times(pairs: list[dict[str, Any]], server: dict[str, Any], console: Console) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("ms", no_wrap=True)
    for side in ("client", "server"):
        for column in _COLUMNS:
            table.add_column(f"{side}\n{column}" if column == "mean" else f"\n{column}", justify="right", no_wrap=True)
    table.add_column("\nn", justify="right", no_wrap=True)
    for pair in pairs:
        cells = [_cell(pair[side], column) for side in ("client", "server") for column in _COLUMNS]
        table.add_row(pair["name"], *cells, str(pair["server"]["n"]))
    console.print(table)
    console.print("[dim]the server's percentiles lie somewhere in these buckets of its histograms[/]")
    families = dict.fromkeys(family for pair in pairs for family in server["metrics"][pair["name"]]["families"])
    console.print(f"[dim]in this order: {escape(', '.join(families))}[/]")


def _cell(numbers: dict[str, Any] | None, column: str) -> str:
    if numbers is None or column not in numbers:
        return ""
    if (between := numbers.get(f"{column}_between")) is None:
        return number(numbers[column])
    low, high = between
    return f">{low:,g}" if high is None else f"{low:,g}-{high:,g}"


def _totals(server: dict[str, Any], console: Console) -> None:
    for pair in server["pairs"]:
        if pair["unit"] == "tokens":
            title = pair["name"].replace("_", " ")
            console.print(
                f"[dim]{title:<14}[/] client {pair['client']['total']:,.0f}  server {pair['server']['total']:,.0f}"
            )
        if pair["unit"] == "requests":
            console.print(
                f"[dim]{'in flight':<14}[/] client mean {number(pair['client']['mean'])}  server mean "
                f"{number(pair['server']['mean'])}, running and waiting"
            )
    gauges = [
        f"{name.replace('_', ' ')} mean {number(found['mean'])} max {number(found['max'])}"
        for name, found in server["metrics"].items()
        if found["kind"] == "gauge"
    ]
    if gauges:
        console.print("[dim]on the server [/] " + "  ".join(gauges))
    if any(pair["name"] == "output_tokens" for pair in server["pairs"]):
        console.print("[dim]a server's tokens are its engine's work, whatever became of it: no count of answers[/]")
