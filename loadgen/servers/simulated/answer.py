"""One answer in progress: what is written at each token's moment."""

import time
from abc import ABC, abstractmethod

from loadgen.servers.simulated.asked import Asked
from loadgen.servers.simulated.babble import LENGTH
from loadgen.servers.simulated.connection import Connection
from loadgen.servers.simulated.fate import Fate
from loadgen.servers.simulated.responses import RefusedError, stream_head, whole
from loadgen.servers.simulated.rhythm import Rhythm
from loadgen.servers.simulated.room import Room
from loadgen.wire.events import Usage

# Tokens in one write of an answer that is late: the others are due as well.
_BURST = 64


class Answer(ABC):
    """The course that streamed and whole answers share; `over` once it has given its slot back."""

    def __init__(self, asked: Asked, fate: Fate, *, room: Room, connection: Connection, close: bool) -> None:
        self._asked = asked
        self._fate = fate
        self._room = room
        self._connection = connection
        self._close = close
        self._said = 0
        self._due_ns = 0  # the next token's moment
        self._stalled = False
        self._rhythm = Rhythm(fate.itl_ns, model=room.model, seed=fate.jitter_seed)
        self.over = False
        connection.on_leaving = self._abandon

    def start(self) -> None:
        """Begin: a slot is held from now on."""
        self._due_ns = time.monotonic_ns() + self._fate.first_ns
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
            due_ns += self._rhythm.gap_ns(self._room.slots.active)
        self._said, self._due_ns = said, due_ns
        self._say(first, late_ns)
        if fate.fault is None and said == fate.tokens and self._write_last(self._closing()):
            self._room.tally.completed += 1
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

    def _fail(self) -> int | None:
        tally = self._room.tally
        match self._fate.fault:
            case "error":
                tally.errored += 1
                self._write_last(self._failing())
                return None
            case "stall" if not self._stalled:
                self._stalled = True
                tally.stalled += 1
                return self._due_ns + self._room.model.stall_ns
            case "cut":
                tally.cut += 1
                self._connection.write(self._before_cut())
            case "reset":
                tally.reset += 1
                self._connection.write(self._before_cut())
        self._give_back()
        self._connection.cut(reset=self._fate.fault == "reset")
        return None

    def _write_last(self, data: bytes) -> bool:
        if not self.over:
            self._connection.write(data)
        if self.over:  # a write found the client gone
            return False
        self._give_back()
        self._connection.answered()
        return True

    def _abandon(self) -> None:
        if not self.over and not self._stalled:
            self._room.tally.left += 1
        self._give_back()

    def _give_back(self) -> None:
        if not self.over:
            self.over = True
            self._room.slots.leave(self)


class StreamedAnswer(Answer):
    """An answer that is sent token by token; its head is sent at once."""

    def __init__(self, asked: Asked, fate: Fate, *, room: Room, connection: Connection, close: bool) -> None:
        super().__init__(asked, fate, room=room, connection=connection, close=close)
        self._frames = room.babble.frames(model=asked.model, chat=asked.chat)
        connection.write(stream_head(close=close))

    def _say(self, first: int, late_ns: list[int]) -> None:
        tokens, place = self._frames.tokens, self._fate.text_start + first
        if len(late_ns) == 1:
            data = tokens[place % LENGTH]
        else:
            data = b"".join(tokens[(place + token) % LENGTH] for token in range(len(late_ns)))
        self._connection.write(data if first else self._frames.role + data)
        self._room.pacing.note(late_ns)

    def _closing(self) -> bytes:
        usage = Usage(input_tokens=self._asked.input_tokens, output_tokens=self._fate.tokens)
        return self._frames.closing(self._fate.finish_reason, usage if self._asked.include_usage else None)

    def _failing(self) -> bytes:
        return self._frames.failing("InternalServerError")

    def _before_cut(self) -> bytes:
        return b""


class WholeAnswer(Answer):
    """An answer that is sent in one piece, at the moment of its last token."""

    def _say(self, first: int, late_ns: list[int]) -> None:
        pass

    def _closing(self) -> bytes:
        asked, fate = self._asked, self._fate
        text = self._room.babble.text(fate.text_start, fate.tokens)
        said = {"message": {"role": "assistant", "content": text}} if asked.chat else {"text": text}
        answer = {
            "id": "chatcmpl-sim" if asked.chat else "cmpl-sim",
            "object": "chat.completion" if asked.chat else "text_completion",
            "created": 0,
            "model": asked.model,
            "choices": [{"index": 0, **said, "finish_reason": fate.finish_reason}],
            "usage": {
                "prompt_tokens": asked.input_tokens,
                "completion_tokens": fate.tokens,
                "total_tokens": asked.input_tokens + fate.tokens,
            },
        }
        return whole(answer, close=self._close)

    def _failing(self) -> bytes:
        return RefusedError(500, "the simulated model failed").response(close=self._close)

    def _before_cut(self) -> bytes:
        response = self._closing()
        return response[: -len(response) // 3]
