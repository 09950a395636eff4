"""One answer in progress: what is written at each token's moment."""

import time
from abc import ABC, abstractmethod

from loadgen.servers.simulated.asked import Asked
from loadgen.servers.simulated.babble import CALL
from loadgen.servers.simulated.connection import Connection
from loadgen.servers.simulated.fate import Fate
from loadgen.servers.simulated.ledger import End, Entry
from loadgen.servers.simulated.request import Request
from loadgen.servers.simulated.responses import RefusedError, stream_head, whole
from loadgen.servers.simulated.rhythm import Rhythm
from loadgen.servers.simulated.room import Room
from loadgen.servers.simulated.slots import Slots
from loadgen.servers.simulated.speech import Speech
from loadgen.servers.simulated.whole import Spoken
from loadgen.wire.events import Usage

# Tokens in one write of an answer that is late: the others are due as well.
_BURST = 64


class Answer(ABC):
    """The course that all answers share; `over` once it has given its slot back."""

    def __init__(self, fate: Fate, *, room: Room, slots: Slots, connection: Connection, request: Request) -> None:
        self._fate = fate
        self._request = request
        self._received_ns = time.monotonic_ns()
        self._room = room
        self._slots = slots
        self._connection = connection
        self._close = not request.keep_alive
        self._input_tokens = 0
        self._said = 0
        self._due_ns = 0  # the next token's moment
        self._end: End = "left"
        self._started_ns: int | None = None
        self._first_ns: int | None = None
        self._last_ns: int | None = None
        self._rhythm = Rhythm(fate.itl_ns, model=room.model, seed=fate.jitter_seed)
        self.over = False
        connection.on_leaving = self._give_back

    def start(self) -> None:
        """Begin: a slot is held from now on."""
        self._started_ns = time.monotonic_ns()
        self._due_ns = self._started_ns + self._fate.first_ns
        self._room.metronome.add(self._due_ns, self)

    def tick(self) -> int | None:
        """Say the tokens that are due; return when the next one is, None after the end."""
        fate, first, due_ns = self._fate, self._said, self._due_ns
        if first == fate.spoken:
            return self._fail()
        now_ns = time.monotonic_ns()
        said, most = first, min(fate.spoken, first + _BURST)
        late_ns = []
        while said < most and due_ns <= now_ns:
            said += 1
            late_ns.append(now_ns - due_ns)
            # From the moment it was due, not from now: lateness must not add up.
            due_ns += self._rhythm.gap_ns(self._slots.active)
        self._said, self._due_ns = said, due_ns
        self._say(first, late_ns)
        self._spoke(now_ns)
        if fate.fault is None and said == fate.tokens:
            self._write_last(self._closing(), "completed")
        return None if self.over else due_ns

    @abstractmethod
    def _say(self, first: int, late_ns: list[int]) -> None:
        """Tokens from `first` on are due, each so late."""

    @abstractmethod
    def _closing(self) -> bytes:
        """Return what is left to write when the last token is said."""

    @abstractmethod
    def _failing(self) -> bytes:
        """Return what is left to write when generation failed."""

    @abstractmethod
    def _before_cut(self) -> bytes:
        """Return what is still written before the connection is cut."""

    def _spoke(self, now_ns: int) -> None:
        """Take the moment at which tokens were said."""
        self._last_ns = now_ns
        if self._first_ns is None:
            self._first_ns = now_ns

    def _fail(self) -> int | None:
        match self._fate.fault:
            case "error":
                self._write_last(self._failing(), "errored")
                return None
            case "stall" if self._end != "stalled":
                self._end = "stalled"
                self._room.tally.stalled += 1
                return self._due_ns + self._room.model.stall_ns
            case "cut" | "reset" as end:
                self._connection.write(self._before_cut())
                self._end = end
        self._give_back()
        self._connection.cut(reset=self._fate.fault == "reset")
        return None

    def _write_last(self, data: bytes, end: End) -> None:
        if not self.over:
            self._connection.write(data)
        if not self.over:  # else a write found the client gone
            self._end = end
            self._give_back()
            self._connection.answered()

    def _give_back(self) -> None:
        if self.over:
            return
        self.over = True
        self._slots.leave(self)
        self._room.tell(self._entry())

    def _entry(self) -> Entry:
        return Entry(
            id=self._request.id,
            path=self._request.path,
            received_ns=self._received_ns,
            started_ns=self._started_ns,
            first_ns=self._first_ns,
            last_ns=self._last_ns,
            input_tokens=self._input_tokens,
            tokens=self._said,
            end=self._end,
        )


class ModelAnswer(Answer):
    """What a model says, to one request."""

    def __init__(self, asked: Asked, fate: Fate, *, room: Room, connection: Connection, request: Request) -> None:
        super().__init__(fate, room=room, slots=room.slots, connection=connection, request=request)
        self._asked = asked
        self._input_tokens = asked.input_tokens

    def _spoke(self, now_ns: int) -> None:
        if self._last_ns is not None:
            self._room.metrics.gap(now_ns - self._last_ns)
        super()._spoke(now_ns)

    def _give_back(self) -> None:
        if not self.over:
            self._room.metrics(self._entry())
        super()._give_back()

    def _usage(self) -> Usage:
        asked, tokens = self._asked, self._fate.tokens
        reasoning = sum(part.stop - part.start for part in self._fate.parts if part.kind == "reasoning")
        if asked.api.counts_zero:
            return Usage(asked.input_tokens, tokens, cached_tokens=0, reasoning_tokens=reasoning)
        return Usage(asked.input_tokens, tokens, reasoning_tokens=reasoning or None)


class StreamedAnswer(ModelAnswer):
    """An answer that is sent token by token; its head is sent at once."""

    def __init__(self, asked: Asked, fate: Fate, *, room: Room, connection: Connection, request: Request) -> None:
        super().__init__(asked, fate, room=room, connection=connection, request=request)
        self._speech = Speech(room.voices, fate, api=asked.api, model=asked.model)
        opening = self._speech.opening() if asked.api.opens == "at once" else b""
        connection.write(stream_head(asked.api.content_type, close=self._close) + opening)

    def _say(self, first: int, late_ns: list[int]) -> None:
        data = b""
        if not first and self._asked.api.opens == "at first token":
            data = self._speech.opening()
        data += self._speech.tokens(first, first + len(late_ns))
        if data:  # some dialects hold a call back until it is whole
            self._connection.write(data)
        self._room.pacing.note(late_ns)

    def _closing(self) -> bytes:
        return self._speech.closing(self._usage() if self._asked.include_usage else None)

    def _failing(self) -> bytes:
        return self._speech.failing()

    def _before_cut(self) -> bytes:
        return b""


class WholeAnswer(ModelAnswer):
    """An answer that is sent in one piece, at the moment of its last token."""

    def _say(self, first: int, late_ns: list[int]) -> None:
        pass

    def _closing(self) -> bytes:
        asked, fate, babble = self._asked, self._fate, self._room.babble
        assert asked.api.whole is not None
        pieces = [(part.kind, babble.piece(part, part.start, part.stop, start=fate.text_start)) for part in fate.parts]
        spoken = Spoken(
            model=asked.model,
            pieces=pieces,
            call=CALL,
            reason=asked.api.reasons[fate.finish_reason],
            usage=self._usage(),
        )
        return whole(asked.api.whole(spoken), close=self._close)

    def _failing(self) -> bytes:
        refusal = RefusedError(500, "the simulated model failed")
        return refusal.response(close=self._close, shape=self._asked.api.shape)

    def _before_cut(self) -> bytes:
        response = self._closing()
        return response[: -len(response) // 3]
