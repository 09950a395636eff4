"""From a journal to the run's files; the same for a run that ended and for one that crashed."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from loadgen import __version__
from loadgen.errors import UsageError
from loadgen.results.checked import Checker
from loadgen.results.checks import parse_check
from loadgen.results.histogram import Histogram, HistogramLog
from loadgen.results.journal import read_journal
from loadgen.results.metrics import METRICS
from loadgen.results.record import Closed, Lags, Row, Sample, Scrape, Sent
from loadgen.results.recorded import write_recorded
from loadgen.results.rundir import Plan, RunDir
from loadgen.results.scrapes import Pages
from loadgen.results.slo import parse_slo, with_good
from loadgen.results.tables import answers_table, frames_table, requests_table

# Rows turned to columns at a time: what a chunk needs is bounded, however long the run was.
_CHUNK = 20_000
SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Finished:
    """What the journal held, beyond the tables."""

    crashed: bool
    stopped_by: str | None
    lost_rows: int  # requests that were sent and whose end the crash took
    lags: Lags | None
    samples: list[Sample]
    end_ns: int


def finish(rundir: RunDir) -> Finished:
    """Write all of a run's files but its summary from its journal; raises UsageError without one."""
    if not rundir.plan.is_file() or not rundir.journal.is_file():
        raise UsageError(f"{rundir.path}: there is no journal to finish", hint="`loadgen summary` shows a finished run")
    plan = rundir.read_plan()
    manifest = rundir.read_manifest()
    run, request_ids = str(manifest["run"]), bool(manifest["config"].get("request_id", True))
    rows: list[Row] = []
    tables: list[pl.DataFrame] = []
    frames: list[pl.DataFrame] = []
    answers: list[pl.DataFrame] = []
    checker = Checker([parse_check(text) for text in manifest["config"].get("check") or []])
    keeps_bodies = bool(manifest["config"].get("keep_bodies"))
    seen: set[int] = set()
    sent: dict[int, Sent] = {}
    samples: list[Sample] = []
    pages = Pages()
    lags: Lags | None = None
    closed: Closed | None = None

    def flush() -> None:
        table = requests_table(rows, plan.requests, run=run, request_ids=request_ids)
        tables.append(table.with_columns(checker.columns(rows)))
        frames.append(frames_table(rows))
        if keeps_bodies:
            answers.append(answers_table(rows))
        rows.clear()

    for record in read_journal(rundir.journal):
        match record:
            case Row():
                rows.append(record)
                seen.add(record.seq)
                sent.pop(record.seq, None)  # its attempts follow one another
                if len(rows) >= _CHUNK:
                    flush()
            case Sent():
                sent[record.seq] = record
            case Sample():
                samples.append(record)
            case Lags():
                lags = record
            case Scrape():
                pages.take(record)
            case Closed():
                closed = record
    rows += _missing(plan, seen, sent, crashed=closed is None)
    flush()
    slos = [parse_slo(text) for text in manifest["config"].get("slo") or []]
    final = (pl.col("attempt") == pl.col("attempt").max().over("seq")).alias("final")
    requests = with_good(pl.concat(tables).sort("seq", "attempt").with_columns(final), slos)
    requests.write_parquet(rundir.requests)
    all_frames = pl.concat(frames).sort("seq", "attempt")
    all_frames.write_parquet(rundir.frames)
    _schedule_table(plan, requests).write_parquet(rundir.schedule)
    if keeps_bodies:
        pl.concat(answers).sort("seq", "attempt").write_parquet(rundir.answers)
    write_recorded(rundir, plan)
    pages.write(rundir.server)
    started_s = manifest["clock"]["started_unix_ns"] / 1e9
    _write_histograms(
        rundir.histograms, requests, all_frames, lags, started_s=started_s, length_s=_end_ns(closed, samples) / 1e9
    )
    return Finished(
        crashed=closed is None,
        stopped_by=closed.stopped_by if closed else None,
        lost_rows=len(sent),
        lags=lags,
        samples=samples,
        end_ns=_end_ns(closed, samples),
    )


def _end_ns(closed: Closed | None, samples: list[Sample]) -> int:
    return closed.at_ns if closed else max((sample.at_ns for sample in samples), default=0)


