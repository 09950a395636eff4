"""One HTTP/1.1 connection: writes a request, feeds what the pump reads to llhttp and to the exchange's sink."""

import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, TypeAlias

import httptools
import trio

from loadgen.net.exchange import Exchange
from loadgen.net.failures import cut
from loadgen.net.stamps import ANCILLARY_BYTES, stamp_of
from loadgen.net.tls import Tls
from loadgen.wire.ending import COMPLETE, Ending

if TYPE_CHECKING:
    from loadgen.net.pump import Pump

READ_BYTES = 65536
MAX_HEAD_BYTES = 64 * 1024
# A reset this soon after the request was written is the answer to a socket that was dead before.
_RESET_SOON_NS = 50_000_000
# tcpi_bytes_acked in <linux/tcp.h>; it counts the SYN as one.
_BYTES_ACKED = struct.Struct("Q").unpack_from
_BYTES_ACKED_AT = 120
_PEEKS = 3  # at an idle connection, before it is called restless

Ancillary: TypeAlias = list[tuple[int, int, bytes]]


class Connection:
    """An open socket that the pump reads; carries one exchange at a time."""

    __slots__ = (
        "_acked_before",
        "_at_ns",
        "_complete",
        "_epoch_ns",
        "_floor_ns",
        "_head_bytes",
        "_headers",
        "_is_alive",
        "_on_idle",
        "_parser",
        "_pump",
        "_recvmsg",
        "_reusable",
        "_sized",
        "_status",
        "_stray",
        "_take",
        "_tls",
        "_unwritten",
        "exchange",
        "fd",
        "sock",
    )

    def __init__(
        self, sock: socket.socket, tls: Tls | None, pump: "Pump", on_idle: "Callable[[Connection, bool], None]"
    ) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.exchange: Exchange | None = None
        self._tls = tls
        self._recvmsg = sock.recvmsg
        self._pump = pump
        self._epoch_ns = pump.epoch_ns
        self._on_idle = on_idle  # told when it can carry the next exchange, and when it is gone
        self._parser: Any = httptools.HttpResponseParser(self)  # None once closed
        self._is_alive = True
        self._unwritten: list[memoryview] = []
        self._acked_before = 0
        self._fresh()
        pump.add(self)

    def _fresh(self) -> None:
        self._headers: list[tuple[bytes, bytes]] = []
        self._status = 0
        self._head_bytes = 0
        self._sized = False  # the message says where it ends
        self._complete = False
        self._reusable = False
        self._stray = False  # bytes came after its end
        self._take = _ignore  # who gets body bytes

    # -- our side ------------------------------------------------------------

    async def carry(self, exchange: Exchange) -> None:
        """Write the request; returns when it is written, or when the exchange ended before that."""
        self._fresh()
        self.exchange = exchange
        exchange.wire = self
        exchange.transport = "http/1.1"
        parts = (exchange.head, exchange.body)
        if self._tls is not None:
            parts = (self._tls.encrypt(exchange.head + exchange.body), b"")
        self._unwritten = [memoryview(part) for part in parts if part]
        self._acked_before = self._bytes_acked() if exchange.reused else 0
        exchange.sent_ns = self._pump.now()
        if exchange.first_sent_ns is None:
            exchange.first_sent_ns = exchange.sent_ns
        broken = self._write()
        exchange.owner.sent(exchange)
        if broken is not None:
            if self._tls is not None:  # why it was closed may be there to be read: an alert
                self._pump.read(self)
            self._lost(cut(broken.errno))
        elif self._unwritten:
            await self._write_rest(exchange)

    def _write(self) -> OSError | None:
        """Write what the socket takes now; return what broke it."""
        try:
            sent = self.sock.sendmsg(self._unwritten)
        except BlockingIOError:
            return None
        except OSError as error:
            return error
        while self._unwritten and sent >= len(self._unwritten[0]):
            sent -= len(self._unwritten.pop(0))
        if self._unwritten:
            self._unwritten[0] = self._unwritten[0][sent:]
        return None

    async def _write_rest(self, exchange: Exchange) -> None:
        with trio.CancelScope() as exchange.scope:  # cancelled when the response ends first: an early refusal
            while self._unwritten and exchange.ending is None:
                try:
                    await trio.lowlevel.wait_writable(self.sock)
                except trio.ClosedResourceError:
                    break
                if (broken := self._write()) is not None:
                    # What the server answered before it closed may still be there to be read.
                    self._pump.read(self)
                    self._lost(cut(broken.errno))
        exchange.scope = None

    def looks_alive(self) -> bool:
        """Peek: an idle connection must have nothing to say, but for what TLS says to itself."""
        for _ in range(_PEEKS):
            try:
                self.sock.recv(1, socket.MSG_PEEK)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if self._tls is None:
                return False
            self._pump.read(self)
            if not self._is_alive:
                return False
        return False

    def abort(self) -> None:
        """Close at once, telling nobody."""
        self.exchange = None
        self.close()

    def watch(self, wanted: bool) -> None:
        """Have the pump read on, or no more until told."""
        if self._is_alive:
            self._pump.watch(self, wanted)

    def close(self) -> None:
        """Close the socket; breaks the cycle with the parser, so that nothing waits for a collector."""
        if self._is_alive:
            self._is_alive = False
            self._pump.remove(self)
            if self._tls is not None and not self._unwritten:
                with suppress(OSError):
                    self.sock.send(self._tls.farewell())
            trio.lowlevel.notify_closing(self.sock)
            self.sock.close()
            self._parser = self._tls = None
            self._take = _ignore
            self._unwritten = []
            self._on_idle(self, False)

    # -- the pump's side -----------------------------------------------------

    def read(self, offset_ns: int, floor_ns: int) -> int:
        """Read once, without waiting; return how many ns the kernel's stamp was ahead of us, -1 for no stamp."""
        try:
            data, ancillary, _, _ = self._recvmsg(READ_BYTES, ANCILLARY_BYTES)
        except BlockingIOError:
            return -1
        except OSError as error:
            self._lost(cut(error.errno))
            return -1
        if self._tls is not None:
            return self._read_sealed(self._tls, data, ancillary, offset_ns, floor_ns)
        if not data:
            self._end_of_file(is_sure=True)
            return -1
        return self._feed(data, ancillary, offset_ns, floor_ns)

    def _read_sealed(self, tls: Tls, data: bytes, ancillary: Ancillary, offset_ns: int, floor_ns: int) -> int:
        """Read through TLS; records that carry no plaintext are between it and the other side."""
        plain = tls.decrypt(data)
        if reply := tls.to_send():
            self._unwritten.append(memoryview(reply))
            self._write()  # what breaks it will be read, too
        lag = self._feed(plain, ancillary, offset_ns, floor_ns) if plain else -1
        if tls.failure is not None:
            self._unsealed(tls, tls.failure)
        elif tls.closed or not data:
            self._end_of_file(is_sure=tls.closed)
        return lag

    def _unsealed(self, tls: Tls, word: str) -> None:
        """TLS itself failed; a server of TLS 1.3 says only now that it does not like our certificate."""
        exchange = self.exchange
        if exchange is None:
            self.close()
            return
        if tls.by_alert and not exchange.reused and not exchange.reads:
            ending = Ending("connect", word)
        else:
            ending = Ending("malformed", word if word.startswith("tls_") else f"tls_{word}")
        self._end(exchange, ending, self._pump.now())

    def _feed(self, data: bytes, ancillary: Ancillary, offset_ns: int, floor_ns: int) -> int:
        exchange = self.exchange
        if exchange is None:  # an idle connection has nothing to say: it is out of step
            self.close()
            return -1
        now = monotonic_ns() - self._epoch_ns
        exchange.reads += 1
        stamp = stamp_of(ancillary, offset_ns, exchange.sent_ns or 0, now) if ancillary else None
        if stamp is None:
            exchange.stamps = "read"
        self._at_ns = now if stamp is None else stamp
        self._floor_ns = floor_ns
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._misread(exchange, error)
        if self._complete:
            self._end(exchange, COMPLETE, self._at_ns)
        elif exchange.sink.ended or not self._status:
            self._weigh(exchange, len(data))
        return -1 if stamp is None else now - stamp

    def _misread(self, exchange: Exchange, error: Exception) -> None:
        """Take what llhttp refused; after the end of the message it only makes the connection unusable."""
        if isinstance(error, httptools.HttpParserCallbackError):
            raise error.__context__ or error from None  # a fault of ours, not of the bytes
        if isinstance(error, httptools.HttpParserUpgrade):
            self._complete = False
            self._end(exchange, Ending("malformed", "upgrade"), self._at_ns)
        elif self._complete:
            self._stray = True
        else:
            self._end(exchange, Ending("malformed", _http_word(error)), self._at_ns)

    def _weigh(self, exchange: Exchange, size: int) -> None:
        """Decide on a message that is not complete, and of which we may have had enough."""
        if self.exchange is None:
            return  # it has ended
        if exchange.sink.broken:
            self._end(exchange, Ending("stopped"), self._at_ns)
        elif exchange.sink.ended:
            if not exchange.lingering:
                exchange.lingering = True
                exchange.owner.lingers(exchange)
        else:
            self._head_bytes += size
            if self._head_bytes > MAX_HEAD_BYTES:
                self._end(exchange, Ending("malformed", "head_too_large"), self._at_ns)

    def _end_of_file(self, *, is_sure: bool) -> None:
        """Take the end of what can be read; over TLS it is only sure when TLS says so itself."""
        if self.exchange is None or not self._status or self._sized:
            self._lost(Ending("cut", "closed"))
        elif is_sure:
            self._end(self.exchange, COMPLETE, self._pump.now())  # a body that ends with its connection
        else:
            self._lost(Ending("cut", "tls_eof"))

    def _lost(self, ending: Ending) -> None:
        """The connection is gone under its exchange."""
        exchange = self.exchange
        if exchange is None:
            self.close()
            return
        now = self._pump.now()
        if exchange.reused and not exchange.reads and exchange.sent_ns is not None:
            soon = now - exchange.sent_ns < _RESET_SOON_NS
            exchange.untaken = soon or 0 <= self._bytes_acked() == self._acked_before
        self._end(exchange, ending, now)

    def _end(self, exchange: Exchange, ending: Ending, at_ns: int) -> None:
        self.exchange = None
        if self._tls is not None and self._status:
            self._tls.keep_session()
        keep = ending is COMPLETE and not self._stray and not self._unwritten and not exchange.is_head
        if keep and self._sized and self._reusable:
            if exchange.held is not None:
                self.watch(True)
            self._on_idle(self, True)
        else:
            self.close()
        exchange.conclude(ending, at_ns)

    def _bytes_acked(self) -> int:
        try:
            info = self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
        except OSError:
            return -1
        return int(_BYTES_ACKED(info, _BYTES_ACKED_AT)[0]) if len(info) >= _BYTES_ACKED_AT + 8 else -1

    # -- llhttp's callbacks --------------------------------------------------

    def on_message_begin(self) -> None:
        self._stray = self._complete

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        exchange = self.exchange
        if status < 200 and status != 101:
            if exchange is not None and exchange.on_interim is not None and not self._complete:
                exchange.on_interim(status, self._headers)
            return
        if self._complete or exchange is None:
            return
        self._status = status
        self._sized = status in (204, 304) or any(
            name in (b"content-length", b"transfer-encoding") for name, _ in self._headers
        )
        exchange.sink.head(status, self._headers, self._at_ns)
        if exchange.is_head:
            self._complete = True
        else:
            self._take = exchange.sink.body

    def on_body(self, data: bytes) -> None:
        self._take(data, self._at_ns, self._floor_ns)

    def on_message_complete(self) -> None:
        if self._status:
            self._complete, self._take = True, _ignore
            self._reusable = self._parser.should_keep_alive()  # llhttp forgets it with the message
        else:  # an interim response (100, 103): the real one is still to come
            self._headers = []


def _ignore(data: bytes, at_ns: int, floor_ns: int) -> None:
    """Take body bytes that belong to no message of ours."""


def _http_word(error: Exception) -> str:
    return "http_" + "_".join(str(error).lower().split())[:60]
