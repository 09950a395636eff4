"""The second transport: HTTP/2 and proxies end like everything else, change no load, and leave nothing behind."""

import gc
import os
import random
import resource
import socket
import struct

import h2.errors
import pytest
import trio
from net.http2_peer import HEADERS, ByHand, http2_peer, hypercorn, stream_an_answer
from net.peer import ANSWER, CHAT, DONE, HEAD, always, chunk, client_of, listening, peer, read_request
from net.proxy import proxy_to
from net.tls_peer import Authority, over_tls

from loadgen.net.target import Address, Target
from loadgen.wire.ending import Ending


@pytest.fixture(scope="module")
def ca(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def files(ca):
    return ca.files("127.0.0.1", "name.test")


def port_of(url: str) -> Address:
    """Where a proxy of ours listens."""
    return Address(socket.AF_INET, ("127.0.0.1", int(url.rpartition(":")[2])))


def seen(exchange) -> tuple:
    return exchange.ending, len(exchange.sink.frame_kinds), exchange.sink.ended


ANSWERED = (Ending("complete"), 3, True)


# -- HTTP/2 ----------------------------------------------------------------------------------------


async def test_http2_in_plain_is_taken_at_its_word_and_stamped_by_the_chunk():
    async with http2_peer(stream_an_answer) as (app, client):
        exchange = await client.perform(b"{}" * 100)

    assert ANSWERED == seen(exchange)
    assert (["2"], [b"{}" * 100], "http/2", "chunk") == (app.versions, app.bodies, exchange.transport, exchange.stamps)
    assert 0 <= exchange.connected_ns <= exchange.sent_ns == exchange.first_sent_ns <= exchange.sink.headers_ns
    assert exchange.sink.headers_ns <= exchange.sink.first_output_ns < exchange.sink.terminal_ns <= exchange.end_ns
    assert (0, [exchange], []) == (exchange.sink.uncertainty_ns, client.told_sent, client.network.lags_ns)


async def test_http2_over_tls_is_negotiated_by_the_hosts_name(ca, files):
    async with hypercorn(stream_an_answer, files=files) as (app, address):
        target = Target("https", "name.test", address.sockaddr[1])
        async with client_of(address, target=target, trust=ca.trust, http2=True) as client:
            exchange = await client.perform()

    assert (ANSWERED, ["2"], "http/2") == (seen(exchange), app.versions, exchange.transport)


async def test_a_server_that_negotiates_no_http2_is_asked_over_http1_and_the_exchange_says_so(ca):
    async with peer(over_tls(always(ANSWER), ca.server()), scheme="https", trust=ca.trust, http2=True) as client:
        exchanges = [await client.perform() for _ in range(3)]

    assert [("complete", "http/1.1")] * 3 == [(each.ending.how, each.transport) for each in exchanges]
    assert [False, True, True] == [each.reused for each in exchanges]


async def test_a_connection_is_used_again_when_its_stream_has_ended():
    async with http2_peer(stream_an_answer) as (app, client):
        exchanges = [await client.perform() for _ in range(4)]
        assert 1 == client.network.open

    assert ([ANSWERED] * 4, 1) == ([seen(each) for each in exchanges], len(set(app.clients)))
    assert [False, True, True, True] == [each.reused for each in exchanges]


async def test_many_streams_at_once_wait_for_no_other():
    everybody = trio.Event()
    waiting = 0

    async def hold(scope, body, write) -> None:
        nonlocal waiting
        waiting += 1
        if waiting == 130:
            everybody.set()
        await everybody.wait()
        await stream_an_answer(scope, body, write)

    async with http2_peer(hold) as (_, client):
        exchanges = [client.exchange() for _ in range(130)]
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                for exchange in exchanges:
                    nursery.start_soon(client.network.perform, exchange)

    assert {ANSWERED} == {seen(each) for each in exchanges}


async def test_a_frame_of_one_stream_is_delivered_while_the_others_are_silent():
    async def only_one_speaks(scope, body, write) -> None:
        await write(status=200)
        await trio.sleep(0.1)
        if scope["path"] == "/speaks":
            await write(CHAT)
        await trio.sleep_forever()

    async with http2_peer(only_one_speaks) as (_, client):
        silent = [client.exchange(path="/silent") for _ in range(10)]
        speaking = client.exchange(path="/speaks")
        async with trio.open_nursery() as nursery:
            for exchange in (*silent[:5], speaking, *silent[5:]):
                nursery.start_soon(client.network.perform, exchange)
            with trio.fail_after(5):
                while not speaking.sink.frame_kinds:
                    await trio.sleep(0.01)
            for exchange in (*silent, speaking):
                exchange.abandon(Ending("deadline"), client.network.now())

    assert {Ending("deadline")} == {exchange.ending for exchange in (*silent, speaking)}


async def test_a_refusal_over_http2_is_an_answer():
    async def reject(scope, body, write) -> None:
        headers = [(b"content-type", b"application/json"), (b"retry-after", b"3")]
        await write(b'{"error": {"type": "overloaded"}}', status=429, headers=headers, more=False)

    async with http2_peer(reject) as (_, client):
        exchange = await client.perform()

    assert ("complete", 429, "3") == (exchange.ending.how, exchange.sink.status, exchange.sink.retry_after)
    assert "overloaded" == exchange.sink.error_word()


async def test_a_large_body_crosses_the_windows_whole():
    body = bytes(range(256)) * 4000

    async def measure(scope, received, write) -> None:
        await write(bytes(300_000), status=200, headers=[(b"content-type", b"application/json")], more=False)

    async with http2_peer(measure) as (app, client):
        with trio.fail_after(10):
            exchange = await client.perform(body)

    assert ("complete", 300_000, [body]) == (exchange.ending.how, exchange.sink.response_bytes, app.bodies)


def by_hand(misbehave):
    """A server that reads one request and then does with its connection what `misbehave` says."""

    async def handler(stream, number: int) -> None:
        side = ByHand(stream)
        while stream_id := await side.request():
            if not await misbehave(stream, side, stream_id):
                return

    return handler


async def reset_stream(stream, side, stream_id) -> None:
    await side.begin(stream_id)
    side.h2.reset_stream(stream_id, h2.errors.ErrorCodes.INTERNAL_ERROR)
    await side.flush()
    await trio.sleep_forever()


async def reset_before_headers(stream, side, stream_id) -> None:
    side.h2.reset_stream(stream_id, h2.errors.ErrorCodes.REFUSED_STREAM)
    await side.flush()
    await trio.sleep_forever()


async def go_away(stream, side, stream_id) -> None:
    await side.begin(stream_id)
    side.h2.close_connection(h2.errors.ErrorCodes.ENHANCE_YOUR_CALM, last_stream_id=stream_id)
    await side.flush()
    await trio.sleep_forever()


async def cut_in_mid_stream(stream, side, stream_id) -> None:
    await side.begin(stream_id)


async def reset_connection(stream, side, stream_id) -> None:
    await side.begin(stream_id)
    await trio.sleep(0.1)
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def talk_nonsense(stream, side, stream_id) -> None:
    await side.begin(stream_id)
    await trio.sleep(0.1)
    await stream.send_all(b"\x00\x00\x01\x01\xff\x00\x00\x00\x00~")  # headers on stream 0
    await trio.sleep_forever()


async def fall_short(stream, side, stream_id) -> None:
    await side.begin(stream_id, headers=[*HEADERS, (b"content-length", b"9999")])
    await trio.sleep(0.1)
    side.h2.end_stream(stream_id)
    await side.flush()
    await trio.sleep_forever()


async def break_a_frame(stream, side, stream_id) -> None:
    await side.begin(stream_id, CHAT + b"data: {broken\n\n")
    await trio.sleep_forever()


@pytest.mark.parametrize(
    ("misbehave", "ending", "frames"),
    [
        (reset_stream, Ending("cut", "stream_reset_internal_error"), 1),
        (reset_before_headers, Ending("cut", "stream_reset_refused_stream"), 0),
        (go_away, Ending("cut", "goaway_enhance_your_calm"), 1),
        (cut_in_mid_stream, Ending("cut", "closed"), 1),
        (reset_connection, Ending("cut", "reset"), 1),
        (talk_nonsense, Ending("malformed", "http2_protocol"), 1),
        (fall_short, Ending("cut", "closed"), 1),
        (break_a_frame, Ending("stopped"), 1),
    ],
)
async def test_however_a_stream_ends_the_exchange_ends_once_and_says_how(misbehave, ending, frames):
    async with peer(by_hand(misbehave), http2=True) as client:
        with trio.fail_after(5):
            exchange = await client.perform()
        assert 0 == client.network.open

    assert (ending, frames, False) == (exchange.ending, len(exchange.sink.frame_kinds), exchange.resent)
    assert [exchange] == client.told_sent


async def test_a_stream_cut_at_any_byte_is_never_complete_but_at_its_end():
    wire = b""

    class Kept:
        async def send_all(self, data: bytes) -> None:
            nonlocal wire
            wire += data

    async def cut(stream, number: int) -> None:
        nonlocal wire
        side = ByHand(stream)
        stream_id = await side.request()
        side._stream, wire = Kept(), b""
        await side.begin(stream_id, CHAT + DONE)
        side.h2.end_stream(stream_id)
        await side.flush()
        await stream.send_all(wire[: number - 1])

    async with peer(cut, http2=True) as client:
        with trio.fail_after(20):
            endings = [(await client.perform()).ending.how]
            while len(endings) <= len(wire):
                endings.append((await client.perform()).ending.how)

    assert ["cut"] * len(wire) + ["complete"] == endings


async def test_a_server_of_http1_is_no_server_of_http2():
    async def answer_as_it_knows(stream, number: int) -> None:
        await trio.sleep(0.1)
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with peer(answer_as_it_knows, http2=True) as client:
        with trio.fail_after(5):
            exchange = await client.perform()

    assert (Ending("cut", "closed"), None) == (exchange.ending, exchange.sink.status)


async def test_the_end_marker_without_an_end_is_reported_once_over_http2():
    async def linger(scope, body, write) -> None:
        await write(CHAT + DONE, status=200)
        for _ in range(3):
            await trio.sleep(0.05)
            await write(b": ping\n\n")
        await trio.sleep_forever()

    async with http2_peer(linger) as (_, client), trio.open_nursery() as nursery:
        exchange = client.exchange()
        nursery.start_soon(client.network.perform, exchange)
        with trio.fail_after(5):
            while not client.lingered:
                await trio.sleep(0.01)
        await trio.sleep(0.3)
        exchange.abandon(Ending("lingered"), client.network.now())

    assert ([exchange], Ending("lingered")) == (client.lingered, exchange.ending)


async def test_a_stream_that_is_given_up_ends_for_the_server_too():
    left = trio.Event()

    async def stall(stream, side, stream_id) -> None:
        await side.begin(stream_id)
        assert not await side.request()
        left.set()

    async with peer(by_hand(stall), http2=True) as client:
        exchange = client.exchange()
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.network.perform, exchange)
                while not exchange.sink.frame_kinds:
                    await trio.sleep(0.01)
                exchange.abandon(Ending("deadline"), client.network.now())
            await left.wait()
        assert 0 == client.network.open

    assert (Ending("deadline"), 1) == (exchange.ending, exchange.sink.output_frames)


