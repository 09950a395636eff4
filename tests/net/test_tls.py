"""TLS on the fast path: certificates, records cut anywhere, how it ends, sessions, and nothing left behind."""

import gc
import shutil
import socket
import ssl
import subprocess
import time

import pytest
import trio
from net.peer import ANSWER, CHAT, DONE, HEAD, LAST, always, chunk, client_of, listening, peer, read_request
from net.tls_peer import FAR_AHEAD, LONG_AGO, Authority, answer_once, over_tls, stdlib_server, tls_peer

from loadgen.net.target import Address, Target
from loadgen.net.tls import Trust
from loadgen.wire.ending import Ending

VERSIONS = ("1.2", "1.3")
UNSIZED = HEAD.replace(b"transfer-encoding: chunked\r\n", b"")


@pytest.fixture(scope="session")
def ca(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="session")
def other_ca(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("other"))


@pytest.mark.parametrize("versions", VERSIONS)
async def test_an_answer_over_tls_is_read_as_in_plain_with_kernel_stamps(ca, versions):
    async with tls_peer(always(ANSWER), ca.server(versions=versions), ca.trust) as client:
        exchange = await client.perform()

    assert (Ending("complete"), "kernel", "http/1.1") == (exchange.ending, exchange.stamps, exchange.transport)
    assert (2, True) == (len(exchange.sink.frame_kinds), exchange.sink.ended)
    assert 0 <= exchange.connected_ns <= exchange.sent_ns <= exchange.sink.first_output_ns <= exchange.end_ns
    assert [exchange] == client.told_sent


@pytest.mark.parametrize(
    ("server", "word"),
    [
        (lambda ca: ca.server(not_before=LONG_AGO, not_after=LONG_AGO.replace(year=2002)), "certificate_expired"),
        (
            lambda ca: ca.server(not_before=FAR_AHEAD, not_after=FAR_AHEAD.replace(year=2200)),
            "certificate_not_yet_valid",
        ),
        (lambda ca: ca.server("example.test"), "certificate_wrong_host"),
        (lambda ca: ca.server("192.0.2.1"), "certificate_wrong_host"),
    ],
)
async def test_a_certificate_that_will_not_do_is_named_by_its_fault(ca, server, word):
    async with tls_peer(always(ANSWER), server(ca), ca.trust) as client:
        exchange = await client.perform()

    assert (Ending("connect", word), None, None) == (exchange.ending, exchange.sent_ns, exchange.connected_ns)
    assert [] == client.told_sent


async def test_a_host_with_a_name_is_asked_for_by_its_name(ca):
    asked = []
    server = ca.server("name.test")
    server.sni_callback = lambda sealed, name, context: asked.append(name)
    async with listening(over_tls(always(ANSWER), server)) as address:
        target = Target("https", "name.test", address.sockaddr[1])
        async with client_of(address, target=target, trust=ca.trust) as client:
            exchange = await client.perform()

    assert ("complete", ["name.test"]) == (exchange.ending.how, asked)


async def test_an_unknown_authority_and_a_self_signed_certificate_are_told_apart(ca, other_ca):
    async with tls_peer(always(ANSWER), ca.server(), other_ca.trust) as client:
        untrusted = await client.perform()
    async with tls_peer(always(ANSWER), ca.server(self_signed=True), other_ca.trust) as client:
        self_signed = await client.perform()

    assert Ending("connect", "certificate_untrusted") == untrusted.ending
    assert Ending("connect", "certificate_self_signed") == self_signed.ending


async def test_the_systems_authorities_do_not_know_ours(ca):
    async with tls_peer(always(ANSWER), ca.server(), Trust()) as client:
        exchange = await client.perform()

    assert Ending("connect", "certificate_untrusted") == exchange.ending


async def test_insecure_takes_any_certificate(ca):
    async with tls_peer(always(ANSWER), ca.server("example.test"), Trust(insecure=True)) as client:
        exchange = await client.perform()

    assert "complete" == exchange.ending.how


@pytest.mark.parametrize(
    ("versions", "word"), [("1.3", "certificate_required"), ("1.2", "tls_sslv3_alert_handshake_failure")]
)
async def test_a_server_that_wants_our_certificate_and_gets_none_is_no_connection(ca, versions, word):
    with stdlib_server(ca.asks(ca.server(versions=versions)), answer_once) as address:
        async with client_of(address, scheme="https", trust=ca.trust) as client:
            exchanges = [await client.perform() for _ in range(20)]

    assert {Ending("connect", word)} == {exchange.ending for exchange in exchanges}


