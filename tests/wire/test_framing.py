"""Bytes to frames: the same frames wherever the network cut them, in linear time, within a bound."""

import re
from collections.abc import Iterable
from itertools import pairwise
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.wire import framing
from loadgen.wire.events import Malformed
from loadgen.wire.framing import FRAMINGS, Frame, Framer, JsonLines, ServerSentEvents, content_type

BOM = b"\xef\xbb\xbf"
ODD_TEXT = 'data: "é\u2028\u0085\x0b\x1c\U0001f600"\n\n'.encode()

# FORMATS 9.1: bytes, the frames before the end, what a clean end adds.
CONFORMANCE = [
    (b"data: a\n\n", [(b"", b"a")], []),
    (b"data:a\r\n\r\n", [(b"", b"a")], []),
    (b"data: a\r\r", [(b"", b"a")], []),
    (b"data: a\n\r\ndata: b\r\r\ndata: c\n\n", [(b"", b"a"), (b"", b"b"), (b"", b"c")], []),
    (BOM + b"data: x\n\n", [(b"", b"x")], []),
    (BOM + BOM + b"data: x\n\n", [], []),
    (b"data: x\n\n" + BOM + b"data: y\n\n", [(b"", b"x")], []),
    (b"data: " + BOM + b"x\n\n", [(b"", BOM + b"x")], []),
    (b"data:  a\n\n", [(b"", b" a")], []),
    (b"data:\ta\n\n", [(b"", b"\ta")], []),
    (b"data: a\ndata: b\n\n", [(b"", b"a\nb")], []),
    (b'data: {"a":\ndata: 1}\n\n', [(b"", b'{"a":\n1}')], []),
    (b"data\n\n", [(b"", b"")], []),
    (b"data:\n\n", [(b"", b"")], []),
    (b"data: \n\n", [(b"", b"")], []),
    (b"data\ndata\n\n", [(b"", b"\n")], []),
    (b"event: ping\n\n", [], []),
    (b"event: ping\n\ndata: a\n\n", [(b"", b"a")], []),
    (b"event: x\nevent: y\ndata: 1\n\ndata: 2\n\n", [(b"y", b"1"), (b"", b"2")], []),
    (b": c\n\n:\ndata: a\n:d\n\n", [(b"", b"a")], []),
    (b"id: 7\ndata: a\n\n\n\ndata: b\n\n", [(b"", b"a"), (b"", b"b")], []),
    (b"Data: a\n\n", [], []),
    (b" data: a\n\n", [], []),
    (b"retry: 10\ndata: a\n\n", [(b"", b"a")], []),
    (b"data: a:b: c\n\n", [(b"", b"a:b: c")], []),
    (ODD_TEXT, [(b"", ODD_TEXT[6:-2])], []),
    (b"data: \xff\n\n", [(b"", b"\xff")], []),
    (b"data: [DONE]", [], [(b"", b"[DONE]")]),
    (b"data: [DONE]\n", [], [(b"", b"[DONE]")]),
    (b"data: [DONE]\r", [], [(b"", b"[DONE]")]),
    (b'data: {"a": 1}', [], [(b"", b'{"a": 1}')]),
    (b'event: x\ndata: {"a":\ndata: 1}\n', [], [(b"x", b'{"a":\n1}')]),
    (b'data: {"a": ', [], []),
    (b"data: a\n", [], []),
    (b"data: [1]\n", [], []),
    (b"", [], []),
    (BOM[:2], [], []),
    (b'error: {"code":400}\n\ndata: [DONE]\n\n', [(b"error", b'{"code":400}'), (b"", b"[DONE]")], []),
]

# FORMATS 0.2.
JSON_LINES = [
    (b'{"a": 1}\n{"b": 2}\n', [b'{"a": 1}', b'{"b": 2}'], []),
    (b'{"a": 1}\r\n', [b'{"a": 1}'], []),
    (b'{"a":\r1}\n', [b'{"a":\r1}'], []),
    (b'\n \t\r\n{"a": 1}\n\n', [b'{"a": 1}'], []),
    (BOM + b'{"a": 1}\n', [b'{"a": 1}'], []),
    (b'{"a": "\xe2\x80\xa8\xc2\x85"}\n', [b'{"a": "\xe2\x80\xa8\xc2\x85"}'], []),
    (b'{"a": 1}', [], [b'{"a": 1}']),
    (BOM + b'{"a": 1}\r', [], [b'{"a": 1}']),
    (b'{"a": 1}\n{"b', [b'{"a": 1}'], []),
    (b"not json\n", [b"not json"], []),
    (b" \r", [], []),
    (b"", [], []),
]


