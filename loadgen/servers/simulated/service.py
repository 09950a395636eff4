"""What each path answers."""

from collections.abc import Callable
from typing import TypeAlias

from loadgen.servers.simulated.answer import Answer, StreamedAnswer, WholeAnswer
from loadgen.servers.simulated.asked import asked_from
from loadgen.servers.simulated.connection import Connection
from loadgen.servers.simulated.fate import Fates
from loadgen.servers.simulated.request import Request
from loadgen.servers.simulated.responses import RefusedError, whole
from loadgen.servers.simulated.room import Room
from loadgen.servers.simulated.wish import wish_from


class Service:
    """Answers the requests of all connections."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._fates = Fates(room.model)

    def respond(self, request: Request, connection: Connection) -> None:
        """Answer one request, now or by and by; what it asks wrongly is answered with an error."""
        try:
            _route(request)(self, request, connection)
        except RefusedError as refusal:
            connection.write(refusal.response(close=not request.keep_alive))
            connection.answered()

    def chat(self, request: Request, connection: Connection) -> None:
        self._generate(request, connection, chat=True)

    def complete(self, request: Request, connection: Connection) -> None:
        self._generate(request, connection, chat=False)

    def models(self, request: Request, connection: Connection) -> None:
        model = {"id": self._room.model.name, "object": "model", "created": 0, "owned_by": "loadgen"}
        connection.write(whole({"object": "list", "data": [model]}, close=not request.keep_alive))
        connection.answered()

    def health(self, request: Request, connection: Connection) -> None:
        connection.write(whole({}, close=not request.keep_alive))
        connection.answered()

    def _generate(self, request: Request, connection: Connection, *, chat: bool) -> None:
        room = self._room
        asked = asked_from(request.body, chat=chat, otherwise=room.model.name, wish=wish_from(request.wish))
        if asked.stream and request.version == "1.0":
            raise RefusedError(505, "a stream needs HTTP/1.1: it is sent in chunks")
        fate = self._fates.draw(asked)
        room.tally.requests += 1
        if fate.fault == "reject":
            room.tally.rejected += 1
            raise RefusedError(fate.reject_status, "rejected, as the simulated model was told to", retry_after="1")
        if room.slots.full:
            room.tally.overflowed += 1
            raise RefusedError(503, "all slots and all places in the queue are taken", retry_after="1")
        kind: type[Answer] = StreamedAnswer if asked.stream else WholeAnswer
        answer = kind(asked, fate, room=room, connection=connection, close=not request.keep_alive)
        if not answer.over:  # its head may have found the client gone
            room.slots.enter(answer)


_Give: TypeAlias = Callable[[Service, Request, Connection], None]


def _route(request: Request) -> _Give:
    if request.path not in ROUTES:
        raise RefusedError(404, f"there is nothing at {request.path}")
    method, give = ROUTES[request.path]
    if request.method != method:
        raise RefusedError(405, f"{request.path} takes {method}, not {request.method}", allow=method)
    return give


ROUTES: dict[str, tuple[str, _Give]] = {
    "/v1/chat/completions": ("POST", Service.chat),
    "/v1/completions": ("POST", Service.complete),
    "/v1/models": ("GET", Service.models),
    "/health": ("GET", Service.health),
}
