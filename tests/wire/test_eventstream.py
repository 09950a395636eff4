"""AWS event streams: both checksums hold or nothing is read, wherever the network cut the bytes."""

from base64 import b64decode
from itertools import pairwise
from struct import pack
from time import process_time
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.wire import eventstream
from loadgen.wire.eventstream import EventStream, Message, decode_headers, encode
from loadgen.wire.frame import Broken, Foreign

# FORMATS 5.2: made and checked by another implementation.
GOLDEN = {
    "an event": (
        "AAAAnQAAAFe5u/ifCzpldmVudC10eXBlBwARY29udGVudEJsb2NrRGVsdGENOmNvbnRlbnQtdHlwZQcAEGFwcGxpY2F0aW9uL2pzb24NOm1l"
        "c3NhZ2UtdHlwZQcABWV2ZW50eyJjb250ZW50QmxvY2tJbmRleCI6MCwiZGVsdGEiOnsidGV4dCI6IkhpIn0sInAiOiJhYiJ9iziyaA==",
        Message(b"contentBlockDelta", b'{"contentBlockIndex":0,"delta":{"text":"Hi"},"p":"ab"}', b"event"),
    ),
    "an exception": (
        "AAAAiAAAAGHeAXX0DzpleGNlcHRpb24tdHlwZQcAE3Rocm90dGxpbmdFeGNlcHRpb24NOmNvbnRlbnQtdHlwZQcAEGFwcGxpY2F0aW9uL2pz"
        "b24NOm1lc3NhZ2UtdHlwZQcACWV4Y2VwdGlvbnsibWVzc2FnZSI6InNsb3cgZG93biJ9gy7gcg==",
        Message(b"throttlingException", b'{"message":"slow down"}', b"exception"),
    ),
    "a chunk": (
        "AAAA4QAAAEuRmKkeCzpldmVudC10eXBlBwAFY2h1bmsNOmNvbnRlbnQtdHlwZQcAEGFwcGxpY2F0aW9uL2pzb24NOm1lc3NhZ2UtdHlwZQcA"
        "BWV2ZW50eyJieXRlcyI6ImV5SjBlWEJsSWpvaVkyOXVkR1Z1ZEY5aWJHOWphMTlrWld4MFlTSXNJbWx1WkdWNElqb3dMQ0prWld4MFlTSTZl"
        "eUowZVhCbElqb2lkR1Y0ZEY5a1pXeDBZU0lzSW5SbGVIUWlPaUpJYVNKOWZRPT0iLCJwIjoiYWJjIn1Fzifl",
        Message(
            b"chunk",
            b'{"bytes":"eyJ0eXBlIjoiY29udGVudF9ibG9ja19kZWx0YSIsImluZGV4IjowLCJkZWx0YSI6eyJ0eXBlIjoidGV4dF9kZWx0YSIs'
            b'InRleHQiOiJIaSJ9fQ==","p":"abc"}',
            b"event",
        ),
    ),
    "an empty message": ("AAAAEAAAAAAFwkjrfZjI/w==", Message(b"", b"", b"event")),
}
EVENT = {":event-type": "contentBlockDelta", ":content-type": "application/json", ":message-type": "event"}
SMALL = encode({":event-type": "e", ":message-type": "event"}, b'{"a":1}')


def read(*pieces: bytes) -> list[Message]:
    stream = EventStream()
    return [message for piece in pieces for message in stream.feed(piece)] + stream.finish()


def read_until_broken(*pieces: bytes) -> tuple[list[Message], str | None]:
    """Return the messages before what breaks the stream, and its detail."""
    stream, messages = EventStream(), []
    try:
        for piece in pieces:
            messages += stream.feed(piece)
    except Broken as error:
        return [*messages, *error.frames], str(error)
    return messages, None


def sealed(lengths: tuple[int, int], body: bytes) -> bytes:
    """A message of any lengths and body whose checksums hold."""
    prelude = pack(">II", *lengths)
    message = prelude + pack(">I", crc32(prelude)) + body
    return message + pack(">I", crc32(message))


