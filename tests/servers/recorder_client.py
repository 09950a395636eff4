"""A recorder on a loopback port before a server that says what a test tells it to, and what it recorded."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio
from net.peer import Handler, listening
from simulated_client import Raw

from loadgen.net.route import Route
from loadgen.net.target import Address, Target
from loadgen.plan.recordings.ours import RecordedRequest, read_recording
from loadgen.servers.recorder import Habits, Recorder, open_book, parse_redactions, record


@dataclass
class Recording:
    """A recorder that runs, and its file."""

    recorder: Recorder
    path: Path
    said: list[str] = field(default_factory=list)

    def connect(self) -> Any:
        return connected(self.recorder)

    def lines(self) -> list[RecordedRequest]:
        """What is in the file now, in its order."""
        return read_recording(self.path) if self.path.stat().st_size else []

    async def wrote(self, count: int = 1) -> list[RecordedRequest]:
        """Wait until so many lines are in the file."""
        with trio.fail_after(10):
            while len(lines := self.lines()) < count:
                await trio.sleep(0.002)
        return lines


@asynccontextmanager
async def connected(recorder: Recorder) -> AsyncIterator[Raw]:
    async with await trio.open_tcp_stream(recorder.host, recorder.port) as stream:
        yield Raw(stream)


@asynccontextmanager
async def before(
    address: Address,
    folder: Path,
    *,
    redact: tuple[str, ...] = (),
    append: bool = False,
    target: Target | None = None,
    route: dict[str, Any] | None = None,
    **habits: Any,
) -> AsyncIterator[Recording]:
    """A recorder before the server at `address`; it is stopped, and has written all, at the end."""
    path = folder / "rec.jsonl"
    book = open_book(path, append=append)
    said: list[str] = []
    way = Route(target=target or Target("http", "upstream.test", 80), connect_timeout_s=5.0, **route or {})
    settings = Habits(redaction=parse_redactions(redact), **habits)
    try:
        async with trio.open_nursery() as nursery:
            recorder = await nursery.start(
                lambda task_status: record(way, address, book, settings, say=said.append, task_status=task_status)
            )
            yield Recording(recorder, path, said)
            recorder.stop()
            with trio.move_on_after(5) as patience:
                while nursery.child_tasks:
                    await trio.sleep(0.002)
            assert not patience.cancelled_caught, "the recorder does not stop"
    finally:
        book.close()


@asynccontextmanager
async def recording(handler: Handler, folder: Path, **options: Any) -> AsyncIterator[Recording]:
    """A recorder before a server that calls `handler(stream, number)` for each connection."""
    async with listening(handler) as address, before(address, folder, **options) as running:
        yield running


def get(path: str = "/", *, method: str = "GET", headers: str = "", version: str = "1.1") -> bytes:
    return f"{method} {path} HTTP/{version}\r\nhost: recorder\r\n{headers}\r\n".encode()


def post(body: bytes = b"{}", path: str = "/v1/chat/completions", *, headers: str = "") -> bytes:
    return f"POST {path} HTTP/1.1\r\nhost: recorder\r\n{headers}content-length: {len(body)}\r\n\r\n".encode() + body


def body_of(request: RecordedRequest) -> bytes:
    """The recorded answer's body, put together from its frames."""
    import base64

    assert request.response is not None
    frames = request.response.frames or []
    return b"".join(
        base64.b64decode(frame.b64) if frame.b64 is not None else (frame.data or "").encode() for frame in frames
    )


def nobody_listens() -> Address:
    """An address that refuses connections."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return Address(socket.AF_INET, sock.getsockname())