@pytest.mark.parametrize("versions", VERSIONS)
async def test_a_certificate_of_another_authority_is_refused_and_ours_is_taken(ca, other_ca, versions):
    server = ca.asks(ca.server(versions=versions))
    for owner, ending in ((ca, Ending("complete")), (other_ca, Ending("connect", "certificate_refused"))):
        cert, key = owner.client()
        with stdlib_server(server, answer_once) as address:
            async with client_of(address, scheme="https", trust=Trust(cacert=ca.path, cert=cert, key=key)) as client:
                exchange = await client.perform()

        assert ending == exchange.ending


async def test_a_server_of_old_tls_is_no_connection(ca):
    server = ca.server()
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        server.minimum_version, server.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    server.set_ciphers("ALL:@SECLEVEL=0")
    with stdlib_server(server, answer_once) as address:
        async with client_of(address, scheme="https", trust=ca.trust) as client:
            exchange = await client.perform()

    assert Ending("connect", "tls_version") == exchange.ending


async def close_at_once(stream: trio.SocketStream, number: int) -> None:
    await stream.receive_some()


async def say_nothing(stream: trio.SocketStream, number: int) -> None:
    await trio.sleep_forever()


async def answer_in_plain(stream: trio.SocketStream, number: int) -> None:
    await stream.receive_some()
    await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@pytest.mark.parametrize(
    ("handler", "word"), [(answer_in_plain, "not_tls"), (close_at_once, "tls_closed"), (say_nothing, "tls_timeout")]
)
async def test_a_port_without_tls_is_no_connection(handler, word):
    async with peer(handler, scheme="https", connect_timeout_s=0.3) as client:
        with trio.fail_after(5):
            exchange = await client.perform()
        assert 0 == client.network.open

    assert (Ending("connect", word), None) == (exchange.ending, exchange.sent_ns)


async def test_a_handshake_can_be_given_up():
    async with peer(say_nothing, scheme="https") as client, trio.open_nursery() as nursery:
        exchange = client.exchange()
        nursery.start_soon(client.network.perform, exchange)
        await trio.sleep(0.1)
        exchange.abandon(Ending("abandoned", "drain"), client.network.now())

    assert (Ending("abandoned", "drain"), None) == (exchange.ending, exchange.sent_ns)


@pytest.mark.parametrize("versions", VERSIONS)
@pytest.mark.parametrize("size", [1, 3, 7, 50])
async def test_records_that_arrive_in_pieces_are_read_the_same(ca, versions, size):
    frames = HEAD + chunk(CHAT) * 3 + chunk(DONE) + LAST
    async with tls_peer(always(frames), ca.server(versions=versions), ca.trust, size=size) as client:
        exchanges = [await client.perform() for _ in range(2)]

    assert [("complete", 4, 6)] * 2 == [
        (exchange.ending.how, len(exchange.sink.frame_kinds), exchange.sink.output_chars) for exchange in exchanges
    ]


async def test_frames_may_cross_records_and_records_may_share_a_read(ca):
    wire = HEAD + chunk(CHAT) * 5 + chunk(DONE) + LAST

    async def in_records_of(stream: trio.SSLStream, number: int) -> None:
        size = 0
        while await read_request(stream):
            size += 7
            stream.transport_stream.is_holding = True
            for start in range(0, len(wire), size):
                await stream.send_all(wire[start : start + size])
            await stream.transport_stream.release()

    async with tls_peer(in_records_of, ca.server(), ca.trust) as client:
        exchanges = [await client.perform() for _ in range(20)]

    assert {("complete", 6, 10)} == {
        (exchange.ending.how, len(exchange.sink.frame_kinds), exchange.sink.output_chars) for exchange in exchanges
    }
    assert 1 == exchanges[-1].reads  # all of it, records and all, in one


@pytest.mark.parametrize("versions", VERSIONS)
async def test_large_bodies_go_and_come_whole(ca, versions):
    body = bytes(range(256)) * 1200
    received = []

    async def echo(stream: trio.SSLStream, number: int) -> None:
        received.append((await read_request(stream)).partition(b"\r\n\r\n")[2])
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

    async with tls_peer(echo, ca.server(versions=versions), ca.trust) as client:
        exchange = await client.perform(body)

    assert ([body], "complete", len(body)) == (received, exchange.ending.how, exchange.sink.response_bytes)


