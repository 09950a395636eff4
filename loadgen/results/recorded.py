"""What a recording says of its requests, as the run folder keeps it: a row for each recorded answer, by its place."""

from itertools import islice

import polars as pl

from loadgen.results.journal import read_journal
from loadgen.results.record import Row
from loadgen.results.rundir import Plan, RunDir
from loadgen.results.tables import frames_table, requests_table

_CHUNK = 20_000
# Of a row of the run's, what says nothing here: a recorded answer has its place, and was asked for once.
_NOT_KEPT = ("run", "seq", "attempt", "final", "request_id", "phase", "worker", "stamp_uncertainty_ms")


def write_recorded(rundir: RunDir, plan: Plan) -> None:
    """Write what a replay is held against, where its recording had answers."""
    if not rundir.recorded_journal.is_file():
        return
    tables, frames = [], []
    kept = (row for row in read_journal(rundir.recorded_journal) if isinstance(row, Row))
    while answers := list(islice(kept, _CHUNK)):
        tables.append(requests_table(answers, plan.requests, run="", request_ids=False).drop(_NOT_KEPT))
        frames.append(frames_table(answers).rename({"seq": "place"}).drop("attempt"))
    if tables:
        pl.concat(tables).write_parquet(rundir.recorded)
        pl.concat(frames).write_parquet(rundir.recorded_frames)
