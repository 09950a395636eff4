"""Routes: what may stand in --proxy, --cacert, --cert and --key, and what is said when it may not."""

import pytest
import trustme

from loadgen.errors import UsageError
from loadgen.net.route import Proxy, Route, parse_proxy
from loadgen.net.target import Target, parse_target
from loadgen.net.tls import Trust

TARGET = Target("https", "host", 443)


@pytest.mark.parametrize(
    ("text", "proxy", "shown"),
    [
        ("http://10.0.0.1:3128", Proxy(host="10.0.0.1", port=3128), "http://10.0.0.1:3128"),
        ("proxy.test:3128", Proxy(host="proxy.test", port=3128), "http://proxy.test:3128"),
        ("http://[::1]:3128/", Proxy(host="::1", port=3128), "http://[::1]:3128"),
        (
            "http://me:p%40ss@proxy.test:3128",
            Proxy(host="proxy.test", port=3128, credentials=("me", "p@ss")),
            "http://proxy.test:3128",
        ),
        ("http://me@p:1", Proxy(host="p", port=1, credentials=("me", "")), "http://p:1"),
    ],
)
def test_a_proxy_is_read_as_written_and_shown_without_its_password(text, proxy, shown):
    found = parse_proxy(text)

    assert (proxy, shown) == (found, str(found))
    assert "p@ss" not in repr(found)


@pytest.mark.parametrize(
    "text",
    ["", "http://", "http://host", "socks5://host:1", "https://host:1", "http://host:0", "http://host:x", "http://[::1",
     "http://host:1/path", "http://host:1?x", "http://h ost:1", "http://hunter2:hunter2@host"],
)  # fmt: skip
def test_a_wrong_proxy_is_a_wrong_option_and_its_password_is_not_repeated(text):
    with pytest.raises(UsageError) as raised:
        Route(target=TARGET, proxy=text)

    fact, hint = str(raised.value).splitlines()
    assert fact.startswith("--proxy ")
    assert hint.startswith("hint: ")
    assert "hunter2" not in fact


def test_a_route_does_not_show_its_proxys_password():
    assert "hunter2" not in repr(Route(target=TARGET, proxy="http://me:hunter2@host:1"))


@pytest.mark.parametrize(
    ("text", "target", "authority"),
    [
        ("https://host", Target("https", "host", 443), "host"),
        ("https://host:443", Target("https", "host", 443), "host"),
        ("https://host:80/v1", Target("https", "host", 80, "/v1"), "host:80"),
        ("http://host:443", Target("http", "host", 443), "host:443"),
    ],
)
def test_a_target_over_tls_has_a_port_of_its_own(text, target, authority):
    found = parse_target(text)

    assert (target, authority) == (found, found.authority)
    assert found == parse_target(str(found))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with certificates, keys, and what is neither."""
    folder = tmp_path_factory.mktemp("files")
    ca = trustme.CA()
    ca.cert_pem.write_to_path(folder / "ca.pem")
    for name in ("one", "two"):
        issued = ca.issue_cert(f"{name}@test")
        issued.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")
        issued.private_key_pem.write_to_path(folder / f"{name}.key")
        issued.private_key_and_cert_chain_pem.write_to_path(folder / f"{name}.both")
    (folder / "text").write_text("no certificate\n")
    (folder / "encrypted.key").write_bytes(_encrypted((folder / "one.key").read_bytes()))
    return folder


def _encrypted(pem: bytes) -> bytes:
    from cryptography.hazmat.primitives import serialization as s

    key = s.load_pem_private_key(pem, None)
    return key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.BestAvailableEncryption(b"secret"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cacert": "missing"}, "No such file"),
        ({"cacert": "text"}, "holds no certificate"),
        ({"cert": "missing"}, "No such file"),
        ({"cert": "one.pem", "key": "missing"}, "No such file"),
        ({"cert": "one.pem"}, "no certificate and key"),
        ({"cert": "text", "key": "text"}, "no certificate and key"),
        ({"cert": "one.pem", "key": "two.key"}, "not the certificate's"),
        ({"cert": "one.pem", "key": "encrypted.key"}, "encrypted"),
        ({"key": "one.key"}, "stands alone"),
    ],
)
def test_files_that_will_not_do_are_named_with_a_hint(files, options, words):
    with pytest.raises(UsageError) as raised:
        Trust(**{name: files / file for name, file in options.items()}).context()

    fact, hint = str(raised.value).splitlines()
    assert words in fact
    assert f"--{next(iter(options))}" in fact
    assert all(str(files / file) in fact for file in options.values())
    assert hint.startswith("hint: ")


@pytest.mark.parametrize("options", [{"cacert": "ca.pem"}, {"cert": "one.pem", "key": "one.key"}, {"cert": "one.both"}])
def test_files_that_will_do_make_a_context(files, options):
    Trust(**{name: files / file for name, file in options.items()}).context()
