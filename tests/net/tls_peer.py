"""A TLS server on a real loopback socket, the authority that signs for it, and the ways to disturb what it writes."""

import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import trio
import trustme
from net.peer import ANSWER, Client, Handler, peer

from loadgen.net.target import Address
from loadgen.net.tls import Trust

LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
FAR_AHEAD = datetime(2199, 1, 1, tzinfo=UTC)


class Authority:
    """A certificate authority, and files and contexts made of what it signs."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._ca = trustme.CA()
        self._folder = folder
        self.path = folder / f"{name}.pem"
        self._ca.cert_pem.write_to_path(self.path)

    @property
    def trust(self) -> Trust:
        return Trust(cacert=self.path)

    def server(self, *names: str, versions: str = "", self_signed: bool = False, **options: Any) -> ssl.SSLContext:
        """A server's context; `versions` is "1.2" or "1.3" for that one only."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if versions:
            context.minimum_version = context.maximum_version = ssl.TLSVersion[f"TLSv{versions.replace('.', '_')}"]
        if self_signed:
            key = self._folder / "ca.key"
            self._ca.private_key_pem.write_to_path(key)
            context.load_cert_chain(self.path, key)
        else:
            self._ca.issue_cert(*names or ("127.0.0.1",), **options).configure_cert(context)
        return context

    def files(self, *names: str) -> tuple[Path, Path]:
        """The files of a server's certificate and key."""
        issued = self._ca.issue_cert(*names)
        cert, key = self._folder / "server.pem", self._folder / "server.key"
        issued.cert_chain_pems[0].write_to_path(cert)
        issued.private_key_pem.write_to_path(key)
        return cert, key

    def client(self, name: str = "client") -> tuple[Path, Path]:
        """The files of a client's certificate and key."""
        issued = self._ca.issue_cert(f"{name}@test")
        cert, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        issued.cert_chain_pems[0].write_to_path(cert)
        issued.private_key_pem.write_to_path(key)
        return cert, key

    def asks(self, context: ssl.SSLContext) -> ssl.SSLContext:
        """Have a server's context require a certificate of ours."""
        context.verify_mode = ssl.CERT_REQUIRED
        self._ca.configure_trust(context)
        return context


class Disturbed(trio.abc.Stream):
    """A stream whose writes go out in pieces of `size` bytes, a moment apart; or only when `release` is called."""

    def __init__(self, stream: trio.SocketStream, *, size: int = 0) -> None:
        self.stream = stream
        self.size = size
        self.is_holding = False
        self.held = b""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if self.is_holding:
            self.held += data
            await trio.lowlevel.checkpoint()
            return
        step = self.size or len(data)
        for start in range(0, len(data), step):
            await self.stream.send_all(data[start : start + step])
            await trio.sleep(0.0005 if self.size else 0)

    async def release(self) -> None:
        self.is_holding, held, self.held = False, self.held, b""
        await self.send_all(held)

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self.stream.receive_some(max_bytes)

    async def wait_send_all_might_not_block(self) -> None:
        await self.stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self.stream.aclose()


def over_tls(
    handler: Handler, context: ssl.SSLContext, *, size: int = 0, tell: Callable[[Any], Awaitable[None]] | None = None
) -> Handler:
    """Serve TLS; the handler's stream is trio's SSLStream, which ends with close_notify unless it is told otherwise."""

    async def serve(stream: trio.SocketStream, number: int) -> None:
        sealed = trio.SSLStream(Disturbed(stream, size=size), context, server_side=True)
        with suppress(trio.BrokenResourceError):  # the client would not have us
            await sealed.do_handshake()
            if tell is not None:
                await tell(sealed)
            await handler(sealed, number)
            await sealed.aclose()

    return serve


@contextmanager
def stdlib_server(context: ssl.SSLContext, reply: Callable[[ssl.SSLSocket], None]) -> Iterator[Address]:
    """A server of the standard library's in a thread of its own, which sends its alerts, and closes after one reply."""

    def serve() -> None:
        while True:
            with suppress(OSError), listener.accept()[0] as sock, context.wrap_socket(sock, server_side=True) as sealed:
                reply(sealed)
            if listener.fileno() < 0:
                return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = Address(socket.AF_INET, listener.getsockname())
        thread = threading.Thread(target=serve)
        thread.start()
        yield address
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def answer_once(sealed: ssl.SSLSocket) -> None:
    sealed.recv(65536)
    sealed.sendall(ANSWER)


@asynccontextmanager
async def tls_peer(
    handler: Handler, context: ssl.SSLContext, trust: Trust, *, size: int = 0, **route: Any
) -> AsyncIterator[Client]:
    """A client of a TLS server that calls `handler(stream, number)` for each connection."""
    async with peer(over_tls(handler, context, size=size), scheme="https", trust=trust, **route) as client:
        yield client
