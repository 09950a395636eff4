"""The recorder as a proxy: bytes go past as they come, ends as ends, cuts as cuts, and all of it is recorded."""

import gc
import socket
import struct
from collections import Counter
from contextlib import suppress

import pytest
import trio
from net.peer import ANSWER, CHAT, DONE, HEAD, LAST, always, chunk, read_request
from recorder_client import before, body_of, get, nobody_listens, post, recording

JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


def counted(body: bytes, head: bytes = JSON) -> bytes:
    return head + b"content-length: %d\r\n\r\n" % len(body) + body


async def test_a_stream_reaches_the_client_byte_for_byte_and_the_file_frame_for_frame(tmp_path):
    answer = HEAD + chunk(CHAT[:20]) + chunk(CHAT[20:] + CHAT) + chunk(b": ping\n\n" + DONE) + LAST
    async with recording(always(answer), tmp_path) as rec, rec.connect() as client:
        await client.send(post(b'{"model": "m", "stream": true}'))
        head = await client.until(b"\r\n\r\n")
        seen = await client.until(LAST)
        (line,) = await rec.wrote()

    assert b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n" == head
    assert answer.removeprefix(HEAD) == seen
    assert ["POST", "/v1/chat/completions", "m", "record", 0.0] == [
        line.method,
        line.path,
        line.model,
        line.source,
        line.at_s,
    ]
    assert (b'{"model": "m", "stream": true}', None) == (line.payload, line.body_b64)
    assert (200, "clean", {"content-type": "text/event-stream"}) == (
        line.response.status,
        line.response.end,
        line.response.headers,
    )
    assert [CHAT.decode(), CHAT.decode(), ": ping\n\n" + DONE.decode()] == [f.data for f in line.response.frames]


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (counted(b'{"a": 1}'), b'{"a": 1}'),
        (counted(b""), b""),
        (JSON + b"transfer-encoding: chunked\r\n\r\n" + chunk(b'{"a"') + chunk(b": 1}") + LAST, b'{"a": 1}'),
        (JSON + b"\r\n" + b'{"a": 1}', b'{"a": 1}'),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 70\r\n\r\n", b""),
        (counted(bytes(range(256)), b"HTTP/1.1 404 Not Found\r\ncontent-type: image/x\r\n"), bytes(range(256))),
        (b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" + counted(b"[]"), b"[]"),
    ],
    ids=["counted", "empty", "chunked", "closed", "204", "304", "binary", "interim"],
)
async def test_every_shape_of_answer_arrives_whole(tmp_path, answer, body, version):
    async with recording(always(answer, then_close=True), tmp_path) as rec, rec.connect() as client:
        await client.send(get("/x?y=z", version=version, headers="connection: close\r\n"))
        seen = await client.rest()
        (line,) = await rec.wrote()

    interim, _, final = seen.rpartition(b"HTTP/1.1 ")
    head, _, rest = final.partition(b"\r\n\r\n")
    if b"chunked" in head:
        rest = b"".join(rest.removesuffix(LAST).split(b"\r\n")[1::2])
    assert body == rest == body_of(line)
    assert ("clean", line.response.status) == (line.response.end, int(head[:3]))
    assert (b"103" in answer and version == "1.1") == (b"link: </a>" in interim)
    assert b"chunked" not in head or version == "1.1"


async def test_a_head_request_has_the_length_and_no_body(tmp_path):
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 70\r\n\r\n"
    async with recording(always(answer), tmp_path) as rec, rec.connect() as client:
        for _ in range(2):
            await client.send(get(method="HEAD"))
            assert answer == await client.until(b"\r\n\r\n")
        lines = await rec.wrote(2)

    assert [("HEAD", "clean", [])] * 2 == [(line.method, line.response.end, line.response.frames) for line in lines]


async def test_a_frame_is_with_the_client_before_the_server_sends_the_next(tmp_path):
    seen = trio.Event()

    async def handler(stream, number):
        nonlocal seen
        await read_request(stream)
        await stream.send_all(HEAD)
        for _ in range(20):
            seen = trio.Event()
            await stream.send_all(chunk(CHAT))
            with trio.fail_after(5):
                await seen.wait()
        await stream.send_all(LAST)

    async with recording(handler, tmp_path) as rec, rec.connect() as client:
        await client.send(post())
        await client.until(b"\r\n\r\n")
        for _ in range(20):
            await client.until(chunk(CHAT))
            seen.set()
        await client.until(LAST)
        (line,) = await rec.wrote()

    times = [frame.ms for frame in line.response.frames]
    assert 20 == len(set(times)) and sorted(times) == times


