"""The cap on requests in flight: arrivals beyond it wait their turn, first come, first served."""

from collections import deque

import trio


class Slots:
    """At most `limit` requests in flight; `close` sends away who still waits."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._waiting: deque[trio.Event] = deque()
        self._is_open = True

    def take_now(self) -> bool:
        """Take a slot that is free; False when one must be waited for."""
        if not (self._free and self._is_open):
            return False
        self._free -= 1
        return True

    async def take(self) -> bool:
        """Wait for a slot; False when there will be none any more."""
        if self._is_open and not self.take_now():
            turn = trio.Event()
            self._waiting.append(turn)
            try:
                await turn.wait()
            except trio.Cancelled:
                if turn.is_set():  # it came in the very moment in which it was no longer wanted
                    self.give()
                else:
                    self._waiting.remove(turn)
                raise
        return self._is_open

    def give(self) -> None:
        """Give a slot back: to who has waited longest, else to nobody."""
        if self._waiting:
            self._waiting.popleft().set()
        else:
            self._free += 1

    def close(self) -> None:
        self._is_open = False
        while self._waiting:
            self._waiting.popleft().set()
