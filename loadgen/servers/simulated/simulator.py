"""The server: a listening socket, a task for each connection, one metronome."""

import errno
import socket

import trio

from loadgen.servers.simulated.connection import Connection
from loadgen.servers.simulated.model import Model
from loadgen.servers.simulated.pacing import Pacing
from loadgen.servers.simulated.room import Room
from loadgen.servers.simulated.service import Service
from loadgen.servers.simulated.tally import Tally

_BACKLOG = 4096
# Connections accepted before reading gets its turn.
_BATCH = 64
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_RETRY_S = 0.05


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
    task_status: trio.TaskStatus[Simulator] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled, then close every connection; `task_status` gets the Simulator once it listens.

    Port 0 takes any free one. Raises OSError when the address cannot be bound.
    """
    listener = await _listen(host, port)
    try:
        room = Room(model)
        try:
            service = Service(room)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(room.metronome.run)
                nursery.start_soon(_accept, listener, service, nursery)
                task_status.started(Simulator(room, host=host, port=listener.getsockname()[1]))
        finally:
            room.metronome.close()
    finally:
        listener.close()


async def _listen(host: str, port: int) -> socket.socket:
    found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


async def _accept(listener: socket.socket, service: Service, nursery: trio.Nursery) -> None:
    while True:
        await trio.lowlevel.wait_readable(listener)
        for _ in range(_BATCH):
            try:
                connected, _ = listener.accept()
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno in _OUT_OF_DESCRIPTORS:
                    # The kernel keeps the client waiting; asking again at once would spin.
                    await trio.sleep(_RETRY_S)
                break
            connection = Connection(connected, nursery=nursery, respond=service.respond)
            nursery.start_soon(connection.run)