async def test_a_body_larger_than_the_sockets_buffer_is_written_in_parts(ca):
    body = bytes(12_000_000)
    received = 0

    async def slow_reader(stream: trio.SSLStream, number: int) -> None:
        nonlocal received
        while received < len(body):
            received += len(await stream.receive_some(500_000))
            await trio.sleep(0.001)
        await stream.send_all(ANSWER)

    async with tls_peer(slow_reader, ca.server(), ca.trust) as client:
        exchange = await client.perform(body)

    assert "complete" == exchange.ending.how


def closing(answer: bytes, *, says_so: bool):
    """Answer once and close, with close_notify or without."""

    async def handler(stream: trio.SSLStream, number: int) -> None:
        await read_request(stream)
        await stream.send_all(answer)
        if not says_so:
            await stream.transport_stream.aclose()

    return handler


@pytest.mark.parametrize("versions", VERSIONS)
@pytest.mark.parametrize(
    ("answer", "says_so", "ending"),
    [
        (UNSIZED + CHAT + DONE, True, Ending("complete")),
        (UNSIZED + CHAT + DONE, False, Ending("cut", "tls_eof")),
        (ANSWER, True, Ending("complete")),
        (ANSWER, False, Ending("complete")),
        (HEAD + chunk(CHAT), True, Ending("cut", "closed")),
        (HEAD + chunk(CHAT), False, Ending("cut", "closed")),
        (b"", True, Ending("cut", "closed")),
    ],
)
async def test_a_body_without_a_size_ends_only_as_tls_says(ca, versions, answer, says_so, ending):
    handler = closing(answer, says_so=says_so) if answer else close_unasked
    async with tls_peer(handler, ca.server(versions=versions), ca.trust) as client:
        with trio.fail_after(5):
            exchange = await client.perform()

    assert ending == exchange.ending


async def close_unasked(stream: trio.SSLStream, number: int) -> None:
    await read_request(stream)


async def test_bytes_that_are_no_records_are_malformed_and_what_came_before_is_kept(ca):
    async def spoil(stream: trio.SSLStream, number: int) -> None:
        await read_request(stream)
        await stream.send_all(HEAD + chunk(CHAT))
        await stream.transport_stream.send_all(b"HTTP/1.1 500 what is this\r\n\r\n")
        await trio.sleep_forever()

    async with tls_peer(spoil, ca.server(), ca.trust) as client:
        with trio.fail_after(5):
            exchange = await client.perform()

    assert "malformed" == exchange.ending.how
    assert exchange.ending.detail.startswith("tls_")
    assert 1 == exchange.sink.output_frames


async def test_an_idle_connection_is_used_again(ca):
    async with tls_peer(always(ANSWER), ca.server(versions="1.3"), ca.trust) as client:
        exchanges = [await client.perform() for _ in range(5)]
        assert 1 == client.network.open

    assert [False, True, True, True, True] == [exchange.reused for exchange in exchanges]


@pytest.mark.parametrize("says_so", [True, False])
async def test_an_idle_connection_that_the_server_closed_is_never_used_again(ca, says_so):
    async with tls_peer(closing(ANSWER, says_so=says_so), ca.server(), ca.trust) as client:
        first = await client.perform()
        with trio.fail_after(5):
            while client.network.open:
                await trio.sleep(0.01)
        second = await client.perform()

    assert [("complete", False)] * 2 == [(each.ending.how, each.reused) for each in (first, second)]


async def test_a_request_that_a_dying_idle_connection_swallowed_is_sent_again_once(ca):
    async def die_on_the_second(stream: trio.SSLStream, number: int) -> None:
        await read_request(stream)
        await stream.send_all(ANSWER)
        if number == 1:
            await read_request(stream)
            await stream.transport_stream.aclose()

    async with tls_peer(die_on_the_second, ca.server(), ca.trust) as client:
        await client.perform()
        second = await client.perform()

    assert ("complete", True, False) == (second.ending.how, second.resent, second.reused)
    assert second.first_sent_ns < second.sent_ns


