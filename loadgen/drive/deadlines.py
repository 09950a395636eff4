"""One deadline for every exchange, all equally far from their start: added and dropped in constant time."""

from collections import OrderedDict
from collections.abc import Callable

import trio

from loadgen.net.exchange import Exchange


class Deadlines:
    """Calls `expire` for each exchange still here `delay_ns` after it was added.

    Equal delays mean that the first added is the first due, so no heap is needed; and none can become due within a
    delay of now but those already here, so one task sleeps and is never woken.
    """

    def __init__(self, delay_ns: int, *, now: Callable[[], int], expire: Callable[[Exchange], None]) -> None:
        self._delay_ns = delay_ns
        self._now = now
        self._expire = expire
        self._due_ns: OrderedDict[Exchange, int] = OrderedDict()

    def add(self, exchange: Exchange, since_ns: int) -> None:
        """Count from a moment just now; an exchange that is here already starts again."""
        self._due_ns[exchange] = since_ns + self._delay_ns
        self._due_ns.move_to_end(exchange)

    def drop(self, exchange: Exchange) -> None:
        self._due_ns.pop(exchange, None)

    async def run(self) -> None:
        """Expire what is due until cancelled."""
        while True:
            now = self._now()
            while self._due_ns and (first := next(iter(self._due_ns.items())))[1] <= now:
                del self._due_ns[first[0]]
                self._expire(first[0])
            next_ns = next(iter(self._due_ns.values()), now + self._delay_ns)
            await trio.sleep((next_ns - now) / 1e9)