async def test_odd_pieces_go_past_at_once_and_are_frames_where_they_end(tmp_path):
    pieces = [b"da", b"ta: a", b"\n", b"\n: x", b"\n\nda", b"ta: b\n\ndata: c\n\n"]
    seen = trio.Event()

    async def handler(stream, number):
        nonlocal seen
        await read_request(stream)
        await stream.send_all(HEAD)
        for piece in pieces:
            seen = trio.Event()
            await stream.send_all(chunk(piece))
            with trio.fail_after(5):
                await seen.wait()
        await stream.send_all(LAST)

    async with recording(handler, tmp_path) as rec, rec.connect() as client:
        await client.send(post())
        await client.until(b"\r\n\r\n")
        for piece in pieces:
            await client.until(chunk(piece))
            seen.set()
        (line,) = await rec.wrote()

    assert ["data: a\n\n", ": x\n\ndata: b\n\n", "data: c\n\n"] == [frame.data for frame in line.response.frames]


async def test_connections_are_kept_on_both_sides(tmp_path):
    numbers = []

    async def handler(stream, number):
        numbers.append(number)
        await always(ANSWER)(stream, number)

    async with recording(handler, tmp_path) as rec, rec.connect() as client:
        for _ in range(5):
            await client.send(post())
            await client.until(LAST)
        await rec.wrote(5)

    assert [1] == numbers


async def test_pipelined_requests_are_answered_in_their_order(tmp_path):
    async def handler(stream, number):
        while request := await read_request(stream):
            await trio.sleep(0.01)
            await stream.send_all(counted(b'"%b"' % request.split(b" ")[1]))

    async with recording(handler, tmp_path) as rec, rec.connect() as client:
        await client.send(b"".join(get(f"/{n}") for n in range(10)))
        for n in range(10):
            await client.until(b'"/%d"' % n)
        lines = await rec.wrote(10)

    assert [f"/{n}" for n in range(10)] == [line.path for line in lines]


async def test_a_request_goes_on_with_its_own_headers_and_without_those_of_its_connection(tmp_path):
    requests = []

    async def handler(stream, number):
        requests.append(await read_request(stream))
        await stream.send_all(counted(b"{}"))

    headers = (
        "Authorization: Bearer sk-0123456789\r\nX-Two: 1\r\nX-Two: 2\r\nConnection: keep-alive, X-Own\r\nX-Own: 1\r\n"
        "Keep-Alive: timeout=5\r\nTE: trailers\r\nProxy-Authorization: Basic abc\r\n"
    )
    async with recording(handler, tmp_path) as rec, rec.connect() as client:
        await client.send(post(b'{"model": "m"}', "/v1/x?y=1", headers=headers))
        await client.until(b"{}")
        (line,) = await rec.wrote()

    assert (
        b"POST /v1/x?y=1 HTTP/1.1\r\nhost: upstream.test\r\nAuthorization: Bearer sk-0123456789\r\nX-Two: 1\r\n"
        b'X-Two: 2\r\ncontent-length: 14\r\n\r\n{"model": "m"}'
    ) == requests[0]
    assert {"x-two": "1, 2"} == line.headers


