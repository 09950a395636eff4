"""What a recording holds, counted as its requests go by: when they came, how long they are, what is not known."""

from __future__ import annotations  # array is generic to the type checker only

from array import array
from collections import Counter
from collections.abc import Iterator
from math import ceil, floor, gcd, sqrt
from typing import Any

import msgspec

from loadgen.plan.recordings.ours import RecordedRequest
from loadgen.wire.jsontext import count

UNKNOWN_NS = -(2**63)  # of a request whose time the source does not know
_NULL = b"null"
_LACKS = ("arrivals", "bodies", "models", "input lengths", "output lengths", "responses", "frame timing")
_MOST_REASONS = 50
_COARSE = 10  # of this many resolutions a step may be an inexact one
# A usage report's names for tokens in and out; the first that is there.
_INPUT = ("prompt_tokens", "input_tokens", "prompt_eval_count", "inputTokens")
_OUTPUT = ("completion_tokens", "output_tokens", "eval_count", "outputTokens")


def tokens_of(request: RecordedRequest) -> tuple[int | None, int | None]:
    """Return a request's input and output tokens, as far as its recording says them."""
    asked = request.synthetic.input_tokens if request.synthetic is not None else None
    answered = request.expected_output_tokens
    if (asked is None or answered is None) and request.response is not None:
        usage = msgspec.json.decode(request.response.usage)
        if isinstance(usage, dict):
            asked = asked if asked is not None else _first(usage, _INPUT)
            answered = answered if answered is not None else _first(usage, _OUTPUT)
    return asked, answered


def _first(usage: dict[str, Any], names: tuple[str, ...]) -> int | None:
    return next((number for name in names if (number := count(usage.get(name))) is not None), None)


