"""A simulator on a loopback port, and clients to ask it with."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import msgspec
import trio

from loadgen.servers.simulated import Model, Simulator, serve
from loadgen.servers.simulated.ledger import Reader
from loadgen.wire.events import Event, Output, Usage
from loadgen.wire.formats.openai import decode
from loadgen.wire.framing import ServerSentEvents

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
MS = 1_000_000


@asynccontextmanager
async def simulated(*, ledger: Reader | None = None, **settings: Any) -> AsyncIterator[Simulator]:
    """Serve a model that is quick where the test does not say otherwise."""
    model = Model(**{"ttft_ns": MS, "itl_ns": MS, "tokens": 5, **settings})
    async with trio.open_nursery() as nursery:
        yield await nursery.start(partial(serve, model, ledger=ledger))
        nursery.cancel_scope.cancel()


def body(path: str = CHAT, *, prompt: str = "one two three", **fields: Any) -> dict[str, Any]:
    asked = {"messages": [{"role": "user", "content": prompt}]} if path == CHAT else {"prompt": prompt}
    return {"model": "sim", **asked, **fields}


def http(simulator: Simulator) -> httpx.AsyncClient:
    # Reading the certificates takes longer than most of these tests, and nothing here speaks TLS.
    return httpx.AsyncClient(base_url=simulator.url, trust_env=False, verify=False, timeout=10)


async def ask(
    simulator: Simulator, path: str = CHAT, *, wish: str = "", prompt: str = "one two three", **fields: Any
) -> httpx.Response:
    """Ask once, on a connection of its own."""
    async with http(simulator) as client:
        return await client.post(
            path, json=body(path, prompt=prompt, **fields), headers={"x-sim": wish} if wish else {}
        )


def events(stream: bytes) -> list[Event]:
    """Read the events of a stream's body."""
    return [event for frame in ServerSentEvents().feed(stream) for event in decode(frame)]


def text(stream: bytes) -> str:
    return "".join(event.text for event in events(stream) if isinstance(event, Output))


def tokens(stream: bytes) -> int:
    return sum(isinstance(event, Output) for event in events(stream))


def usage(stream: bytes) -> list[Usage]:
    return [event for event in events(stream) if isinstance(event, Usage)]


def request(path: str = CHAT, *, method: str = "POST", headers: str = "", wish: str = "", **fields: Any) -> bytes:
    """Render a request as bytes; `headers` are whole lines."""
    payload = msgspec.json.encode(body(path, **fields)) if method == "POST" else b""
    wished = f"x-sim: {wish}\r\n" if wish else ""
    head = f"{method} {path} HTTP/1.1\r\nhost: sim\r\n{wished}{headers}content-length: {len(payload)}\r\n\r\n"
    return head.encode() + payload


@dataclass
class Raw:
    """A bare connection, for what no HTTP library would let a test do or see."""

    stream: trio.SocketStream
    seen: bytes = b""

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def until(self, mark: bytes) -> bytes:
        """Return all up to and with `mark`; the rest stays for the next call."""
        with trio.fail_after(10):
            while mark not in self.seen:
                data = await self.stream.receive_some()
                assert data, f"closed before {mark!r}: {self.seen[-200:]!r}"
                self.seen += data
        end = self.seen.index(mark) + len(mark)
        found, self.seen = self.seen[:end], self.seen[end:]
        return found

    async def rest(self) -> bytes:
        """Return all up to the server's close."""
        with trio.fail_after(10):
            while data := await self.stream.receive_some():
                self.seen += data
        found, self.seen = self.seen, b""
        return found


@asynccontextmanager
async def connected(simulator: Simulator) -> AsyncIterator[Raw]:
    async with await trio.open_tcp_stream(simulator.host, simulator.port) as stream:
        yield Raw(stream)


async def becomes(expected: object, look: Any) -> None:
    """Wait until `look()` gives what is expected; the test's own deadline is 10 s."""
    with trio.fail_after(10):
        while look() != expected:
            await trio.sleep(0.002)
