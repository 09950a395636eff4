"""One side of a comparison: a run, or repeats of it that count as its units."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from loadgen.report.measured import Measured
from loadgen.results.rundir import RunDir
from loadgen.results.slo import parse_slo


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a side."""

    name: str
    measured: Measured
    summary: dict[str, Any]

    @property
    def manifest(self) -> dict[str, Any]:
        return self.measured.manifest

    @property
    def schedule_sha256(self) -> str:
        return str(self.manifest["schedule"]["sha256"])

    @property
    def why_invalid(self) -> list[str]:
        reasons = self.summary["verdict"]["reasons"]
        return [reason["name"] for reason in reasons if reason["level"] == "invalid"]

    @classmethod
    def read(cls, path: Path) -> "Run":
        """Read a finished run's folder; raises UsageError."""
        rundir = RunDir.finished(path)
        summary = rundir.read_summary()
        return cls(rundir.name, Measured.read(rundir, [parse_slo(text) for text in summary["slo"]]), summary)


@dataclass(frozen=True, slots=True)
class Side:
    """The runs of one side; the first stands for them where one has to."""

    label: str  # A or B
    runs: Sequence[Run]

    @property
    def first(self) -> Run:
        return self.runs[0]

    @property
    def offered(self) -> pl.DataFrame:
        """The offered requests of all its runs."""
        return pl.concat([run.measured.offered for run in self.runs], how="diagonal_relaxed")

    @property
    def name(self) -> str:
        names = dict.fromkeys(str(run.manifest.get("label") or run.name) for run in self.runs)
        return ", ".join(names)

    @property
    def is_valid(self) -> bool:
        return not any(run.why_invalid for run in self.runs)
