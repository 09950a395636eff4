"""How many requests met which end."""

from dataclasses import dataclass

from loadgen.servers.simulated.ledger import Entry


@dataclass(slots=True)
class Tally:
    """Counts of requests for answers and feeds since the start; what could not be understood (4xx) is in none."""

    requests: int = 0  # understood, whatever became of them
    completed: int = 0  # answered to the end
    rejected: int = 0  # by fault: 429 or 503
    overflowed: int = 0  # 503, because slots and queue were full
    cut: int = 0  # by fault: clean close
    reset: int = 0  # by fault: reset
    stalled: int = 0  # by fault: fell silent
    errored: int = 0  # by fault: error frame
    left: int = 0  # the client was gone before the answer was over

    def count(self, entry: Entry) -> None:
        """Count a request's end; one that fell silent was counted then."""
        if entry.end != "stalled":
            setattr(self, entry.end, getattr(self, entry.end) + 1)
