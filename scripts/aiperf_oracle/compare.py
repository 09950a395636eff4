"""What the two sides made of the same runs, side by side: relative differences, and what is left of the meant ones."""

import math
from dataclasses import dataclass, field

from aiperf_oracle.streams import METRICS, RATE, Numbers, Run, Stream

TOLERANCE = 1e-9
_ALWAYS = ("ttft", "e2e")  # where there is output; the others need tokens too


def relative(ours: float | None, theirs: float | None) -> float:
    """Return how far two numbers are apart, in units of the greater; infinitely where only one of them exists."""
    if ours == theirs:
        return 0.0
    if ours is None or theirs is None:
        return math.inf
    return abs(ours - theirs) / max(abs(ours), abs(theirs))


@dataclass(slots=True)
class Extent:
    """The comparisons of one number: how many there were, how many had none on either side, and the worst."""

    compared: int = 0
    absent: int = 0
    worst: float = 0.0

    def add(self, ours: float | None, theirs: float | None) -> bool:
        """Take one comparison; return whether it is within the tolerance."""
        self.compared += ours is not None or theirs is not None
        self.absent += ours is None and theirs is None
        apart = relative(ours, theirs)
        self.worst = max(self.worst, apart)
        return apart <= TOLERANCE


@dataclass(slots=True)
class Agreement:
    """Runs on which both must agree: every number of a request, and every statistic and rate of a run."""

    runs: int = 0
    streams: int = 0
    reads: int = 0
    requests: dict[str, Extent] = field(default_factory=lambda: {name: Extent() for name in METRICS})
    statistics: dict[str, Extent] = field(default_factory=lambda: {name: Extent() for name in METRICS})
    rate: Extent = field(default_factory=Extent)
    exported: list[float] = field(default_factory=list)  # AIPerf's rate as it exports it, in units of ours
    findings: list[tuple[int, str]] = field(default_factory=list)  # the size of each, and its words

    def add(self, run: Run, ours: Numbers, theirs: Numbers) -> None:
        """Compare one run."""
        self.runs += 1
        self.streams += len(run.streams)
        for stream, our, their in zip(run.streams, ours.requests, theirs.requests, strict=True):
            self.reads += len(stream.reads)
            for name in METRICS:
                if not self.requests[name].add(our.get(name), their.get(name)):
                    self._find(len(stream.reads), name, our, their, stream)
        for name in METRICS:
            our, their = ours.statistics.get(name, {}), theirs.statistics.get(name, {})
            printed = ours.printed.get(name, {})
            pairs = [(our.get(statistic), their.get(statistic)) for statistic in {**our, **their}]
            pairs += [(number, their.get(statistic)) for statistic, number in printed.items()]
            agreed = [self.statistics[name].add(*pair) for pair in pairs]
            if False in agreed:
                self._find(len(run.streams) * 1000, f"{name} over a run", our, their)
        rates = (ours.output_tokens_per_sec, theirs.output_tokens_per_sec)
        if not self.rate.add(*rates):
            self._find(len(run.streams) * 1000, RATE[0], *rates)
        if ours.output_tokens_per_sec and theirs.exported_tokens_per_sec:
            self.exported.append(theirs.exported_tokens_per_sec / ours.output_tokens_per_sec)

    def _find(self, size: int, what: str, our: object, their: object, stream: Stream | None = None) -> None:
        shown = f"\n{stream}" if stream else ""
        self.findings.append((size, f"{what}: ours {our}, AIPerf's {their}{shown}"))

    @property
    def worst(self) -> float:
        return max(extent.worst for extent in (*self.requests.values(), *self.statistics.values(), self.rate))


@dataclass(slots=True)
class Counts:
    """In how many streams a number differs: because one side has none, and for all reasons."""

    only_ours: int = 0
    only_theirs: int = 0
    all: int = 0


@dataclass(slots=True)
class Shown:
    """Runs that show one difference: which numbers differ, by how much, and what is left when it is taken out."""

    streams: int = 0
    differing: dict[str, Counts] = field(default_factory=lambda: {name: Counts() for name in METRICS})
    shifts_ms: list[float] = field(default_factory=list)  # of ttft or e2e, ours less AIPerf's
    rates: list[tuple[float | None, float | None]] = field(default_factory=list)  # ours, AIPerf's
    left: Extent = field(default_factory=Extent)
    findings: list[tuple[int, str]] = field(default_factory=list)

    def add(self, run: Run, ours: Numbers, theirs: Numbers) -> None:
        """Compare one run."""
        self.streams += len(run.streams)
        for stream, our, their in zip(run.streams, ours.requests, theirs.requests, strict=True):
            expected = _expected(stream, their)
            for name in METRICS:
                self._count(name, our, their)
                if name in stream.differs.only_ours:
                    fine = name not in their and (name in our or name not in _ALWAYS)
                elif name in stream.differs.only_theirs:
                    fine = name not in our and (name in their or name not in _ALWAYS)
                else:
                    fine = self.left.add(our.get(name), expected.get(name))
                if not fine:
                    words = f"{name}: ours {our}, AIPerf's {their}, expected {expected}\n{stream}"
                    self.findings.append((len(stream.reads), words))
        self.rates.append((ours.output_tokens_per_sec, theirs.output_tokens_per_sec))
        rate = _expected_rate(run, theirs)
        if rate is not None and not self.left.add(ours.output_tokens_per_sec, rate):
            words = f"{RATE[0]}: ours {ours.output_tokens_per_sec}, expected {rate}\n{run}"
            self.findings.append((len(run.streams) * 1000, words))

    def _count(self, name: str, our: dict[str, float], their: dict[str, float]) -> None:
        if relative(our.get(name), their.get(name)) <= TOLERANCE:
            return
        counts = self.differing[name]
        counts.all += 1
        counts.only_ours += name not in their
        counts.only_theirs += name not in our
        if name in _ALWAYS and name in our and name in their:
            self.shifts_ms.append(our[name] - their[name])


def _expected(stream: Stream, their: dict[str, float]) -> dict[str, float]:
    """Return our numbers of a stream as they must follow from AIPerf's and the difference that it shows."""
    found = {}
    # Moments are whole nanoseconds: taking them as such keeps small differences of large numbers exact.
    moved = {"ttft": stream.differs.ttft_ns, "e2e": stream.differs.e2e_ns}
    ns = {name: round(their[name] * 1e6) + moved[name] for name in moved if name in their}
    for name, value in ns.items():
        found[name] = value / 1e6
    if len(ns) == len(moved) and stream.tokens > 1:
        found["itl"] = (ns["e2e"] - ns["ttft"]) / 1e6 / (stream.tokens - 1)
        if found["itl"]:
            found["user_tokens_per_sec"] = 1000 / found["itl"]
    return found


def _expected_rate(run: Run, theirs: Numbers) -> float | None:
    """Return our rate of a run as it must follow; None where one side has none of a stream's numbers."""
    ends_ns = []
    for stream, their in zip(run.streams, theirs.requests, strict=True):
        if "e2e" not in their or stream.differs.only_ours or stream.differs.only_theirs:
            return None
        ends_ns.append(stream.sent_ns + round(their["e2e"] * 1e6) + stream.differs.e2e_ns)
    seconds = (max(ends_ns) - min(stream.sent_ns for stream in run.streams)) / 1e9
    return sum(stream.tokens for stream in run.streams) / seconds if seconds else None