async def test_a_request_that_a_leaving_server_did_not_take_is_sent_again_once():
    async def leave_before_the_second(stream, number: int) -> None:
        side = ByHand(stream)
        first = await side.request()
        await side.begin(first, CHAT + DONE)
        side.h2.end_stream(first)
        await side.flush()
        if number == 1:
            await side.request()
            side.h2.close_connection(last_stream_id=first)
            await side.flush()
        await trio.sleep_forever()

    async with peer(leave_before_the_second, http2=True) as client:
        await client.perform()
        with trio.fail_after(5):
            second = await client.perform()

    assert (Ending("complete"), True, False) == (second.ending, second.resent, second.reused)
    assert second.first_sent_ns < second.sent_ns
    assert [second] * 2 == client.told_sent[1:]  # once for each sending


async def test_an_idle_connection_that_the_server_closed_is_never_used_again():
    async def answer_and_leave(stream, number: int) -> None:
        side = ByHand(stream)
        stream_id = await side.request()
        await side.begin(stream_id, CHAT + DONE)
        side.h2.end_stream(stream_id)
        await side.flush()
        await trio.sleep(0.05)

    async with peer(answer_and_leave, http2=True) as client:
        first = await client.perform()
        await trio.sleep(0.2)
        second = await client.perform()
        with trio.fail_after(5):
            while client.network.open:  # and the last one is let go of
                await trio.sleep(0.05)

    assert [("complete", False, False)] * 2 == [(each.ending.how, each.reused, each.resent) for each in (first, second)]


