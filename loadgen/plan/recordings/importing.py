"""From anybody's recording or trace to ours: read row by row, changed as asked, written whole or not at all."""

from __future__ import annotations  # array is generic to the type checker only

import os
import tempfile
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isinf
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from loadgen.errors import UsageError
from loadgen.plan.recordings.edits import asked_of
from loadgen.plan.recordings.importers import OWN, recognise
from loadgen.plan.recordings.importers.content import opened
from loadgen.plan.recordings.importers.found import Asked, Refused
from loadgen.plan.recordings.ours import RecordedRequest, encode_line, parse_recording
from loadgen.plan.recordings.spreading import SPREADS
from loadgen.plan.recordings.survey import UNKNOWN_NS, Refusals, Survey, is_ascending, quantum_ns, tokens_of

_SECOND_NS = 1_000_000_000

_decode = msgspec.json.Decoder(RecordedRequest).decode


@dataclass(frozen=True, slots=True)
class ClassBy:
    """Classes by a length: short below the threshold, long from it on."""

    name: str  # input_tokens or output_tokens
    threshold: int

    def klass(self, request: RecordedRequest) -> str | None:
        """Return a request's class; its own where the length is not known."""
        tokens = tokens_of(request)[self.name == "output_tokens"]
        return request.klass if tokens is None else "short" if tokens < self.threshold else "long"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What to make of a source on its way: first its window and limit, then its ties, then its speed."""

    window_s: tuple[float, float] | None = None  # from the first arrival
    limit: int | None = None
    spread_ties: str | None = None  # a key of SPREADS
    seed: int = 0
    speed: float = 1.0
    map_model: dict[str, str] = field(default_factory=dict)
    class_by: ClassBy | None = None

    @property
    def need_all_times(self) -> bool:
        """Whether no request can be placed before the last has been read."""
        return self.window_s is not None or self.spread_ties is not None

    def apply(self, request: RecordedRequest) -> RecordedRequest:
        """Return a request with its model and class as asked."""
        if request.model in self.map_model:
            request = asked_of(request, self.map_model[request.model])
        if self.class_by is not None:
            request = msgspec.structs.replace(request, klass=self.class_by.klass(request))
        return request


def import_recording(source: Path, out: Path | None, *, asked: Asked, changes: Changes) -> dict[str, Any]:
    """Write a source's requests to the recording `out`; return what it holds, for a report.

    Without `out` nothing is written. The report counts the written requests, in the source's own time, before ties were
    spread or the speed was changed. Raises UsageError, also when no request is left.
    """
    refusals = Refusals()
    with _draft(out) as draft, opened(source) as content:
        kind = recognise(content)
        rows = _requests(kind.read(content, asked), refusals, changes)
        survey = Survey()
        offsets = array("q") if changes.need_all_times else survey.at_ns
        first_ns: int | None = None
        for request, at_ns, zone in rows:
            if at_ns is not None and first_ns is None:
                first_ns = at_ns
            offset = UNKNOWN_NS if at_ns is None else at_ns - (first_ns or 0)
            if changes.need_all_times:
                offsets.append(offset)
                survey.zones |= {zone} if zone else set()
                draft.write(_line(request, None))
            else:
                survey.add(request, None if at_ns is None else offset, zone)
                draft.write(_line(request, _seconds(offset, changes.speed)))
            if len(offsets) == changes.limit and not changes.need_all_times:
                break
        _check_any(content.name, len(offsets), refusals)
        # The first request of a source is not always its earliest.
        earliest = min((at for at in offsets if at != UNKNOWN_NS), default=0)
        if changes.need_all_times or earliest < 0:
            offsets = array("q", (at if at == UNKNOWN_NS else at - earliest for at in offsets))
            survey = _place(draft, offsets, changes, survey)
            if not survey.at_ns:
                raise UsageError(f"{content.name}: no request is in the window", hint="give a wider --window")
        draft.publish()
    return {
        "source": content.name,
        "kind": kind.name,
        "out": None if out is None else str(out),
        **survey.as_json(),
        "refused": refusals.as_json(),
        "changes": _told(changes),
    }


@dataclass(frozen=True, slots=True)
class Loaded:
    """A source's requests in memory, what kind it is (a key of SOURCES), and how many rows make none."""

    requests: list[RecordedRequest]
    kind: str
    refused: int = 0


def load(path: Path, *, asked: Asked) -> Loaded:
    """Return the requests of any source that is known, their `at_s` from the earliest on; raises UsageError.

    Our own recordings are taken strictly: a line that is wrong is an error there, but for a torn last one.
    """
    refusals = Refusals()
    with opened(path) as content:
        kind = recognise(content)
        if kind.name == OWN:
            requests, is_torn = parse_recording(str(path), content.lines())
            return Loaded(requests, OWN, refused=int(is_torn))
        found = list(_requests(kind.read(content, asked), refusals, Changes()))
        _check_any(content.name, len(found), refusals)
    earliest = min((at_ns for _, at_ns, _ in found if at_ns is not None), default=0)
    requests = [
        request if at_ns is None else msgspec.structs.replace(request, at_s=(at_ns - earliest) / _SECOND_NS)
        for request, at_ns, _ in found
    ]
    return Loaded(requests, kind.name, refusals.rows)


def parse_class_by(text: str) -> ClassBy:
    """Read `input_tokens:1000`; raises UsageError."""
    name, _, threshold = text.partition(":")
    if name not in ("input_tokens", "output_tokens") or not (threshold.isascii() and threshold.isdigit()):
        raise UsageError(f"--class-by {text!r} is not LENGTH:TOKENS", hint="as in --class-by input_tokens:1000")
    return ClassBy(name, int(threshold))