def with_headers(raw: bytes, payload: bytes = b"{}") -> bytes:
    return sealed((16 + len(raw) + len(payload), len(raw)), raw + payload)


@pytest.mark.parametrize("name", GOLDEN)
def test_the_golden_vectors_are_read_at_every_split(name):
    wire, message = b64decode(GOLDEN[name][0]), GOLDEN[name][1]

    for cut in range(len(wire) + 1):
        assert [message] == read(wire[:cut], wire[cut:])
    assert [message] * 3 == read(*(bytes([byte]) for byte in wire * 3))
    assert [message] * 3 == read(wire * 3)


def test_the_golden_vectors_are_written_the_same():
    vector, message = GOLDEN["an event"]

    assert b64decode(vector) == encode(EVENT, message.data)
    assert b64decode(GOLDEN["an empty message"][0]) == encode({}, b"")


NAME = st.text(st.characters(codec="ascii", exclude_characters=":\0"), min_size=1, max_size=60)
HEADERS = st.fixed_dictionaries(
    {":event-type": st.text(max_size=20), ":message-type": st.just("event")},
    optional={":content-type": st.just("application/json"), "x": st.text(max_size=300)},
)
MESSAGES = st.lists(st.tuples(HEADERS, st.binary(max_size=200)), max_size=5)


@settings(max_examples=200, deadline=None)
@given(MESSAGES, st.lists(st.integers(0, 5_000), max_size=10))
def test_messages_that_were_written_are_read_at_any_split(messages, places):
    wire = b"".join(encode(headers, payload) for headers, payload in messages)
    ends = [0, *sorted(place % (len(wire) + 1) for place in places), len(wire)]

    expected = [Message(headers[":event-type"].encode(), payload, b"event") for headers, payload in messages]
    assert expected == read(*(wire[start:end] for start, end in pairwise(ends)))


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(NAME, st.text(max_size=40), max_size=6), st.binary(max_size=20))
def test_headers_that_were_written_are_read(headers, payload):
    wire = encode(headers, payload)
    size = int.from_bytes(wire[4:8])

    assert {name.encode(): text.encode() for name, text in headers.items()} == decode_headers(wire[12 : 12 + size])


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_damaged_byte_anywhere_breaks_the_stream_and_is_never_read(flip):
    for at in range(len(SMALL)):
        damaged = SMALL[:at] + bytes([SMALL[at] ^ flip]) + SMALL[at + 1 :]
        checksum = "prelude_checksum" if at < 12 else "message_checksum"
        for pieces in ([SMALL + damaged + SMALL], [SMALL, *(bytes([byte]) for byte in damaged), SMALL]):
            messages, detail = read_until_broken(*pieces)
            assert (1, checksum) == (len(messages), detail), at


def test_two_swapped_bytes_break_the_stream():
    for at in range(len(SMALL) - 1):
        swapped = SMALL[:at] + SMALL[at + 1 : at + 2] + SMALL[at : at + 1] + SMALL[at + 2 :]
        if swapped != SMALL:
            assert read_until_broken(swapped)[1] in ("prelude_checksum", "message_checksum"), at


@pytest.mark.parametrize(
    ("lengths", "detail"),
    [
        ((0, 0), "message_length"),
        ((15, 0), "message_length"),
        ((16, 1), "message_length"),
        ((20, 5), "message_length"),
        ((100, 2**32 - 1), "message_length"),
        ((2**32 - 1, 0), "frame_too_large"),
        ((32 * 2**20 + 1, 0), "frame_too_large"),
        ((2**20, 128 * 1024 + 1), "frame_too_large"),
    ],
)
def test_lengths_that_cannot_be_break_the_stream_at_the_prelude(lengths, detail):
    prelude = sealed(lengths, b"")[:12]

    assert ([read(SMALL)[0]], detail) == read_until_broken(SMALL + prelude)
    assert ([read(SMALL)[0]], detail) == read_until_broken(*(bytes([byte]) for byte in SMALL + prelude))
    assert ([], None) == read_until_broken(prelude[:11])


