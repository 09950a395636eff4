"""The request reader: bytes in, requests out, wherever the network cuts."""

from collections.abc import Iterable

from simulated_client import CHAT, request

from loadgen.servers.simulated.request import BODY_LIMIT_BYTES, RequestReader


def read(pieces: Iterable[bytes]) -> RequestReader:
    reader = RequestReader()
    for piece in pieces:
        reader.feed(piece)
    return reader


def test_any_split_gives_the_same_requests() -> None:
    wire = request(wish="tokens=3") + request("/health?a=b", method="GET") + request(prompt="hé")
    whole = list(read([wire]).ready)

    assert 3 == len(whole)
    for cut in range(1, len(wire)):
        assert whole == list(read([wire[:cut], wire[cut:]]).ready)
    assert whole == list(read(wire[at : at + 1] for at in range(len(wire))).ready)


def test_a_request_is_read_with_its_wish_and_without_its_query() -> None:
    (read_request,) = read([request(f"{CHAT}?x=1", headers="X-Sim: tokens=3\r\n")]).ready

    assert ("POST", CHAT, "1.1", True, "tokens=3") == (
        read_request.method,
        read_request.path,
        read_request.version,
        read_request.keep_alive,
        read_request.wish,
    )


def test_a_chunked_body_is_put_together() -> None:
    head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    (read_request,) = read([head, b"3\r\nabc\r\n", b"4\r\ndefg\r\n0\r\n\r\n"]).ready

    assert b"abcdefg" == read_request.body


def test_a_client_that_offers_another_protocol_goes_on_in_this_one() -> None:
    upgrading = request("/health", method="GET", headers="connection: upgrade\r\nupgrade: h2c\r\n")

    assert ["/health", "/health"] == [found.path for found in read([upgrading + upgrading]).ready]


def test_a_body_beyond_the_limit_is_refused_before_it_comes() -> None:
    reader = read([b"POST / HTTP/1.1\r\ncontent-length: %d\r\nexpect: 100-continue\r\n\r\n" % (BODY_LIMIT_BYTES + 1)])

    assert (413, False) == (reader.refusal and reader.refusal.status, reader.awaits_continue)


def test_a_chunked_body_beyond_the_limit_is_refused_when_it_gets_there() -> None:
    head = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
    chunk = b"1000000\r\n" + bytes(1 << 24) + b"\r\n"
    within = read([head, *[chunk] * 4])
    beyond = read([head, *[chunk] * 5])

    assert (None, 413) == (within.refusal, beyond.refusal and beyond.refusal.status)


def test_a_head_without_end_is_refused() -> None:
    reader = read([b"GET / HTTP/1.1\r\n", *(b"x-%d: %s\r\n" % (n, b"a" * 1000) for n in range(70))])

    assert 431 == (reader.refusal and reader.refusal.status)


def test_what_is_not_http_is_refused_and_what_came_before_it_is_kept() -> None:
    reader = read([request(), b"\x16\x03\x01 hello\r\n\r\n"])

    assert (1, 400) == (len(reader.ready), reader.refusal and reader.refusal.status)
