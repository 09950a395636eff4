"""What is kept of one exchange while it goes on: no more than what came, and when."""

from array import array

from loadgen.servers.recorder.message import Headers, Request

# An exchange whose answer is longer is passed on and not recorded: its line is made in memory.
KEPT_MOST_BYTES = 128 << 20


class Note:
    """A request and its answer so far; moments are ns on the network's clock."""

    __slots__ = ("at_ns", "clean", "headers", "is_too_long", "reads", "request", "sent_ns", "size", "status")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.sent_ns: int | None = None  # to the upstream: what it did before that is no wait for its answer
        self.status: int | None = None
        self.headers: Headers = []
        self.reads: list[bytes] = []
        self.at_ns = array("q")  # of each read
        self.size = 0
        self.is_too_long = False
        self.clean = False

    def head(self, status: int, headers: Headers) -> None:
        """Take the answer's status and headers."""
        self.status = status
        self.headers = list(headers)

    def body(self, data: bytes, at_ns: int) -> None:
        """Take bytes that arrived by `at_ns`."""
        self.size += len(data)
        if self.size <= KEPT_MOST_BYTES:
            self.reads.append(data)
            self.at_ns.append(at_ns)
        elif not self.is_too_long:
            self.is_too_long = True
            self.reads, self.at_ns = [], array("q")
