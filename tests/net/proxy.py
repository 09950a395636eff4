"""A forwarding and tunnelling HTTP proxy, as polite or not as a test wants it."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from math import inf
from urllib.parse import urlsplit

import trio
from net.peer import listening

from loadgen.net.target import Address


class Relay:
    """Relays every connection to `upstream`, whatever host it was asked for; remembers what it was asked."""

    def __init__(
        self, upstream: Address, *, refusal: bytes = b"", is_silent: bool = False, dies_after: float = inf
    ) -> None:
        self._upstream = upstream
        self._refusal = refusal
        self._is_silent = is_silent
        self._dies_after = dies_after  # so many bytes from upstream
        self.asked: list[str] = []
        self.credentials: list[str] = []

    async def __call__(self, stream: trio.SocketStream, number: int) -> None:
        head = await _read_head(stream)
        if not head:
            return
        first, *lines = head.split(b"\r\n\r\n")[0].decode().split("\r\n")
        self.asked.append(first)
        for line in lines:
            if line.lower().startswith("proxy-authorization: basic "):
                self.credentials.append(base64.b64decode(line[27:]).decode())
        if self._is_silent:
            await trio.sleep_forever()
        if self._refusal:
            await stream.send_all(self._refusal)
            return
        async with await trio.open_tcp_stream(*self._upstream.sockaddr[:2]) as upstream:
            method, url = first.split(" ")[:2]
            if method == "CONNECT":
                await stream.send_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                parts = urlsplit(url)
                path = parts.path + (f"?{parts.query}" if parts.query else "")
                await upstream.send_all(head.replace(url.encode(), path.encode(), 1))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._relay, stream, upstream, inf, nursery)
                nursery.start_soon(self._relay, upstream, stream, self._dies_after, nursery)

    async def _relay(
        self, source: trio.SocketStream, sink: trio.SocketStream, most: float, nursery: trio.Nursery
    ) -> None:
        """Pass bytes on until there are no more of them, or more than `most`."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while (data := await source.receive_some()) and (most := most - len(data)) >= 0:
                await sink.send_all(data)
        nursery.cancel_scope.cancel()


async def _read_head(stream: trio.SocketStream) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        more = await stream.receive_some()
        if not more:
            return b""
        data += more
    return data


@asynccontextmanager
async def proxy_to(upstream: Address, **manners) -> AsyncIterator[tuple[Relay, str]]:
    """A running proxy, and its URL."""
    relay = Relay(upstream, **manners)
    async with listening(relay) as address:
        yield relay, f"http://me:hunter2@127.0.0.1:{address.sockaddr[1]}"
