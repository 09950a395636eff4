"""Connections on real loopback sockets: reuse, resending, partial writes, and every way HTTP can end."""

import gc
import resource
import socket
import struct
import threading
import time

import pytest
import trio
import trio.lowlevel
from net.peer import ANSWER, CHAT, DONE, HEAD, Handler, always, chunk, client_of, peer, read_request

from loadgen.net.target import Address
from loadgen.wire.ending import Ending


def reset(stream: trio.SocketStream) -> None:
    """Close so that the client gets a reset."""
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.socket.close()


async def test_the_connection_that_came_back_last_is_used_first():
    async with peer(always(ANSWER)) as client:
        first = await client.perform()
        second = await client.perform()

    assert (first.reused, second.reused) == (False, True)
    assert [Ending("complete")] * 2 == [first.ending, second.ending]


async def test_many_at_once_open_as_many_connections_and_none_waits():
    release = trio.Event()
    waiting = 0

    async def hold(stream: trio.SocketStream, number: int) -> None:
        nonlocal waiting
        await read_request(stream)
        waiting += 1
        if waiting == 150:
            release.set()
        await release.wait()
        await stream.send_all(ANSWER)

    async with peer(hold) as client, trio.open_nursery() as nursery:
        for _ in range(150):
            nursery.start_soon(client.perform)
        with trio.fail_after(20):
            await release.wait()

    assert waiting == 150


async def test_an_idle_connection_that_the_server_closed_is_never_used_again():
    async with peer(always(ANSWER, then_close=True)) as client:
        first = await client.perform()
        while client.network.open:
            await trio.sleep(0.01)
        second = await client.perform()

    assert (first.reused, second.reused) == (False, False)
    assert second.ending.how == "complete"


async def test_a_request_that_a_dying_idle_connection_swallowed_is_sent_again_once():
    async def die_on_the_second(stream: trio.SocketStream, number: int) -> None:
        await read_request(stream)
        await stream.send_all(ANSWER)
        if number == 1:
            await read_request(stream)
            reset(stream)

    async with peer(die_on_the_second) as client:
        await client.perform()
        second = await client.perform()

    assert (second.ending.how, second.resent, second.reused) == ("complete", True, False)
    assert second.first_sent_ns < second.sent_ns


async def test_a_server_that_took_the_request_and_died_later_gets_no_second_copy():
    seen = 0

    async def take_and_die(stream: trio.SocketStream, number: int) -> None:
        nonlocal seen
        while await read_request(stream):
            seen += 1
            if seen == 2:
                await trio.sleep(0.2)
                reset(stream)
                return
            await stream.send_all(ANSWER)

    async with peer(take_and_die) as client:
        await client.perform()
        second = await client.perform()

    assert (second.ending.how, second.ending.detail, second.resent, seen) == ("cut", "reset", False, 2)


async def test_a_fresh_connection_that_is_reset_is_not_tried_again():
    async def slam(stream: trio.SocketStream, number: int) -> None:
        await read_request(stream)
        reset(stream)

    async with peer(slam) as client:
        exchange = await client.perform()

    assert (Ending("cut", "reset"), False) == (exchange.ending, exchange.resent)


async def test_a_large_body_is_written_in_parts_and_arrives_whole():
    body = bytes(range(256)) * 40_000
    received = b""

    async def slow_reader(stream: trio.SocketStream, number: int) -> None:
        nonlocal received
        while len(received) < len(body):
            received += await stream.receive_some(100_000)
            await trio.sleep(0.001)
            if b"\r\n\r\n" in received[:200]:
                received = received.partition(b"\r\n\r\n")[2]
        await stream.send_all(ANSWER)

    async with peer(slow_reader) as client:
        exchange = await client.perform(body)

    assert body == received
    assert exchange.ending.how == "complete"


async def test_an_answer_that_comes_before_the_body_is_written_ends_the_exchange():
    async def refuse(stream: trio.SocketStream, number: int) -> None:
        await stream.receive_some(1000)
        await stream.send_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n")
        await trio.sleep(5)

    async with peer(refuse) as client:
        with trio.fail_after(3):
            exchange = await client.perform(bytes(30_000_000))
        assert client.network.open == 0  # half a request is on it: it cannot carry another

    assert (exchange.ending.how, exchange.sink.status) == ("complete", 413)