async def test_a_chunked_request_and_one_that_waits_for_leave_go_on_whole(tmp_path):
    async def handler(stream, number):
        while request := await read_request(stream):
            await stream.send_all(counted(request.partition(b"\r\n\r\n")[2]))

    async with recording(handler, tmp_path) as rec, rec.connect() as client:
        await client.send(
            b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n" + chunk(b"[1,") + chunk(b"2]")
        )
        await client.send(LAST)
        await client.until(b"[1,2]")
        await client.send(b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n")
        assert b"HTTP/1.1 100 Continue\r\n\r\n" == await client.until(b"\r\n\r\n")
        await client.send(b"[3,4]")
        await client.until(b"[3,4]")
        lines = await rec.wrote(2)

    assert [b"[1,2]", b"[3,4]"] == [line.payload for line in lines]
    assert [{}, {}] == [line.headers for line in lines]


async def test_a_client_that_leaves_closes_the_upstream_and_is_recorded_as_cut(tmp_path):
    left = trio.Event()

    async def handler(stream, number):
        await read_request(stream)
        await stream.send_all(HEAD + chunk(CHAT))
        assert b"" == await stream.receive_some()
        left.set()

    async with recording(handler, tmp_path) as rec:
        async with rec.connect() as client:
            await client.send(post())
            await client.until(chunk(CHAT))
        with trio.fail_after(5):
            await left.wait()
        (line,) = await rec.wrote()

    assert ("cut", CHAT) == (line.response.end, body_of(line))
    assert 1 == rec.recorder.tally.cut_by_client


async def test_a_client_that_leaves_before_any_answer_is_recorded_as_cut(tmp_path):
    asked = trio.Event()

    async def handler(stream, number):
        await read_request(stream)
        asked.set()
        with suppress(trio.BrokenResourceError):
            await stream.receive_some()

    async with recording(handler, tmp_path) as rec:
        async with rec.connect() as client:
            await client.send(post())
            await asked.wait()
        (line,) = await rec.wrote()

    assert (None, "cut", []) == (line.response.status, line.response.end, line.response.frames)


@pytest.mark.parametrize("head", [HEAD, JSON + b"content-length: 999\r\n\r\n"], ids=["chunked", "counted"])
async def test_an_upstream_that_closes_too_soon_is_passed_on_as_a_cut(tmp_path, head):
    part = chunk(CHAT) if head is HEAD else CHAT
    async with recording(always(head + part, then_close=True), tmp_path) as rec, rec.connect() as client:
        await client.send(post())
        seen = await client.rest()
        (line,) = await rec.wrote()

    assert seen.endswith(part)
    assert ("cut", CHAT) == (line.response.end, body_of(line))
    assert 1 == rec.recorder.tally.cut_by_upstream


def reset(stream: trio.SocketStream) -> None:
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize("framing", [b"transfer-encoding: chunked\r\n", b""], ids=["chunked", "by its close"])
async def test_an_upstream_that_resets_is_passed_on_as_a_reset(tmp_path, framing):
    async def handler(stream, number):
        await read_request(stream)
        await stream.send_all(JSON + framing + b"\r\n" + (chunk(b"[1,") if framing else b"[1,"))
        await trio.sleep(0.05)
        reset(stream)

    async with recording(handler, tmp_path) as rec, rec.connect() as client:
        await client.send(post())
        await client.until(chunk(b"[1,"))
        with pytest.raises(trio.BrokenResourceError):
            await client.rest()
        (line,) = await rec.wrote()

    assert ("cut", b"[1,") == (line.response.end, body_of(line))


async def test_a_cut_answer_to_a_client_of_http_1_0_is_no_clean_end(tmp_path):
    async with recording(always(HEAD + chunk(CHAT), then_close=True), tmp_path) as rec, rec.connect() as client:
        await client.send(get(version="1.0"))
        await client.until(CHAT)
        with pytest.raises(trio.BrokenResourceError):
            await client.rest()


async def test_an_upstream_that_closes_without_an_answer_is_passed_on_as_one_that_closed(tmp_path):
    async def handler(stream, number):
        await read_request(stream)

    async with recording(handler, tmp_path) as rec, rec.connect() as client:
        await client.send(post())
        assert b"" == await client.rest()
        (line,) = await rec.wrote()

    assert (None, "cut") == (line.response.status, line.response.end)


async def test_a_stalled_upstream_stalls_its_own_client_alone(tmp_path):
    stalled = trio.Event()

    async def handler(stream, number):
        while request := await read_request(stream):
            await stream.send_all(HEAD + chunk(CHAT))
            if b"/stall" in request:
                stalled.set()
                await trio.sleep_forever()
            await stream.send_all(LAST)

    async with recording(handler, tmp_path) as rec, rec.connect() as one, rec.connect() as other:
        await one.send(post(path="/stall"))
        await one.until(chunk(CHAT))
        await stalled.wait()
        await other.send(post())
        await other.until(LAST)
        (line,) = await rec.wrote()
        assert ("/v1/chat/completions", "clean") == (line.path, line.response.end)
        rec.recorder.cut()

    assert ["clean", "cut"] == [line.response.end for line in rec.lines()]


async def test_an_upstream_that_is_down_is_answered_for_and_recorded_so(tmp_path):
    async with before(nobody_listens(), tmp_path) as rec, rec.connect() as client:
        await client.send(post())
        head = await client.until(b"\r\n\r\n")
        body = await client.until(b"}}")
        await client.send(post())  # the connection stands
        await client.until(b"}}")
        lines = await rec.wrote(2)

    assert b"HTTP/1.1 502 Bad Gateway\r\n" in head and b"x-recorder-error: upstream_unreachable" in head
    assert b"no connection to the upstream (refused)" in body
    assert [(502, "clean", body)] * 2 == [(one.response.status, one.response.end, body_of(one)) for one in lines]


async def test_an_upstream_that_speaks_no_http_is_answered_for(tmp_path):
    async with recording(always(b"SSH-2.0-x\r\n\r\n"), tmp_path) as rec, rec.connect() as client:
        await client.send(post())
        assert b"502" in await client.until(b"}}")
        (line,) = await rec.wrote()

    assert 502 == line.response.status


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"\x16\x03\x01 hello\r\n\r\n", 400),
        (b"CONNECT x:443 HTTP/1.1\r\nhost: x\r\n\r\n", 405),
        (b"OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"".join(b"x-%d: %b\r\n" % (n, b"a" * 1000) for n in range(300)), 431),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 999999999\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", 400),
    ],
)
async def test_what_cannot_be_passed_on_is_refused_in_words(tmp_path, request_bytes, status):
    async with recording(always(ANSWER), tmp_path) as rec, rec.connect() as client:
        await client.send(request_bytes)
        seen = await client.rest()

    assert seen.startswith(b"HTTP/1.1 %d " % status) and b'"recorder_' in seen
    assert (0, 1) == (rec.recorder.tally.requests, rec.recorder.tally.refused)


