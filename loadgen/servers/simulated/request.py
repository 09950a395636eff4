"""Bytes -> HTTP/1.1 requests; no I/O."""

from collections import deque

import httptools
import msgspec

from loadgen.servers.simulated.responses import RefusedError

BODY_LIMIT_BYTES = 64 << 20
_HEAD_LIMIT_BYTES = 64 << 10


class Request(msgspec.Struct, frozen=True):
    """One request that came whole; `wish` is its x-sim header."""

    method: str
    path: str  # without the query
    query: str
    version: str
    keep_alive: bool
    wish: str
    body: bytes
    id: str | None = None  # its x-request-id


class RequestReader:
    """Reads the requests of one connection, cut anywhere; nothing is raised.

    `ready` are requests that came whole and wait to be taken; `refusal`, once set, is why nothing more is read.
    `awaits_continue`: the client holds its body back until it is told to go on.
    """

    def __init__(self) -> None:
        self.ready: deque[Request] = deque()
        self.refusal: RefusedError | None = None
        self.awaits_continue = False
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self.on_message_begin()

    def feed(self, data: bytes) -> None:
        while data and self._parser is not None and self.refusal is None:
            try:
                self._parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                # We never switch protocols; a client that offers to must go on without.
                data = data[upgrade.args[0] :]
            except httptools.HttpParserError as error:
                self.refusal = self.refusal or RefusedError(400, f"malformed HTTP: {error}")

    def close(self) -> None:
        self._parser = None  # it refers back to this reader

    def on_message_begin(self) -> None:
        self._url = b""
        self._wish = b""
        self._id: bytes | None = None
        self._head_bytes = 0
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._declared_bytes = 0
        self._expects = False
        self._keep_alive = False

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._weigh(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._weigh(name + value)
        match name.lower():
            case b"x-sim":
                self._wish = value
            case b"x-request-id":
                self._id = value
            case b"expect":
                self._expects = value.lower() == b"100-continue"
            case b"content-length":
                self._declared_bytes = int(value)

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        self._keep_alive = self._parser.should_keep_alive()
        if self._declared_bytes > BODY_LIMIT_BYTES:
            self._refuse_body()
        else:
            self.awaits_continue = self._expects

    def on_body(self, data: bytes) -> None:
        self.awaits_continue = False
        self._body.append(data)
        self._body_bytes += len(data)
        if self._body_bytes > BODY_LIMIT_BYTES:
            self._refuse_body()

    def on_message_complete(self) -> None:
        assert self._parser is not None
        self.awaits_continue = False
        if self.refusal is not None:
            return
        try:
            url = httptools.parse_url(self._url)
            path, query = url.path or b"/", url.query or b""
        except httptools.HttpParserInvalidURLError:
            path, query = self._url, b""
        self.ready.append(
            Request(
                method=self._parser.get_method().decode("latin-1"),
                path=path.decode("latin-1"),
                query=query.decode("latin-1"),
                version=self._parser.get_http_version(),
                keep_alive=self._keep_alive,
                wish=self._wish.decode("latin-1"),
                body=b"".join(self._body),
                id=None if self._id is None else self._id.decode("latin-1"),
            )
        )
        self._body = []

    def _weigh(self, piece: bytes) -> None:
        self._head_bytes += len(piece)
        if self._head_bytes > _HEAD_LIMIT_BYTES and self.refusal is None:
            self.refusal = RefusedError(431, f"the request's head is longer than {_HEAD_LIMIT_BYTES} bytes")

    def _refuse_body(self) -> None:
        self._body = []
        if self.refusal is None:
            self.refusal = RefusedError(413, f"the request's body is longer than {BODY_LIMIT_BYTES} bytes")
