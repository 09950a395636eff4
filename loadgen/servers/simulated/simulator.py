"""The server: a listening socket, a task for each connection, one metronome."""

import socket

import trio

from loadgen.servers.listener import accept, listen
from loadgen.servers.simulated.connection import Connection
from loadgen.servers.simulated.ledger import Reader
from loadgen.servers.simulated.model import Model
from loadgen.servers.simulated.pacing import Pacing
from loadgen.servers.simulated.room import Room
from loadgen.servers.simulated.service import Service
from loadgen.servers.simulated.tally import Tally


class Simulator:
    """A server that runs: where it is, and what it has seen so far; stays readable after its end."""

    def __init__(self, room: Room, *, host: str, port: int) -> None:
        self._room = room
        self.host = host
        self.port = port

    @property
    def url(self) -> str:
        """The origin, without a slash at its end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def model(self) -> Model:
        return self._room.model

    @property
    def tally(self) -> Tally:
        return self._room.tally

    @property
    def active(self) -> int:
        """How many requests hold a slot now."""
        return self._room.slots.active

    @property
    def waiting(self) -> int:
        """How many requests wait for a slot now."""
        return self._room.slots.waiting

    def pacing(self) -> Pacing | None:
        """Return how late its frames were, in ms; None before the first one."""
        return self._room.pacing.pacing()


async def serve(
    model: Model,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    ledger: Reader | None = None,
    task_status: trio.TaskStatus[Simulator] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled, then close every connection; `task_status` gets the Simulator once it listens.

    Port 0 takes any free one; `ledger` is told of each request when it is over. Raises OSError when the address cannot
    be bound.
    """
    listener = await listen(host, port)
    try:
        room = Room(model)
        if ledger is not None:
            room.readers.append(ledger)
        try:
            service = Service(room)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(room.metronome.run)

                def welcome(connected: socket.socket) -> None:
                    connection = Connection(connected, nursery=nursery, respond=service.respond)
                    nursery.start_soon(connection.run)

                nursery.start_soon(accept, listener, welcome)
                task_status.started(Simulator(room, host=host, port=listener.getsockname()[1]))
        finally:
            room.metronome.close()
    finally:
        listener.close()