def test_a_message_may_be_as_long_as_the_bound(monkeypatch):
    monkeypatch.setattr(eventstream, "MAX_FRAME_BYTES", 100)

    assert 1 == len(read(encode({}, b"x" * 84)))
    assert ([], "frame_too_large") == read_until_broken(encode({}, b"x" * 85))


VALUES = [(0, b""), (1, b""), (2, b"b"), (3, b"sh"), (4, b"intr"), (5, b"longlong"), (8, b"whenwhen"), (9, b"u" * 16)]


def test_headers_of_every_type_are_passed_over():
    raw = b"".join(bytes([1, 97 + kind, kind]) + value for kind, value in VALUES)
    raw += b"\x01y\x06\x00\x03abc" + b"\x0b:event-type\x07\x00\x01e"

    assert [Message(b"e", b"{}", b"event")] == read(with_headers(raw))
    assert dict(VALUES)[9] == decode_headers(raw)[b"j"]


@pytest.mark.parametrize(
    "raw",
    [
        b"\x01",
        b"\x01a",
        b"\x05a",
        b"\x01a\x07",
        b"\x01a\x07\x00",
        b"\x01a\x07\x00\x05hi",
        b"\x01a\x04\x00\x00",
        b"\x01a\x0a",
        b"\x01a\xff",
        b"\x01a\x00\x01a\x00",
        b"\x01a\x00\x01",
    ],
)
def test_headers_that_do_not_hold_break_the_stream(raw):
    assert ([read(SMALL)[0]], "message_headers") == read_until_broken(SMALL + with_headers(raw))


def test_a_message_is_named_by_its_kind():
    names = {":event-type": "e", ":exception-type": "x", ":error-code": "c"}
    kinds = {"event": b"e", "exception": b"x", "error": b"c", "of the future": b"e"}

    for kind, name in kinds.items():
        assert [Message(name, b"", kind.encode())] == read(encode({**names, ":message-type": kind}, b""))
    assert [Message(b"e", b"", b"event")] == read(encode(names, b""))


def test_messages_of_other_headers_in_one_read_keep_their_own():
    wires = [encode({":event-type": name}, b"") for name in ("a", "a", "b", "a")]

    assert [b"a", b"a", b"b", b"a"] == [message.event for message in read(b"".join(wires))]


@pytest.mark.parametrize(
    "text", [b'{"error": "busy"}', b"data: {}\n\ndata: {}\n\n", b"event: x\ndata: 1\n\n", b": hello there"]
)
def test_text_is_foreign(text):
    with pytest.raises(Foreign):
        read(text)
    with pytest.raises(Foreign):
        read(*(bytes([byte]) for byte in text))


def test_text_after_a_message_is_no_wrong_content_type_but_a_broken_stream():
    assert ([read(SMALL)[0]], "prelude_checksum") == read_until_broken(SMALL + b'{"error": "busy"}')


@pytest.mark.parametrize("size", range(len(SMALL)))
def test_a_message_without_its_last_byte_is_a_cut(size):
    assert [] == read(SMALL[:size])
    assert 1 == len(read(SMALL, SMALL[:size]))


def seconds(size: int) -> float:
    """Return the CPU time of one message of `size` bytes in reads of 256, the best of three."""
    best, wire = float("inf"), encode(EVENT, b"x" * size)
    for _ in range(3):
        stream, start = EventStream(), process_time()
        messages = [message for at in range(0, len(wire), 256) for message in stream.feed(wire[at : at + 256])]
        best = min(best, process_time() - start)
        assert [size] == [len(message.data) for message in messages]
    return best


def test_a_message_that_comes_in_many_reads_costs_linear_time():
    assert seconds(2**21) < 16 * 6 * max(seconds(2**17), 1e-3)  # quadratic would be 256 times