def feed_all(framer: Framer, pieces: Iterable[bytes]) -> list[Frame]:
    return [frame for piece in pieces for frame in framer.feed(piece)]


def read(framer: Framer, pieces: Iterable[bytes]) -> tuple[list[Frame], list[Frame]]:
    """Return the frames before the end and those that a clean end adds."""
    return feed_all(framer, pieces), framer.finish()


def single_bytes(wire: bytes) -> list[bytes]:
    return [bytes([byte]) for byte in wire]


def two_halves(wire: bytes) -> list[list[bytes]]:
    return [[wire[:cut], wire[cut:]] for cut in range(len(wire) + 1)]


def cut_at(wire: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(wire) + 1) for cut in cuts), len(wire)]
    return [wire[start:end] for start, end in pairwise(places)]


def reference(wire: bytes) -> list[Frame]:
    """Decode a whole stream as the standard words it, line for line, with `error` fields as events."""
    *lines, _unended = re.split(rb"\r\n|\n|\r", wire.removeprefix(BOM))
    frames, data, event = [], b"", b""
    for line in lines:
        if line == b"":
            if data != b"":
                frames.append(Frame(event, data[:-1]))
            data, event = b"", b""
        elif b":" in line:
            field, value = line.split(b":", 1)
            value = value[1:] if value[:1] == b" " else value
            if field == b"data":
                data += value + b"\n"
            elif field == b"event":
                event = value
            elif field == b"error":
                frames.append(Frame(b"error", value))
        elif line == b"data":
            data += b"\n"
        elif line == b"event":
            event = b""
        elif line == b"error":
            frames.append(Frame(b"error", b""))
    return frames


@pytest.mark.parametrize(("wire", "frames", "tail"), CONFORMANCE)
def test_server_sent_events_follow_the_conformance_table_at_every_split(wire, frames, tail):
    expected = ([Frame(*frame) for frame in frames], [Frame(*frame) for frame in tail])

    for pieces in ([wire], single_bytes(wire), *two_halves(wire)):
        assert expected == read(ServerSentEvents(), pieces), pieces


@pytest.mark.parametrize("wire", [wire for wire, _frames, _tail in CONFORMANCE])
def test_an_event_in_mid_stream_reads_the_same_at_every_split(wire):
    expected = reference(b"data: 0\n\n" + wire)

    for pieces in ([wire], single_bytes(wire), *two_halves(wire)):
        assert expected == feed_all(ServerSentEvents(), [b"data: 0\n\n", *pieces]), pieces


@pytest.mark.parametrize(("wire", "lines", "tail"), JSON_LINES)
def test_json_lines_end_with_lf_alone_at_every_split(wire, lines, tail):
    expected = ([Frame(b"", line) for line in lines], [Frame(b"", line) for line in tail])

    for pieces in ([wire], single_bytes(wire), *two_halves(wire)):
        assert expected == read(JsonLines(), pieces), pieces


LINE = st.sampled_from(
    [b"data: a", b"data:b", b"data:  c", b"data", b"data: ", b"data: [DONE]", b'data: {"a": 1}', b"data: x:y"]
    + [b"data: a"] * 6
    + [b"", b"", b"", b"", b"event: x", b"event", b"error: e", b"error", b": ping", b":", b"id: 7", b"retry: 1"]
    + [b"Data: a", b" data: a", b"foo", b"data: \xff", "data: é\u2028\x0b".encode(), BOM + b"data: a", b"dat"]
)
LINE_END = st.sampled_from([b"\n"] * 5 + [b"\r\n", b"\r"])
LINES = st.lists(st.tuples(LINE, LINE_END).map(b"".join), max_size=25).map(b"".join)
USUAL = st.lists(st.sampled_from([b"data: a\n\n", b'data: {"b": 2}\n\n', b"data: \n\n"]), max_size=6).map(b"".join)
STREAM = st.tuples(st.sampled_from([b"", BOM]), st.lists(st.one_of(USUAL, LINES), max_size=6).map(b"".join), LINE).map(
    b"".join
)
CUTS = st.lists(st.integers(0, 10_000), max_size=12)


@settings(max_examples=400, deadline=None)
@given(STREAM, CUTS)
def test_any_stream_at_any_split_reads_as_the_standard_says(wire, cuts):
    assert reference(wire) == feed_all(ServerSentEvents(), cut_at(wire, cuts))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(USUAL, LINES), max_size=8))
def test_reads_of_whole_events_read_as_the_standard_says(reads):
    assert reference(b"".join(reads)) == feed_all(ServerSentEvents(), reads)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="data: x\n\r:\ufeff", max_size=40), CUTS)
