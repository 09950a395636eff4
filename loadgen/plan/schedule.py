"""The schedule: which request is due when, fixed before the run, stored and hashed."""

from __future__ import annotations  # array is generic to the type checker only

import csv
import hashlib
import sys
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from loadgen.errors import UsageError
from loadgen.plan.recordings.ours import RecordedRequest

SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Schedule:
    """An immutable table of sends, one row a request, ascending in time.

    `due_ns` counts from the run's start and is None in a closed loop, where callers take the next row when they are
    free; `which` is the row's place in the recording. The measurement window is [warmup_ns, warmup_ns + length_ns].
    `count` is None for a closed loop that only time ends.
    """

    due_ns: array[int] | None
    which: array[int]
    recorded: int
    warmup_ns: int
    length_ns: int | None
    sha256: str
    count: int | None
    callers: int | None = None
    nominal_rate: float | None = None
    measured: int | None = None

    @property
    def is_closed(self) -> bool:
        return self.due_ns is None

    @property
    def repeats(self) -> bool:
        """Whether the recording is shorter than the run and is sent again from its start."""
        return self.count is not None and self.count > self.recorded

    def request_at(self, seq: int) -> int:
        """Return the place in the recording of the request with this sequence number."""
        return self.which[seq] if self.which else seq % self.recorded

    def is_warmup(self, seq: int) -> bool:
        return self.due_ns is not None and self.due_ns[seq] < self.warmup_ns


def open_loop(
    requests: Sequence[RecordedRequest],
    due_s: Iterable[float],
    *,
    which: Iterable[int] | None = None,
    warmup_s: float = 0.0,
    length_s: float | None = None,
    nominal_rate: float | None = None,
) -> Schedule:
    """Return the schedule of requests due at `due_s` (from the run's start, warm-up included), in recorded order.

    `length_s` is the window's length; by default it ends with the last request plus the mean gap.
    """
    due_ns = array("q", (round(at * SECOND_NS) for at in due_s))
    if not due_ns:
        raise UsageError("the schedule has no request in it", hint="raise the rate, the duration or --requests")
    places = array("q", which if which is not None else (seq % len(requests) for seq in range(len(due_ns))))
    warmup_ns = round(warmup_s * SECOND_NS)
    window = [at - warmup_ns for at in due_ns if at >= warmup_ns]
    if not window:
        raise UsageError("the whole schedule is warm-up", hint="make it longer than --warmup")
    if length_s is not None:
        length_ns = max(round(length_s * SECOND_NS), window[-1])  # the window holds its last due
    elif len(window) > 1:
        length_ns = window[-1] + (window[-1] - window[0]) // (len(window) - 1)
    else:
        length_ns = window[-1] + SECOND_NS
    return Schedule(
        due_ns=due_ns,
        which=places,
        recorded=len(requests),
        warmup_ns=warmup_ns,
        length_ns=length_ns,
        sha256=_hash(requests, due_ns, places),
        count=len(due_ns),
        nominal_rate=nominal_rate,
        measured=len(window),
    )


def of_their_own(schedule: Schedule, requests: Sequence[RecordedRequest]) -> Schedule:
    """Return an open-loop schedule with a request of its own for each of its moments, warm-up included."""
    assert schedule.due_ns is not None
    places = array("q", range(len(schedule.due_ns)))
    sha256 = _hash(requests, schedule.due_ns, places)
    return replace(schedule, which=places, recorded=len(requests), sha256=sha256)


def closed_loop(
    requests: Sequence[RecordedRequest],
    *,
    callers: int,
    count: int | None,
    warmup_s: float = 0.0,
    length_s: float | None = None,
) -> Schedule:
    """Return the order in which `callers` callers take requests: until `count` are measured, or `length_s` is over."""
    return Schedule(
        due_ns=None,
        which=array("q"),
        recorded=len(requests),
        warmup_ns=round(warmup_s * SECOND_NS),
        length_ns=None if length_s is None else round(length_s * SECOND_NS),
        sha256=_hash(requests, array("q"), array("q", range(len(requests)))),
        count=count if not warmup_s else None,
        callers=callers,
        measured=count,
    )