@pytest.mark.parametrize(
    ("answer", "how", "detail"),
    [
        (ANSWER, "complete", None),
        (HEAD.replace(b"transfer-encoding: chunked\r\n", b"") + CHAT + DONE, "complete", None),
        (b"HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + CHAT + DONE, "complete", None),
        (HEAD + chunk(CHAT), "cut", "closed"),
        (HEAD + b"ff\r\n" + CHAT, "cut", "closed"),
        (HEAD.replace(b"transfer-encoding: chunked", b"content-length: 999") + CHAT, "cut", "closed"),
        (b"", "cut", "closed"),
        (HEAD[:40], "cut", "closed"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + ANSWER, "complete", None),
        (HEAD + chunk(CHAT + DONE).replace(b"\r\n", b";ext=1\r\n", 1) + b"0\r\nx-trailer: 1\r\n\r\n", "complete", None),
        (b"SMTP ready\r\n", "malformed", None),
        (HEAD + b"zz\r\n", "malformed", None),
        (b"HTTP/1.1 200 OK\r\nx: " + b"a" * 70_000, "malformed", "head_too_large"),
        (b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", "malformed", "upgrade"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "complete", None),
    ],
    ids=lambda value: None if isinstance(value, bytes) else value,
)
async def test_however_a_message_ends_the_exchange_ends_once_and_says_how(answer, how, detail):
    async with peer(always(answer, then_close=True)) as client:
        with trio.fail_after(5):
            exchange = await client.perform()

    assert how == exchange.ending.how
    if detail is not None:
        assert detail == exchange.ending.detail


async def test_bytes_after_the_end_of_a_message_make_the_connection_unusable():
    async with peer(always(ANSWER + b"HTTP/1.1 200 OK\r\n")) as client:
        first = await client.perform()
        second = await client.perform()

    assert (first.ending.how, second.ending.how, second.reused) == ("complete", "complete", False)


async def test_a_head_request_ends_with_the_head():
    async with peer(always(b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n")) as client:
        with trio.fail_after(3):
            exchange = await client.perform(b"", method="HEAD")

    assert (exchange.ending.how, exchange.sink.status) == ("complete", 200)


async def test_an_answer_cut_at_any_byte_is_never_complete_but_at_its_end():
    async def cut(stream: trio.SocketStream, number: int) -> None:
        await read_request(stream)
        await stream.send_all(ANSWER[: number - 1])

    async with peer(cut) as client:
        endings = [(await client.perform()).ending.how for _ in range(len(ANSWER) + 1)]

    assert ["cut"] * len(ANSWER) + ["complete"] == endings


async def test_an_answer_split_at_any_byte_is_read_the_same():
    async def split(stream: trio.SocketStream, number: int) -> None:
        cut = 0
        while await read_request(stream):
            cut += 1
            await stream.send_all(ANSWER[:cut])
            await trio.lowlevel.checkpoint()
            await stream.send_all(ANSWER[cut:])

    async with peer(split) as client:
        exchanges = [await client.perform() for _ in range(len(ANSWER) - 1)]

    assert {(2, "hi", True)} == {
        (len(e.sink.frame_kinds), "hi"[: e.sink.output_chars], e.sink.ended) for e in exchanges
    }
    assert {"complete"} == {exchange.ending.how for exchange in exchanges}


def then_silent(answer: bytes) -> Handler:
    async def handler(stream: trio.SocketStream, number: int) -> None:
        await read_request(stream)
        await stream.send_all(answer)
        await trio.sleep_forever()

    return handler


async def test_a_broken_frame_ends_the_exchange_and_its_connection():
    async with peer(then_silent(HEAD + chunk(CHAT) + chunk(b"data: {broken\n\n"))) as client:
        with trio.fail_after(3):
            exchange = await client.perform()

        assert (Ending("stopped"), "json", 0) == (exchange.ending, exchange.sink.malformed, client.network.open)


async def test_the_end_marker_without_an_end_is_reported_once():
    async with peer(then_silent(HEAD + chunk(CHAT) + chunk(DONE) + chunk(b": ping\n\n"))) as client:
        exchange = client.exchange()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.network.perform, exchange)
            with trio.fail_after(3):
                while not client.lingered:
                    await trio.sleep(0.05)
            await trio.sleep(0.5)
            exchange.abandon(Ending("lingered"), client.network.now())

    assert [exchange] == client.lingered
    assert client.network.open == 0


async def test_what_had_arrived_is_delivered_when_we_give_up():
    async with peer(then_silent(HEAD + chunk(CHAT))) as client:
        exchange = client.exchange()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.network.perform, exchange)
            while not exchange.reads:
                await trio.sleep(0.01)
            exchange.abandon(Ending("deadline"), client.network.now())

    assert (1, 2) == (exchange.sink.output_frames, exchange.sink.output_chars)


async def test_a_refused_connection_is_the_servers_and_a_missing_descriptor_is_ours():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = Address(socket.AF_INET, unused.getsockname())
    async with client_of(address) as client:
        refused = await client.perform()
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        used = max(int(fd) for fd in __import__("os").listdir("/proc/self/fd"))
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


async def test_a_connection_that_is_not_accepted_times_out():
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        async with client_of(Address(socket.AF_INET, full.getsockname()), connect_timeout_s=0.2) as client:
            exchange = await client.perform()
        for filler in fillers:
            filler.close()

    assert (Ending("connect", "timeout"), None) == (exchange.ending, exchange.sent_ns)


async def test_a_frames_moment_is_its_arrival_not_when_we_got_round_to_reading_it():
    answered_ns = []

    def serve(listener: socket.socket) -> None:
        for _ in range(2):  # the probe's connection, then ours
            connection, _ = listener.accept()
            with connection:
                if connection.recv(1000):
                    time.sleep(0.05)
                    answered_ns.append(time.monotonic_ns())
                    connection.sendall(ANSWER)
                    time.sleep(0.5)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        socket.create_connection(listener.getsockname()).close()
        async with client_of(Address(socket.AF_INET, listener.getsockname())) as client:
            exchange = client.exchange()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.network.perform, exchange)
                while exchange.sent_ns is None:
                    await trio.lowlevel.checkpoint()
                time.sleep(0.4)  # the whole loop stands still while the answer arrives
            arrived_ns = exchange.sink.first_output_ns + client.epoch_ns
        thread.join()

    assert "kernel" == exchange.stamps
    assert abs(arrived_ns - answered_ns[0]) < 100_000_000
    assert max(client.network.lags_ns) > 200_000_000


async def test_nothing_is_left_for_the_collector():
    async with peer(always(ANSWER)) as client:
        for _ in range(20):
            await client.perform()
        gc.collect()
        gc.disable()
        try:
            for _ in range(500):
                await client.perform()
            found = gc.collect()
        finally:
            gc.enable()

    assert found == 0
