"""What went past the recorder, counted."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Tally:
    """Counts since the start."""

    requests: int = 0  # passed on, whatever became of them
    recorded: int = 0  # lines in the file
    formats: Counter[str] = field(default_factory=Counter)  # of recorded answers
    cut_by_client: int = 0  # it left before its answer was whole
    cut_by_upstream: int = 0
    cut_by_us: int = 0  # stopped before they were over
    unreachable: int = 0  # answered by the recorder: no connection, or no HTTP
    refused: int = 0  # not passed on: no HTTP, or too large
    left_out: int = 0  # by --sample
    beyond: int = 0  # after --max-requests
    too_long: int = 0  # answers too long to be recorded
    waited: int = 0  # reads that had to wait for a client that did not keep up
    bytes_up: int = 0  # of request bodies
    bytes_down: int = 0  # of answers' bodies
