"""Slices: joined they are the body, and each is what a framer makes a frame of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.wire.eventstream import encode
from loadgen.wire.frame import Frame
from loadgen.wire.framing import FRAMINGS
from loadgen.wire.slices import Slice, slicer_of

EVENTS = (
    b"\xef\xbb\xbfdata: a\n\n: ping\n\ndata: b\ndata: c\r\n\r\nevent: x\rdata: \xc3\xa9\r\r\n\n\n"
    b"retry: 3\n\ndata: d\n\ndata: [DONE]\n\n: bye\n"
)
LINES = b'{"a": 1}\n\n  \n{"b": "\xe2\x80\xa8\r"}\r\n{"c": 3}\n\n'
MESSAGES = encode({":event-type": "a"}, b"{}") + encode({}, b"") + encode({":event-type": "b"}, b"x" * 300)
BODIES = {
    "text/event-stream": EVENTS,
    "application/x-ndjson": LINES,
    "application/vnd.amazon.eventstream": MESSAGES,
}


def sliced(kind: str, pieces: list[bytes], *, clean: bool = True) -> list[Slice]:
    slicer = slicer_of(kind)
    assert slicer is not None
    return [one for piece in pieces for one in slicer.feed(piece)] + slicer.finish(clean=clean)


def framed(kind: str, body: bytes) -> list[Frame]:
    framer = FRAMINGS[kind]()
    return [*framer.feed(body), *framer.finish()]


@pytest.mark.parametrize("kind", BODIES)
def test_at_every_cut_the_slices_are_the_body_and_its_frames(kind):
    body = BODIES[kind]
    frames = framed(kind, body)

    for cut in range(len(body) + 1):
        slices = sliced(kind, [body[:cut], body[cut:]])
        assert body == b"".join(raw for raw, _ in slices)
        assert frames == [frame for _, frame in slices if frame is not None]
    one_by_one = sliced(kind, [body[at : at + 1] for at in range(len(body))])
    assert body == b"".join(raw for raw, _ in one_by_one)
    assert frames == [frame for _, frame in one_by_one if frame is not None]


@given(
    kind=st.sampled_from(list(BODIES)),
    pieces=st.lists(
        st.sampled_from([b"data: a\n\n", b"\n", b"\r", b"data", b": x", b'{"a":1}\n', b"[", b"\0\0\0\x10", b"\n\n\n"])
        | st.binary(max_size=20)
    ),
    clean=st.booleans(),
)
def test_whatever_comes_nothing_is_raised_and_no_byte_is_lost(kind, pieces, clean):
    assert b"".join(pieces) == b"".join(raw for raw, _ in sliced(kind, pieces, clean=clean))


def test_each_frame_ends_with_its_blank_line_and_begins_with_what_came_before_it():
    assert [
        (b"data: a\n\n", Frame(b"", b"a")),
        (b": ping\n\ndata: b\n\n", Frame(b"", b"b")),
        (b": bye\n\n", None),
    ] == sliced("text/event-stream", [b"data: a\n\n: ping\n\ndata: b\n\n: bye\n\n"])


def test_a_frame_is_out_as_soon_as_its_last_byte_is_in():
    slicer = slicer_of("text/event-stream")
    assert slicer is not None

    assert [] == slicer.feed(b"data: a\n")
    assert [(b"data: a\n\n", Frame(b"", b"a"))] == slicer.feed(b"\n")


def test_of_a_stream_that_broke_each_read_is_a_slice():
    broken = encode({}, b"{}")[:-1] + b"\xff"

    assert [(broken, None), (b"more", None), (b"and more", None)] == sliced(
        "application/vnd.amazon.eventstream", [broken, b"more", b"and more"]
    )


def test_a_body_that_belies_its_content_type_is_cut_by_reads():
    assert [(b'{"error": 1}', None), (b"\n", None)] == sliced("text/event-stream", [b'{"error": 1}', b"\n"])


def test_an_event_that_a_clean_end_completes_is_a_frame_and_one_that_was_cut_is_none():
    assert [(b"data: [DONE]", Frame(b"", b"[DONE]"))] == sliced("text/event-stream", [b"data: [DONE]"])
    assert [(b"data: [DONE]", None)] == sliced("text/event-stream", [b"data: [DONE]"], clean=False)


def test_what_is_no_stream_has_no_slicer():
    assert slicer_of("application/json") is None
