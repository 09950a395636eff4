"""A server on a real loopback socket that says what a test tells it to, and the client side of one exchange."""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from time import monotonic_ns
from typing import Any

import trio

from loadgen.net.exchange import Exchange
from loadgen.net.network import Network, network_of
from loadgen.net.route import Route
from loadgen.net.target import Address, Target
from loadgen.results.reading import Reading

Handler = Callable[[Any, int], Awaitable[None]]  # of a stream: trio's, plain or over TLS

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
CHAT = b'data: {"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"
LAST = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


ANSWER = HEAD + chunk(CHAT) + chunk(DONE) + LAST


async def read_request(stream: trio.abc.ReceiveStream) -> bytes:
    """Read one request with its body; b"" when the client left."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = await stream.receive_some()
        if not more:
            return b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < length:
        body += await stream.receive_some()
    return head + b"\r\n\r\n" + body


def always(answer: bytes, *, then_close: bool = False) -> Handler:
    """Answer every request of every connection with the same bytes."""

    async def handler(stream: trio.abc.Stream, number: int) -> None:
        while await read_request(stream):
            await stream.send_all(answer)
            if then_close:
                return

    return handler


class Client:
    """The project's own network to the peer; owns the exchanges it performs."""

    def __init__(self, network: Network, epoch_ns: int) -> None:
        self.network = network
        self.epoch_ns = epoch_ns
        self.told_sent: list[Exchange] = []
        self.lingered: list[Exchange] = []

    def sent(self, exchange: Exchange) -> None:
        self.told_sent.append(exchange)

    def lingers(self, exchange: Exchange) -> None:
        self.lingered.append(exchange)

    def exchange(self, body: bytes = b"{}", *, method: str = "POST", path: str = "/") -> Exchange:
        head = f"{method} {path} HTTP/1.1\r\nhost: test\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        return Exchange(head, body, Reading(), self, is_head=method == "HEAD")

    async def perform(self, body: bytes = b"{}", *, method: str = "POST") -> Exchange:
        exchange = self.exchange(body, method=method)
        await self.network.perform(exchange)
        return exchange


@asynccontextmanager
async def client_of(address: Address, *, scheme: str = "http", **route: Any) -> AsyncIterator[Client]:
    """A client of the server at `address`; `route` holds fields of the Route to it."""
    host, port = address.sockaddr[:2]
    target = route.pop("target", None) or Target(scheme, host, port)
    epoch_ns = monotonic_ns()
    network = network_of(Route(target=target, **{"connect_timeout_s": 5.0} | route), address, epoch_ns=epoch_ns)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(network.run)
            yield Client(network, epoch_ns)
            nursery.cancel_scope.cancel()
    finally:
        network.close()


@asynccontextmanager
async def listening(handler: Handler) -> AsyncIterator[Address]:
    """The address of a server that calls `handler(stream, number)` for each connection."""
    number = 0

    async def serve(stream: trio.SocketStream) -> None:
        nonlocal number
        number += 1
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):  # the client left
            await handler(stream, number)

    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    listener.setblocking(False)
    async with trio.open_nursery() as nursery:
        listeners = [trio.SocketListener(trio.socket.from_stdlib_socket(listener))]
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        yield Address(socket.AF_INET, listener.getsockname())
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def peer(handler: Handler, **route: Any) -> AsyncIterator[Client]:
    """A client of a server that calls `handler(stream, number)` for each connection."""
    async with listening(handler) as address, client_of(address, **route) as client:
        yield client
