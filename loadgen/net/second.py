"""The second transport: HTTP/2 and proxies, by httpx, stamped when the library delivers a chunk.

Each request in flight has a connection of its own, over HTTP/2 too. The library would put a hundred streams on one, and
then a frame waits until it is its stream's turn to read: measured, up to the whole gap between two frames.
"""

import gc
import math
import re
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any, Literal

import h2.errors
import h2.events
import h2.exceptions
import httpcore  # noqa: F401, or httpx would at the first request: a tenth of a second in the middle of a run
import httpx
import trio

from loadgen.net.exchange import Exchange
from loadgen.net.failures import cut, unconnected
from loadgen.net.route import Route
from loadgen.net.target import Address
from loadgen.net.tls import is_alert, word_of
from loadgen.wire.ending import COMPLETE, Ending

# A connection that dies this soon after the request was written was dead before.
_DEAD_SOON_NS = 50_000_000
_SWEEP_S = 1.0  # how often idle connections that the server closed are let go
_GONE_MOST = 200
_ESTABLISHED = 1  # TCP_ESTABLISHED, the first byte of struct tcp_info
_NO_TIMEOUTS = {"connect": None, "read": None, "write": None, "pool": None}  # ours are scopes and deadlines
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
        self.stage: Literal["tcp", "proxy", "tls", "http"] = "tcp"
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
        causes = list(_causes(error))
        if exchange.sent_ns is None:
            self.end(self._unconnected(error, causes))
            return
        ending = self._broken(error, causes)
        is_gone = ending in (Ending("cut", "closed"), Ending("cut", "reset"))
        exchange.untaken = (
            is_gone and exchange.reused and not exchange.reads and self._now() - exchange.sent_ns < _DEAD_SOON_NS
        )
        self.end(ending)

    def _unconnected(self, error: Exception, causes: list[BaseException]) -> Ending:
        """Name what kept the request from being sent."""
        if word := next(filter(None, map(word_of, causes)), ""):
            return Ending("connect", word)
        if isinstance(error, httpx.ProxyError):
            return Ending("connect", f"proxy_{str(error)[:3]}")
        if isinstance(error, httpx.LocalProtocolError):  # of ours: the library cannot send it
            return Ending("limit", _slug(error))
        if isinstance(error, httpx.RemoteProtocolError) and not _GONE(str(error)):
            return Ending("connect", f"{self.stage}_malformed")
        code = _errno(causes)
        if self.stage == "tcp" and code is not None:
            return unconnected(code)
        if isinstance(error, httpx.TransportError | OSError):
            return Ending("connect", f"{self.stage}_{'closed' if code is None else cut(code).detail}")
        raise error

    def _broken(self, error: Exception, causes: list[BaseException]) -> Ending:
        """Name what broke the connection after the request was sent."""
        for cause in causes:
            if word := word_of(cause):
                if is_alert(cause) and not self._exchange.reused and not self._exchange.reads:
                    return Ending("connect", word)
                return Ending("malformed", word if word.startswith("tls_") else f"tls_{word}")
            for value in cause.args:
                if isinstance(value, h2.events.StreamReset):
                    return Ending("cut" if value.remote_reset else "malformed", _coded("stream_reset", value))
                if isinstance(value, h2.events.ConnectionTerminated):
                    return Ending("cut", _coded("goaway", value))
            if isinstance(cause, h2.exceptions.StreamClosedError):
                return Ending("cut", "stream_reset")
            if isinstance(cause, h2.exceptions.InvalidBodyLengthError):
                return Ending("cut", "closed")
            if isinstance(cause, h2.exceptions.H2Error):
                return Ending("malformed", _snake("http2", cause))
        if isinstance(error, httpx.NetworkError):
            code = _errno(causes)
            return Ending("cut", "closed") if code is None else cut(code)
        if isinstance(error, httpx.RemoteProtocolError):
            return Ending("cut", "closed") if _GONE(str(error)) else Ending("malformed", _slug(error))
        if isinstance(error, httpx.TransportError | ValueError):
            return Ending("malformed", _slug(error))
        raise error


# How the library says that the other side closed.
_GONE = re.compile("server disconnected|peer closed connection", re.IGNORECASE).match
_TIMEOUTS = {"tcp": "timeout", "proxy": "proxy_timeout", "tls": "tls_timeout", "http": "timeout"}


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and everything that led to it, the nearest first."""
    found: list[BaseException] = [error]
    for one in found:
        yield one
        more = [one.__cause__, *one.args, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            more += one.exceptions
        found += [other for other in more if isinstance(other, BaseException) and other not in found]


def _errno(causes: list[BaseException]) -> int | None:
    return next((cause.errno for cause in causes if isinstance(cause, OSError) and cause.errno), None)


def _coded(word: str, event: h2.events.StreamReset | h2.events.ConnectionTerminated) -> str:
    """Return the word with the code's own behind it.

    >>> _coded("goaway", h2.events.StreamReset(stream_id=1, error_code=h2.errors.ErrorCodes.INTERNAL_ERROR))
    'goaway_internal_error'
    """
    code = event.error_code
    return f"{word}_{code.name.lower() if isinstance(code, h2.errors.ErrorCodes) else code}"


def _snake(before: str, error: BaseException) -> str:
    words = re.findall("[A-Z][a-z]*|[0-9]+", type(error).__name__.removesuffix("Error"))
    return "_".join([before, *words]).lower()


def _slug(error: Exception) -> str:
    """Return an HTTP library's complaint as a word, without what it quotes of the server's bytes."""
    if "_SWITCH_UPGRADE" in str(error):
        return "upgrade"
    return "_".join(["http", *re.findall("[a-z0-9]+", str(error).partition(":")[0].lower())])[:65]
