"""Our side: drawn streams through the reading, the rows, the tables and the summary of loadgen."""

import platform
import tempfile
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from aiperf_oracle.streams import METRICS, STATISTICS, Numbers, Run, Side, Stream
from loadgen import __version__
from loadgen.drive.flight import Flight
from loadgen.net.exchange import Exchange
from loadgen.plan.render import RenderedRequest
from loadgen.report.generator import process_facts
from loadgen.report.measured import Measured
from loadgen.report.quantities import quantity
from loadgen.report.summary import summarise
from loadgen.results.finish import finish
from loadgen.results.journal import Journal
from loadgen.results.metrics import METRICS as COLUMNS
from loadgen.results.outcome import Rules
from loadgen.results.reading import Reading
from loadgen.results.record import Closed, Planned, Row
from loadgen.results.rundir import Plan, RunDir
from loadgen.wire.ending import COMPLETE, Ending

_REQUEST = RenderedRequest(
    head=b"",
    body=b"",
    id="0",
    method="POST",
    path="/v1/chat/completions",
    klass=None,
    session=None,
    model="sim",
    asked_for_stream=True,
    fixed_length=False,
)
_PRINTED = ("min", "mean", "max", "p50", "p90", "p95", "p99")


def measure(runs: Iterable[Run]) -> Side:
    """Return what loadgen makes of the runs."""
    with tempfile.TemporaryDirectory() as folder:
        numbers = [_numbers(run, RunDir.create(Path(folder) / str(place))) for place, run in enumerate(runs)]
    return Side(versions={"loadgen": __version__, "Python": platform.python_version()}, numbers=numbers)


class _Owner:
    """The driver's part in an exchange, of which nothing is wanted here."""

    def sent(self, exchange: Exchange) -> None: ...

    def lingers(self, exchange: Exchange) -> None: ...


def _row(seq: int, stream: Stream) -> Row:
    """Return the row of a stream, read as it arrives."""
    reading = Reading()
    exchange = Exchange(b"", b"", reading, _Owner())
    exchange.reused = stream.sent_ns == stream.asked_ns
    exchange.connected_ns = exchange.sent_ns = exchange.first_sent_ns = stream.sent_ns
    exchange.reads = len(stream.reads)
    reading.head(200, [(b"content-type", b"text/event-stream; charset=utf-8")], stream.reads[0][0])
    floor_ns = stream.sent_ns
    for at_ns, data in stream.reads:
        reading.body(data, at_ns, floor_ns)
        floor_ns = at_ns
    exchange.conclude(Ending("cut", "reset") if stream.is_cut else COMPLETE, stream.end_ns)
    flight = Flight(
        seq=seq,
        place=0,
        due_ns=stream.asked_ns,
        is_warmup=False,
        request=_REQUEST,
        exchange=exchange,
        reading=reading,
    )
    flight.fired_ns = flight.admitted_ns = stream.asked_ns
    return flight.row(Rules())


def _numbers(run: Run, rundir: RunDir) -> Numbers:
    """Return the numbers of a run, from the files of its folder."""
    _write(run, rundir)
    finished = finish(rundir)
    measured = Measured.read(rundir, [])
    summary = summarise(measured, process_facts(finished, rundir.read_manifest()))
    columns = [COLUMNS[name].column for name in METRICS]
    values = pl.read_parquet(rundir.requests).sort("seq").select(columns).iter_rows()
    return Numbers(
        requests=[
            {name: value for name, value in zip(METRICS, row, strict=True) if value is not None} for row in values
        ],
        statistics={name: found for name in METRICS if (found := _statistics(name, measured, summary))},
        output_tokens_per_sec=summary["llm"].get("output_tokens_per_sec") if "llm" in summary else None,
        printed={
            name: {statistic: summary["metrics"][name][statistic] for statistic in _PRINTED}
            for name in METRICS
            if name in summary["metrics"]
        },
    )


def _statistics(name: str, measured: Measured, summary: dict[str, Any]) -> dict[str, float]:
    """Return every statistic of a metric, as a gate asks for it; none without samples."""
    found = {}
    for statistic in STATISTICS:
        asked = quantity(f"llm.{name}-{statistic}", None, shown=name, classes=None)
        if (number := asked.value(measured, summary).number) is not None:
            found[statistic] = number
    return found


def _write(run: Run, rundir: RunDir) -> None:
    """Write a run's folder as it is when the load process has ended."""
    due = array("q", [stream.asked_ns for stream in run.streams])
    rundir.write_plan(
        Plan(
            due_ns=due.tobytes(),
            places=array("q", [0] * len(due)).tobytes(),
            warmup_ns=0,
            recorded=1,
            requests=[Planned("0", None, None, "POST", _REQUEST.path, "sim", 0, None)],
            is_closed=False,
        )
    )
    schedule = {
        "requests": len(due),
        "measured": len(due),
        "callers": None,
        "nominal_rate": None,
        "warmup_s": 0.0,
        "length_s": max(due) / 1e9,
        "repeats": False,
    }
    manifest = {
        "run": rundir.name,
        "target": "http://127.0.0.1",
        "config": {},
        "schedule": schedule,
        "recording": {"requests": 1, "classes": {}},
        "host": {},
        "clock": {"started_unix_ns": run.wall_ns},
    }
    rundir.write_json(rundir.manifest, manifest)
    journal = Journal(rundir.journal)
    for seq, stream in enumerate(run.streams):
        journal.append(_row(seq, stream))
    journal.append(Closed(max(stream.end_ns for stream in run.streams)))
    journal.close()
