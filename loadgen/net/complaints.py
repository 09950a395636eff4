"""What the HTTP library's exceptions mean: the end of an exchange, in the words of the fast path."""

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

import h2.errors
import h2.events
import h2.exceptions
import httpx

from loadgen.net.failures import cut, unconnected
from loadgen.net.tls import is_alert, word_of
from loadgen.wire.ending import Ending

Stage: TypeAlias = Literal["tcp", "proxy", "tls", "http"]  # what a sending waits for

# How the library says that the other side closed.
_is_gone = re.compile("server disconnected|peer closed connection", re.IGNORECASE).match


def unconnected_by(error: Exception, *, stage: Stage) -> Ending:
    """Return the end of an exchange that was never sent; raises what is no failure of a connection."""
    causes = list(_causes(error))
    if word := next(filter(None, map(word_of, causes)), ""):
        return Ending("connect", word)
    if isinstance(error, httpx.ProxyError):
        return Ending("connect", f"proxy_{str(error)[:3]}")
    if isinstance(error, httpx.LocalProtocolError):  # ours: the library will not send such a request
        return Ending("limit", _slug(error))
    if isinstance(error, httpx.RemoteProtocolError) and not _is_gone(str(error)):
        return Ending("connect", f"{stage}_malformed")
    code = _errno(causes)
    if stage == "tcp" and code is not None:
        return unconnected(code)
    if isinstance(error, httpx.TransportError | OSError):
        return Ending("connect", f"{stage}_{'closed' if code is None else cut(code).detail}")
    raise error


def broken_by(error: Exception, *, is_first: bool) -> Ending:
    """Return the end of an exchange that was sent; raises what is no failure of a connection.

    `is_first`: it was the first on its connection, and nothing was read.
    """
    causes = list(_causes(error))
    for cause in causes:
        if word := word_of(cause):
            if word == "tls_closed":
                return Ending("cut", "closed")
            if is_alert(cause) and is_first:
                return Ending("connect", word)
            return Ending("malformed", word if word.startswith("tls_") else f"tls_{word}")
        if ending := _http2_ending(cause):
            return ending
    if isinstance(error, httpx.NetworkError):
        code = _errno(causes)
        return Ending("cut", "closed") if code is None else cut(code)
    if isinstance(error, httpx.RemoteProtocolError) and _is_gone(str(error)):
        return Ending("cut", "closed")
    if isinstance(error, httpx.TransportError | ValueError):
        return Ending("malformed", _slug(error))
    raise error


def _http2_ending(cause: BaseException) -> Ending | None:
    for value in cause.args:
        if isinstance(value, h2.events.StreamReset):
            return Ending("cut" if value.remote_reset else "malformed", f"stream_reset_{_code(value.error_code)}")
        if isinstance(value, h2.events.ConnectionTerminated):
            return Ending("cut", f"goaway_{_code(value.error_code)}")
    match cause:
        case h2.exceptions.StreamClosedError():
            return Ending("cut", "stream_reset")
        case h2.exceptions.InvalidBodyLengthError():
            return Ending("cut", "closed")
        case h2.exceptions.H2Error():
            words = re.findall("[A-Z][a-z]*|[0-9]+", type(cause).__name__.removesuffix("Error"))
            return Ending("malformed", "_".join(["http2", *words]).lower())
    return None


def _code(code: h2.errors.ErrorCodes | int | None) -> str:
    """Return an error code of HTTP/2 as a word.

    >>> _code(h2.errors.ErrorCodes.INTERNAL_ERROR), _code(99)
    ('internal_error', '99')
    """
    return code.name.lower() if isinstance(code, h2.errors.ErrorCodes) else str(code)


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


def _slug(error: Exception) -> str:
    """Return a complaint as a word, without what it quotes of the server's bytes."""
    if "_SWITCH_UPGRADE" in str(error):
        return "upgrade"
    return "_".join(["http", *re.findall("[a-z0-9]+", str(error).partition(":")[0].lower())])[:65]