def _missing(plan: Plan, seen: set[int], sent: dict[int, Sent], *, crashed: bool) -> list[Row]:
    """Return a row for each scheduled request, and each attempt that was sent, that the journal has none for."""
    due, places = plan.due(), plan.place()
    scheduled = sent.keys() if plan.is_closed else range(len(due))
    detail = "crash" if crashed else "stopped"
    rows = []
    for seq in scheduled:
        mark = sent.get(seq)
        if seq in seen and mark is None:
            continue
        due_ns = None if plan.is_closed else due[seq]
        rows.append(
            Row(
                seq=seq,
                place=mark.place if mark else places[seq],
                attempt=mark.attempt if mark else 1,
                is_warmup=(mark.sent_ns if mark and due_ns is None else due_ns or 0) < plan.warmup_ns,
                outcome="unsent" if mark is None else "unfinished",
                detail=detail,
                finished=False,
                due_ns=due_ns,
                fired_ns=mark.sent_ns if mark and plan.is_closed else None,
                sent_ns=mark.sent_ns if mark else None,
                first_sent_ns=mark.sent_ns if mark else None,
            )
        )
    return rows


def _schedule_table(plan: Plan, requests: pl.DataFrame) -> pl.DataFrame:
    """What was intended; of a closed loop, which has no times, the order that was taken."""
    return requests.filter(pl.col("attempt") == 1).select("seq", "due_ns", "id", "class", "phase", "path")


def _write_histograms(
    path: Path,
    requests: pl.DataFrame,
    frames: pl.DataFrame,
    lags: Lags | None,
    *,
    started_s: float,
    length_s: float,
) -> None:
    """Write our own lags over the whole run, then every metric, per class and over all, a line per second."""
    measured = requests.filter(pl.col("phase") == "measure")
    times = [m for m in METRICS.values() if m.unit == "ms"]
    long = (
        measured.select("class", "end_ns", *(metric.column for metric in times))
        .unpivot(index=["class", "end_ns"], variable_name="tag", value_name="ms")
        .drop_nulls("ms")
        .select(
            "class",
            "end_ns",
            pl.col("tag").str.strip_suffix("_ms"),
            (pl.col("ms") * 1e6).round().cast(pl.Int64).alias("ns"),
        )
    )
    gaps = measured.select("seq", "attempt", "class", "end_ns").join(
        frame_gaps(measured, frames), on=["seq", "attempt"]
    )
    long = pl.concat(
        [long, gaps.select("class", "end_ns", pl.lit("frame_gap").alias("tag"), pl.col("gap_ns").alias("ns"))]
    )
    in_class = long.filter(pl.col("class").is_not_null()).with_columns(pl.format("{}[{}]", "tag", "class").alias("tag"))
    counted = (
        pl.concat([long, in_class])
        .with_columns((pl.col("end_ns").fill_null(0).clip(0) // SECOND_NS).alias("second"), _rounded(pl.col("ns")))
        .group_by("second", "tag", "ns")
        .len()
        .sort("second", "tag", "ns")
    )
    with path.open("w", encoding="ascii", errors="replace", newline="\n") as file:
        log = HistogramLog(file, started_s=started_s, comment=f"loadgen {__version__}, durations in ns, maxima in ms")
        if lags is not None:
            log.write("loop_lag", 0.0, length_s, Histogram(lags.loop_lag))
            log.write("read_lag", 0.0, length_s, Histogram(lags.read_lag))
        for (second, tag), group in counted.group_by("second", "tag", maintain_order=True):
            histogram = Histogram()
            for ns, times_seen in group.select("ns", "len").iter_rows():
                histogram.record(ns, times_seen)
            log.write(str(tag), float(str(second)), 1.0, histogram)


def _rounded(ns: pl.Expr) -> pl.Expr:
    """Round to whole microseconds from a millisecond on: finer than the histogram's three digits, and far fewer."""
    return pl.when(ns >= 1_000_000).then((ns + 500) // 1_000 * 1_000).otherwise(ns).alias("ns")


# Of an exploded `kind`: the four kinds of output are the first of the enumeration.
IS_OUTPUT = pl.col("kind").to_physical() < 4


def frame_gaps(requests: pl.DataFrame, frames: pl.DataFrame) -> pl.DataFrame:
    """Return the gaps between successive output frames of finished streams: `seq, attempt, gap_ns`, pooled.

    Delivery cadence, not time between tokens (METRICS section 2).
    """
    finished = requests.filter(pl.col("finished").fill_null(value=False)).select("seq", "attempt")
    # Frames of a stream stand together: a window over each would cost ten times as much.
    same_stream = (pl.col("seq") == pl.col("seq").shift(1)) & (pl.col("attempt") == pl.col("attempt").shift(1))
    return (
        frames.join(finished, on=["seq", "attempt"], how="semi")
        .select("seq", "attempt", "at_ns", "kind")
        .sort("seq", "attempt")
        .explode("at_ns", "kind")
        .filter(IS_OUTPUT)
        .select("seq", "attempt", pl.when(same_stream).then(pl.col("at_ns").diff()).alias("gap_ns"))
        .drop_nulls("gap_ns")
    )
