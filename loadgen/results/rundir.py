"""The run folder: its files by name, and the two small ones that are JSON."""

import os
import shutil
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from loadgen.errors import UsageError
from loadgen.results.record import Planned


class Plan(msgspec.Struct, frozen=True):
    """What the journal keeps of the schedule: enough to give every scheduled request its row. Packed int64 arrays."""

    due_ns: bytes
    places: bytes
    warmup_ns: int
    recorded: int
    requests: list[Planned]
    is_closed: bool

    def due(self) -> array:  # type: ignore[type-arg]
        return array("q", self.due_ns)

    def place(self) -> array:  # type: ignore[type-arg]
        return array("q", self.places)


@dataclass(frozen=True, slots=True)
class RunDir:
    """A folder of one run."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def manifest(self) -> Path:
        return self.path / "run.json"

    @property
    def requests(self) -> Path:
        return self.path / "requests.parquet"

    @property
    def frames(self) -> Path:
        return self.path / "frames.parquet"

    @property
    def schedule(self) -> Path:
        return self.path / "schedule.parquet"

    @property
    def recorded(self) -> Path:
        return self.path / "recorded.parquet"

    @property
    def recorded_frames(self) -> Path:
        return self.path / "recorded_frames.parquet"

    @property
    def answers(self) -> Path:
        return self.path / "answers.parquet"

    @property
    def prompts(self) -> Path:
        return self.path / "recording.jsonl"

    @property
    def server(self) -> Path:
        return self.path / "server.parquet"

    @property
    def histograms(self) -> Path:
        return self.path / "latency.hlog"

    @property
    def summary(self) -> Path:
        return self.path / "summary.json"

    @property
    def journal(self) -> Path:
        return self.path / "journal" / "records.msgpack"

    @property
    def recorded_journal(self) -> Path:
        return self.path / "journal" / "recorded.msgpack"

    @property
    def plan(self) -> Path:
        return self.path / "journal" / "plan.msgpack"

    @classmethod
    def create(cls, path: Path) -> "RunDir":
        """Make a new run's folder; raises UsageError where one is, or none can be."""
        rundir = cls(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise UsageError(
                    f"{path}: there is something in it already", hint="a run is never overwritten; give another --out"
                )
            rundir.journal.parent.mkdir()
        except OSError as error:
            raise UsageError(
                f"{path}: {error.strerror}", hint="give an --out that is a new folder you can write"
            ) from None
        return rundir

    @classmethod
    def open(cls, path: Path) -> "RunDir":
        """Return the run in a folder; raises UsageError where there is none."""
        rundir = cls(path)
        if not rundir.manifest.is_file():
            raise UsageError(
                f"{path}: no run in it (run.json is missing)", hint="name a folder that `loadgen run` made"
            )
        return rundir

    @classmethod
    def finished(cls, path: Path) -> "RunDir":
        """Return the finished run in a folder; raises UsageError where there is none."""
        rundir = cls.open(path)
        if not (rundir.requests.is_file() and rundir.summary.is_file()):
            raise UsageError(f"{path}: the run is not finished", hint=f"`loadgen recover {path}` makes its files")
        return rundir

    def write_plan(self, plan: Plan) -> None:
        self.plan.write_bytes(msgspec.msgpack.encode(plan))

    def read_plan(self) -> Plan:
        return msgspec.msgpack.decode(self.plan.read_bytes(), type=Plan)

    def write_json(self, path: Path, value: dict[str, Any]) -> None:
        """Write one of the folder's JSON files whole or not at all."""
        partial = path.with_suffix(".json.part")
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
        os.replace(partial, path)

    def read_manifest(self) -> dict[str, Any]:
        return self._read_json(self.manifest)

    def read_summary(self) -> dict[str, Any]:
        return self._read_json(self.summary)

    def _read_json(self, path: Path) -> dict[str, Any]:
        try:
            value: dict[str, Any] = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        except (OSError, msgspec.DecodeError, msgspec.ValidationError) as error:
            raise UsageError(f"{path}: {error}", hint="name a folder that `loadgen run` made") from None
        return value

    def drop_journal(self) -> None:
        """Remove the journal, once all that it held is in the run's files."""
        shutil.rmtree(self.journal.parent)
