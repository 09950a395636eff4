"""The folder of a sweep or a search: its plan, and a run's folder for each level."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from loadgen.errors import UsageError
from loadgen.results.rundir import RunDir


@dataclass(frozen=True, slots=True)
class SweepDir:
    """A folder of one sweep."""

    path: Path

    @property
    def plan(self) -> Path:
        return self.path / "sweep.json"

    @classmethod
    def begin(cls, path: Path, plan: dict[str, Any]) -> "SweepDir":
        """Make a sweep's folder, or go on with one of the very same plan; raises UsageError where it is another."""
        sweep = cls(path)
        if sweep.plan.is_file():
            before = sweep.read_plan()
            different = sorted(name for name in before.keys() | plan.keys() if before.get(name) != plan.get(name))
            if different:
                raise UsageError(
                    f"{path}: there is a sweep in it already, with another {', '.join(different)}",
                    hint="give another --out, or the same options to go on with it",
                )
            return sweep
        try:
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise UsageError(f"{path}: there is something in it already", hint="give another --out")
            sweep.plan.write_bytes(msgspec.json.format(msgspec.json.encode(plan), indent=2) + b"\n")
        except OSError as error:
            raise UsageError(
                f"{path}: {error.strerror}", hint="give an --out that is a new folder you can write"
            ) from None
        return sweep

    def read_plan(self) -> dict[str, Any]:
        try:
            return msgspec.json.decode(self.plan.read_bytes(), type=dict[str, Any])
        except (OSError, msgspec.DecodeError, msgspec.ValidationError) as error:
            raise UsageError(f"{self.plan}: {error}", hint="name a folder that `loadgen sweep` made") from None

    def finished(self, level: str) -> RunDir | None:
        """Return the level's finished run, the latest one; None where there is none."""
        return next((rundir for rundir in reversed(self._tries(level)) if _is_finished(rundir)), None)

    def all_finished(self) -> list[RunDir]:
        """Return the finished run of each level; a search plans no levels, so all that it finished are its."""
        levels = self.read_plan().get("levels")
        if levels is None:
            return [RunDir(path) for path in sorted(self.path.iterdir()) if _is_finished(RunDir(path))]
        return [rundir for level in levels if (rundir := self.finished(level)) is not None]

    def next_try(self, level: str) -> RunDir:
        """Return a folder for the level's next run: what an interrupted one left is kept."""
        tries = len(self._tries(level))
        return RunDir(self.path / (level if not tries else f"{level}-again{tries if tries > 1 else ''}"))

    def _tries(self, level: str) -> list[RunDir]:
        found = [path for path in self.path.iterdir() if path.name == level or path.name.startswith(f"{level}-again")]
        return [RunDir(path) for path in sorted(found, key=lambda path: (len(path.name), path.name))]


def _is_finished(rundir: RunDir) -> bool:
    return rundir.summary.is_file() and rundir.read_summary()["ended"]["status"] == "finished"
