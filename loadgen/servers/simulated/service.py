"""What each path answers."""

import time
from collections.abc import Callable
from functools import partial
from typing import TypeAlias
from urllib.parse import unquote

from loadgen.servers.simulated.answer import Answer, StreamedAnswer, WholeAnswer
from loadgen.servers.simulated.apis import APIS, Api
from loadgen.servers.simulated.asked import asked_from
from loadgen.servers.simulated.connection import Connection
from loadgen.servers.simulated.fate import Fate, Fates
from loadgen.servers.simulated.feed import FEEDS, Feed, FeedAnswer, fate_of
from loadgen.servers.simulated.ledger import End, Entry
from loadgen.servers.simulated.metrics import CONTENT_TYPE as METRICS_TYPE
from loadgen.servers.simulated.request import Request
from loadgen.servers.simulated.responses import RefusedError, plain, whole
from loadgen.servers.simulated.room import Room
from loadgen.servers.simulated.shapes import shape_of
from loadgen.servers.simulated.slots import Slots
from loadgen.servers.simulated.wish import wish_from


class Service:
    """Answers the requests of all connections."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._fates = Fates(room.model)

    def respond(self, request: Request, connection: Connection) -> None:
        """Answer one request, now or by and by; what it asks wrongly is answered with an error."""
        place, model = _place(request.path)
        try:
            _route(place, request)(self, request, connection, model)
        except RefusedError as refusal:
            shape = _API_AT[place].shape if place in _API_AT else shape_of(request.path)
            connection.write(refusal.response(close=not request.keep_alive, shape=shape))
            connection.answered()

    def models(self, request: Request, connection: Connection, _model: str | None) -> None:
        model = {"id": self._room.model.name, "object": "model", "created": 0, "owned_by": "loadgen"}
        connection.write(whole({"object": "list", "data": [model]}, close=not request.keep_alive))
        connection.answered()

    def metrics(self, request: Request, connection: Connection, _model: str | None) -> None:
        page = self._room.metrics.page()
        connection.write(plain(page, content_type=METRICS_TYPE, close=not request.keep_alive))
        connection.answered()

    def health(self, request: Request, connection: Connection, _model: str | None) -> None:
        connection.write(whole({}, close=not request.keep_alive))
        connection.answered()

    def generate(self, request: Request, connection: Connection, model: str | None, *, api: Api) -> None:
        room = self._room
        asked = asked_from(request.body, api=api, otherwise=model or room.model.name, wish=wish_from(request.wish))
        if asked.stream:
            _check_chunks(request)
        fate = self._fates.draw(asked)
        self._admit(request, fate, room.slots, input_tokens=asked.input_tokens)
        kind = StreamedAnswer if asked.stream else WholeAnswer
        _enter(kind(asked, fate, room=room, connection=connection, request=request), room.slots)

    def feed(self, request: Request, connection: Connection, _model: str | None, *, feed: Feed) -> None:
        room = self._room
        _check_chunks(request)
        fate = fate_of(request.query, itl_ns=room.model.itl_ns, wish=wish_from(request.wish))
        self._admit(request, fate, room.feeds)
        _enter(FeedAnswer(feed, fate, room=room, connection=connection, request=request), room.feeds)

    def _admit(self, request: Request, fate: Fate, slots: Slots, *, input_tokens: int = 0) -> None:
        """Count a request; raises RefusedError for one that is turned away."""
        self._room.tally.requests += 1
        if fate.fault == "reject":
            self._turn_away(request, "rejected", input_tokens)
            raise RefusedError(fate.reject_status, "rejected, as the simulated model was told to", retry_after="1")
        if slots.full:
            self._turn_away(request, "overflowed", input_tokens)
            raise RefusedError(503, "all slots and all places in the queue are taken", retry_after="1")

    def _turn_away(self, request: Request, end: End, input_tokens: int) -> None:
        now_ns = time.monotonic_ns()
        entry = Entry(id=request.id, path=request.path, received_ns=now_ns, input_tokens=input_tokens, end=end)
        self._room.tell(entry)


def _check_chunks(request: Request) -> None:
    if request.version == "1.0":
        raise RefusedError(505, "a stream needs HTTP/1.1: it is sent in chunks")


def _enter(answer: Answer, slots: Slots) -> None:
    if not answer.over:  # its head may have found the client gone
        slots.enter(answer)


_Give: TypeAlias = Callable[[Service, Request, Connection, str | None], None]


def _place(path: str) -> tuple[str, str | None]:
    """Return the place of a path in the table, and the model that it names.

    >>> _place("/model/a%3A1/converse-stream"), _place("/v1/models")
    (('/model/{model}/converse-stream', 'a:1'), ('/v1/models', None))
    """
    match path.split("/"):
        case ["", "model", model, operation] if model:
            return f"/model/{{model}}/{operation}", unquote(model)
    return path, None


def _route(place: str, request: Request) -> _Give:
    if place not in ROUTES:
        raise RefusedError(404, f"there is nothing at {request.path}")
    method, give = ROUTES[place]
    if request.method != method:
        raise RefusedError(405, f"{request.path} takes {method}, not {request.method}", allow=method)
    return give


_API_AT = {api.path: api for api in APIS.values()}
ROUTES: dict[str, tuple[str, _Give]] = {
    **{path: ("POST", partial(Service.generate, api=api)) for path, api in _API_AT.items()},
    **{path: ("GET", partial(Service.feed, feed=feed)) for path, feed in FEEDS.items()},
    "/v1/models": ("GET", Service.models),
    "/health": ("GET", Service.health),
    "/metrics": ("GET", Service.metrics),
}
