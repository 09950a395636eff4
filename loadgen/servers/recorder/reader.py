"""Bytes -> HTTP/1.1 requests; no I/O."""

from collections import deque

import httptools

from loadgen.servers.recorder.message import Headers, Request

BODY_MOST_BYTES = 128 << 20
HEAD_MOST_BYTES = 256 << 10


class Refusal(Exception):
    """A request that is not passed on, and the answer it gets."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


class RequestReader:
    """Reads the requests of one connection, cut anywhere; nothing is raised.

    `ready` are requests that came whole and wait to be taken; `refusal`, once set, is why nothing more is read.
    `awaits_continue`: the client holds its body back until it is told to go on.
    """

    def __init__(self) -> None:
        self.ready: deque[Request] = deque()
        self.refusal: Refusal | None = None
        self.awaits_continue = False
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._at_ns = 0
        self._arrives_at_ns: int | None = None  # of a head that is read again
        self.on_message_begin()

    def feed(self, data: bytes, at_ns: int) -> None:
        """Take bytes that arrived by `at_ns`."""
        self._at_ns = at_ns
        while data and self._parser is not None and self.refusal is None:
            try:
                self._parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                data = self._head_without_offer() + data[upgrade.args[0] :]
            except httptools.HttpParserError as error:
                self.refusal = self.refusal or Refusal(400, "malformed_request", f"malformed HTTP: {error}")

    def _head_without_offer(self) -> bytes:
        """Return the head to be read again, without its offer to switch protocols; by a parser that has seen none.

        Nobody switches through us. But there are clients that offer it with every request, body and all, and once it
        has seen that, the parser takes what follows for the other protocol.
        """
        assert self._parser is not None
        arrived_ns, method, url = self._arrived_ns, self._parser.get_method(), b"".join(self._url)
        headers = [(name, value) for name, value in self._headers if name.lower() != b"upgrade"]
        lines = [b"%b %b HTTP/%b" % (method, url, self._parser.get_http_version().encode())]
        lines += [b"%b: %b" % pair for pair in headers]
        self._parser = httptools.HttpRequestParser(self)
        self._arrives_at_ns = arrived_ns
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def close(self) -> None:
        self._parser = None  # it refers back to this reader

    # -- llhttp's callbacks --------------------------------------------------

    def on_message_begin(self) -> None:
        self._arrived_ns = self._at_ns if self._arrives_at_ns is None else self._arrives_at_ns
        self._arrives_at_ns = None
        self._url: list[bytes] = []
        self._headers: Headers = []
        self._head_bytes = 0
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._keep_alive = False
        self._has_head = False

    def on_url(self, url: bytes) -> None:
        self._url.append(url)
        self._weigh(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._weigh(len(name) + len(value))
        if not self._has_head:  # or it is a trailer
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        self._has_head = True
        self._keep_alive = self._parser.should_keep_alive()
        values = {name.lower(): value for name, value in self._headers}
        if self._parser.get_method() == b"CONNECT":
            self._refuse(405, "no_tunnel", "this is a reverse proxy: it opens no tunnels")
        elif int(values.get(b"content-length", b"0")) > BODY_MOST_BYTES:
            self._refuse_body()
        else:
            self.awaits_continue = values.get(b"expect", b"").lower() == b"100-continue"

    def on_body(self, data: bytes) -> None:
        self.awaits_continue = False
        self._body_bytes += len(data)
        if self._body_bytes > BODY_MOST_BYTES:
            self._refuse_body()
        else:
            self._body.append(data)

    def on_message_complete(self) -> None:
        assert self._parser is not None
        self.awaits_continue = False
        if self.refusal is not None or self._parser.should_upgrade():
            return
        path = _path(b"".join(self._url))
        if path is None:
            self._refuse(400, "malformed_request", "the request's target is no path")
            return
        body = b"".join(self._body)
        self._body = []
        self.ready.append(
            Request(
                method=self._parser.get_method().decode("latin-1"),
                path=path,
                version=self._parser.get_http_version(),
                headers=self._headers,
                body=body,
                keep_alive=self._keep_alive,
                arrived_ns=self._arrived_ns,
                whole_ns=self._at_ns,
            )
        )

    def _weigh(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > HEAD_MOST_BYTES:
            self._refuse(431, "head_too_large", f"the request's head is longer than {HEAD_MOST_BYTES} bytes")

    def _refuse_body(self) -> None:
        self._body = []
        self._refuse(413, "body_too_large", f"the request's body is longer than {BODY_MOST_BYTES} bytes")

    def _refuse(self, status: int, kind: str, message: str) -> None:
        if self.refusal is None:
            self.refusal = Refusal(status, kind, message)


def _path(url: bytes) -> bytes | None:
    """Return the path and query of a request's target; None where it has none (`OPTIONS *`)."""
    if not url.startswith(b"/"):  # a client that takes us for its proxy names the host, too
        _, mark, rest = url.partition(b"://")
        slash = rest.find(b"/")
        url = b"/" if mark and slash < 0 else rest[slash:] if mark else b""
    return url.partition(b"#")[0] if url else None
