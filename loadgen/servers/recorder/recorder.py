"""The recorder: a listening socket before an upstream, a task for each client and each exchange."""

import socket
from collections.abc import Callable
from time import monotonic_ns

import trio

from loadgen.net.network import network_of
from loadgen.net.route import Route
from loadgen.net.stamps import ask_for_stamps
from loadgen.net.target import Address
from loadgen.servers.listener import accept, listen
from loadgen.servers.recorder import http1, http2
from loadgen.servers.recorder.book import Book
from loadgen.servers.recorder.clerk import Clerk
from loadgen.servers.recorder.client import Client
from loadgen.servers.recorder.delays import Delays, Spread
from loadgen.servers.recorder.room import Habits, Room
from loadgen.servers.recorder.tally import Tally

# Clients whose bytes are read between two looks at the upstream: a burst of requests must not hold answers up.
_AT_ONCE = 2


class Recorder:
    """A recorder that runs: where it is, and what it has seen so far; stays readable after its end."""

    def __init__(self, room: Room, nursery: trio.Nursery, *, epoch_ns: int, host: str, port: int) -> None:
        self._room = room
        self._nursery = nursery
        self._epoch_ns = epoch_ns
        self._open: set[http1.Connection | http2.Connection] = set()
        self._silent: set[Client] = set()  # those whose protocol is not known yet
        self._accepting = trio.CancelScope()
        self._turn = trio.Semaphore(_AT_ONCE)
        self.host = host
        self.port = port

    @property
    def url(self) -> str:
        """The origin, without a slash at its end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def tally(self) -> Tally:
        return self._room.tally

    def delays(self) -> Spread | None:
        """Return what we added to an answer's bytes, from their arrival to after our write; None without any."""
        return self._room.delays.spread()

    def request_delays(self) -> Spread | None:
        """Return what we added to requests that found an open connection; None without any."""
        return self._room.request_delays.spread()

    def stop(self) -> None:
        """Listen no more, and end once the exchanges that are open have ended."""
        self._accepting.cancel()
        for connection in list(self._open):
            connection.stop()
        for client in list(self._silent):
            client.close()

    def cut(self) -> None:
        """End now: what is open is cut off, and recorded as such."""
        self.stop()
        self._room.abandon_all()
        for connection in list(self._open):
            connection.close(reset=True)

    async def accept(self, listener: socket.socket) -> None:
        """Take clients until stopped."""
        with self._accepting, listener:
            await accept(listener, self._welcome)

    def _welcome(self, connected: socket.socket) -> None:
        self._nursery.start_soon(self._attend, connected)

    async def _attend(self, connected: socket.socket) -> None:
        room, nursery = self._room, self._nursery
        client = Client(connected, nursery=nursery, epoch_ns=self._epoch_ns)
        self._silent.add(client)
        data, at_ns = await client.read()
        while http2.PREFACE.startswith(data) and data and data != http2.PREFACE:
            more, at_ns = await client.read()
            data = data + more if more else b""
        self._silent.discard(client)
        kind = http2.Connection if data.startswith(http2.PREFACE) else http1.Connection
        connection = kind(
            client,
            serve=lambda request, reply: room.serve(request, reply, nursery),
            refused=room.refused,
            turn=self._turn,
        )
        self._open.add(connection)
        if self._accepting.cancel_called:
            connection.stop()
        try:
            await connection.run(data, at_ns)
        finally:
            self._open.discard(connection)


async def record(
    route: Route,
    address: Address,
    book: Book,
    habits: Habits,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    say: Callable[[str], None],
    task_status: trio.TaskStatus[Recorder] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Pass on and record until the Recorder, which `task_status` gets once it listens, is told to stop.

    Port 0 takes any free one. `book` is written and stays open. Raises OSError when the address cannot be bound.
    """
    listener = await listen(host, port)
    with listener:
        ask_for_stamps(listener)  # every socket that it accepts inherits that
        epoch_ns = monotonic_ns()
        network = network_of(route, address, epoch_ns=epoch_ns)
        prefix = (route.target.path or "").rstrip("/")
        tally = Tally()
        delays = Delays()
        clerk = Clerk(book, habits.redaction, tally, prefix=prefix, say=say, passed=lambda: delays.count)
        room = Room(network, clerk, habits, tally, delays, authority=route.target.authority, prefix=prefix, say=say)
        try:
            async with trio.open_nursery() as reading:
                reading.start_soon(network.run)
                writing = await reading.start(_write, clerk)
                async with trio.open_nursery() as nursery:
                    recorder = Recorder(room, nursery, epoch_ns=epoch_ns, host=host, port=listener.getsockname()[1])
                    nursery.start_soon(recorder.accept, listener)
                    task_status.started(recorder)
                clerk.close()
                await writing.wait()
                reading.cancel_scope.cancel()
        finally:
            clerk.catch_up()
            network.close()


async def _write(clerk: Clerk, task_status: trio.TaskStatus[trio.Event]) -> None:
    over = trio.Event()
    task_status.started(over)
    try:
        await clerk.run()
    finally:
        over.set()
