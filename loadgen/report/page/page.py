"""The pages themselves: templates, and what is put into them."""

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from loadgen import __version__
from loadgen.report.levels import Level, knee
from loadgen.report.measured import Measured
from loadgen.report.numbertext import number
from loadgen.report.page.alerts import alerts
from loadgen.report.page.charts import Chart
from loadgen.report.page.levelcharts import HEADINGS, charts_of_levels, level_rows
from loadgen.report.page.onerun import charts as charts_of_run
from loadgen.report.page.onerun import worst
from loadgen.report.page.streams import streams
from loadgen.report.page.twosides import accounts, both_sides, explained, forest

_ORDER = (
    *("ttft", "first_text", "first_text[completed]", "e2e", "itl", "user_tokens_per_sec", "frame_gap", "completion"),
    *("ttft_from_due", "e2e_from_due", "lateness", "generator_lateness", "connect"),
)
_COLUMNS = ("p50", "p95", "p99", "max")
# Of a run's options, those that say how it was done.
_TOLD = ("cache", "model", "api", "deadline", "deadline_from", "drain", "max_concurrency", "retries", "seed", "server")


def run_page(measured: Measured, summary: dict[str, Any]) -> str:
    """Return the page of one run."""
    charts = charts_of_run(measured, summary)
    chosen = streams(measured)
    return _page(
        "run.html.j2",
        charts=charts,
        more={"streams": chosen},
        summary=summary,
        **{name: summary.get(name) for name in ("recorded", "server", "checks", "llm")},
        manifest=measured.manifest,
        alerts=list(alerts(summary)),
        pace=_pace(summary),
        whys=_whys(summary),
        columns=_COLUMNS,
        metrics=_metrics(summary),
        worst=worst(measured),
        stream_count=len(chosen["streams"]),
        sent=chosen["of"],
        conditions=list(_conditions(measured.manifest)),
    )


def sweep_page(levels: list[Level], *, title: str, target_good_percent: float) -> str:
    """Return the page of several levels."""
    best = knee(levels)
    reasons = [
        f"{level.words}: {reason['fact']}"
        for level in levels
        for reason in level.summary["verdict"]["reasons"]
        if reason["name"] not in ("closed_loop", "too_few_samples")
    ]
    slos = " and ".join(dict.fromkeys(slo for level in levels for slo in level.summary["slo"]))
    wanted = f"{target_good_percent:g} % good by {slos}" if slos else "objectives, which none were given (--slo)"
    told = f"{best.words} is the highest level with {wanted}" if best else f"no level has {wanted}"
    return _page(
        "sweep.html.j2",
        charts=charts_of_levels(levels),
        title=title,
        knee=told,
        closed=any(level.summary["loop"] == "closed" for level in levels),
        headings=[heading for _, heading in HEADINGS],
        rows=level_rows(levels, best),
        reasons=reasons,
    )


def comparison_page(made: dict[str, Any], a: Measured, b: Measured) -> str:
    """Return the page of a comparison, as `loadgen compare` made it, with the first run of each side."""
    return _page(
        "comparison.html.j2",
        charts=both_sides(a, b),
        made=made,
        accounts=accounts(made),
        shifts=forest(made["shifts"]),
        explained=explained(made),
    )


def _page(template: str, *, charts: Sequence[Chart], more: Mapping[str, Any] | None = None, **values: Any) -> str:
    data = {"charts": [chart.as_json() for chart in charts], **(more or {})}
    return _ENVIRONMENT.get_template(template).render(
        charts=charts,
        version=__version__,
        # What ends a script must not stand in one.
        data=Markup(msgspec.json.encode(data).decode().replace("<", "\\u003c")),
        style=Markup(_file("uplot/uPlot.min.css") + _file("assets/style.css")),
        script=Markup(_file("uplot/uPlot.iife.min.js") + _file("assets/page.js")),
        **values,
    )


def _file(name: str) -> str:
    return resources.files("loadgen.report.page").joinpath(name).read_text("utf-8")


def _num(value: float | None) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else number(value)


def _pct(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} %"


def _p(value: float | None) -> str:
    return "" if value is None else "<0.001" if value < 0.001 else f"{value:.3f}"


def _change(value: float | None) -> str:
    return "from 0" if value is None else f"{value:+.1f} %"


def _between(value: Sequence[float | None] | None) -> str:
    if not value:
        return ""
    low, high = value
    return f"above {low:,g}" if high is None else f"{low:,g}–{high:,g}"


def _said(value: Any) -> str:
    return "not stated" if value in (None, [], {}, "") else str(value)


def _place(chart: Chart, at: float) -> str:
    """Where a row of a chart's table stands."""
    if chart.kind != "percentiles":
        return f"{at:g}"
    return "highest" if at >= chart.x[-1] else f"p{100 * (1 - 10**-at):.5g}"


_ENVIRONMENT = Environment(
    loader=PackageLoader("loadgen.report.page"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
    lstrip_blocks=True,
)  # fmt: skip
_ENVIRONMENT.filters |= {
    "num": _num,
    "pct": _pct,
    "p": _p,
    "change": _change,
    "between": _between,
    "said": _said,
    "place": _place,
}


def _pace(summary: dict[str, Any]) -> str:
    schedule = summary["schedule"]
    if summary["loop"] == "closed":
        return f"closed loop, {schedule['callers']} callers"
    asked = f"{schedule['nominal_rate']:g}/s asked, " if schedule.get("nominal_rate") else ""
    drawn = summary["offered_per_sec"]
    return f"open loop, {asked}{'-' if drawn is None else f'{drawn:.2f}'}/s drawn"


def _whys(summary: dict[str, Any]) -> dict[str, str]:
    """What is behind each outcome, in words."""
    whys: dict[str, list[str]] = {}
    for entry in summary["details"]:
        words = " ".join(str(entry[key]) for key in ("status", "detail") if entry[key] and entry[key] != 200)
        if words:
            whys.setdefault(entry["outcome"], []).append(f"{words} ({entry['requests']})")
    return {outcome: ", ".join(words[:6]) for outcome, words in whys.items()}


def _metrics(summary: dict[str, Any]) -> list[dict[str, Any]]:
    recorded: dict[str, dict[str, Any]] = {}
    for change in summary.get("recorded", {}).get("changes", []):
        if change["statistic"] is not None:
            recorded.setdefault(change["name"], {})[change["statistic"]] = change
    return [
        {"name": name, "unit": numbers["unit"], "numbers": numbers, "recorded": recorded.get(name)}
        for name in _ORDER
        if (numbers := summary["metrics"].get(name)) is not None
    ]


def _conditions(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    config, host = manifest["config"], manifest["host"]
    told = [(name.replace("_", " "), str(config[name])) for name in _TOLD if config.get(name) not in (None, {}, [], "")]
    told += [("schedule", manifest["schedule"]["sha256"][:16]), ("started", manifest["clock"]["started"])]
    told += [("loadgen", str(manifest["loadgen"]))]
    return told + [(name, str(value)) for name, value in host.items() if value is not None]
