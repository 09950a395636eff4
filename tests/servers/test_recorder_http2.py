"""The recorder's other ways: clients of HTTP/2, upstreams over TLS, over HTTP/2, and through a proxy."""

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import h2.connection
import h2.events
import httpx
import pytest
import trio
from net.http2_peer import hypercorn, stream_an_answer
from net.peer import ANSWER, CHAT, DONE, HEAD, LAST, always, chunk, listening, read_request
from net.proxy import Relay
from net.tls_peer import Authority, over_tls
from recorder_client import before, body_of, get, post, recording

from loadgen.net.target import Target

JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@asynccontextmanager
async def http2(rec) -> AsyncIterator[httpx.AsyncClient]:
    """A client of HTTP/2 by prior knowledge: one connection for all it asks."""
    transport = httpx.AsyncHTTPTransport(http1=False, http2=True, verify=False)
    async with httpx.AsyncClient(base_url=rec.recorder.url, transport=transport, timeout=10, trust_env=False) as client:
        yield client


async def test_a_stream_goes_past_over_http_2_with_each_frame_before_the_next(tmp_path):
    seen = trio.Event()

    async def handler(stream, number):
        nonlocal seen
        await read_request(stream)
        await stream.send_all(HEAD)
        for at in range(20):
            seen = trio.Event()
            await stream.send_all(chunk(b"data: %d\n\n" % at))
            with trio.fail_after(5):
                await seen.wait()
        await stream.send_all(LAST)

    got = []
    async with recording(handler, tmp_path) as rec, http2(rec) as client:
        async with client.stream("POST", "/v1/x?a=b", json={"model": "m"}) as response:
            async for data in response.aiter_raw():
                got.append(data)
                seen.set()
        (line,) = await rec.wrote()

    assert ("HTTP/2", 200) == (response.http_version, response.status_code)
    assert [b"data: %d\n\n" % at for at in range(20)] == got
    assert [f"data: {at}\n\n" for at in range(20)] == [frame.data for frame in line.response.frames]
    assert ("/v1/x?a=b", "m", b'{"model":"m"}', "clean") == (line.path, line.model, line.payload, line.response.end)


async def test_fifty_streams_of_one_connection_keep_apart(tmp_path):
    async def handler(stream, number):
        name = (await read_request(stream)).split(b" ")[1]
        await stream.send_all(HEAD)
        for at in range(10):
            await stream.send_all(chunk(b"data: %b %d\n\n" % (name, at)))
            await trio.sleep(0.005)
        await stream.send_all(LAST)

    answers: dict[str, bytes] = {}
    async with recording(handler, tmp_path) as rec, http2(rec) as client:

        async def ask(name: str) -> None:
            answers[name] = (await client.get(name)).content

        async with trio.open_nursery() as nursery:
            for n in range(50):
                nursery.start_soon(ask, f"/{n}")
        lines = await rec.wrote(50)

    assert {f"/{n}": b"".join(b"data: /%d %d\n\n" % (n, at) for at in range(10)) for n in range(50)} == answers
    assert answers == {line.path: body_of(line) for line in lines}


