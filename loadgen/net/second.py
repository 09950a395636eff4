"""The second transport: HTTP/2 and proxies, by httpx, stamped when the library delivers a chunk.

Each request in flight has a connection of its own, over HTTP/2 too. The library would put a hundred streams on one, and
then a frame waits until it is its stream's turn to read: measured, up to the whole gap between two frames.
"""

import gc
import math
import socket
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import httpcore  # noqa: F401, or httpx would at the first request: a tenth of a second in the middle of a run
import httpx
import trio

from loadgen.net.complaints import Stage, broken_by, unconnected_by
from loadgen.net.exchange import Exchange
from loadgen.net.route import Route
from loadgen.net.target import Address
from loadgen.wire.ending import COMPLETE, Ending

# A connection that dies this soon after the request was written was dead before.
_DEAD_SOON_NS = 50_000_000
_SWEEP_S = 1.0  # how often idle connections that the server closed are let go
_GONE_MOST = 200
_ESTABLISHED = 1  # TCP_ESTABLISHED, the first byte of struct tcp_info
_NO_TIMEOUTS = {"connect": None, "read": None, "write": None, "pool": None}  # ours are scopes and deadlines
_TIMEOUTS: dict[Stage, str] = {"tcp": "timeout", "proxy": "proxy_timeout", "tls": "tls_timeout", "http": "timeout"}
_UNLIMITED = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=None)


class SecondTransport:
    """Performs exchanges with one target over HTTP/2 or through a proxy."""

    def __init__(self, route: Route, address: Address, *, epoch_ns: int) -> None:
        target, proxy = route.target, route.via
        self._route = route
        self._epoch_ns = epoch_ns
        self._context = route.trust.context(route.alpn)
        host, port = address.sockaddr[:2]
        self._proxy = None
        if proxy is not None:  # it resolves the target's name, we have resolved its own
            self._proxy = httpx.Proxy(httpx.URL(scheme="http", host=host, port=port), auth=proxy.credentials)
            host, port = target.host, target.port
        self._base = httpx.URL(scheme=target.scheme, host=host, port=port)
        self._urls: dict[bytes, _Url] = {}
        self._lanes: set[Lane] = set()
        self._idle: list[Lane] = []
        self._gone = 0  # connections since the last collection
        self.lags_ns: list[int] = []  # there is no telling

    @property
    def open(self) -> int:
        """Connections now, busy and idle."""
        return sum(lane.is_open for lane in self._lanes)

    def now(self) -> int:
        """Return ns since the run's start."""
        return time.monotonic_ns() - self._epoch_ns

    async def run(self) -> None:
        """Let go of idle connections that the server closed, and of what the library left of others."""
        while True:
            await trio.sleep(_SWEEP_S)
            for lane in [lane for lane in self._idle if not lane.looks_alive()]:
                self._idle.remove(lane)
                self._let_go(lane)
            if self._gone >= _GONE_MOST:
                # The library's connections are cycles, tens of kilobytes each, and nobody else collects under load.
                self._gone = 0
                gc.collect()

    def close(self) -> None:
        """Close every connection."""
        for lane in list(self._lanes):
            self._let_go(lane)

    async def perform(self, exchange: Exchange) -> None:
        """Send the request, return when the exchange has ended; its end is in it, and nothing is raised."""
        await self._perform_once(exchange, self._take_idle())
        ending = exchange.ending
        if exchange.untaken and ending is not None and ending.how == "cut" and not exchange.resent:
            exchange.again()
            await self._perform_once(exchange, None)

    async def _perform_once(self, exchange: Exchange, lane: "Lane | None") -> None:
        exchange.stamps = "chunk"
        exchange.reused = lane is not None
        if lane is None:
            lane = Lane(self._transport())
            self._lanes.add(lane)
        scope = trio.CancelScope(deadline=trio.current_time() + self._route.connect_timeout_s)
        sending = Sending(exchange, lane, scope, self.now)
        exchange.scope = scope
        try:
            if exchange.ending is None:
                with scope:
                    await sending.carry(self._request(exchange, sending))
        finally:
            exchange.scope = None
            if sending.ending is COMPLETE and exchange.ending is None and lane.is_open:
                self._idle.append(lane)
            else:
                with trio.CancelScope(shield=True), suppress(Exception):
                    await lane.transport.aclose()
                self._let_go(lane)
        if sending.ending is None:  # cut short: by an end that was set already and stands, or by the time-out
            sending.end(Ending("connect", _TIMEOUTS[sending.stage]))
        assert sending.ending is not None
        exchange.conclude(sending.ending, sending.end_ns)

    def _transport(self) -> httpx.AsyncHTTPTransport:
        # Without TLS there is no negotiating: a server of HTTP/2 is taken at its word.
        known = self._route.http2 and self._route.target.scheme == "http"
        return httpx.AsyncHTTPTransport(
            verify=self._context,
            trust_env=False,
            http1=not known,
            http2=self._route.http2,
            limits=_UNLIMITED,
            proxy=self._proxy,
        )

    def _request(self, exchange: Exchange, sending: "Sending") -> httpx.Request:
        """Return the library's form of a rendered request."""
        first, *lines = exchange.head.split(b"\r\n")[:-2]
        method, path, _ = first.split(b" ", 2)
        headers = [(name, value) for name, _, value in (line.partition(b": ") for line in lines)]
        extensions = {"trace": sending.trace, "timeout": _NO_TIMEOUTS, "sni_hostname": self._route.target.host}
        body = _Body(exchange.body)
        request = httpx.Request(method.decode(), self._base, headers=headers, stream=body, extensions=extensions)
        request.url = self._urls.get(path) or self._urls.setdefault(path, _Url(self._base, path))
        return request

    def _take_idle(self) -> "Lane | None":
        while self._idle:
            lane = self._idle.pop()
            if lane.looks_alive():
                return lane
            self._let_go(lane)
        return None

    def _let_go(self, lane: "Lane") -> None:
        self._gone += lane in self._lanes
        self._lanes.discard(lane)
        lane.close()


