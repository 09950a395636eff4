"""What a run is held against: objectives, gates, goals, validity; and the exit code that follows."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadgen.errors import EXIT_FINE, EXIT_GATE_FAILED, EXIT_INVALID, UsageError

if TYPE_CHECKING:
    from loadgen.report.gates import Gate
    from loadgen.report.measured import Measured
    from loadgen.results.slo import Slo


_FLAG_CHANGE_PCT = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """The options that judge, as they were given."""

    slo: list[str] = field(default_factory=list)
    fail_if: list[str] = field(default_factory=list)
    goals: Mapping[str, Any] = field(default_factory=dict)
    require_valid: bool | None = None  # None: gates and goals require it
    junit: Path | None = None
    baseline: Path | None = None  # a run's folder: what changes are counted from, and not the recording
    flag_change: float | None = None  # percent; None: as the run was told, or 10

    @property
    def asks_anything(self) -> bool:
        """Whether a run is to be judged anew."""
        given = self.slo or self.fail_if or self.goals or self.baseline
        return bool(given) or self.require_valid is not None or self.flag_change is not None

    @property
    def requires_valid(self) -> bool:
        if self.require_valid is not None:
            return self.require_valid
        return bool(self.fail_if or self.goals)

    def check(self, classes: Collection[str], *, has_recorded: bool) -> None:
        """Refuse what could not be judged, before anything is sent; raises UsageError.

        `has_recorded` says whether there are recorded answers: changes are counted from them.

        What judges loads polars, so a run that has nothing to check does not load it before it is over.
        """
        if self.slo:
            from loadgen.results.slo import parse_slo

            for text in self.slo:
                parse_slo(text)
        if self.fail_if or self.goals:
            for gate in self._gates(classes):
                if gate.quantity.is_change and self.baseline is None and not has_recorded:
                    raise UsageError(
                        f"gate {gate}: there is nothing to count a change from",
                        hint="name a run with --baseline RUN, or replay a recording that has answers",
                    )
        if self.baseline is not None:
            self._before([])
        if self.junit is not None and not self.junit.absolute().parent.is_dir():
            raise UsageError(f"{self.junit}: there is no such folder", hint="make it, or give another --junit")
        if self.junit is not None and self.junit.is_dir():
            raise UsageError(f"{self.junit}: this is a folder", hint="give --junit a file in it")

    def summarise(self, measured: "Measured", process: dict[str, Any]) -> dict[str, Any]:
        """Return the run's summary, held against the recording where that had answers, with its gates judged."""
        from loadgen.report.gates import evaluate
        from loadgen.report.recorded import against_recording, replay_of
        from loadgen.report.summary import summarise

        made = summarise(measured, process)
        gates = self._gates(classes=None)
        before, now = self._before(measured.slos) if gates else None, None
        if (replay := replay_of(measured)) is not None:
            told = self.flag_change if self.flag_change is not None else measured.manifest["config"].get("flag_change")
            made["recorded"] = against_recording(replay, flag_change=_FLAG_CHANGE_PCT if told is None else told)
            if before is None:
                now, before = ((side.measured, side.numbers) for side in (replay.now, replay.was))
        results = evaluate(gates, measured, made, before=before, now=now)
        return made | {"gates": [result.as_json() for result in results], "requires_valid": self.requires_valid}

    def conclude(self, summary: dict[str, Any]) -> int:
        """Write the JUnit file that was asked for; return the exit code, where INVALID wins over a failed gate."""
        if self.junit is not None:
            from loadgen.report.junit import write_junit

            write_junit(self.junit, summary)
        if summary["requires_valid"] and not summary["verdict"]["valid"]:
            return EXIT_INVALID
        return EXIT_FINE if all(gate["passed"] for gate in summary["gates"]) else EXIT_GATE_FAILED

    def _gates(self, classes: Collection[str] | None) -> "list[Gate]":
        from loadgen.report.gates import parse_gate, parse_goals

        return [
            *(parse_gate(text, classes=classes) for text in self.fail_if),
            *parse_goals(self.goals, classes=classes),
        ]

    def _before(self, slos: "list[Slo]") -> "tuple[Measured, dict[str, Any]] | None":
        """Return the baseline, held to the run's own objectives: what is good must mean the same in both."""
        if self.baseline is None:
            return None
        from loadgen.report.measured import Measured
        from loadgen.report.summary import summarise
        from loadgen.results.rundir import RunDir

        rundir = RunDir.finished(self.baseline)
        measured = Measured.read(rundir, slos)
        return measured, summarise(measured, rundir.read_summary()["process"])
