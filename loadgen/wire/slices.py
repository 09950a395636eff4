"""A stream cut into its frames as they stood on the wire: joined again they are the body, byte for byte.

The framers decide what a frame is; here it is only kept which bytes each came of. What stands between two frames
(comments, blank lines) belongs to the one that follows, and what is left at the end is a last slice of its own.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeAlias

from loadgen.wire.events import Malformed
from loadgen.wire.eventstream import EventStream
from loadgen.wire.frame import MAX_FRAME_BYTES, Frame, Framer
from loadgen.wire.framing import FRAMINGS, LF, JsonLines, ServerSentEvents

# The bytes of one frame, and what the framer made of them: None where nothing could be made of them.
Slice: TypeAlias = tuple[bytes, Frame | None]


class Slicer(Protocol):
    """What cuts a response body; nothing is raised."""

    def feed(self, data: bytes) -> list[Slice]:
        """Take the next bytes, return the frames they complete; of a stream that broke each read is one."""

    def finish(self, *, clean: bool) -> list[Slice]:
        """Return what is left, if anything is."""


class _Pieces:
    """Feeds a framer piece by piece, so that a frame ends where the piece did that completed it."""

    __slots__ = ("_framer", "_pending", "_split")

    def __init__(self, framer: Framer, split: Callable[[bytes], list[bytes]]) -> None:
        self._framer: Framer | None = framer
        self._split = split
        self._pending: list[bytes] = []

    def feed(self, data: bytes) -> list[Slice]:
        slices: list[Slice] = []
        pending, framer = self._pending, self._framer
        if framer is None:
            return [(data, None)] if data else []
        pieces = self._split(data)
        for place, piece in enumerate(pieces):
            pending.append(piece)
            try:
                frames = framer.feed(piece)
            except Malformed:
                self._framer = None
                slices.append((b"".join(pending + pieces[place + 1 :]), None))
                self._pending = []
                break
            if frames:
                slices.append((piece if len(pending) == 1 else b"".join(pending), frames[-1]))
                pending.clear()
        return slices

    def finish(self, *, clean: bool) -> list[Slice]:
        rest, self._pending = b"".join(self._pending), []
        frame = None
        if clean and self._framer is not None:
            with suppress(Malformed):
                frame = next(iter(self._framer.finish()), None)
        return [(rest, frame)] if rest else []


class _Messages:
    """Cuts an event stream by the length that each message begins with."""

    __slots__ = ("_framer", "_pending")

    def __init__(self) -> None:
        self._framer: EventStream | None = EventStream()
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[Slice]:
        slices: list[Slice] = []
        if self._framer is None:
            return [(data, None)] if data else []
        pending = self._pending
        pending += data
        while len(pending) >= _LEAST_BYTES:
            length = int.from_bytes(pending[:4])
            if _LEAST_BYTES <= length <= MAX_FRAME_BYTES and len(pending) < length:
                break
            try:
                # A length that cannot be is refused by the framer, too.
                frames = self._framer.feed(bytes(pending[: max(length, _LEAST_BYTES)]))
            except Malformed:
                self._framer = None
                return [*slices, *self.finish(clean=False)]
            slices.append((bytes(pending[:length]), frames[-1]))
            del pending[:length]
        return slices

    def finish(self, *, clean: bool) -> list[Slice]:
        rest = bytes(self._pending)
        self._pending.clear()
        return [(rest, None)] if rest else []


_LEAST_BYTES = 16  # a message without headers and payload
_LINES = re.compile(rb"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")


def _lines(data: bytes) -> list[bytes]:
    """Split after every line, or after every blank one where that is as good."""
    if data.endswith(b"\n\n") and data[0] != LF and b"\r" not in data and b"\n\n\n" not in data:
        if data.find(b"\n\n") == len(data) - 2:
            return [data]
        return [block + b"\n\n" for block in data[:-2].split(b"\n\n")]
    return _LINES.findall(data)


def _json_lines(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True) if b"\r" not in data else [*re.findall(rb"[^\n]*\n|[^\n]+", data)]


_SLICERS: dict[Callable[[], Framer], Callable[[], Slicer]] = {
    ServerSentEvents: lambda: _Pieces(ServerSentEvents(), _lines),
    JsonLines: lambda: _Pieces(JsonLines(), _json_lines),
    EventStream: _Messages,
}


def slicer_of(content_type: str) -> Slicer | None:
    """Return what cuts bodies of this content type (lower-case, without parameters); None where it is no stream's.

    >>> slicer_of("text/event-stream").feed(b": ping\\n\\ndata: a\\n\\nda")
    [(b': ping\\n\\ndata: a\\n\\n', Frame(event=b'', data=b'a'))]
    """
    framing = FRAMINGS.get(content_type)
    return None if framing is None else _SLICERS[framing]()
