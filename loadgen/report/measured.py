"""The rows that a run's numbers are made of: those of its window, and what belongs to them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from loadgen.results.finish import frame_gaps
from loadgen.results.histogram import Histogram, read_log
from loadgen.results.metrics import COMPLETED
from loadgen.results.rundir import RunDir
from loadgen.results.slo import Slo, with_good


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A finished run, read back.

    `offered` has the last attempt of each request of the window (closed loop: of each that was submitted), `attempts`
    all of their attempts, `everything` the warm-up too; `gaps` are those of `offered`'s finished streams.
    """

    manifest: dict[str, Any]
    everything: pl.DataFrame
    attempts: pl.DataFrame
    offered: pl.DataFrame
    frames: pl.DataFrame
    gaps: pl.DataFrame
    lags: Mapping[str, Histogram]  # our own: read_lag, loop_lag
    start_s: float  # of the measurement window, from the run's start
    length_s: float
    slos: list[Slo]
    recorded: "Recorded | None" = None
    server: pl.DataFrame | None = None  # what was scraped: a row a sample

    @property
    def is_closed(self) -> bool:
        return self.manifest["schedule"]["callers"] is not None

    @classmethod
    def read(cls, rundir: RunDir, slos: list[Slo]) -> "Measured":
        """Read a finished run's folder; `good` is judged by `slos`."""
        manifest = rundir.read_manifest()
        everything = with_good(pl.read_parquet(rundir.requests), slos)
        frames = pl.read_parquet(rundir.frames)
        attempts = everything.filter(pl.col("phase") == "measure")
        # The first attempt's stands for the request: those after it come when the server's refusal lets them.
        first = pl.col("generator_lateness_ms").max().over("seq")
        offered = attempts.with_columns(first).filter("final")
        if manifest["schedule"]["callers"] is not None:
            offered = offered.filter(pl.col("sent_ns").is_not_null())
        start_s, length_s = _window(manifest, offered)
        return cls(
            manifest=manifest,
            everything=everything,
            attempts=attempts,
            offered=offered,
            frames=frames,
            gaps=frame_gaps(offered, frames),
            lags=read_log(rundir.histograms, tags=("read_lag", "loop_lag")),
            start_s=start_s,
            length_s=length_s,
            slos=slos,
            recorded=Recorded.read(rundir),
            server=pl.read_parquet(rundir.server) if rundir.server.is_file() else None,
        )

    def of_class(self, name: str) -> "Population":
        """Return the requests of one class."""
        return self._where(pl.col("class") == name)

    def of_completed(self) -> "Population":
        """Return the normal completions: survivors."""
        return self._where(COMPLETED)

    def of_all(self) -> "Population":
        return Population(self.offered, self.gaps)

    def _where(self, condition: pl.Expr) -> "Population":
        mine = self.offered.filter(condition)
        return Population(mine, self.gaps.join(mine, on=["seq", "attempt"], how="semi"))


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a recording says of its requests, by their `place` in it: rows like a run's, and frames."""

    rows: pl.DataFrame
    frames: pl.DataFrame

    @classmethod
    def read(cls, rundir: RunDir) -> "Recorded | None":
        """Read it from a run's folder; None where the recording had no answers."""
        if not rundir.recorded.is_file():
            return None
        return cls(pl.read_parquet(rundir.recorded), pl.read_parquet(rundir.recorded_frames))


@dataclass(frozen=True, slots=True)
class Population:
    """Some of the offered requests, and the frame gaps of their finished streams."""

    offered: pl.DataFrame
    gaps: pl.DataFrame


def _window(manifest: dict[str, Any], offered: pl.DataFrame) -> tuple[float, float]:
    """Start and length of the scheduled window; a closed loop without a duration ends with its last submission."""
    schedule = manifest["schedule"]
    start_s: float = schedule["warmup_s"]
    length_s: float | None = schedule["length_s"]
    if length_s is None:
        last = offered["fired_ns"].max()
        length_s = max(float(last) / 1e9 - start_s, 1e-9) if isinstance(last, int) else 0.0
    return start_s, length_s