# -- connecting ------------------------------------------------------------------------------------


async def test_a_refused_connection_is_the_servers_and_a_missing_descriptor_is_ours():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = Address(socket.AF_INET, unused.getsockname())
    async with client_of(address, http2=True) as client:
        refused = await client.perform()
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        used = max(int(fd) for fd in os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (used - 1, limits[1]))
        held = []
        try:
            while True:
                held.append(socket.socket())
        except OSError:
            exhausted = await client.perform()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            for sock in held:
                sock.close()

    assert (Ending("connect", "refused"), Ending("limit", "descriptors")) == (refused.ending, exhausted.ending)
    assert [] == client.told_sent


async def test_a_wrong_certificate_is_named_as_on_the_fast_path(ca, files, tmp_path):
    other = Authority(tmp_path)
    async with hypercorn(stream_an_answer, files=files) as (_, address):
        async with client_of(address, scheme="https", trust=other.trust, http2=True) as client:
            untrusted = await client.perform()
        target = Target("https", "example.test", address.sockaddr[1])
        async with client_of(address, target=target, trust=ca.trust, http2=True) as client:
            wrong_host = await client.perform()

    assert Ending("connect", "certificate_untrusted") == untrusted.ending
    assert Ending("connect", "certificate_wrong_host") == wrong_host.ending


