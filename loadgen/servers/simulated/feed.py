"""A feed of notifications: a stream that is no model's."""

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qs

import msgspec

from loadgen.servers.simulated.answer import Answer
from loadgen.servers.simulated.chunks import LAST_CHUNK, chunk
from loadgen.servers.simulated.connection import Connection
from loadgen.servers.simulated.fate import Fate
from loadgen.servers.simulated.request import Request
from loadgen.servers.simulated.responses import RefusedError, stream_head
from loadgen.servers.simulated.room import Room
from loadgen.servers.simulated.wish import Wish
from loadgen.wire.framing import server_sent_event

EVENTS = 20
_FAILURE = {"error": {"type": "feed_error", "message": "the simulated feed failed"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """How one feed is written: each of its events by its number, and the one that tells of an error."""

    content_type: str
    event: Callable[[int], bytes]
    failure: bytes


class FeedAnswer(Answer):
    """The events of one feed, one at a time; its head is sent at once."""

    def __init__(self, feed: Feed, fate: Fate, *, room: Room, connection: Connection, request: Request) -> None:
        super().__init__(fate, room=room, slots=room.feeds, connection=connection, request=request)
        self._feed = feed
        connection.write(stream_head(feed.content_type, close=self._close))

    def _say(self, first: int, late_ns: list[int]) -> None:
        numbers = range(first, first + len(late_ns))
        self._connection.write(b"".join(chunk(self._feed.event(number)) for number in numbers))
        self._room.pacing.note(late_ns)

    def _closing(self) -> bytes:
        return LAST_CHUNK

    def _failing(self) -> bytes:
        return chunk(self._feed.failure) + LAST_CHUNK

    def _before_cut(self) -> bytes:
        return b""


def fate_of(query: str, *, itl_ns: int, wish: Wish) -> Fate:
    """Return what becomes of a feed that is asked for by a query: only a wish makes it fail; raises RefusedError."""
    said = parse_qs(query, keep_blank_values=True).get("events", [str(EVENTS)])[-1]
    events = int(said) if said.isascii() and said.isdecimal() and len(said) < 10 else 0
    if events < 1:
        raise RefusedError(400, f"events must be a whole number from 1, not {said!r}")
    itl_ns = itl_ns if wish.itl_ns is None else wish.itl_ns
    return Fate(
        tokens=events,
        parts=(),
        spoken=events if wish.fault is None else (events + 1) // 2,
        finish_reason="stop",
        first_ns=itl_ns if wish.ttft_ns is None else wish.ttft_ns,
        itl_ns=itl_ns,
        fault=wish.fault,
        reject_status=429,
        text_start=0,
        jitter_seed=events,
    )


def _reading(number: int) -> dict[str, object]:
    return {"sensor": "hall", "number": number, "celsius": 20 + number % 16 / 8}


FEEDS: dict[str, Feed] = {
    "/feed": Feed(
        content_type="text/event-stream",
        event=lambda number: b"id: %d\n" % number + server_sent_event(_reading(number), name="reading"),
        failure=server_sent_event(_FAILURE, name="error"),
    ),
    "/feed.ndjson": Feed(
        content_type="application/x-ndjson",
        event=lambda number: msgspec.json.encode(_reading(number)) + b"\n",
        failure=msgspec.json.encode(_FAILURE) + b"\n",
    ),
}
