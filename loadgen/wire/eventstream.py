"""AWS event streams (`application/vnd.amazon.eventstream`): binary messages under two checksums, read and written.

A message is a prelude (u32 length of it all, u32 length of the headers, CRC-32 of these eight bytes), the headers, the
payload, and the CRC-32 of everything before it; big-endian. After a broken checksum there is no way to find the next
message.
"""

from collections.abc import Mapping
from struct import Struct
from zlib import crc32

from loadgen.wire.frame import MAX_FRAME_BYTES, Broken, Foreign, Frame

MAX_HEADERS_BYTES = 128 * 1024

_PRELUDE = Struct(">III")
_CRC = Struct(">I")
_LENGTH = Struct(">H")
_PRELUDE_BYTES = _PRELUDE.size
_LEAST_BYTES = _PRELUDE_BYTES + _CRC.size
# How many bytes a header's value has, by its type; -1: as many as the two bytes before it say.
_VALUE_BYTES = (0, 0, 1, 2, 4, 8, -1, -1, 8, 16)
_STRING = 7
# A message cannot begin like this: its length would be beyond every bound. Text can.
_FOREIGN = b"{[<:deir"


class Message(Frame, frozen=True, gc=False):
    """A message as a frame: `event` is its event, exception or error by name, `kind` its `:message-type`."""

    kind: bytes = b"event"


class EventStream:
    """Messages out of bytes; raises Broken at the first that does not hold.

    >>> EventStream().feed(encode({":event-type": "ping"}, b"{}"))
    [Message(event=b'ping', data=b'{}', kind=b'event')]
    """

    __slots__ = ("_headers", "_kind", "_name", "_needed", "_pieces", "_size", "_started")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []  # of a message whose end has not come
        self._size = 0  # bytes in the pieces
        self._needed = 0  # so many bytes are of use, and no fewer
        self._started = False
        self._headers = b""  # those of the last message, and what they say: the next has the same, as a rule
        self._kind, self._name = _named(b"")

    def feed(self, data: bytes) -> list[Message]:
        if self._pieces:
            self._pieces.append(data)
            self._size += len(data)
            if self._size < self._needed:
                return []
            data = b"".join(self._pieces)
            self._pieces = []
        messages: list[Message] = []
        start, end, self._needed = 0, len(data), _PRELUDE_BYTES
        while end - start >= _PRELUDE_BYTES:
            length, headers_length, checksum = _PRELUDE.unpack_from(data, start)
            if crc32(data[start : start + 8]) != checksum:
                if not self._started and data[start] in _FOREIGN:
                    raise Foreign(data)
                raise Broken("prelude_checksum", messages)
            if length < _LEAST_BYTES or headers_length > length - _LEAST_BYTES:
                raise Broken("message_length", messages)
            if length > MAX_FRAME_BYTES or headers_length > MAX_HEADERS_BYTES:
                raise Broken("frame_too_large", messages)
            if end - start < length:
                self._needed = length
                break
            self._started = True
            stop = start + length
            # The checksum of the first eight bytes is known: it goes on from there.
            if crc32(data[start + 8 : stop - 4], checksum) != _CRC.unpack_from(data, stop - 4)[0]:
                raise Broken("message_checksum", messages)
            payload = start + _PRELUDE_BYTES + headers_length
            headers = data[start + _PRELUDE_BYTES : payload]
            if headers != self._headers:
                try:
                    self._kind, self._name = _named(headers)
                except ValueError as error:
                    raise Broken("message_headers", messages) from error
                self._headers = headers
            messages.append(Message(self._name, data[payload : stop - 4], self._kind))
            start = stop
        if start < end:
            self._pieces = [data[start:]]
            self._size = end - start
        return messages

    def finish(self) -> list[Message]:
        """Return nothing: a message without its last byte is cut."""
        return []


def _named(raw: bytes) -> tuple[bytes, bytes]:
    """Return the message type, and the name of the event, exception or error; raises ValueError."""
    headers = decode_headers(raw)
    kind = headers.get(b":message-type", b"event")
    names = {b"exception": b":exception-type", b"error": b":error-code"}
    return kind, headers.get(names.get(kind, b":event-type"), b"")


def decode_headers(raw: bytes) -> dict[bytes, bytes]:
    """Return the headers of a message, values as they are on the wire; raises ValueError where they do not hold.

    >>> decode_headers(b"\\x01a\\x07\\x00\\x02hi\\x01b\\x00")
    {b'a': b'hi', b'b': b''}
    """
    headers: dict[bytes, bytes] = {}
    at = 0
    while at < len(raw):
        value_at = at + 2 + raw[at]
        name = raw[at + 1 : value_at - 1]
        if value_at > len(raw) or name in headers or raw[value_at - 1] >= len(_VALUE_BYTES):
            raise ValueError(f"header at {at}")
        size = _VALUE_BYTES[raw[value_at - 1]]
        if size < 0:
            value_at += 2
            size = int.from_bytes(raw[value_at - 2 : value_at])
        at = value_at + size
        if at > len(raw):
            raise ValueError(f"value at {value_at}")
        headers[name] = raw[value_at:at]
    return headers


def encode(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return a message with these headers, all strings.

    >>> encode({}, b"").hex()
    '000000100000000005c248eb7d98c8ff'
    """
    raw = bytearray()
    for name, text in headers.items():
        key, value = name.encode(), text.encode("utf-8", "replace")
        raw += bytes([len(key)]) + key + bytes([_STRING]) + _LENGTH.pack(len(value)) + value
    return _message(raw, payload)


def with_payload(message: bytes, payload: bytes) -> bytes:
    """Return a whole message with its headers as they were and another payload.

    >>> with_payload(encode({"a": "b"}, b"{}"), b"[]") == encode({"a": "b"}, b"[]")
    True
    """
    length = int.from_bytes(message[4:8])
    return _message(message[_PRELUDE_BYTES : _PRELUDE_BYTES + length], payload)


def _message(headers: bytes | bytearray, payload: bytes) -> bytes:
    lengths = _PRELUDE.pack(_LEAST_BYTES + len(headers) + len(payload), len(headers), 0)[:8]
    message = lengths + _CRC.pack(crc32(lengths)) + headers + payload
    return message + _CRC.pack(crc32(message))