async def say_nothing(stream, number: int) -> None:
    await trio.sleep_forever()


async def close_at_once(stream, number: int) -> None:
    await stream.receive_some()


async def answer_in_plain(stream, number: int) -> None:
    await stream.receive_some()
    await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@pytest.mark.parametrize(
    ("handler", "word"), [(answer_in_plain, "not_tls"), (close_at_once, "tls_closed"), (say_nothing, "tls_timeout")]
)
async def test_a_port_without_tls_is_no_connection_and_leaves_no_socket(handler, word):
    async with peer(handler, scheme="https", http2=True, connect_timeout_s=0.3) as client:
        with trio.fail_after(5):
            exchange = await client.perform()
        assert 0 == client.network.open

    assert (Ending("connect", word), None) == (exchange.ending, exchange.sent_ns)


async def test_a_connection_attempt_can_be_given_up():
    async with peer(say_nothing, scheme="https", http2=True) as client, trio.open_nursery() as nursery:
        exchange = client.exchange()
        nursery.start_soon(client.network.perform, exchange)
        await trio.sleep(0.1)
        exchange.abandon(Ending("abandoned", "drain"), client.network.now())
        await trio.sleep(0.1)
        assert 0 == client.network.open

    assert (Ending("abandoned", "drain"), None) == (exchange.ending, exchange.sent_ns)


# -- proxies ---------------------------------------------------------------------------------------


