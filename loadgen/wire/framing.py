"""Bytes to frames: where one frame of a stream ends, wherever the network cut the bytes.

A framer takes bytes as they come and returns the frames that they complete; frames completed by one `feed` arrived
together. It keeps where it searched, so a frame that comes in many reads costs linear time. `finish` says what a clean
end of the message completes.
"""

import json
from collections.abc import Callable
from typing import Protocol

import msgspec

from loadgen.wire.events import Malformed

MAX_FRAME_BYTES = 32 * 1024 * 1024

LF = 0x0A
_BOM = b"\xef\xbb\xbf"


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One frame: its event name (b"" where it has none) and its data."""

    event: bytes
    data: bytes


class Framer(Protocol):
    """What turns a response body into frames."""

    def feed(self, data: bytes) -> list[Frame]:
        """Take the next bytes, return the frames they complete; raises Malformed."""
        ...

    def finish(self) -> list[Frame]:
        """Return the frames that a clean end of the message completes."""
        ...


class ServerSentEvents:
    """`text/event-stream` by the WHATWG rules, on bytes.

    Three deliberate differences: invalid UTF-8 is left for the reader of the data; an unknown field `error` is reported
    as an event of that name, since llama.cpp sent errors so; an unclosed event at a clean end is kept when its line is
    whole JSON or `[DONE]`, since servers forget the last newline.

    >>> ServerSentEvents().feed(b"data: a\\n\\ndata: b\\r\\r: ping\\n")
    [Frame(event=b'', data=b'a'), Frame(event=b'', data=b'b')]
    """

    __slots__ = ("_data", "_event", "_is_between", "_pending", "_pieces", "_size", "_skip_lf", "_started")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []  # of a line whose end has not come
        self._pending = 0  # bytes in the pieces
        self._skip_lf = False
        self._started = False
        self._is_between = False  # nothing is pending: the next byte begins an event
        self._data: list[bytes] = []
        self._size = 0
        self._event = b""

    def feed(self, data: bytes) -> list[Frame]:
        # The usual read is whole `data: …\n\n` events of one line each; anything else goes line by line.
        if self._is_between and data.startswith(b"data: ") and data.endswith(b"\n\n") and b"\r" not in data:
            if data.find(b"\n") == len(data) - 2:
                return [Frame(b"", data[6:-2])]
            events = data[:-2].split(b"\n\n")
            if all(event.startswith(b"data: ") and b"\n" not in event for event in events):
                return [Frame(b"", event[6:]) for event in events]
        frames = self._by_line(data)
        self._is_between = self._started and not (self._pieces or self._data or self._event or self._skip_lf)
        return frames

    def _by_line(self, data: bytes) -> list[Frame]:
        if self._skip_lf and data:
            self._skip_lf = False
            data = data[1:] if data[0] == LF else data
        if not self._started:
            data = b"".join((*self._pieces, data))
            self._pieces = []
            if len(data) < len(_BOM) and _BOM.startswith(data):
                self._pieces = [data]
                return []
            self._started = True
            data = data.removeprefix(_BOM)
        lf, cr = data.find(b"\n"), data.find(b"\r")
        if lf < 0 and cr < 0:
            if data:
                self._pieces.append(data)
                self._pending += len(data)
            self._check(self._pending)
            return []
        frames: list[Frame] = []
        start = 0
        while lf >= 0 or cr >= 0:
            end = lf if cr < 0 or 0 <= lf < cr else cr
            line = data[start:end]
            if self._pieces:
                line = b"".join((*self._pieces, line))
                self._pieces, self._pending = [], 0
            self._line(line, frames)
            start = end + 1
            if end == cr:  # the line ends now; an LF that follows, even in the next read, belongs to it
                if start == len(data):
                    self._skip_lf = True
                elif data[start] == LF:
                    start += 1
                cr = data.find(b"\r", start)
            if 0 <= lf < start:
                lf = data.find(b"\n", start)
        if start < len(data):
            self._pieces.append(data[start:])
            self._pending = len(data) - start
        self._check(self._pending)
        return frames

    def _check(self, line_bytes: int) -> None:
        if line_bytes + self._size > MAX_FRAME_BYTES:
            raise Malformed("frame_too_large")

    def _line(self, line: bytes, frames: list[Frame]) -> None:
        if not line:
            if self._data:
                frames.append(Frame(self._event, b"\n".join(self._data)))
                self._data, self._size = [], 0
            self._event = b""
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value) + 1
        elif name == b"event":
            self._event = value
        elif name == b"error":
            frames.append(Frame(b"error", value))

    def finish(self) -> list[Frame]:
        frames: list[Frame] = []
        if self._pieces:
            self._line(b"".join(self._pieces), frames)
            self._pieces = []
        if self._data:
            data = b"\n".join(self._data)
            if data.strip() == b"[DONE]" or _is_object(data):
                frames.append(Frame(self._event, data))
        return frames


class JsonLines:
    """`application/x-ndjson`: a JSON text a line, lines end with LF, blank lines say nothing.

    >>> JsonLines().feed(b'{"a": 1}\\n\\n{"b"')
    [Frame(event=b'', data=b'{"a": 1}')]
    """

    __slots__ = ("_pieces", "_size", "_started")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._started = False

    def feed(self, data: bytes) -> list[Frame]:
        *lines, rest = data.split(b"\n")
        frames: list[Frame] = []
        if lines:
            lines[0] = b"".join((*self._pieces, lines[0]))
            self._pieces, self._size = [], 0
            frames = [Frame(b"", text) for line in lines if (text := self._stripped(line))]
        if rest:
            self._pieces.append(rest)
            self._size += len(rest)
            if self._size > MAX_FRAME_BYTES:
                raise Malformed("frame_too_large")
        return frames

    def _stripped(self, line: bytes) -> bytes:
        if not self._started:
            self._started = True
            line = line.removeprefix(_BOM)
        return line.strip()

    def finish(self) -> list[Frame]:
        text = self._stripped(b"".join(self._pieces))
        return [Frame(b"", text)] if _is_object(text) else []


def _is_object(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data.decode("utf-8", "replace")), dict)
    except (ValueError, RecursionError):
        return False


def content_type(value: str) -> str:
    """Return a content type without its parameters, lower-cased.

    >>> content_type("Text/Event-Stream; charset=utf-8")
    'text/event-stream'
    """
    return value.partition(";")[0].strip().lower()


FRAMINGS: dict[str, Callable[[], Framer]] = {
    "text/event-stream": ServerSentEvents,
    "application/x-ndjson": JsonLines,
    "application/ndjson": JsonLines,
    "application/jsonl": JsonLines,
    "application/x-jsonlines": JsonLines,
    "application/stream+json": JsonLines,
}
