"""A listening socket, and who comes to it."""

import errno
import socket
from collections.abc import Callable

import trio

_BACKLOG = 4096
# Connections accepted before reading gets its turn.
_BATCH = 64
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_RETRY_S = 0.05


async def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes any free one. Raises OSError."""
    found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


async def accept(listener: socket.socket, welcome: Callable[[socket.socket], None]) -> None:
    """Hand each connection to `welcome`, until cancelled."""
    while True:
        await trio.lowlevel.wait_readable(listener)
        for _ in range(_BATCH):
            try:
                connected, _ = listener.accept()
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno in _OUT_OF_DESCRIPTORS:
                    # The kernel keeps the client waiting; asking again at once would spin.
                    await trio.sleep(_RETRY_S)
                break
            welcome(connected)
