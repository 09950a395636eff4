"""The preflight: it says in words what is wrong with a target, with the next step, before anything is sent."""

import socket

import pytest
import trio
from net.peer import always, listening
from net.tls_peer import LONG_AGO, Authority, answer_once, over_tls, stdlib_server

from loadgen.errors import TargetError, UsageError
from loadgen.net.reach import reach
from loadgen.net.route import Route
from loadgen.net.target import Target
from loadgen.net.tls import Trust


@pytest.fixture(scope="module")
def ca(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def other_ca(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("other"))


def route_to(address, scheme="https", host="127.0.0.1", **fields) -> Route:
    return Route(target=Target(scheme, host, address.sockaddr[1]), **{"connect_timeout_s": 0.5} | fields)


async def complaint(route: Route) -> str:
    with pytest.raises(TargetError) as raised, trio.fail_after(5):
        await reach(route)
    fact, hint = str(raised.value).splitlines()
    assert hint.startswith("hint: ")
    return f"{fact} | {hint}"


async def test_a_target_that_answers_is_reached_and_nothing_is_sent(ca):
    received = []

    async def listen(stream, number: int) -> None:
        received.append(await stream.receive_some())

    for scheme, handler in (("http", listen), ("https", over_tls(listen, ca.server("localhost")))):
        async with listening(handler) as address:
            assert address == await reach(route_to(address, scheme, "localhost", trust=ca.trust))
            await trio.sleep(0.05)

    assert [b"", b""] == received


@pytest.mark.parametrize(
    ("options", "fact", "hint"),
    [
        ({"not_before": LONG_AGO, "not_after": LONG_AGO.replace(year=2002)}, "has expired", "--insecure"),
        ({"names": ["example.test"]}, "not for '127.0.0.1'", "--insecure"),
        ({"self_signed": True}, "self-signed", "--cacert"),
        ({"is_unknown": True}, "authority not known here", "--cacert"),
    ],
)
async def test_a_certificate_that_will_not_do_is_told_with_what_to_do(ca, other_ca, options, fact, hint):
    owner = other_ca if options.pop("is_unknown", False) or "self_signed" in options else ca
    server = owner.server(*options.pop("names", []), **options)
    with stdlib_server(server, answer_once) as address:
        said = await complaint(route_to(address, trust=ca.trust))
        await reach(route_to(address, trust=Trust(insecure=True)))

    assert fact in said
    assert hint in said.partition(" | ")[2]
    assert f"https://127.0.0.1:{address.sockaddr[1]}" in said


async def test_a_server_that_wants_a_certificate_is_told_where_tls_tells_at_once(ca):
    with stdlib_server(ca.asks(ca.server(versions="1.2")), answer_once) as address:
        said = await complaint(route_to(address, trust=ca.trust))

    assert "--cert FILE" in said


async def test_a_plaintext_port_is_told_to_be_one():
    async def answer_in_plain(stream, number: int) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with listening(answer_in_plain) as address:
        said = await complaint(route_to(address))

    assert "no TLS" in said and "http://" in said


async def test_a_port_that_never_shakes_hands_is_told_so_in_time():
    async def say_nothing(stream, number: int) -> None:
        await trio.sleep_forever()

    async with listening(say_nothing) as address:
        said = await complaint(route_to(address))

    assert "no TLS handshake in 0.5 s" in said


async def test_a_port_where_nobody_listens_is_told_in_the_systems_words():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    for scheme in ("http", "https"):
        said = await complaint(Route(target=Target(scheme, "127.0.0.1", port)))

        assert "Connection refused" in said and "is the server up" in said


async def test_through_a_proxy_only_the_proxy_is_reached():
    async with listening(always(b"")) as address:
        proxy = f"http://me:hunter2@127.0.0.1:{address.sockaddr[1]}"
        assert address == await reach(Route(target=Target("https", "nowhere.invalid", 443), proxy=proxy))
    said = await complaint(Route(target=Target("https", "nowhere.invalid", 443), proxy=proxy))

    assert "is the proxy up" in said and "hunter2" not in said


async def test_unreadable_files_are_found_by_the_preflight(tmp_path):
    trust = Trust(cacert=tmp_path / "missing.pem")
    for proxy in (None, "http://127.0.0.1:9"):
        with pytest.raises(UsageError, match="--cacert"):
            await reach(Route(target=Target("https", "127.0.0.1", 9), trust=trust, proxy=proxy))
