"""The one task that reads every socket: no task of trio's wakes for a frame."""

import select
import time

import trio

from loadgen.net.connection import Connection
from loadgen.net.stamps import keeper, wall_offset_ns
from loadgen.net.timer import Timer

# Ready sockets handled before other tasks get their turn, so that the pacer never starves.
BATCH = 32
# Two wakes this close together mean load: the pump then rests between turns, as long as each finds this much to read.
_BUSY_NS = 150_000
_REST_NS = 400_000
_BUSY_READS = 4
# From here on a wait for something to read was a sleep, and how long a wake from it takes.
_ASLEEP_NS = 2_000_000
_WAKE_NS = 500_000


class Pump:
    """Reads all connections from a private epoll set, with kernel stamps mapped to ns since `epoch_ns`.

    `lags_ns` collects how many ns each read came after its last byte had arrived; who watches takes them away.
    """

    def __init__(self, *, epoch_ns: int) -> None:
        self.epoch_ns = epoch_ns
        self._epoll = select.epoll()
        self._connections: dict[int, Connection] = {}
        self._keeper = keeper()
        self._floor_ns = 0
        self.lags_ns: list[int] = []

    def now(self) -> int:
        """Return ns since the run's start."""
        return time.monotonic_ns() - self.epoch_ns

    def add(self, connection: Connection) -> None:
        self._connections[connection.fd] = connection
        self._epoll.register(connection.fd, select.EPOLLIN)

    def remove(self, connection: Connection) -> None:
        if self._connections.pop(connection.fd, None) is not None:
            self._epoll.unregister(connection.fd)

    def watch(self, connection: Connection, wanted: bool) -> None:
        """Read a connection no more, or again; what breaks it is seen either way."""
        self._epoll.modify(connection.fd, select.EPOLLIN if wanted else 0)

    def read(self, connection: Connection) -> None:
        """Read one connection now, out of turn."""
        connection.read(wall_offset_ns() - self.epoch_ns, self._floor_ns)

    async def run(self) -> None:
        """Read until cancelled."""
        epoll_fd, woken_ns, turned_ns, read = self._epoll.fileno(), 0, 0, 0
        with Timer() as rest:
            while True:
                await trio.lowlevel.wait_readable(epoll_fd)
                now = time.monotonic_ns()
                if read < BATCH and now - turned_ns > _ASLEEP_NS:
                    # It slept until the first arrival woke it: nothing is older than a wake takes (read_lag tells).
                    self._floor_ns = now - self.epoch_ns - _WAKE_NS
                is_busy = now - woken_ns < _BUSY_NS
                woken_ns = now
                read = self._turn()
                while is_busy and read:
                    # Under load, what arrives within a moment is read in one go: a turn of the loop costs as much as
                    # reading two frames, and the kernel has stamped them, so reading late costs no truth.
                    await rest.wait_until(0 if read == BATCH else time.monotonic_ns() + _REST_NS)
                    read = self._turn()
                    is_busy = read >= _BUSY_READS
                turned_ns = time.monotonic_ns()

    def _turn(self) -> int:
        """Read each ready socket once, a batch of them at most; return how many were ready."""
        polled_ns = self.now()
        ready = self._epoll.poll(0, BATCH)
        if ready:
            offset_ns = wall_offset_ns() - self.epoch_ns
            connections, lags, floor_ns = self._connections, self.lags_ns, self._floor_ns
            for fd, _ in ready:
                connection = connections.get(fd)
                if connection is not None and (lag := connection.read(offset_ns, floor_ns)) >= 0:
                    lags.append(lag)
        if len(ready) < BATCH:  # it saw all there was: what comes next arrived after it
            self._floor_ns = polled_ns
        return len(ready)

    def close(self) -> None:
        """Close every connection left, then the set itself."""
        for connection in list(self._connections.values()):
            connection.abort()
        self._epoll.close()
        self._keeper.close()
