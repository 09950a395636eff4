"""What the exchanges of one recorder share."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from loadgen.net.network import Network
from loadgen.servers.recorder.clerk import Clerk
from loadgen.servers.recorder.delays import Delays
from loadgen.servers.recorder.message import Request
from loadgen.servers.recorder.note import Note
from loadgen.servers.recorder.passage import Passage
from loadgen.servers.recorder.reader import Refusal
from loadgen.servers.recorder.redaction import Redaction
from loadgen.servers.recorder.reply import Reply
from loadgen.servers.recorder.tally import Tally
from loadgen.wire.ending import Ending


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """What is recorded of what goes past: `sample` is a share from 0 to 1, `max_requests` None for no end."""

    sample: float = 1.0
    seed: int = 0
    max_requests: int | None = None
    redaction: Redaction = field(default_factory=Redaction)


class Room:
    """The upstream, the recording, and what is counted; `say` is told, in words, what a user should know."""

    def __init__(
        self,
        network: Network,
        clerk: Clerk,
        habits: Habits,
        tally: Tally,
        delays: Delays,
        *,
        authority: str,
        prefix: str,
        say: Callable[[str], None],
    ) -> None:
        self.network = network
        self.authority = authority
        self.prefix = prefix
        self.tally = tally
        self.delays = delays  # of an answer's bytes: from their arrival to after they were written to the client
        self.request_delays = Delays()  # from a request's last byte to its first one written, on open connections
        self._clerk = clerk
        self._habits = habits
        self._draw = random.Random(habits.seed)
        self._say = say
        self._noted = 0  # exchanges that are to be recorded
        self._passages: set[Passage] = set()

    def serve(self, request: Request, reply: Reply, nursery: trio.Nursery) -> Passage:
        """Start an exchange, and return who attends to its client."""
        tally = self.tally
        tally.requests += 1
        tally.bytes_up += len(request.body)
        passage = Passage(self, request, reply, self._note(request))
        self._passages.add(passage)
        nursery.start_soon(passage.run)
        return passage

    def passed(self, at_ns: int, size: int = 0, *, at_once: bool) -> None:
        """Take that bytes which arrived at `at_ns` were written, at once or as far as their client took them."""
        if at_once:
            self.delays.note(self.network.now() - at_ns)
        else:
            self.tally.waited += 1
        self.tally.bytes_down += size

    def refused(self, _refusal: Refusal) -> None:
        """Take that a request was not passed on."""
        self.tally.refused += 1

    def abandon_all(self) -> None:
        """Cut off every exchange that is open."""
        for passage in list(self._passages):
            passage.abandon()

    def finished(self, passage: Passage, note: Note | None, ending: Ending, *, clean: bool) -> None:
        """Take the end of an exchange, and record it if it is to be."""
        self._passages.discard(passage)
        tally = self.tally
        if ending.how in ("connect", "limit") or (clean and ending.how == "malformed"):
            tally.unreachable += 1
        elif ending.detail == "client_left":
            tally.cut_by_client += 1
        elif ending.how == "abandoned":
            tally.cut_by_us += 1
        elif not clean:
            tally.cut_by_upstream += 1
        if note is not None:
            note.clean = clean
            self._clerk.give(note)

    def _note(self, request: Request) -> Note | None:
        habits, tally = self._habits, self.tally
        # Drawn for each request, recorded or not: so the same seed picks the same ones whatever --max-requests is.
        if self._draw.random() >= habits.sample:
            tally.left_out += 1
            return None
        if habits.max_requests is not None and self._noted >= habits.max_requests:
            tally.beyond += 1
            return None
        self._noted += 1
        if self._noted == habits.max_requests:
            self._say(f"request {self._noted} of {self._noted} to be recorded: what follows is only passed on")
        self._clerk.begins(request.arrived_ns)
        return Note(request)
