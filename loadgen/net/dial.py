"""One new connection: TCP, then TLS where the target wants it, within one time-out for both."""

import errno
import os
import socket
from contextlib import suppress

import trio

from loadgen.net.failures import NotConnected, unconnected
from loadgen.net.stamps import ask_for_stamps
from loadgen.net.target import Address
from loadgen.net.tls import Tls, TlsClient, TlsFailure
from loadgen.wire.ending import Ending

_READ_BYTES = 65536


class Dialler:
    """Connects to one address; `tls` is None for plain HTTP."""

    def __init__(self, address: Address, tls: TlsClient | None) -> None:
        self._address = address
        self._tls = tls

    async def dial(self, scope: trio.CancelScope) -> tuple[socket.socket, Tls | None]:
        """Return an open socket, and the TLS on it, its handshake done; raises NotConnected.

        Whatever must be waited for is waited for in `scope`, whose deadline is the time-out.
        """
        sock = None
        try:
            sock = socket.socket(self._address.family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ask_for_stamps(sock)
            return sock, await self._connect(sock, scope)
        except BaseException as error:
            if sock is not None:
                trio.lowlevel.notify_closing(sock)
                sock.close()
            if isinstance(error, OSError):
                raise NotConnected(unconnected(error.errno), error.strerror) from None
            raise

    async def _connect(self, sock: socket.socket, scope: trio.CancelScope) -> Tls | None:
        code = sock.connect_ex(self._address.sockaddr)
        tls = None
        if code == errno.EINPROGRESS or (self._tls is not None and not code):
            with scope:
                if code == errno.EINPROGRESS:
                    await trio.lowlevel.wait_writable(sock)
                    code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if self._tls is not None and not code:
                    tls = self._tls.start()
                    await _shake_hands(sock, tls)
            if scope.cancelled_caught:  # by the time-out; or by an end that was set already, which stands
                raise NotConnected(Ending("connect", "timeout" if tls is None else "tls_timeout"))
        if code:
            raise NotConnected(unconnected(code), os.strerror(code))
        return tls


async def _shake_hands(sock: socket.socket, tls: Tls) -> None:
    data = b""
    try:
        while not tls.handshake(data):
            await _send(sock, tls.to_send())
            await trio.lowlevel.wait_readable(sock)
            data = sock.recv(_READ_BYTES)
            if not data:
                raise NotConnected(Ending("connect", "tls_closed"))
        await _send(sock, tls.to_send())
    except TlsFailure as failure:
        with suppress(OSError):  # tell the other side why, if it still listens
            sock.send(tls.to_send())
        raise NotConnected(Ending("connect", failure.word)) from None
    except ConnectionError:
        raise NotConnected(Ending("connect", "tls_reset")) from None
    # What came with the handshake's last record would wait unseen: the socket has nothing more to say of it.
    unasked = tls.decrypt(b"")
    if tls.failure is not None:
        raise NotConnected(Ending("connect", tls.failure))
    if unasked or tls.closed:
        raise NotConnected(Ending("connect", "tls_closed" if tls.closed else "tls_unasked"))


async def _send(sock: socket.socket, data: bytes) -> None:
    while data:
        try:
            data = data[sock.send(data) :]
        except BlockingIOError:
            await trio.lowlevel.wait_writable(sock)