def _hash(requests: Sequence[RecordedRequest], due_ns: array[int], places: array[int]) -> str:
    """SHA-256 over due times, paths and bodies; not over target, headers or run."""
    digests = [hashlib.sha256(request.path.encode() + b"\0" + request.payload).digest() for request in requests]
    whole = hashlib.sha256()
    moments = array("q", due_ns)
    if sys.byteorder == "big":
        moments.byteswap()
    whole.update(moments.tobytes())
    for place in places:
        whole.update(digests[place])
    return whole.hexdigest()


_HINT = "a schedule is a CSV of due_ns, ascending, and perhaps request; `loadgen plan` writes them so"


def save_csv(path: Path, schedule: Schedule, *, with_places: bool) -> None:
    """Write an open-loop schedule as a CSV: `due_ns`, and if asked `request`, the place in the recording it is for."""
    with path.open("w", newline="") as file:
        file.write("due_ns,request\n" if with_places else "due_ns\n")
        for at, place in zip(schedule.due_ns or (), schedule.which, strict=True):
            file.write(f"{at},{place}\n" if with_places else f"{at}\n")


def load_csv(path: Path) -> tuple[list[int], list[int] | None]:
    """Return due times (ns from the start) and requests' places of a schedule file; raises UsageError with the line.

    The places are None when the file has no such column: the recording's own order then.
    """
    try:
        with path.open(newline="") as file:
            reader = csv.reader(file)
            header, *rows = reader
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise UsageError(f"{path}: {reason}", hint=_HINT) from None
    except csv.Error as error:
        raise UsageError(f"{path}:{reader.line_num}: {error}", hint=_HINT) from None
    except ValueError:
        raise UsageError(f"{path}: empty", hint=_HINT) from None
    if header not in (["due_ns"], ["due_ns", "request"]):
        raise UsageError(f"{path}:1: the header is neither due_ns nor due_ns,request", hint=_HINT)
    due_ns: list[int] = []
    places: list[int] = []
    for number, row in enumerate(rows, 2):
        if len(row) != len(header) or not all(cell.isascii() and cell.isdigit() and len(cell) < 19 for cell in row):
            raise UsageError(f"{path}:{number}: {','.join(row)!r} is not a row of counts", hint=_HINT)
        due_ns.append(int(row[0]))
        places.extend(map(int, row[1:]))
        if len(due_ns) > 1 and due_ns[-1] < due_ns[-2]:
            raise UsageError(f"{path}:{number}: {row[0]} comes after {due_ns[-2]}", hint=_HINT)
    if not due_ns:
        raise UsageError(f"{path}: no request in it", hint=_HINT)
    return due_ns, places or None


def recorded_times(
    requests: Sequence[RecordedRequest], *, speed: float = 1.0, limit: int | None = None, until_s: float | None = None
) -> tuple[list[float], list[int]]:
    """Return the recorded offsets in seconds, ascending, and whose they are; raises UsageError without any.

    Where `limit` requests or `until_s` seconds ask for more than was recorded, the recording starts over a mean gap
    after its last request.
    """
    missing = next((place for place, request in enumerate(requests) if request.at_s is None), None)
    if missing is not None:
        raise UsageError(f"request {missing + 1} of the recording has no at_s", hint="give a --rate instead")
    once = sorted(((request.at_s or 0.0) / speed, place) for place, request in enumerate(requests))
    origin, last = once[0][0], once[-1][0]
    lap_s = (last - origin) + ((last - origin) / (len(once) - 1) if len(once) > 1 else 1.0)
    times: list[float] = []
    places: list[int] = []
    lap = 0
    while True:
        for at, place in once:
            due = at - origin + lap * lap_s
            if (limit is not None and len(times) >= limit) or (until_s is not None and due >= until_s):
                return times, places
            times.append(due)
            places.append(place)
        lap += 1
        if (limit is None and until_s is None) or lap_s <= 0:
            return times, places
