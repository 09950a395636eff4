"""One run, ordered and carried out: from the preflight to a finished run folder."""

import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import trio

from loadgen import __version__
from loadgen.drive.driver import Conduct, Driver
from loadgen.drive.recorded import keep_recorded
from loadgen.drive.run import Clock, conduct_run
from loadgen.drive.scrape import Scraping
from loadgen.net.limits import check_limits, descriptor_limit
from loadgen.net.reach import reach
from loadgen.net.route import Route
from loadgen.plan.recordings.ours import RecordedRequest, write_recording
from loadgen.plan.render import NO_KEYS, Keys, Rendered, RenderedRequest
from loadgen.plan.schedule import SECOND_NS, Schedule
from loadgen.results.journal import Journal
from loadgen.results.record import Planned
from loadgen.results.rundir import Plan, RunDir
from loadgen.results.secrets import masked_arguments
from loadgen.wire.secrets import masked_path


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Everything one run is made of."""

    route: Route
    requests: Sequence[RecordedRequest]
    schedule: Schedule
    conduct: Conduct
    out: Path
    headers: dict[str, str] = field(default_factory=dict)
    keys: Keys = NO_KEYS
    config: dict[str, Any] = field(default_factory=dict)  # the options as resolved, for run.json; no secrets
    label: str | None = None
    scraping: Scraping = field(default_factory=Scraping)
    keeps_bodies: bool = False  # what was asked, as a recording; answers are the conduct's to keep
    made_up: dict[str, Any] | None = None  # what is to be known of prompts that no recording held


class Mix:
    """What the requests of a run add up to, by class; counted as they go by, since made-up ones are not kept."""

    def __init__(self) -> None:
        self.classes: dict[str, dict[str, int]] = {}
        self._bodies: set[int] = set()

    def add(self, request: RenderedRequest) -> None:
        of = self.classes.setdefault(request.klass or "", {"requests": 0, "body_bytes": 0})
        of["requests"] += 1
        of["body_bytes"] += len(request.body)
        if request.body:
            self._bodies.add(hash(request.body))

    @property
    def different_bodies(self) -> int:
        return len(self._bodies)


def carry_out(
    order: Order,
    *,
    on_progress: Callable[[Driver], None] | None = None,
    warn: Callable[[str], None] = lambda words: None,
) -> tuple[RunDir, str | None]:
    """Do the run; return its folder, its journal complete, and the name of the signal that stopped it.

    Raises TargetError when the target cannot be reached, UsageError when the machine or the folder will not do.
    """
    schedule, conduct = order.schedule, order.conduct
    certain = min(conduct.max_concurrency or sys.maxsize, schedule.callers or sys.maxsize)
    possible = min(certain, most_at_once(schedule, conduct.deadline_ns))
    for words in check_limits(certain=possible if certain < sys.maxsize else 0, possible=possible):
        warn(words)
    address = trio.run(lambda: reach(order.route))
    rendered = Rendered(
        order.requests,
        authority=order.route.target.authority,
        path=order.route.target.path,
        headers=order.headers,
        keys=order.keys,
    )
    rundir = RunDir.create(order.out)
    mix = Mix()
    rundir.write_plan(_plan(order, rendered, mix))
    if order.keeps_bodies:
        write_recording(rundir.prompts, order.requests)
    keep_recorded(order.requests, rendered, rundir.recorded_journal, rules=conduct.rules)
    journal = Journal(rundir.journal)
    manifest = _manifest(order, mix)

    def on_start(clock: Clock) -> None:
        started = datetime.fromtimestamp(clock.started_unix_ns / SECOND_NS, UTC)
        manifest["clock"] = {"started": started.isoformat(), "started_unix_ns": clock.started_unix_ns}
        rundir.write_json(rundir.manifest, manifest)

    try:
        stopped_by = trio.run(
            lambda: conduct_run(
                schedule,
                rendered,
                order.route,
                address,
                journal,
                conduct,
                order.scraping,
                on_start=on_start,
                on_progress=on_progress,
            )
        )
    finally:
        journal.close()
    return rundir, stopped_by


def most_at_once(schedule: Schedule, deadline_ns: int) -> int:
    """Return the most requests in flight if each took its whole deadline."""
    due = schedule.due_ns
    if due is None:
        return schedule.callers or 1
    most = first = 0
    for seq, at in enumerate(due):
        while due[first] <= at - deadline_ns:
            first += 1
        most = max(most, seq - first + 1)
    return most


def _repeats(order: Order, mix: Mix) -> bool:
    """Whether a body is sent more than once, be it a cached prompt's or none at all."""
    schedule = order.schedule
    if order.conduct.nonces is not None:
        return False
    return schedule.count is None or schedule.count > mix.different_bodies > 0


def _plan(order: Order, rendered: Sequence[RenderedRequest], mix: Mix) -> Plan:
    schedule = order.schedule

    def planned(request: RenderedRequest, recorded: RecordedRequest) -> Planned:
        mix.add(request)
        return Planned(
            id=request.id,
            klass=request.klass,
            session=request.session,
            method=request.method,
            path=masked_path(request.path),
            model=request.model,
            request_bytes=len(request.body),
            expected_output_tokens=recorded.expected_output_tokens,
        )

    return Plan(
        due_ns=schedule.due_ns.tobytes() if schedule.due_ns is not None else b"",
        places=schedule.which.tobytes(),
        warmup_ns=schedule.warmup_ns,
        recorded=schedule.recorded,
        is_closed=schedule.is_closed,
        requests=list(map(planned, rendered, order.requests)),
    )


def _manifest(order: Order, mix: Mix) -> dict[str, Any]:
    """What `run.json` says from the start: everything needed to repeat the run, and no secret."""
    schedule = order.schedule
    return {
        "run": order.conduct.run,
        "label": order.label,
        "status": "running",
        "loadgen": __version__,
        "command": ["loadgen", *masked_arguments(sys.argv[1:])],
        "target": masked_path(str(order.route.target)),
        "proxy": None if order.route.via is None else str(order.route.via),
        "config": order.config,
        "schedule": {
            "sha256": schedule.sha256,
            "requests": schedule.count,
            "measured": schedule.measured,
            "callers": schedule.callers,
            "nominal_rate": schedule.nominal_rate,
            "warmup_s": schedule.warmup_ns / SECOND_NS,
            "length_s": None if schedule.length_ns is None else schedule.length_ns / SECOND_NS,
            "repeats": schedule.repeats,
        },
        "recording": {
            "requests": schedule.recorded,
            "repeats": _repeats(order, mix),
            "classes": mix.classes,
            "made_up": order.made_up,
            "nonces": nonces.salt if (nonces := order.conduct.nonces) else None,
        },
        "host": {
            "python": platform.python_version(),
            "kernel": platform.release(),
            "machine": platform.machine(),
            "cores": len(os.sched_getaffinity(0)),
            "descriptors": descriptor_limit(),
        },
    }
