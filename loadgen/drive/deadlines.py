"""One deadline for every flight, all equally far from their start: added and dropped in constant time."""

from collections import OrderedDict
from collections.abc import Callable

import trio

from loadgen.drive.flight import Flight


class Deadlines:
    """Calls `expire` for each flight still here `delay_ns` after it was added.

    Equal delays mean that the first added is the first due, so no heap is needed; and none can become due within a
    delay of now but those already here, so one task sleeps and is never woken.
    """

    def __init__(self, delay_ns: int, *, now: Callable[[], int], expire: Callable[[Flight], None]) -> None:
        self._delay_ns = delay_ns
        self._now = now
        self._expire = expire
        self._due_ns: OrderedDict[Flight, int] = OrderedDict()

    def add(self, flight: Flight, since_ns: int) -> None:
        """Count from a moment just now; a flight that is here already starts again."""
        self._due_ns[flight] = since_ns + self._delay_ns
        self._due_ns.move_to_end(flight)

    def drop(self, flight: Flight) -> None:
        self._due_ns.pop(flight, None)

    async def run(self) -> None:
        """Expire what is due until cancelled."""
        while True:
            now = self._now()
            while self._due_ns and (first := next(iter(self._due_ns.items())))[1] <= now:
                del self._due_ns[first[0]]
                self._expire(first[0])
            next_ns = next(iter(self._due_ns.values()), now + self._delay_ns)
            await trio.sleep((next_ns - now) / 1e9)
