"""The ways to a server, by the command line: TLS, HTTP/2, a proxy."""

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import trio
from conftest import CLEAN
from net.http2_peer import hypercorn, stream_an_answer
from net.peer import ANSWER, always, listening
from net.proxy import proxy_to
from net.tls_peer import Authority, over_tls

LOAD = ("--prompt", "hi", "--model", "sim", "--rate", "40", "--requests", "8", "--cache", "cold", "--deadline", "5s")


@pytest.fixture
def ca(tmp_path) -> Authority:
    return Authority(tmp_path)


async def loadgen(*arguments: str | Path) -> subprocess.CompletedProcess:
    """Run the command line beside the servers of this test."""
    command = [sys.executable, "-m", "loadgen", *map(str, arguments)]
    with trio.fail_after(40):
        return await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False, env=CLEAN)


async def run(target: str, folder: Path, *options: str | Path) -> tuple[subprocess.CompletedProcess, pl.DataFrame]:
    done = await loadgen("run", target, *LOAD, *options, "--out", folder)
    assert 0 == done.returncode, done.stderr.decode()
    return done, pl.read_parquet(folder / "requests.parquet")


def told(rows: pl.DataFrame, *columns: str) -> set[tuple]:
    return set(rows.select(columns).iter_rows())


async def test_a_run_over_tls_is_stamped_by_the_kernel_like_one_in_plain(ca, tmp_path):
    async with listening(over_tls(always(ANSWER), ca.server())) as address:
        _, rows = await run(f"https://127.0.0.1:{address.sockaddr[1]}", tmp_path / "r", "--cacert", ca.path)

    assert {("completed", "http/1.1", "kernel")} == told(rows, "outcome", "transport", "stamp_source")


async def test_an_unknown_authority_is_exit_4_with_the_way_out(ca, tmp_path):
    async with listening(over_tls(always(ANSWER), ca.server())) as address:
        target = f"https://127.0.0.1:{address.sockaddr[1]}"
        refused = await loadgen("run", target, *LOAD, "--out", tmp_path / "no")
        _, rows = await run(target, tmp_path / "r", "--insecure")

    assert 4 == refused.returncode
    assert b"--cacert" in refused.stderr and b"--insecure" in refused.stderr
    assert not (tmp_path / "no").exists()
    assert {("completed",)} == told(rows, "outcome")


@pytest.mark.parametrize("command", ["run", "probe"])
async def test_tls_to_a_port_that_speaks_none_is_exit_4(tmp_path, command):
    async with listening(always(ANSWER)) as address:
        target = f"https://127.0.0.1:{address.sockaddr[1]}"
        what = ("probe", target, "sim") if command == "probe" else ("run", target, *LOAD, "--out", tmp_path / "r")
        refused = await loadgen(*what)

    assert (4, b"") == (refused.returncode, refused.stdout)
    assert b"http://" in refused.stderr


async def test_a_probe_goes_over_tls_too(ca):
    async with listening(over_tls(always(ANSWER), ca.server())) as address:
        probed = await loadgen("probe", f"https://127.0.0.1:{address.sockaddr[1]}", "sim", "--cacert", ca.path)

    assert "completed" == json.loads(probed.stdout)["outcome"]


async def test_http2_runs_over_the_second_transport_and_the_summary_says_so(ca, tmp_path):
    async with hypercorn(stream_an_answer, files=ca.files("127.0.0.1")) as (_, address):
        target = f"https://127.0.0.1:{address.sockaddr[1]}"
        done, rows = await run(target, tmp_path / "r", "--http2", "--cacert", ca.path)

    assert {("completed", "http/2", "chunk")} == told(rows, "outcome", "transport", "stamp_source")
    words = " ".join(done.stdout.decode().split())
    assert "the second transport ran (http/2)" in words
    assert "loop's lag, p50" in words


async def test_a_proxys_password_is_used_and_stored_nowhere(tmp_path):
    async with listening(always(ANSWER)) as upstream, proxy_to(upstream) as (relay, url):
        target = f"http://127.0.0.1:{upstream.sockaddr[1]}"
        done, rows = await run(target, tmp_path / "r", "--proxy", url)

    assert {("completed", "http/1.1", "chunk")} == told(rows, "outcome", "transport", "stamp_source")
    assert {"me:hunter2"} == set(relay.credentials)
    assert b"hunter2" not in done.stdout + done.stderr
    assert not [path for path in (tmp_path / "r").rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--proxy", "socks5://127.0.0.1:1"), b"only http:// proxies"),
        (("--cacert", "/nowhere.pem"), b"/nowhere.pem"),
        (("--key", "/nowhere.key"), b"--cert"),
    ],
)
async def test_a_way_that_cannot_be_gone_is_exit_2(tmp_path, options, words):
    refused = await loadgen("run", "https://127.0.0.1:9", *LOAD, *options, "--out", tmp_path / "r")

    assert 2 == refused.returncode, refused.stderr
    assert words in refused.stderr