def test_any_letters_at_any_split_read_as_the_standard_says(text, cuts):
    wire = text.encode()

    assert reference(wire) == feed_all(ServerSentEvents(), cut_at(wire, cuts))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([b'{"a": 1}', b"", b" ", b"\r", b"x", b'"\xc2\x85"', BOM]), max_size=12), CUTS)
def test_any_json_lines_at_any_split_are_the_lines_between_lf(lines, cuts):
    wire = b"\n".join(lines)
    texts = [line.strip() for line in wire.removeprefix(BOM).split(b"\n")[:-1]]

    assert [Frame(b"", text) for text in texts if text] == feed_all(JsonLines(), cut_at(wire, cuts))


def test_a_carriage_return_completes_an_event_before_its_line_feed_comes():
    framer = ServerSentEvents()

    assert [] == framer.feed(b"data: a\r\n")
    assert [Frame(b"", b"a")] == framer.feed(b"\r")
    assert [] == framer.feed(b"\n")
    assert [Frame(b"", b"b")] == framer.feed(b"data: b\n\n")


def test_a_read_of_nothing_changes_nothing():
    for framer, wire in ((ServerSentEvents(), b"data: a\r\n\r\n"), (JsonLines(), b"a\n")):
        assert [Frame(b"", b"a")] == feed_all(framer, [piece for byte in single_bytes(wire) for piece in (byte, b"")])


WITHOUT_END = [
    (ServerSentEvents, b"data: " + b"x" * 100),
    (ServerSentEvents, b"data: 0123456789\n" * 10),
    (ServerSentEvents, b"data\n" * 100),
    (ServerSentEvents, b":" * 100),
    (ServerSentEvents, b"event: " + b"x" * 100),
    (JsonLines, b"x" * 100),
    (JsonLines, b" " * 100),
]


@pytest.mark.parametrize(("framer", "wire"), WITHOUT_END)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_frame_without_end_is_malformed_at_the_bound_and_not_kept(monkeypatch, framer, wire, size):
    monkeypatch.setattr(framing, "MAX_FRAME_BYTES", 64)

    with pytest.raises(Malformed, match=r"^frame_too_large$"):
        feed_all(framer(), [wire[start : start + size] for start in range(0, len(wire), size)])


@pytest.mark.parametrize(("framer", "frame"), [(ServerSentEvents, b"data: 012345\n\n"), (JsonLines, b'"0123456789"\n')])
def test_the_bound_is_of_one_frame_and_not_of_the_stream(monkeypatch, framer, frame):
    monkeypatch.setattr(framing, "MAX_FRAME_BYTES", 16)
    wire = frame * 50

    assert 50 == len(feed_all(framer(), single_bytes(wire)))
    assert 50 == len(feed_all(framer(), [wire]))


@pytest.mark.parametrize("depth", [2_000, 200_000])
@pytest.mark.parametrize(("framer", "lead"), [(ServerSentEvents, b"data: "), (JsonLines, b"")])
def test_a_deeply_nested_tail_is_a_cut_and_no_exception(framer, lead, depth):
    assert ([], []) == read(framer(), [lead + b'{"a":' * depth])


def seconds(framer: type[Framer], lead: bytes, size: int) -> float:
    """Return the CPU time of one frame of `size` bytes in reads of 256, the best of three."""
    best = float("inf")
    for _ in range(3):
        reader, piece = framer(), b"x" * 256
        start = process_time()
        reader.feed(lead)
        for _ in range(size // len(piece)):
            reader.feed(piece)
        frames = reader.feed(b"\n\n")
        best = min(best, process_time() - start)
        assert [size] == [len(frame.data) for frame in frames]
    return best


@pytest.mark.parametrize(("framer", "lead"), [(ServerSentEvents, b"data: "), (JsonLines, b"")])
def test_a_frame_that_comes_in_many_reads_costs_linear_time(framer, lead):
    small, large = seconds(framer, lead, 2**17), seconds(framer, lead, 2**21)

    assert large < 16 * 6 * max(small, 1e-3)  # quadratic would be 256 times


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("text/event-stream", ServerSentEvents),
        ("Text/Event-Stream; charset=utf-8", ServerSentEvents),
        ("text/event-stream ;charset=utf-8", ServerSentEvents),
        ("application/x-ndjson", JsonLines),
        ("application/ndjson", JsonLines),
        ("application/jsonl", JsonLines),
        ("application/x-jsonlines", JsonLines),
        ("application/stream+json", JsonLines),
        ("application/json", None),
        ("text/plain", None),
        ("", None),
    ],
)
def test_the_content_type_gives_the_framing(value, expected):
    assert expected == FRAMINGS.get(content_type(value))
