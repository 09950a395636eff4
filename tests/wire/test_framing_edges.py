"""Framing at its edges: nothing first, exactly the bound, an end marker with spaces and no line end."""

import pytest

from loadgen.wire import framing
from loadgen.wire.events import Malformed
from loadgen.wire.framing import Frame, JsonLines, ServerSentEvents

BOM = b"\xef\xbb\xbf"
EVENT = b"data: a\n\n"


def feed_all(framer: framing.Framer, *pieces: bytes) -> list[bytes]:
    return [frame.data for piece in pieces for frame in framer.feed(piece)]


@pytest.mark.parametrize("before", [(), (b"",), (b"", b""), (BOM,), (BOM[:1], BOM[1:]), (b"", BOM), (b"\n",)])
def test_only_the_first_bytes_of_a_stream_can_be_its_byte_order_mark(before):
    assert [b"a", b"a"] == feed_all(ServerSentEvents(), *before, EVENT, BOM + EVENT, EVENT)


@pytest.mark.parametrize("tail", [b"data:  [DONE] ", b"data: [DONE]\t\n", b"data: [DONE] \r"])
def test_an_unclosed_end_marker_may_have_spaces(tail):
    framer = ServerSentEvents()

    assert [] == framer.feed(tail)
    assert [b"[DONE]"] == [frame.data.strip() for frame in framer.finish()]


@pytest.mark.parametrize(("framer", "lead"), [(ServerSentEvents, b"data: "), (JsonLines, b"")])
@pytest.mark.parametrize("in_one_read", [True, False])
def test_a_frame_may_be_as_long_as_the_bound_and_no_longer(monkeypatch, framer, lead, in_one_read):
    monkeypatch.setattr(framing, "MAX_FRAME_BYTES", 64)
    line = lead.ljust(64, b"x")
    reads = [line] if in_one_read else [line[:9], line[9:]]

    assert [line.removeprefix(lead)] == feed_all(framer(), *reads, b"\n\n")
    with pytest.raises(Malformed, match=r"^frame_too_large$"):
        feed_all(framer(), *reads, b"x", b"\n\n")


def test_the_end_of_a_stream_says_nothing_twice():
    for framer, wire in ((ServerSentEvents(), EVENT), (JsonLines(), b'{"a": 1}\n')):
        assert 1 == len(framer.feed(wire))
        assert [] == framer.finish()


@pytest.mark.parametrize("pending", [b"event: x\n", b"data: {}\n", b": ping\n", b"data: {", b"\r"])
def test_whole_events_after_an_unfinished_line_belong_to_it(pending):
    whole = ServerSentEvents().feed(EVENT + pending + EVENT + EVENT)
    framer = ServerSentEvents()

    assert whole == [frame for read in (EVENT, pending, EVENT + EVENT) for frame in framer.feed(read)]
    assert Frame(b"", b"a") == whole[-1]