class Lengths:
    """A distribution of token counts; its size is the number of different ones."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def add(self, tokens: int | None) -> None:
        if tokens is not None:
            self._counts[tokens] = self._counts.get(tokens, 0) + 1

    def as_json(self) -> dict[str, Any] | None:
        """Return its n, sum, mean, p50, p99 (linear between ranks) and max; None without any."""
        n = sum(self._counts.values())
        if not n:
            return None
        ascending = sorted(self._counts.items())
        total = sum(tokens * times for tokens, times in ascending)
        return {
            "n": n,
            "sum": total,
            "mean": total / n,
            "p50": _percentile(ascending, n, 0.50),
            "p99": _percentile(ascending, n, 0.99),
            "max": ascending[-1][0],
        }


def _percentile(ascending: list[tuple[int, int]], n: int, share: float) -> float:
    rank = share * (n - 1)
    below, above = floor(rank), ceil(rank)
    low, high = _at_rank(ascending, below), _at_rank(ascending, above)
    return low + (high - low) * (rank - below)


def _at_rank(ascending: list[tuple[int, int]], rank: int) -> int:
    for tokens, times in ascending:
        if rank < times:
            return tokens
        rank -= times
    raise IndexError(rank)


class Survey:
    """Counts what goes by; 8 bytes a request are kept, for its time."""

    def __init__(self) -> None:
        self.at_ns = array("q")  # from the first request's; UNKNOWN_NS where it is not known
        self.zones: set[str] = set()
        self._input, self._output = Lengths(), Lengths()
        self._classes: Counter[str] = Counter()
        self._models: Counter[str] = Counter()
        self._lacks: Counter[int] = Counter()  # by the sum of what a request lacks

    def add(self, request: RecordedRequest, at_ns: int | None, zone: str | None = None) -> None:
        """Count one request."""
        self.at_ns.append(UNKNOWN_NS if at_ns is None else at_ns)
        asked, answered = tokens_of(request)
        self._input.add(asked)
        self._output.add(answered)
        if request.klass is not None:
            self._classes[request.klass] += 1
        if request.model is not None:
            self._models[request.model] += 1
        if zone is not None:
            self.zones.add(zone)
        response = request.response
        is_timed = response is not None and any(frame.ms is not None for frame in response.frames or ())
        has_body = len(request.body) != len(_NULL) or request.body_b64 is not None or bytes(request.body) != _NULL
        self._lacks[
            (at_ns is None)
            + 2 * (request.synthetic is not None and not has_body)
            + 4 * (request.model is None and (has_body or request.synthetic is not None))
            + 8 * (asked is None)
            + 16 * (answered is None)
            + 32 * (response is None)
            + 64 * (not is_timed)
        ] += 1

    def as_json(self) -> dict[str, Any]:
        """Return everything that was counted; what needs more requests or times than there are is null."""
        are_known = not any(lacks & 1 for lacks in self._lacks)
        known = self.at_ns if are_known else array("q", (at for at in self.at_ns if at != UNKNOWN_NS))
        return {
            "rows": len(self.at_ns),
            **arrivals(known),
            "zone": ", ".join(sorted(self.zones)) or None,
            "input_tokens": self._input.as_json(),
            "output_tokens": self._output.as_json(),
            "classes": dict(sorted(self._classes.items())),
            "models": dict(sorted(self._models.items())),
            "lacks": {
                name: rows
                for bit, name in enumerate(_LACKS)
                if (rows := sum(times for lacks, times in self._lacks.items() if lacks >> bit & 1))
            },
        }


def arrivals(at_ns: array[int]) -> dict[str, Any]:
    """Return what arrival times (ns) say: span, mean rate, gaps' CV (population), quantum, ties.

    The quantum is the coarsest step that all of them share, as far as the resolution they are written in lets it be.
    """
    in_order = is_ascending(at_ns)
    if not in_order:
        at_ns = array("q", sorted(at_ns))
    span_ns = at_ns[-1] - at_ns[0] if at_ns else 0
    gaps = len(at_ns) - 1
    mean_ns = span_ns / gaps if gaps > 0 else 0.0
    squares, distinct, together, most = 0.0, int(bool(at_ns)), 1, int(bool(at_ns))
    for before, after in _pairs(at_ns):
        squares += (after - before - mean_ns) ** 2
        if after != before:
            distinct, together = distinct + 1, 1
        else:
            together += 1
            most = max(most, together)
    quantum, resolution = quantum_ns(at_ns)
    return {
        "span_s": span_ns / 1e9 if at_ns else None,
        "mean_rate_per_s": gaps / span_ns * 1e9 if span_ns else None,
        "gap_cv": sqrt(squares / gaps) / mean_ns if mean_ns else None,
        "quantum_s": quantum / 1e9 or None,
        "resolution_s": resolution / 1e9 or None,
        "distinct_times": distinct,
        "tied_rows": len(at_ns) - distinct,
        "most_at_once": most,
        "is_in_order": in_order,
    }


def is_ascending(at_ns: array[int]) -> bool:
    """Tell whether no time comes before the one before it."""
    return all(before <= after for before, after in _pairs(at_ns))


def quantum_ns(ascending: array[int]) -> tuple[int, int]:
    """Return the coarsest step, in ns, that ascending times share, and the resolution they are written in.

    Batches every 3 s, written in whole ms and cut off there, are up to 1 ms away from whole steps: the step is still
    3 s. Both are 0 where all times are the same.

    >>> quantum_ns(array("q", [0, 3000, 5999, 9000, 15000, 18001])), quantum_ns(array("q", [0, 4, 6]))
    ((3000, 1), (2, 2))
    """
    resolution, shortest = 0, 0
    for before, after in _pairs(ascending):
        if before != after:
            gap = after - before
            resolution = gcd(resolution, gap)
            shortest = min(shortest or gap, gap)
            if shortest < _COARSE * resolution == _COARSE:
                break
    step = _rough_step(ascending, shortest, resolution) if shortest >= _COARSE * resolution > 0 else 0
    if step and step >= _COARSE * resolution:
        step = _refined(ascending, step, resolution)
        first = ascending[0]
        if step and all(abs((at - first + step // 2) % step - step // 2) <= resolution for at in ascending):
            return step, resolution
    return resolution, resolution


def _rough_step(ascending: array[int], shortest: int, resolution: int) -> int:
    """The step that all gaps are multiples of, by a tenth: Euclid's way, with what is left over forgiven."""
    step = shortest
    for before, after in _pairs(ascending):
        left = after - before
        while step >= _COARSE * resolution:
            left %= step
            if min(left, step - left) <= step // 10:
                break
            step, left = left, step
    return step


def _refined(ascending: array[int], step: int, resolution: int) -> int:
    """The step in whole resolutions, made exact by ever longer times that are multiples of it."""
    first, exact = ascending[0], float(step)
    for at in ascending:
        if multiple := round((at - first) / exact):
            exact = (at - first) / multiple
    return round(exact / resolution) * resolution


def _pairs(values: array[int]) -> Iterator[tuple[int, int]]:
    later = iter(values)
    next(later, None)
    return zip(values, later, strict=False)


class Refusals:
    """Rows that were refused, by their reasons."""

    def __init__(self) -> None:
        self.rows = 0
        self._reasons: dict[str, list[int]] = {}

    def add(self, row: int, reason: str) -> None:
        """Count one; beyond some tens of reasons, others are counted together."""
        self.rows += 1
        if reason not in self._reasons and len(self._reasons) >= _MOST_REASONS:
            reason = "for other reasons"
        found = self._reasons.setdefault(reason, [0, row])
        found[0] += 1

    @property
    def first(self) -> tuple[int, str] | None:
        """The first refused row and its reason."""
        return next(((row, reason) for reason, (_, row) in self._reasons.items()), None)

    def as_json(self) -> dict[str, Any]:
        ordered = sorted(self._reasons.items(), key=lambda item: -item[1][0])
        reasons = [{"reason": reason, "rows": rows, "first_row": first} for reason, (rows, first) in ordered]
        return {"rows": self.rows, "reasons": reasons}