def _requests(
    found: Iterator[Any], refusals: Refusals, changes: Changes
) -> Iterator[tuple[RecordedRequest, int | None, str | None]]:
    for item in found:
        if isinstance(item, Refused):
            refusals.add(item.row, item.reason)
            continue
        if item.at_ns is None and changes.window_s is not None:
            refusals.add(item.row, "no arrival time: it is in no window")
            continue
        try:
            yield changes.apply(item.request), item.at_ns, item.zone
        except UsageError as error:  # a body that cannot be changed as asked
            refusals.add(item.row, str(error).partition("\n")[0].partition(": ")[2])


def _place(draft: _Draft, offsets: array[int], changes: Changes, before: Survey) -> Survey:
    """Write the draft again, each request at its place in time."""
    survey = Survey()
    survey.zones = before.zones
    known = array("q", (at for at in offsets if at != UNKNOWN_NS))
    quantum, _ = quantum_ns(known if is_ascending(known) else array("q", sorted(known)))
    kept = _kept(offsets, changes)
    times = array("q", (offsets[place] for place in kept))
    begin = min((at for at in times if at != UNKNOWN_NS), default=0)
    times = array("q", (at if at == UNKNOWN_NS else at - begin for at in times))
    spread = times
    if changes.spread_ties is not None:
        if not quantum:
            raise UsageError(
                "--spread-ties: all requests have one time, or none", hint="give a --rate to the run instead"
            )
        spread = SPREADS[changes.spread_ties](times, quantum_ns=quantum, seed=changes.seed)
    wanted = iter(kept)
    place_wanted = next(wanted, None)
    written = 0
    for place, line in enumerate(draft.rewritten()):
        if place != place_wanted:
            continue
        place_wanted = next(wanted, None)
        request = _decode(line)
        at = times[written]
        survey.add(request, None if at == UNKNOWN_NS else at)
        draft.write(_line(request, _seconds(spread[written], changes.speed)))
        written += 1
    return survey


def _kept(offsets: array[int], changes: Changes) -> array[int]:
    """The places of the requests in the window, up to the limit."""
    if changes.window_s is None:
        return array("q", range(min(len(offsets), changes.limit or len(offsets))))
    begin, end = (_SECOND_NS * at for at in changes.window_s)
    kept = array("q")
    for place, at in enumerate(offsets):
        if begin <= at < end and len(kept) != changes.limit:
            kept.append(place)
    return kept


def _line(request: RecordedRequest, at_s: float | None) -> bytes:
    return encode_line(msgspec.structs.replace(request, at_s=at_s))


def _seconds(offset_ns: int, speed: float) -> float | None:
    return None if offset_ns == UNKNOWN_NS else offset_ns / _SECOND_NS / speed


def _check_any(name: str, rows: int, refusals: Refusals) -> None:
    if rows:
        return
    if refusals.first is None:
        raise UsageError(f"{name}: no request in it", hint="give a source with at least one request")
    row, reason = refusals.first
    raise UsageError(
        f"{name}:{row}: {reason}; none of its {refusals.rows} rows makes a request",
        hint="is it the file you meant? `loadgen import` tells kinds by what they begin with",
    )


def _told(changes: Changes) -> dict[str, Any]:
    """What was asked for and is not the default."""
    class_by = changes.class_by
    told = {
        "window_s": [None if isinf(at) else at for at in changes.window_s] if changes.window_s else None,
        "limit": changes.limit,
        "spread_ties": changes.spread_ties,
        "seed": changes.seed if changes.spread_ties else None,
        "speed": changes.speed if changes.speed != 1.0 else None,
        "map_model": changes.map_model or None,
        "class_by": f"{class_by.name}:{class_by.threshold}" if class_by else None,
    }
    return {name: value for name, value in told.items() if value is not None}


class _Draft:
    """What is to become the recording: written beside it, and given its name when it is whole."""

    def __init__(self, out: Path | None) -> None:
        self._out = out
        self._paths: list[Path] = []
        self._file = self._opened()

    def write(self, line: bytes) -> None:
        self._file.write(line)

    def rewritten(self) -> Iterator[bytes]:
        """Yield the lines written so far; what is written from now on takes their place."""
        with self._file as before:
            before.seek(0)
            self._file = self._opened()
            yield from before

    def publish(self) -> None:
        """Give it its name; raises UsageError when that has been taken."""
        self._file.close()
        if self._out is not None:
            try:
                os.link(self._paths[-1], self._out)  # unlike a rename, never over another file
            except FileExistsError:
                raise _taken(self._out) from None
            except OSError:  # a file system without links
                if os.path.lexists(self._out):
                    raise _taken(self._out) from None
                self._paths.pop().rename(self._out)

    def discard(self) -> None:
        """Remove what was written beside it."""
        self._file.close()
        for path in self._paths:
            path.unlink(missing_ok=True)

    def _opened(self) -> BinaryIO:
        if self._out is None:
            return cast(BinaryIO, tempfile.TemporaryFile())
        path = self._out.with_name(f".{self._out.name}.{os.getpid()}.{len(self._paths)}.partial")
        file = path.open("xb+")
        self._paths.append(path)
        return file


@contextmanager
def _draft(out: Path | None) -> Iterator[_Draft]:
    if out is not None and os.path.lexists(out):
        raise _taken(out)
    try:
        draft = _Draft(out)
        try:
            yield draft
        finally:
            draft.discard()
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror}", hint="give an --out that you can write") from None


def _taken(out: Path) -> UsageError:
    return UsageError(f"{out}: there is a file already", hint="give another --out: none is ever overwritten")
