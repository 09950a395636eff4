"""Bytes to frames: where one frame of a stream ends, wherever the network cut the bytes.

A framer takes bytes as they come and returns the frames that they complete; frames completed by one `feed` arrived
together. It keeps where it searched, so a frame that comes in many reads costs linear time. `finish` says what a clean
end of the message completes. Bytes that plainly are something else (a JSON object as server-sent events, say) are
Foreign: the content type was wrong.
"""

import json
from collections.abc import Callable

import msgspec

from loadgen.wire.eventstream import EventStream
from loadgen.wire.frame import MAX_FRAME_BYTES, Broken, Foreign, Frame, Framer

LF = 0x0A
_BOM = b"\xef\xbb\xbf"
# No server-sent event begins like this, but JSON, a page of HTML and a binary event stream do.
_FOREIGN_TO_EVENTS = b"{[<\0"
# No JSON text begins like this, but server-sent events, a page of HTML and a binary event stream do.
_FOREIGN_TO_LINES = (b"data:", b"event:", b"id:", b"retry:", b":", b"<", b"\0")


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
        # The usual read is whole `data: …\n\n` events, of one line each or named; anything else goes line by line.
        if self._is_between and data.startswith(b"data: ") and data.endswith(b"\n\n") and b"\r" not in data:
            if data.find(b"\n") == len(data) - 2:
                return [Frame(b"", data[6:-2])]
            events = data[:-2].split(b"\n\n")
            if all(event.startswith(b"data: ") and b"\n" not in event for event in events):
                return [Frame(b"", event[6:]) for event in events]
        elif self._is_between and data.startswith(b"event: ") and data.endswith(b"\n\n") and b"\r" not in data:
            end = data.find(b"\n")
            if data.startswith(b"data: ", end + 1) and data.find(b"\n", end + 7) == len(data) - 2:
                return [Frame(data[7:end], data[end + 7 : -2])]
            frames = _named_events(data[:-2])
            if frames:
                return frames
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
            if _BOM.startswith(data):  # nothing so far, or a part of the mark, or just the mark
                self._pieces = [data]
                return []
            self._started = True
            data = data.removeprefix(_BOM)
            if data[0] in _FOREIGN_TO_EVENTS:
                raise Foreign(data)
        lf, cr = data.find(b"\n"), data.find(b"\r")
        if lf < 0 and cr < 0:
            if data:
                self._pieces.append(data)
                self._pending += len(data)
            self._check([])
            return []
        frames: list[Frame] = []
        start = 0
        while lf >= 0 or cr >= 0:
            end = lf if cr < 0 or 0 <= lf < cr else cr
            line = data[start:end]
            if self._pieces:
                line = b"".join((*self._pieces, line))
                self._pieces, self._pending = [], 0
            if len(line) + self._size > MAX_FRAME_BYTES:
                raise Broken("frame_too_large", frames)
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
        self._check(frames)
        return frames

    def _check(self, frames: list[Frame]) -> None:
        if self._pending + self._size > MAX_FRAME_BYTES:
            raise Broken("frame_too_large", frames)

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


def _named_events(text: bytes) -> list[Frame] | None:
    """Return the events of `event: …\\ndata: …` pairs with blank lines between; None when any is anything else."""
    frames = []
    for event in text.split(b"\n\n"):
        name, _, data = event.partition(b"\n")
        if b"\n" in data or not (name.startswith(b"event: ") and data.startswith(b"data: ")):
            return None
        frames.append(Frame(name[7:], data[6:]))
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
        # The usual read is one whole line.
        if self._started and not self._pieces and data.find(b"\n") == len(data) - 1 and (text := data.strip()):
            return [Frame(b"", text)]
        *lines, rest = data.split(b"\n")
        frames: list[Frame] = []
        if lines:
            lines[0] = b"".join((*self._pieces, lines[0]))
            self._pieces, self._size = [], 0
            if len(lines[0]) > MAX_FRAME_BYTES:
                raise Broken("frame_too_large")
            frames = [Frame(b"", text) for line in lines if (text := self._stripped(line))]
        if rest:
            self._pieces.append(rest)
            self._size += len(rest)
            if self._size > MAX_FRAME_BYTES:
                raise Broken("frame_too_large", frames)
        return frames

    def _stripped(self, line: bytes) -> bytes:
        if not self._started:
            self._started = True
            line = line.removeprefix(_BOM)
            if line.startswith(_FOREIGN_TO_LINES):
                raise Foreign(line)
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


def server_sent_event(value: object, *, name: str = "") -> bytes:
    """Return a JSON value as one server-sent event.

    >>> server_sent_event({"a": 1}, name="x")
    b'event: x\\ndata: {"a":1}\\n\\n'
    """
    lead = b"event: %b\ndata: " % name.encode() if name else b"data: "
    return lead + msgspec.json.encode(value) + b"\n\n"


FRAMINGS: dict[str, Callable[[], Framer]] = {
    "text/event-stream": ServerSentEvents,
    "application/vnd.amazon.eventstream": EventStream,
    "application/x-ndjson": JsonLines,
    "application/ndjson": JsonLines,
    "application/jsonl": JsonLines,
    "application/x-jsonlines": JsonLines,
    "application/stream+json": JsonLines,
}
