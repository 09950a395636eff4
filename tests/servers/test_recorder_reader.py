"""The recorder's request reader: bytes in, requests out, wherever the network cuts."""

import pytest

from loadgen.servers.recorder.reader import BODY_MOST_BYTES, RequestReader

POST = b"POST /a?b=c HTTP/1.1\r\nHost: x\r\nX-Two: 1\r\nX-Two: 2\r\ncontent-length: 5\r\n\r\nhello"
CHUNKED = (
    b"PUT / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nx-trailer: 1\r\n\r\n"
)
UPGRADING = POST.replace(
    b"Host: x", b"Host: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: A"
)


def read(*pieces: bytes) -> RequestReader:
    reader = RequestReader()
    for at, piece in enumerate(pieces):
        reader.feed(piece, at)
    return reader


def told(reader: RequestReader) -> list[tuple[object, ...]]:
    return [(r.method, r.path, r.headers, r.body, r.version, r.keep_alive) for r in reader.ready]


@pytest.mark.parametrize("wire", [POST + CHUNKED, UPGRADING + POST, CHUNKED + UPGRADING])
def test_any_split_gives_the_same_requests(wire):
    whole = told(read(wire))

    assert 2 == len(whole)
    for cut in range(1, len(wire)):
        assert whole == told(read(wire[:cut], wire[cut:]))
    assert whole == told(read(*(wire[at : at + 1] for at in range(len(wire)))))


def test_a_request_keeps_its_headers_as_they_came_and_no_trailers():
    post, chunked = read(POST + CHUNKED).ready

    assert ("POST", b"/a?b=c", b"hello", True) == (post.method, post.path, post.body, post.keep_alive)
    assert [(b"Host", b"x"), (b"X-Two", b"1"), (b"X-Two", b"2"), (b"content-length", b"5")] == post.headers
    assert (b"abcde", [b"host", b"transfer-encoding"]) == (chunked.body, [name for name, _ in chunked.headers])


def test_an_offer_to_switch_protocols_is_passed_over_with_its_body_read():
    first, second = read(UPGRADING + POST).ready

    assert [b"hello", b"hello"] == [first.body, second.body]
    assert b"Upgrade" not in [name for name, _ in first.headers]


@pytest.mark.parametrize("wire", [POST, UPGRADING])
def test_a_request_arrives_with_its_first_byte_and_is_whole_with_its_last(wire):
    (request,) = read(wire[:30], wire[30:-2], wire[-2:]).ready

    assert (0, 2) == (request.arrived_ns, request.whole_ns)


@pytest.mark.parametrize(
    ("target", "path"),
    [(b"http://host/a?b", b"/a?b"), (b"http://host", b"/"), (b"/a#b", b"/a"), (b"//a/b", b"//a/b")],
)
def test_a_target_is_taken_by_its_path(target, path):
    (request,) = read(b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n" % target).ready

    assert path == request.path


def test_a_chunked_body_beyond_the_limit_is_refused_when_it_gets_there():
    piece = b"1000000\r\n" + bytes(1 << 24) + b"\r\n"
    head = CHUNKED.partition(b"3\r\n")[0]
    within = read(head, *[piece] * (BODY_MOST_BYTES >> 24))
    beyond = read(head, *[piece] * ((BODY_MOST_BYTES >> 24) + 1))

    assert (None, 413) == (within.refusal, beyond.refusal and beyond.refusal.status)


def test_nothing_is_read_after_the_reader_is_closed():
    reader = read(POST)
    reader.close()
    reader.feed(POST, 0)

    assert 1 == len(reader.ready)
