"""What a failed connection attempt is called, and whose fault it is: the server's or this machine's."""

import errno

from loadgen.wire.ending import Ending

# Ours, not the server's.
_LIMITS = {
    errno.EMFILE: "descriptors",
    errno.ENFILE: "descriptors",
    errno.EADDRNOTAVAIL: "ports",
    errno.ENOBUFS: "memory",
    errno.ENOMEM: "memory",
}
_REFUSALS = {
    errno.ECONNREFUSED: "refused",
    errno.ECONNRESET: "reset",
    errno.EHOSTUNREACH: "unreachable",
    errno.ENETUNREACH: "unreachable",
    errno.ETIMEDOUT: "timeout",
}


class NotConnected(Exception):
    """There is no connection: how its exchange ends, and the fact in words where the system has some."""

    def __init__(self, ending: Ending, fact: str | None = None) -> None:
        super().__init__(ending)
        self.ending = ending
        self.fact = fact


def unconnected(code: int | None) -> Ending:
    """Return the end of an exchange whose connection failed with this errno."""
    if code in _LIMITS:
        return Ending("limit", _LIMITS[code])
    return Ending("connect", _REFUSALS.get(code or 0) or errno.errorcode.get(code or 0, "error").lower())


def cut(code: int | None) -> Ending:
    """Return the end of an exchange whose connection broke with this errno."""
    reset = code in (errno.ECONNRESET, errno.EPIPE)
    return Ending("cut", "reset" if reset else errno.errorcode.get(code or 0, "error").lower())