@pytest.mark.parametrize("versions", VERSIONS)
async def test_the_second_connection_resumes_the_session_of_the_first(ca, versions):
    resumed = []

    async def tell(stream: trio.SSLStream) -> None:
        resumed.append(stream.session_reused)

    handler = over_tls(closing(ANSWER, says_so=True), ca.server(versions=versions), tell=tell)
    async with peer(handler, scheme="https", trust=ca.trust) as client:
        exchanges = [await client.perform() for _ in range(3)]

    assert [("complete", False)] * 3 == [(exchange.ending.how, exchange.reused) for exchange in exchanges]
    assert [False, True, True] == resumed


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")
async def test_a_server_that_changes_its_keys_is_answered_and_read_on_busy_or_idle(ca):
    """OpenSSL's own test server: a line `K` on its input asks for new keys, what else it reads it sends."""
    cert, key = ca.client("server")
    pipe = subprocess.PIPE
    command = ["openssl", "s_server", "-accept", "127.0.0.1:0", "-tls1_3", "-cert", cert, "-key", key]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, bufsize=0) as server:
        try:
            line = b""
            while not line.startswith(b"ACCEPT 127"):
                line = server.stdout.readline()
            address = Address(socket.AF_INET, ("127.0.0.1", int(line.rpartition(b":")[2])))
            async with client_of(address, scheme="https", trust=Trust(insecure=True)) as client:
                exchanges = []
                for _ in range(2):
                    exchanges.append(client.exchange())
                    with trio.fail_after(10):
                        async with trio.open_nursery() as nursery:
                            nursery.start_soon(client.network.perform, exchanges[-1])
                            while exchanges[-1].sent_ns is None:
                                await trio.sleep(0.01)
                            for part in (b"K\n", HEAD + chunk(CHAT), b"K\n", chunk(DONE) + LAST):
                                await trio.sleep(0.2)
                                server.stdin.write(part)
                        server.stdin.write(b"K\n")
                        await trio.sleep(0.2)
                    assert 1 == client.network.open
        finally:
            server.kill()

    assert [("complete", 2, False), ("complete", 2, True)] == [
        (each.ending.how, len(each.sink.frame_kinds), each.reused) for each in exchanges
    ]


async def test_a_frames_moment_is_its_arrival_though_we_decrypt_it_later(ca):
    answered_ns = []

    def reply(sealed: ssl.SSLSocket) -> None:
        sealed.recv(65536)
        time.sleep(0.05)
        answered_ns.append(time.monotonic_ns())
        sealed.sendall(ANSWER)

    with stdlib_server(ca.server(), reply) as address:
        async with client_of(address, scheme="https", trust=ca.trust) as client:
            exchange = client.exchange()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.network.perform, exchange)
                while exchange.sent_ns is None:
                    await trio.lowlevel.checkpoint()
                time.sleep(0.4)  # the whole loop stands still while the answer arrives
            lag_ns = max(client.network.lags_ns)

    assert "kernel" == exchange.stamps
    assert abs(exchange.sink.first_output_ns + client.epoch_ns - answered_ns[0]) < 100_000_000
    assert lag_ns > 200_000_000


@pytest.mark.parametrize("versions", VERSIONS)
async def test_fresh_tls_connections_leave_nothing_for_the_collector(ca, versions):
    with stdlib_server(ca.server(versions=versions), answer_once) as address:
        async with client_of(address, scheme="https", trust=ca.trust) as client:
            for _ in range(20):
                await client.perform()
            gc.collect()
            gc.disable()
            try:
                exchanges = [await client.perform() for _ in range(500)]
                found = gc.collect()
            finally:
                gc.enable()

    assert (0, {"complete"}, {False}) == (
        found,
        {exchange.ending.how for exchange in exchanges},
        {exchange.reused for exchange in exchanges},
    )


async def test_refused_handshakes_leave_nothing_for_the_collector(ca, other_ca):
    with stdlib_server(ca.server(), answer_once) as address:
        async with client_of(address, scheme="https", trust=other_ca.trust) as client:
            await client.perform()
            gc.collect()
            gc.disable()
            try:
                exchanges = [await client.perform() for _ in range(100)]
                found = gc.collect()
            finally:
                gc.enable()

    assert (0, {Ending("connect", "certificate_untrusted")}) == (found, {exchange.ending for exchange in exchanges})