@pytest.mark.parametrize(
    ("method", "answer", "status", "body"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n", 200, b""),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        ("GET", JSON + b"content-length: 0\r\n\r\n", 200, b""),
        ("GET", JSON + b"\r\n[1]", 200, b"[1]"),
        ("GET", b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" + JSON + b"content-length: 2\r\n\r\n{}", 200, b"{}"),
    ],
)
async def test_every_shape_of_answer_has_its_end_over_http_2(tmp_path, method, answer, status, body):
    async with recording(always(answer, then_close=True), tmp_path) as rec, http2(rec) as client:
        response = await client.request(method, "/")
        (line,) = await rec.wrote()

    assert (status, body, body) == (response.status_code, response.content, body_of(line))
    assert "clean" == line.response.end


async def test_large_bodies_go_both_ways_over_http_2(tmp_path):
    size = 4 << 20
    block = bytes(range(256)) * (size // 256)

    async def handler(stream, number):
        taken = 0
        while taken < size:
            taken += len(await stream.receive_some(1 << 20))
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + block)

    async with recording(handler, tmp_path) as rec, http2(rec) as client:
        response = await client.post("/upload", content=block)
        (line,) = await rec.wrote()

    assert block == response.content == body_of(line) == line.payload


async def test_a_client_that_resets_its_stream_closes_that_upstream_and_no_other(tmp_path):
    left, go_on = trio.Event(), trio.Event()

    async def handler(stream, number):
        request = await read_request(stream)
        await stream.send_all(HEAD + chunk(CHAT))
        if b"/leave" in request:
            assert b"" == await stream.receive_some()
            left.set()
        else:
            await go_on.wait()
            await stream.send_all(chunk(DONE) + LAST)

    async with recording(handler, tmp_path) as rec, rec.connect() as client:
        wire = h2.connection.H2Connection()
        wire.initiate_connection()
        for stream_id, path in ((1, "/stay"), (3, "/leave")):
            asked = [(":method", "GET"), (":path", path), (":scheme", "http"), (":authority", "x")]
            wire.send_headers(stream_id, asked, end_stream=True)
        await client.send(wire.data_to_send())
        got: dict[int, bytes] = {1: b"", 3: b""}

        async def read_until(what: dict[int, bytes]) -> None:
            with trio.fail_after(5):
                while got != what:
                    for event in wire.receive_data(bytes(await client.stream.receive_some())):
                        if isinstance(event, h2.events.DataReceived):
                            got[event.stream_id] += event.data

        await read_until({1: CHAT, 3: CHAT})
        wire.reset_stream(3)
        await client.send(wire.data_to_send())
        with trio.fail_after(5):
            await left.wait()
        go_on.set()
        await read_until({1: CHAT + DONE, 3: CHAT})
        lines = await rec.wrote(2)

    assert {"/leave": "cut", "/stay": "clean"} == {line.path: line.response.end for line in lines}


async def test_a_cut_is_passed_on_as_a_reset_of_its_stream(tmp_path):
    async with recording(always(HEAD + chunk(CHAT), then_close=True), tmp_path) as rec, http2(rec) as client:
        got = []
        with pytest.raises(httpx.RemoteProtocolError):
            async with client.stream("GET", "/") as response:
                got = [data async for data in response.aiter_raw()]
        (line,) = await rec.wrote()

    assert ("cut", CHAT) == (line.response.end, body_of(line))
    assert got in ([], [CHAT])


async def test_cookies_go_on_in_one_piece_and_are_not_written_down(tmp_path):
    requests = []

    async def handler(stream, number):
        requests.append(await read_request(stream))
        await stream.send_all(ANSWER)

    async with recording(handler, tmp_path) as rec, http2(rec) as client:
        await client.get("/", headers=[("cookie", "a=12345678"), ("cookie", "b=23456789"), ("x-a", "1")])
        (line,) = await rec.wrote()

    assert b"cookie: a=12345678; b=23456789\r\n" in requests[0]
    assert "1" == line.headers["x-a"] and "12345678" not in rec.path.read_text()


async def test_exchanges_over_http_2_leave_nothing_to_the_collector(tmp_path):
    async with recording(always(ANSWER), tmp_path) as rec:
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for _ in range(3):
                async with http2(rec) as client:
                    for _ in range(20):
                        assert 200 == (await client.get("/")).status_code
            await rec.wrote(60)
            await trio.sleep(0.05)
            gc.collect()
            left = [str(one)[:80] for one in gc.garbage if "loadgen" in str(getattr(one, "__module__", ""))]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()

    assert [] == left


async def test_stopping_lets_a_stream_of_http_2_end(tmp_path):
    go_on = trio.Event()

    async def handler(stream, number):
        await read_request(stream)
        await stream.send_all(HEAD + chunk(CHAT))
        await go_on.wait()
        await stream.send_all(chunk(DONE) + LAST)

    async with recording(handler, tmp_path) as rec, http2(rec) as client, client.stream("GET", "/") as response:
        chunks = response.aiter_raw()
        assert CHAT == await anext(chunks)
        rec.recorder.stop()
        go_on.set()
        assert [DONE] == [data async for data in chunks]

    assert ["clean"] == [line.response.end for line in rec.lines()]


@pytest.mark.parametrize("junk", [PREFACE + b"\0\0\0\0\0\0\0\0\x01", PREFACE[:20] + b"x" * 40])
async def test_what_is_neither_protocol_is_refused(tmp_path, junk):
    async with recording(always(ANSWER), tmp_path) as rec, rec.connect() as client:
        await client.send(junk)
        await client.rest()

    assert (0, 1) == (rec.recorder.tally.requests, rec.recorder.tally.refused)


async def test_a_preface_in_pieces_is_one(tmp_path):
    async with recording(always(ANSWER), tmp_path) as rec, rec.connect() as client:
        for at in range(len(PREFACE)):
            await client.send(PREFACE[at : at + 1])
        await client.send(b"\0\0\0\x04\0\0\0\0\0")  # its settings: none
        assert b"\x04" == (await client.until(b"\x04"))[-1:]

    assert 0 == rec.recorder.tally.refused


@pytest.mark.parametrize("versions", ["1.2", "1.3"])
async def test_an_upstream_over_tls_is_recorded_as_in_plain(tmp_path, versions):
    ca = Authority(tmp_path)
    handler = over_tls(always(ANSWER), ca.server(versions=versions), size=100)
    target = Target("https", "127.0.0.1", 443)
    async with recording(handler, tmp_path, target=target, route={"trust": ca.trust}) as rec, rec.connect() as client:
        for _ in range(3):
            await client.send(post())
            await client.until(LAST)
        lines = await rec.wrote(3)

    assert [CHAT + DONE] * 3 == [body_of(line) for line in lines]


async def test_an_upstream_whose_certificate_will_not_do_is_answered_for(tmp_path):
    ca = Authority(tmp_path)
    handler = over_tls(always(ANSWER), ca.server("example.test"))
    target = Target("https", "127.0.0.1", 443)
    async with recording(handler, tmp_path, target=target, route={"trust": ca.trust}) as rec, rec.connect() as client:
        await client.send(post())
        assert b"certificate_wrong_host" in await client.until(b"}}")


async def test_both_sides_can_speak_http_2(tmp_path):
    async with hypercorn(stream_an_answer) as (app, address):
        target = Target("http", *address.sockaddr[:2])
        async with before(address, tmp_path, target=target, route={"http2": True}) as rec:
            async with http2(rec) as client:
                response = await client.post("/v1/chat/completions", json={"model": "m"})
            async with rec.connect() as client:
                await client.send(post())
                seen = await client.until(LAST)
            lines = await rec.wrote(2)

    assert CHAT + CHAT + DONE == response.content
    assert seen.endswith(b"".join(map(chunk, (CHAT, CHAT, DONE))) + LAST)
    assert [[CHAT.decode()] * 2 + [DONE.decode()]] * 2 == [[f.data for f in line.response.frames] for line in lines]
    assert ["2", "2"] == app.versions


async def test_an_upstream_behind_a_proxy_is_recorded(tmp_path):
    async with listening(always(ANSWER)) as upstream:
        relay = Relay(upstream)
        async with listening(relay) as address:
            host, port = address.sockaddr
            target, route = Target("http", "upstream.test", 80), {"proxy": f"http://{host}:{port}"}
            async with before(address, tmp_path, target=target, route=route) as rec, rec.connect() as client:
                await client.send(get("/x"))
                await client.until(LAST)
                (line,) = await rec.wrote()

    assert ["GET http://upstream.test/x HTTP/1.1"] == relay.asked
    assert CHAT + DONE == body_of(line)
