"""The decode slots, and the queue before them."""

from typing import Protocol


class Waiting(Protocol):
    """What can hold a slot."""

    def start(self) -> None:
        """Begin: a slot is yours."""
        ...


class Slots:
    """Gives out slots, first come first served; `slots` 0 is no limit."""

    def __init__(self, slots: int, *, queue: int) -> None:
        self.most = slots
        self._queue = queue
        self._waiting: dict[Waiting, None] = {}
        self.active = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether neither a slot nor a place in the queue is left."""
        return self._busy and len(self._waiting) >= self._queue

    def enter(self, request: Waiting) -> None:
        """Start a request now, or when its turn comes."""
        if self._busy:
            self._waiting[request] = None
        else:
            self.active += 1
            request.start()

    def leave(self, request: Waiting) -> None:
        """Take back a request's slot or its place in the queue; a slot goes to who waits longest."""
        if request in self._waiting:
            del self._waiting[request]
        elif self._waiting:
            following = next(iter(self._waiting))
            del self._waiting[following]
            following.start()
        else:
            self.active -= 1

    @property
    def _busy(self) -> bool:
        return 0 < self.most <= self.active
