"""The preflight: one connection made and closed before the run, nothing sent, so that a wrong target costs no run."""

import socket
from contextlib import suppress

import trio

from loadgen.errors import TargetError
from loadgen.net.dial import Dialler
from loadgen.net.failures import NotConnected
from loadgen.net.route import Route
from loadgen.net.target import Address
from loadgen.net.tls import TlsClient

_INSECURE = "or --insecure to send without checking it"


async def reach(route: Route) -> Address:
    """Connect once, the TLS handshake included, and close; return the address that answered.

    With a proxy it is the proxy that is connected to. Raises TargetError, and UsageError for unusable --cacert, --cert
    and --key.
    """
    target, proxy = route.target, route.via
    context = route.trust.context(route.alpn) if target.scheme == "https" else None
    who, host, port = (str(target), target.host, target.port) if proxy is None else (str(proxy), proxy.host, proxy.port)
    try:
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise TargetError(
            f"{who}: the name {host!r} does not resolve ({error.strerror})", hint="check its spelling"
        ) from None
    tls = TlsClient(context, host) if context is not None and proxy is None else None
    fact, hint = "no address", ""
    for family, _, _, _, sockaddr in found:
        address = Address(socket.AddressFamily(family), sockaddr)
        scope = trio.CancelScope(deadline=trio.current_time() + route.connect_timeout_s)
        try:
            sock, sealed = await Dialler(address, tls).dial(scope)
        except NotConnected as failure:
            word = failure.ending.detail or ""
            known = _WORDS.get(word, (failure.fact or f"the TLS handshake failed ({word})", ""))
            fact, hint = (text.format(host=host, timeout_s=route.connect_timeout_s) for text in known)
            if failure.fact is None and word != "timeout":  # somebody is there, and that is what is wrong with them
                break
            continue
        if sealed is not None:
            with suppress(OSError):
                sock.send(sealed.farewell())
        trio.lowlevel.notify_closing(sock)
        sock.close()
        return address
    up = "is the server up" if proxy is None else "is the proxy up"
    raise TargetError(f"{who}: {fact}", hint=hint or f"{up}, and listening on this address?")


# Of an ending's detail: what was wrong, and what to try.
_WORDS = {
    "timeout": ("no answer in {timeout_s:g} s", ""),
    "certificate_expired": ("its certificate has expired", f"renew it, {_INSECURE}"),
    "certificate_not_yet_valid": (
        "its certificate is not valid yet",
        "are both clocks right? --insecure sends without checking it",
    ),
    "certificate_wrong_host": (
        "its certificate is not for {host!r}",
        f"name the host as the certificate does, {_INSECURE}",
    ),
    "certificate_self_signed": (
        "its certificate is self-signed and not known here",
        f"give it with --cacert FILE, {_INSECURE}",
    ),
    "certificate_untrusted": (
        "its certificate is signed by an authority not known here",
        f"give the authority's with --cacert FILE, {_INSECURE}",
    ),
    "certificate_invalid": ("its certificate will not do", f"mend it, {_INSECURE}"),
    "certificate_revoked": ("its certificate was revoked", f"renew it, {_INSECURE}"),
    "certificate_required": ("it asks for a client certificate", "give one with --cert FILE and --key FILE"),
    "certificate_refused": ("it refuses our client certificate", "give another with --cert FILE and --key FILE"),
    "tls_sslv3_alert_handshake_failure": (
        "it refused the TLS handshake",
        "it may ask for a client certificate: --cert FILE and --key FILE",
    ),
    "tls_version": ("it speaks no TLS of version 1.2 or newer", "update the server"),
    "not_tls": ("what answers there speaks no TLS", "try http:// in place of https://"),
    "tls_closed": (
        "it closed the connection during the TLS handshake",
        "does this port speak TLS? Try http:// in place of https://",
    ),
    "tls_reset": (
        "it reset the connection during the TLS handshake",
        "does this port speak TLS? Try http:// in place of https://",
    ),
    "tls_timeout": (
        "connected, but no TLS handshake in {timeout_s:g} s",
        "does this port speak TLS? Try http:// in place of https://",
    ),
}
