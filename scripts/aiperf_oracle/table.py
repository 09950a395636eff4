"""The oracle's result as Markdown."""

import datetime
from collections.abc import Mapping
from statistics import median

from aiperf_oracle.compare import Agreement, Shown
from aiperf_oracle.differences import Difference
from aiperf_oracle.streams import METRICS, RATE

_PAGE = """\
# AIPerf as an oracle

The same drawn streams, as bytes at given moments, went through both: through loadgen's reading, rows, tables and
summary, and through AIPerf's own client, SSE reader, chat endpoint, record parser, metric classes and accumulator, with
the server's token counts. Only AIPerf's network and clock were not its own.

Made by `scripts/oracle --seed {seed} --runs {runs}`, {day}; {versions}.

## Where both must agree

{streams:,} streams in {runs} runs, {reads:,} reads: roles, text, reasoning, tool arguments, usage reports of every
habit, heartbeats, one choice or two, 1 to 600 tokens, several to a frame, gaps from none to seconds, events torn over
reads and sharing them. The statistics of a run are min, p1, p5, p10, p25, p50, p75, p90, p95, p99, max and mean as a
gate asks for them, and those that the summary prints.

| ours | AIPerf's | compared | none on either side | largest relative difference |
|---|---|---:|---:|---:|
{agreed}

The rate is that of AIPerf's metric class: from the first request to the last output. The one that AIPerf exports after
a run is over its phase instead, which begins before the first request and ends after the last message: with a phase as
tight as can be, {exported} of ours in the median of these runs.

## Where they differ

Other streams, each changed to show one difference. "Left" is the largest relative difference once the meant one is
taken out: nothing else differs. The third column says where METRICS names it.

| difference | streams | METRICS | what differs | ours less AIPerf's, up to | our rate, of AIPerf's | left |
|---|---:|---|---|---:|---:|---:|
{differing}
"""
_SHORT = {"user_tokens_per_sec": "user tokens/s"}


def write(
    agreement: Agreement, differences: list[tuple[Difference, Shown]], *, versions: Mapping[str, str], seed: int
) -> str:
    """Return the page."""
    return _PAGE.format(
        seed=seed,
        runs=agreement.runs,
        day=datetime.date.today(),
        versions=", ".join(f"{name} {version}" for name, version in versions.items()),
        streams=agreement.streams,
        reads=agreement.reads,
        agreed="\n".join(_agreed(agreement)),
        exported=_share(median(agreement.exported)),
        differing="\n".join(_differing(difference, shown) for difference, shown in differences),
    )


def _agreed(agreement: Agreement) -> list[str]:
    numbers = [(f"`{name}`", f"`{METRICS[name]}`", extent) for name, extent in agreement.requests.items()]
    numbers += [(f"`{name}` over a run", "its statistics", extent) for name, extent in agreement.statistics.items()]
    numbers.append((f"`{RATE[0]}`", f"`{RATE[1]}`", agreement.rate))
    return [
        f"| {our} | {their} | {extent.compared:,} | {extent.absent:,} | {_small(extent.worst)} |"
        for our, their, extent in numbers
    ]


def _differing(difference: Difference, shown: Shown) -> str:
    far = f"{max(shown.shifts_ms, key=abs):+,.1f} ms" if shown.shifts_ms else ""
    return (
        f"| {difference.words} | {shown.streams:,} | {difference.named or 'not named'} | {_numbers(shown)} | {far} "
        f"| {_rate(shown)} | {_small(shown.left.worst)} |"
    )


def _numbers(shown: Shown) -> str:
    """Return the numbers that differ, grouped by who has them."""
    groups: dict[str, list[str]] = {}
    for name, counts in shown.differing.items():
        if counts.all:
            whose = {counts.only_ours: "ours only", counts.only_theirs: "AIPerf's only"}.get(counts.all, "")
            groups.setdefault(whose, []).append(_SHORT.get(name, name))
    words = [", ".join(names) + (f" ({whose})" if whose else "") for whose, names in groups.items()]
    return "; ".join(words) or "the rate alone"


def _rate(shown: Shown) -> str:
    """Return our rates in percent of AIPerf's: the lowest and the highest of the runs."""
    both = [ours / theirs for ours, theirs in shown.rates if ours is not None and theirs]
    if not both:
        return "ours only" if any(ours is not None for ours, _ in shown.rates) else "AIPerf's only"
    return " to ".join(dict.fromkeys((_share(min(both)), _share(max(both)))))


def _share(ratio: float) -> str:
    """Return a ratio in percent, with as many digits as tell it from 100."""
    for digits in range(9):
        if abs(ratio - 1) >= 10 ** -(digits + 1):
            return f"{100 * ratio:,.{digits}f} %"
    return "100 %"


def _small(number: float) -> str:
    return f"{number:.1e}" if number else "0"