async def test_large_bodies_go_both_ways_and_a_slow_client_holds_the_upstream_back(tmp_path):
    size, sent, taken = 32 << 20, 0, 0
    block = bytes(range(256)) * 1024

    async def handler(stream, number):
        nonlocal sent, taken
        while taken < size:
            taken += len(await stream.receive_some(1 << 20))
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        while sent < size:
            await stream.send_all(block)
            sent += len(block)

    async with recording(handler, tmp_path) as rec, rec.connect() as client:
        await client.send(post(block * (size // len(block)), "/upload"))
        await client.until(b"\r\n\r\n")
        stuck_at = -1
        while stuck_at != sent:  # it is read no more
            stuck_at = sent
            await trio.sleep(0.3)
        received = len(client.seen)
        while received < size:
            received += len(await client.stream.receive_some(1 << 20))
        (line,) = await rec.wrote()

    assert 0 < stuck_at < size * 0.9
    assert size == received == len(body_of(line)) == len(line.payload)
    assert 0 < rec.recorder.tally.waited


async def test_fifty_streams_at_once_keep_apart(tmp_path):
    async def handler(stream, number):
        while request := await read_request(stream):
            name = request.split(b" ")[1]
            await stream.send_all(HEAD)
            for at in range(20):
                await stream.send_all(chunk(b"data: %b %d\n\n" % (name, at)))
                await trio.sleep(0.005)
            await stream.send_all(LAST)

    def frames(name: str) -> list[str]:
        return [f"data: {name} {at}\n\n" for at in range(20)]

    async with recording(handler, tmp_path) as rec:

        async def ask(name: str) -> None:
            async with rec.connect() as client:
                await client.send(post(path=name))
                await client.until(b"\r\n\r\n")
                seen = await client.until(LAST)
                assert b"".join(chunk(frame.encode()) for frame in frames(name)) + LAST == seen

        async with trio.open_nursery() as nursery:
            for n in range(50):
                nursery.start_soon(ask, f"/{n}")
        lines = await rec.wrote(50)

    assert {f"/{n}": frames(f"/{n}") for n in range(50)} == {
        line.path: [frame.data for frame in line.response.frames] for line in lines
    }
    spread = rec.recorder.delays()
    assert 50 * 21 <= spread.count
    assert spread.p50_ms < 20  # its own figure is in the README; here it must only be in the right world


async def test_a_thousand_exchanges_leave_nothing_to_the_collector(tmp_path):
    async with recording(always(ANSWER), tmp_path) as rec:
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for _ in range(20):
                async with rec.connect() as client:
                    for _ in range(50):
                        await client.send(post())
                        await client.until(LAST)
            await rec.wrote(1000)
            await trio.sleep(0.05)
            gc.collect()
            left = Counter(
                str(one)[:80] for one in gc.garbage if str(getattr(one, "__module__", "")).startswith("loadgen")
            )
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()

    assert Counter() == left


async def test_stopping_waits_for_what_is_open_and_takes_nothing_new(tmp_path):
    go_on = trio.Event()

    async def handler(stream, number):
        await read_request(stream)
        await stream.send_all(HEAD + chunk(CHAT))
        await go_on.wait()
        await stream.send_all(LAST)

    async with recording(handler, tmp_path) as rec, rec.connect() as client, rec.connect() as idle:
        await client.send(post())
        await client.until(chunk(CHAT))
        rec.recorder.stop()
        assert b"" == await idle.rest()
        with pytest.raises(OSError, match="connect"):
            async with rec.connect():
                pass
        go_on.set()
        assert LAST == await client.rest()

    assert ["clean"] == [line.response.end for line in rec.lines()]


async def test_the_answers_of_an_upstream_below_a_path_are_recorded_under_it(tmp_path):
    from loadgen.net.target import parse_target

    requests = []

    async def handler(stream, number):
        requests.append(await read_request(stream))
        await stream.send_all(counted(b"{}"))

    target = parse_target("http://upstream.test:81/proxy/v2/")
    async with recording(handler, tmp_path, target=target) as rec, rec.connect() as client:
        await client.send(get("/models"))
        await client.until(b"{}")
        (line,) = await rec.wrote()

    assert requests[0].startswith(b"GET /proxy/v2/models HTTP/1.1\r\nhost: upstream.test:81\r\n")
    assert "/proxy/v2/models" == line.path
