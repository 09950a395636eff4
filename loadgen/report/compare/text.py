"""A comparison for a terminal: the conclusion first."""

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from loadgen.report.numbertext import number

_STYLES = {
    "improvement": "bold green",
    "no difference": "bold",
    "bounded protection": "bold yellow",
    "none": "bold yellow",
}
_SHOWN = ("ttft", "first_text", "e2e", "itl", "ttft_from_due", "e2e_from_due")
_COUNTS = ("good", "useful")


def write_comparison(made: dict[str, Any], console: Console | None = None) -> None:
    """Write the whole of it."""
    console = console or Console(highlight=False, soft_wrap=False, emoji=False)
    conclusion = made["conclusion"]
    console.print(f"[{_STYLES.get(conclusion['kind'], 'bold red')}]{escape(conclusion['sentence'])}[/]")
    console.print()
    for side in (made["a"], made["b"]):
        runs = side["runs_told"]
        verdicts = ", ".join(
            "VALID" if run["valid"] else f"[red]INVALID ({', '.join(run['why_invalid'])})[/]" for run in runs
        )
        console.print(f"[bold]{side['label']}[/] {escape(side['name'])}  {escape(runs[0]['target'])}  {verdicts}")
    for title, name in (("condition", "conditions"), ("serving", "serving"), ("option", "others")):
        for one in made[name]:
            style = "yellow" if name == "conditions" else "dim"
            console.print(f"[{style}]{title}[/] {escape(one['name'])}: {_said(one['a'])} -> {_said(one['b'])}")
    for warning in made["warnings"]:
        console.print(f"[yellow]note[/] {escape(warning)}")
    console.print()
    console.print(_accounts(made))
    if made["classes"]:
        console.print()
        console.print(_classes(made["classes"]))
    moved = [entry for entry in made["transitions"] if entry["was"] != entry["now"]]
    if moved:
        console.print()
        console.print(_transitions(made["transitions"]))
    if made["shifts"]:
        console.print()
        console.print(_shifts(made))
        console.print(_explained(made))
    if made["servers"]:
        console.print()
        console.print(_servers(made["servers"]))
    for gate in made["gates"]:
        verdict = "[green]pass[/]" if gate["passed"] else "[bold red]FAIL[/]"
        console.print(f"gate {escape(gate['gate'])}  {verdict}  {escape(gate['words'])}")


def _said(value: Any) -> str:
    return escape("not stated" if value in (None, [], {}, "") else str(value))


def _accounts(made: dict[str, Any]) -> Table:
    a, b = made["a"], made["b"]
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("")
    for name in ("A", "%", "B", "%"):
        table.add_column(name, justify="right")
    outcomes = dict.fromkeys([*a["outcomes"], *b["outcomes"]])
    table.add_row("offered", str(a["offered"]), "", str(b["offered"]), "")
    for outcome in outcomes:
        counts = [side["outcomes"].get(outcome, 0) for side in (a, b)]
        _counted(table, outcome, counts, (a, b), style="" if outcome == "completed" else "yellow")
    for name in _COUNTS:
        _counted(table, name, [side[name] for side in (a, b)], (a, b), style="bold")
    shares = [side["useful_of_accepted_pct"] for side in (a, b)]
    table.add_row("useful of accepted", "", _share(shares[0]), "", _share(shares[1]), style="dim")
    for title, name in (
        ("survivors' ttft p50", "survivors_ttft_p50_ms"),
        ("survivors' e2e p50", "survivors_e2e_p50_ms"),
        ("input tokens, mean", "input_tokens_mean"),
        ("output tokens, mean", "output_tokens_mean"),
    ):
        unit = " ms" if name.endswith("_ms") else ""
        values = ["-" if side[name] is None else f"{number(side[name])}{unit}" for side in (a, b)]
        table.add_row(title, values[0], "", values[1], "", style="dim")
    return table


def _classes(classes: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("class")
    for name in ("offered", "useful A", "%", "useful B", "%"):
        table.add_column(name, justify="right")
    for name, sides in classes.items():
        cells = []
        for side in (sides["a"], sides["b"]):
            cells += [str(side["useful"]), _share(side["useful_pct"])]
        table.add_row(escape(name), str(sides["a"]["offered"]), *cells)
    return table


def _counted(table: Table, title: str, counts: list[int], sides: tuple[Any, Any], *, style: str) -> None:
    cells = []
    for count, side in zip(counts, sides, strict=True):
        cells += [str(count), f"{100 * count / max(side['offered'], 1):.1f}"]
    table.add_row(escape(title), *cells, style=style)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _transitions(entries: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("in A")
    table.add_column("in B")
    table.add_column("requests", justify="right")
    for entry in entries:
        style = "yellow" if entry["was"] == "completed" != entry["now"] else ""
        table.add_row(entry["was"], entry["now"], str(entry["requests"]), style=style)
    return table


def _shifts(made: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("ms", no_wrap=True)
    for name in ("A", "B", "shift", "95 % interval", "n", "p"):
        table.add_column(name, justify="right", no_wrap=True)
    for shift in made["shifts"]:
        if shift["metric"] not in _SHOWN or (shift["klass"] and not _is_of_primary(shift, made["primary"])):
            continue
        klass = f"[{shift['klass']}]" if shift["klass"] else ""
        style = "bold" if shift["primary"] else "" if not shift["sure"] else "green" if shift["high"] < 0 else "red"
        p = shift.get("holm", shift["p"])
        table.add_row(
            escape(f"{shift['metric']} {shift['statistic']}{klass}") + (" *" if shift["primary"] else ""),
            number(shift["a"]),
            number(shift["b"]),
            f"{shift['shift']:+.2f}",
            f"{shift['low']:+.2f} to {shift['high']:+.2f}",
            str(shift["n"]),
            "" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}",
            style=style,
        )
    return table


def _servers(told: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("on the servers")
    for name in ("", "A", "B"):
        table.add_column(name, justify="right")
    for one in told:
        words = f"{one['statistic']}, {one['unit']}"
        table.add_row(one["name"].replace("_", " "), words, number(one["a"]), number(one["b"]))
    return table


def _is_of_primary(shift: dict[str, Any], primary: str) -> bool:
    return f"{shift['metric']}-{shift['statistic']}" == primary


def _explained(made: dict[str, Any]) -> str:
    if made["blocks"] is None:
        return "[dim]* named beforehand (--primary); each run is one value, intervals by Welch's t over them[/]"
    paired = (
        "paired by request; p50 is the median of the pairs' differences" if made["same"]["paired"] else "not paired"
    )
    blocks = made["blocks"]
    return (
        f"[dim]* named beforehand (--primary); the others are exploratory, their p corrected (Holm). {paired}; "
        f"intervals by {blocks['count']} blocks of {blocks['seconds']:.2f} s, drawn again (seed {made['seed']})[/]"
    )