async def test_a_plain_target_is_asked_for_by_its_whole_url():
    async with listening(always(ANSWER)) as upstream, proxy_to(upstream) as (relay, url):
        target = Target("http", "name.test", 8080)
        address = port_of(url)
        async with client_of(address, target=target, proxy=url) as client:
            exchange = client.exchange(path="/v1/chat/../completions?a=%20|b")
            await client.network.perform(exchange)

    assert (Ending("complete"), 2, "http/1.1", "chunk") == (
        exchange.ending,
        len(exchange.sink.frame_kinds),
        exchange.transport,
        exchange.stamps,
    )
    assert ["POST http://name.test:8080/v1/chat/../completions?a=%20|b HTTP/1.1"] == relay.asked
    assert ["me:hunter2"] == relay.credentials


async def through_a_proxy(ca, handler, exchanges: int = 1, **manners):
    async with listening(over_tls(handler, ca.server("name.test"))) as upstream, proxy_to(upstream, **manners) as proxy:
        relay, url = proxy
        address = port_of(url)
        target = Target("https", "name.test", 443)
        async with client_of(address, target=target, trust=ca.trust, proxy=url, connect_timeout_s=1.0) as client:
            with trio.fail_after(10):
                performed = [await client.perform() for _ in range(exchanges)]
            still_open = client.network.open
    return performed, relay, client, still_open


async def test_a_target_over_tls_is_reached_through_a_tunnel_that_is_used_again(ca):
    performed, relay, client, still_open = await through_a_proxy(ca, always(ANSWER), 3)

    assert [("complete", "http/1.1", "chunk")] * 3 == [(e.ending.how, e.transport, e.stamps) for e in performed]
    assert [False, True, True] == [exchange.reused for exchange in performed]
    assert ["CONNECT name.test:443 HTTP/1.1"] == relay.asked
    assert (["me:hunter2"], performed, 1) == (relay.credentials, client.told_sent, still_open)


async def test_http2_goes_through_a_tunnel_too(ca, files):
    async with hypercorn(stream_an_answer, files=files) as (app, upstream), proxy_to(upstream) as (_, url):
        address = port_of(url)
        target = Target("https", "name.test", 443)
        async with client_of(address, target=target, trust=ca.trust, proxy=url, http2=True) as client:
            exchange = await client.perform()

    assert (ANSWERED, "http/2", ["2"]) == (seen(exchange), exchange.transport, app.versions)


