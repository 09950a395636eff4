"""Servers of HTTP/2 on real loopback sockets: hypercorn for what is regular, h2 by hand for what is not."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from net.peer import CHAT, DONE, Client, client_of

from loadgen.net.target import Address

HEADERS = [(b"content-type", b"text/event-stream")]
Respond = Callable[[dict[str, Any], Callable[[], Awaitable[bytes]], Callable[..., Awaitable[None]]], Awaitable[None]]


class Hypercorn:
    """An ASGI application served over HTTP/2 (and 1.1); counts connections by their clients' ports."""

    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self.versions: list[str] = []
        self.clients: list[tuple[str, int]] = []
        self.bodies: list[bytes] = []

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while True:
                kind = (await receive())["type"]
                await send({"type": f"{kind}.complete"})
                if kind == "lifespan.shutdown":
                    return
        self.versions.append(scope["http_version"])
        self.clients.append(tuple(scope["client"]))

        async def body() -> bytes:
            whole, message = b"", {"more_body": True}
            while message.get("more_body"):
                message = await receive()
                whole += message.get("body", b"")
            return whole

        async def write(data: bytes = b"", *, status: int = 0, headers: Any = HEADERS, more: bool = True) -> None:
            if status:
                await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": data, "more_body": more})

        self.bodies.append(await body())
        await self._respond(scope, body, write)


async def stream_an_answer(scope: Any, body: Any, write: Any) -> None:
    await write(status=200)
    for data in (CHAT, CHAT, DONE):
        await trio.sleep(0.01)
        await write(data)
    await write(more=False)


@asynccontextmanager
async def hypercorn(
    respond: Respond, *, files: tuple[Path, Path] | None = None, **settings: Any
) -> AsyncIterator[tuple[Hypercorn, Address]]:
    """A running server and where; over TLS with these files of a certificate and its key."""
    config, app = Config(), Hypercorn(respond)
    config.bind = ["127.0.0.1:0"]
    config.errorlog = None
    config.graceful_timeout = 0.1
    for name, value in settings.items():
        setattr(config, name, value)
    if files is not None:
        config.certfile, config.keyfile = map(str, files)
    async with trio.open_nursery() as nursery:
        binds = await nursery.start(serve, app, config)
        yield app, Address(trio.socket.AF_INET, ("127.0.0.1", int(binds[0].rpartition(":")[2])))
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def http2_peer(respond: Respond, **route: Any) -> AsyncIterator[tuple[Hypercorn, Client]]:
    """A client by prior knowledge of a hypercorn in plain."""
    async with hypercorn(respond) as (app, address), client_of(address, http2=True, **route) as client:
        yield app, client


class ByHand:
    """The server's side of one connection, to do with it what no server would."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding=None))
        self.h2.initiate_connection()

    async def request(self) -> int:
        """Read one whole request; return its stream's id, 0 when the client left."""
        await self.flush()
        while data := await self._stream.receive_some():
            for event in self.h2.receive_data(bytes(data)):
                if isinstance(event, h2.events.StreamEnded):
                    await self.flush()
                    return event.stream_id
            await self.flush()
        return 0

    async def begin(self, stream_id: int, data: bytes = CHAT, *, headers: Any = HEADERS) -> None:
        self.h2.send_headers(stream_id, [(b":status", b"200"), *headers])
        self.h2.send_data(stream_id, data)
        await self.flush()

    async def flush(self) -> None:
        await self._stream.send_all(self.h2.data_to_send())
