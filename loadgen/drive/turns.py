"""The order within sessions: a turn is sent when the one before it has ended, whatever became of that."""

from collections import Counter

import trio


class Turn:
    """A request's place in its session."""

    __slots__ = ("decided", "has_come", "key", "next")

    def __init__(self, key: tuple[str, bool, int]) -> None:
        self.key = key
        self.has_come = False
        self.decided = trio.Event()  # it has come, or will not any more
        self.next: Turn | None = None

    def come(self) -> None:
        self.has_come = True
        self.decided.set()


class Turns:
    """The sessions that have a request waiting or in flight; `close` sends away who still waits.

    A recording that is sent again has its sessions anew, and so has the window after the warm-up.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[str, bool, int], Turn] = {}
        self._times_sent: Counter[tuple[int, bool]] = Counter()
        self._waiting: set[Turn] = set()
        self._is_open = True

    def next_of(self, session: str, place: int, *, is_warmup: bool) -> Turn:
        """Return the turn of the request at this place of the recording, behind those of its session so far."""
        lap = self._times_sent[place, is_warmup]
        self._times_sent[place, is_warmup] += 1
        turn = Turn((session, is_warmup, lap))
        if (before := self._last.get(turn.key)) is None:
            turn.come()
        else:
            before.next = turn
        self._last[turn.key] = turn
        return turn

    async def take(self, turn: Turn) -> bool:
        """Wait for a turn; False when it will not come any more."""
        if self._is_open:
            self._waiting.add(turn)
            try:
                await turn.decided.wait()
            finally:
                self._waiting.discard(turn)
        return turn.has_come

    def end(self, turn: Turn) -> None:
        """Let the next of its session go."""
        if turn.next is None:
            del self._last[turn.key]
        elif self._is_open:
            turn.next.come()

    def close(self) -> None:
        self._is_open = False
        for turn in list(self._waiting):
            turn.decided.set()