@pytest.mark.parametrize(
    ("manners", "word"),
    [
        ({"refusal": b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n"}, "proxy_407"),
        ({"refusal": b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n"}, "proxy_502"),
        ({"refusal": b"what?\r\n\r\n"}, "proxy_malformed"),
        ({"refusal": b"H"}, "proxy_closed"),
        ({"is_silent": True}, "proxy_timeout"),
        ({"dies_after": 0}, "tls_closed"),
    ],
)
async def test_a_proxy_that_will_not_is_no_connection(ca, manners, word):
    performed, _, client, still_open = await through_a_proxy(ca, always(ANSWER), **manners)

    assert (Ending("connect", word), None) == (performed[0].ending, performed[0].sent_ns)
    assert ([], 0) == (client.told_sent, still_open)


async def test_a_wrong_certificate_behind_a_proxy_is_named(ca, tmp_path):
    performed, *_ = await through_a_proxy(Untrusting(ca, tmp_path), always(ANSWER))

    assert Ending("connect", "certificate_untrusted") == performed[0].ending


class Untrusting:
    """An authority whose servers are trusted by nobody."""

    def __init__(self, ca: Authority, folder) -> None:
        self.server = ca.server
        self.trust = Authority(folder).trust


async def test_a_proxy_that_dies_in_mid_stream_cuts_the_answer(ca):
    async def stream(stream, number: int) -> None:
        await read_request(stream)
        await stream.send_all(HEAD + chunk(CHAT))
        await trio.sleep(0.1)
        await stream.send_all(chunk(bytes(20_000)))
        await trio.sleep_forever()

    performed, _, _, still_open = await through_a_proxy(ca, stream, dies_after=10_000)

    assert (Ending("cut", "closed"), 1, 0) == (performed[0].ending, performed[0].sink.output_frames, still_open)


async def test_a_request_that_a_dying_idle_tunnel_swallowed_is_sent_again_once(ca):
    async def die_on_the_second(stream, number: int) -> None:
        await read_request(stream)
        await stream.send_all(ANSWER)
        if number == 1:
            await read_request(stream)

    performed, *_ = await through_a_proxy(ca, die_on_the_second, 2)

    assert ("complete", True, False) == (performed[1].ending.how, performed[1].resent, performed[1].reused)


@pytest.mark.parametrize(
    ("answer", "ending"),
    [
        (ANSWER, Ending("complete")),
        (HEAD.replace(b"transfer-encoding: chunked\r\n", b"") + CHAT + DONE, Ending("complete")),
        (HEAD + chunk(CHAT), Ending("cut", "closed")),
        (HEAD.replace(b"transfer-encoding: chunked", b"content-length: 999") + CHAT, Ending("cut", "closed")),
        (b"", Ending("cut", "closed")),
        (HEAD[:40], Ending("cut", "closed")),
        (b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + ANSWER, Ending("complete")),
        (b"SMTP ready\r\n\r\n", Ending("malformed", "http_illegal_status_line")),
        (b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", Ending("malformed", "upgrade")),
        (b"HTTP/1.1 204 No Content\r\n\r\n", Ending("complete")),
    ],
)
async def test_http1_by_the_library_ends_as_on_the_fast_path(answer, ending):
    async with listening(always(answer, then_close=True)) as upstream, proxy_to(upstream) as (_, url):
        address = port_of(url)
        async with client_of(address, target=Target("http", "name.test", 80), proxy=url) as client:
            with trio.fail_after(5):
                exchange = await client.perform()

    assert ending == exchange.ending


async def test_bodies_stay_as_they_came():
    answer = HEAD.replace(b"transfer-encoding: chunked", b"content-encoding: gzip\r\ncontent-length: 5") + b"abcde"
    async with listening(always(answer)) as upstream, proxy_to(upstream) as (_, url):
        address = port_of(url)
        async with client_of(address, target=Target("http", "name.test", 80), proxy=url) as client:
            exchange = await client.perform()

    assert ("complete", True, 5) == (exchange.ending.how, exchange.sink.encoded, exchange.sink.response_bytes)


async def test_exchanges_on_used_connections_leave_nothing_for_the_collector():
    async with listening(always(ANSWER)) as upstream, proxy_to(upstream) as (_, url):
        address = port_of(url)
        async with client_of(address, target=Target("http", "name.test", 80), proxy=url) as client:
            for _ in range(5):
                await client.perform()
            gc.collect()
            gc.disable()
            try:
                for _ in range(200):
                    await client.perform()
                found = gc.collect()
            finally:
                gc.enable()

    assert 0 == found


async def test_exchanges_given_up_at_any_moment_leave_no_socket(ca, files):
    rng = random.Random(1)
    before = len(os.listdir("/proc/self/fd"))
    async with hypercorn(stream_an_answer, files=files) as (_, address), proxy_to(address) as (_, url):
        target = Target("https", *address.sockaddr)
        for where, proxy in ((address, None), (port_of(url), url)):
            async with client_of(where, target=target, trust=ca.trust, http2=True, proxy=proxy) as client:

                async def give_up(exchange, client=client) -> None:
                    await trio.sleep(rng.uniform(0, 0.3))
                    exchange.abandon(Ending("deadline"), client.network.now())

                exchanges = [client.exchange() for _ in range(40)]
                with trio.fail_after(20):
                    async with trio.open_nursery() as nursery:
                        for exchange in exchanges:
                            nursery.start_soon(client.network.perform, exchange)
                            nursery.start_soon(give_up, exchange)
                completed = [exchange for exchange in exchanges if exchange.ending.how == "complete"]
                assert client.network.open <= len(completed) < 40
                assert {Ending("complete"), Ending("deadline")} >= {exchange.ending for exchange in exchanges}

    assert before == len(os.listdir("/proc/self/fd"))
