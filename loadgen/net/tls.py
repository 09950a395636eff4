"""TLS without a socket: whom we trust, ciphertext to plaintext and back, and one word for whatever goes wrong."""

import ssl
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import monotonic

from loadgen.errors import UsageError

_RECORD_BYTES = 16384  # the most plaintext that one record holds
_KEEP_EVERY_S = 60.0
_FIRST_BYTES = (0x15, 0x16)  # what a TLS server can begin with: an alert or a handshake record


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Whose certificates we accept, and the one we show."""

    cacert: Path | None = None  # in place of the system's authorities
    cert: Path | None = None
    key: Path | None = None
    insecure: bool = False

    def context(self, alpn: tuple[str, ...] = ("http/1.1",)) -> ssl.SSLContext:
        """Return a client's context, TLS 1.2 or newer; raises UsageError for files that will not do."""
        return _context(self, alpn)


@lru_cache  # the preflight pays for reading a hundred authorities, the run does not
def _context(trust: Trust, alpn: tuple[str, ...]) -> ssl.SSLContext:
    context = _Context(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.offer(alpn)
    if trust.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif trust.cacert is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(trust.cacert)
        except ssl.SSLError:
            raise UsageError(f"--cacert {trust.cacert} holds no certificate", hint="it must be a PEM file") from None
        except OSError as error:
            raise UsageError(f"--cacert {trust.cacert}: {error.strerror}", hint="give a PEM file") from None
    if trust.cert is not None:
        _show(context, trust.cert, trust.key)
    elif trust.key is not None:
        raise UsageError(f"--key {trust.key} stands alone", hint="give its certificate with --cert FILE")
    return context


def _show(context: ssl.SSLContext, cert: Path, key: Path | None) -> None:
    """Have the context show a certificate to servers that ask."""
    given = f"--cert {cert}" if key is None else f"--cert {cert}, --key {key}"
    hint = "both must be PEM files" if key else "it must be a PEM file of certificate and key, or give --key FILE"

    def refuse_to_ask() -> str:
        raise UsageError(f"{given}: the key is encrypted", hint="give one without a passphrase")

    try:
        context.load_cert_chain(cert, key, password=refuse_to_ask)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise UsageError(f"{given}: the key is not the certificate's", hint="give the pair") from None
        raise UsageError(f"{given}: no certificate and key to be read", hint=hint) from None
    except OSError as error:
        raise UsageError(f"{given}: {error.strerror}", hint=hint) from None


class _Context(ssl.SSLContext):
    """A context whose ALPN offer stands, whatever a library would set."""

    def offer(self, protocols: Sequence[str]) -> None:
        super().set_alpn_protocols(list(protocols))

    def set_alpn_protocols(self, alpn_protocols: object) -> None:
        """Change nothing: who made the context knows what to offer, and in what order."""


class TlsClient:
    """Starts TLS with one host, each connection resuming the session of an earlier one."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._context = context
        self._host = host
        self._session: ssl.SSLSession | None = None
        self._kept_s = 0.0

    def start(self) -> "Tls":
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        sealed = self._context.wrap_bio(incoming, outgoing, server_hostname=self._host, session=self._session)
        return Tls(self, sealed, incoming, outgoing)

    def keep(self, sealed: ssl.SSLObject) -> None:
        """Let connections to come resume this one's session, unless the one before still does."""
        # Seldom: CPython (3.11) leaks 6 KB each time it is asked for a session.
        now = monotonic()
        if self._session is None or (not sealed.session_reused and now - self._kept_s > _KEEP_EVERY_S):
            self._session, self._kept_s = sealed.session, now


class TlsFailure(Exception):
    """The handshake failed; `word` says how."""

    def __init__(self, word: str) -> None:
        super().__init__(word)
        self.word = word


class Tls:
    """One connection's TLS: what arrived goes in, plaintext and what must be sent come out.

    After `decrypt`, `closed` says that the other side ended it as TLS says (close_notify), `failure` that it failed
    and how, `by_alert` that the other side said so.
    """

    __slots__ = ("_client", "_has_greeted", "_incoming", "_is_kept", "_outgoing", "_sealed", "by_alert", "closed",
                 "failure")  # fmt: skip

    def __init__(
        self, client: TlsClient, sealed: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO
    ) -> None:
        self._client = client
        self._sealed = sealed
        self._incoming = incoming
        self._outgoing = outgoing
        self._has_greeted = False
        self._is_kept = False  # its session is
        self.closed = False
        self.failure: str | None = None
        self.by_alert = False

    def handshake(self, data: bytes) -> bool:
        """Take what came, b"" at first; return whether the handshake is done. Raises TlsFailure."""
        if data and not self._has_greeted:
            if data[0] not in _FIRST_BYTES:
                raise TlsFailure("not_tls")
            self._has_greeted = True
        self._incoming.write(data)
        try:
            self._sealed.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise TlsFailure(word_of(error)) from None
        return True

    def encrypt(self, data: bytes) -> bytes:
        """Return the bytes to be written for `data`."""
        self._sealed.write(data)
        return self._outgoing.read()

    def decrypt(self, data: bytes) -> bytes:
        """Return the plaintext of every record that `data` completes, b"" where it completes none."""
        incoming, pieces = self._incoming, []
        incoming.write(data)
        try:
            # Once it is drained, asking again would only cost an exception.
            while incoming.pending:
                piece = self._sealed.read(_RECORD_BYTES)
                if not piece:
                    self.closed = True
                    break
                pieces.append(piece)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.closed = True
        except ssl.SSLError as error:
            self.failure = word_of(error)
            self.by_alert = is_alert(error)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def to_send(self) -> bytes:
        """Return what the protocol itself wants written now: handshake, key update, alert."""
        return self._outgoing.read() if self._outgoing.pending else b""

    def farewell(self) -> bytes:
        """Return what must be written before we close: close_notify, which says that nothing was lost."""
        with suppress(ssl.SSLError):  # the answer to it is not waited for
            self._sealed.unwrap()
        return self._outgoing.read()

    def keep_session(self) -> None:
        """Let other connections resume this one; TLS 1.3 hands out its tickets only after the handshake."""
        if not self._is_kept:
            self._is_kept = True
            self._client.keep(self._sealed)


def word_of(error: BaseException) -> str:
    """Return a short machine-readable word for an error of TLS; "" for any other."""
    if isinstance(error, ssl.SSLWantReadError | ssl.SSLWantWriteError):
        return ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _VERIFY_WORDS.get(error.verify_code, "certificate_invalid")
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError):
        return "tls_closed"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or "error"
        return _REASON_WORDS.get(reason) or f"tls_{reason.lower()}"
    return ""