class _Url(httpx.URL):
    """A URL whose path goes out as it was rendered."""

    def __init__(self, base: httpx.URL, path: bytes) -> None:
        super().__init__(base)
        self._path = path

    @property
    def raw_path(self) -> bytes:
        return self._path


class _Body(httpx.AsyncByteStream):
    """A request's body in one piece, by an iterator that needs no finalizing where it is left half way."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._data:
            raise StopAsyncIteration
        data, self._data = self._data, b""
        return data


class Lane:
    """A library's transport that carries one exchange at a time, so that it has one connection at most."""

    def __init__(self, transport: httpx.AsyncHTTPTransport) -> None:
        self.transport = transport
        self.sock: Any = None  # trio's, once connected
        self.speaks_http2 = False

    @property
    def is_open(self) -> bool:
        return self.sock is not None and self.sock.fileno() >= 0

    def looks_alive(self) -> bool:
        """Ask the kernel: an idle connection must stand and, but for HTTP/2's pings and settings, be silent."""
        if not self.is_open:
            return False
        info = self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
        return info[0] == _ESTABLISHED and (self.speaks_http2 or not self.sock.is_readable())

    def close(self) -> None:
        """Close its socket, whatever the library thinks of it: a handshake that is cut short leaves it open."""
        if self.is_open:
            self.sock.close()


class _NotAgain(Exception):
    """The library was about to send a request a second time."""


class Sending:
    """One sending of one exchange: hears from the library what it does, and feeds the sink with what it delivers."""

    def __init__(self, exchange: Exchange, lane: Lane, scope: trio.CancelScope, now: Any) -> None:
        self._exchange = exchange
        self._lane = lane
        self._scope = scope
        self._now = now
        self.stage: Stage = "tcp"
        self.ending: Ending | None = None
        self.end_ns = 0

    def end(self, ending: Ending) -> None:
        """Note the end and its moment; the first one stands."""
        if self.ending is None:
            self.ending, self.end_ns = ending, self._now()

    async def carry(self, request: httpx.Request) -> None:
        """Send, and read until the end, which is noted; where the scope is cancelled there may be none."""
        exchange = self._exchange
        sink = exchange.sink
        try:
            response = await self._lane.transport.handle_async_request(request)
        except Exception as error:
            self._fail(error)
            return
        exchange.reads += 1
        headers = [(name.lower(), value) for name, value in response.headers.raw]
        sink.head(response.status_code, headers, self._now())
        assert isinstance(response.stream, httpx.AsyncByteStream)
        chunks = aiter(response.stream)
        while True:
            try:
                chunk = await anext(chunks, None)
            except Exception as error:
                self._fail(error)
                return
            if chunk is None:
                break
            if self.ending is None and exchange.ending is None:
                self._take(chunk)
            if exchange.held is not None:
                await exchange.held.wait()
        self.end(COMPLETE)
        await response.stream.aclose()

    def _take(self, chunk: bytes) -> None:
        exchange, now = self._exchange, self._now()
        sink = exchange.sink
        exchange.reads += 1
        sink.body(chunk, now, now)
        if sink.broken:
            self.end(Ending("stopped"))
            self._scope.cancel()  # the library then unwinds by itself
        elif sink.ended and not exchange.lingering:
            exchange.lingering = True
            exchange.owner.lingers(exchange)

    async def trace(self, name: str, info: dict[str, Any]) -> None:
        """Hear what the library is at: httpcore's trace extension."""
        what = name.partition(".")[2]
        if what == "send_request_headers.started":
            if info["request"].method == b"CONNECT":
                self.stage = "proxy"
            else:
                self._sent(name)
        elif what == "connect_tcp.started":
            self._once()
            self._exchange.reused = False
        elif what == "connect_tcp.complete":
            self._lane.sock = info["return_value"].get_extra_info("socket")
        elif what == "start_tls.started":
            self.stage = "tls"
        elif what == "start_tls.complete":
            self.stage = "http"

    def _sent(self, name: str) -> None:
        self._once()
        if self._scope.cancel_called:
            return
        exchange = self._exchange
        self._scope.deadline = math.inf  # the connection stands
        self.stage = "http"
        self._lane.speaks_http2 = name.startswith("http2.")
        exchange.transport = "http/2" if self._lane.speaks_http2 else "http/1.1"
        # The library has set it up by now, HTTP/2's own greetings included.
        exchange.connected_ns = exchange.sent_ns = self._now()
        if exchange.first_sent_ns is None:
            exchange.first_sent_ns = exchange.sent_ns
        exchange.owner.sent(exchange)

    def _once(self) -> None:
        if self._exchange.sent_ns is not None:
            raise _NotAgain

    def _fail(self, error: Exception) -> None:
        exchange = self._exchange
        if isinstance(error, _NotAgain):  # the server is going, and said that it had not taken it
            exchange.untaken = True
            self.end(Ending("cut", "goaway"))
            return
        if exchange.sent_ns is None:
            self.end(unconnected_by(error, stage=self.stage))
            return
        ending = broken_by(error, is_first=not exchange.reused and not exchange.reads)
        is_gone = ending in (Ending("cut", "closed"), Ending("cut", "reset"))
        exchange.untaken = (
            is_gone and exchange.reused and not exchange.reads and self._now() - exchange.sent_ns < _DEAD_SOON_NS
        )
        self.end(ending)