def is_alert(error: BaseException) -> bool:
    """Return whether it is the other side that says so."""
    return isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or "")


# X509_V_ERR_* of <openssl/x509_vfy.h>.
_VERIFY_WORDS = {
    2: "certificate_untrusted",
    9: "certificate_not_yet_valid",
    10: "certificate_expired",
    18: "certificate_self_signed",
    19: "certificate_untrusted",
    20: "certificate_untrusted",
    21: "certificate_untrusted",
    23: "certificate_revoked",
    62: "certificate_wrong_host",
    64: "certificate_wrong_host",
}
# SSL_R_* of <openssl/sslerr.h>; the refusals are alerts about the certificate that we showed.
_REASON_WORDS = {
    "WRONG_VERSION_NUMBER": "not_tls",
    "HTTP_REQUEST": "not_tls",
    "UNEXPECTED_EOF_WHILE_READING": "tls_closed",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "certificate_required",
    "SSLV3_ALERT_NO_CERTIFICATE": "certificate_required",
    "SSLV3_ALERT_BAD_CERTIFICATE": "certificate_refused",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "certificate_refused",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "certificate_refused",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "certificate_refused",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "certificate_refused",
    "TLSV1_ALERT_UNKNOWN_CA": "certificate_refused",
    "TLSV1_ALERT_PROTOCOL_VERSION": "tls_version",
    "UNSUPPORTED_PROTOCOL": "tls_version",
}
