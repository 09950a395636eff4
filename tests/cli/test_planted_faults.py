"""Faults planted in the generator, with real processes on loopback: the verdict names each of them."""

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.own_network import UNAVAILABLE
from conftest import CLEAN

TRIES = 3  # of what must be quiet: the machine is shared
SHARED_PCT = 5.0  # of the time, waiting for a core: no run is quiet then
NETWORK = Path(__file__).with_name("own_network.py")
LOAD = ("--rate", "200", "--duration", "800ms", "--cache", "warm", "--json")
OFFERED = 160
AT_ONCE = 60  # 200 requests/s, 300 ms each


def recording(path: Path, wish: str) -> Path:
    body = {"model": "sim", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    row = {"path": "/v1/chat/completions", "headers": {"x-sim": wish}, "body": body}
    path.write_text(json.dumps(row) + "\n")
    return path


@pytest.fixture
def asked(tmp_path) -> tuple[str | Path, ...]:
    """What each run sends: half a hundred requests in flight, of four tokens each."""
    return ("--recording", recording(tmp_path / "rec.jsonl", "ttft_ms=300,itl_ms=2,tokens=4"), "--usage")


def started(*arguments: str | Path, **how: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "loadgen", "run", *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=CLEAN, **how
    )  # fmt: skip


def summary_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The summary that a run printed; without gates its exit code is 0, whatever the verdict."""
    output, _ = process.communicate(timeout=30)
    assert 0 == process.returncode, output
    return json.loads(output)


def wait_for_load(folder: Path) -> None:
    """Return when the run's first request is about to be due."""
    deadline = time.monotonic() + 10
    while not (folder / "run.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def reasons_of(summary: dict[str, Any], level: str) -> dict[str, str]:
    return {
        reason["name"]: f"{reason['fact']} -> {reason['remedy']}"
        for reason in summary["verdict"]["reasons"]
        if reason["level"] == level
    }


def quiet_run(run: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
    """The first summary that is VALID, of a few tries, else the last; skips where others kept the machine busy."""
    for attempt in range(TRIES):
        summary = run(attempt)
        if summary["verdict"]["valid"]:
            return summary
    if summary["process"]["core_wait_pct"] > SHARED_PCT:
        pytest.skip(f"the machine is not quiet: {reasons_of(summary, 'invalid')}")
    return summary


def test_a_quiet_run_is_valid(simulator, tmp_path, asked):
    summary = quiet_run(lambda n: summary_of(started(simulator, *asked, *LOAD, "--out", tmp_path / f"q{n}")))

    assert {} == reasons_of(summary, "invalid")
    assert {"too_few_samples"} >= set(reasons_of(summary, "warned")) - {"loop_lag"}
    assert {"completed": OFFERED} == summary["outcomes"]


@contextlib.contextmanager
def busy_loops(count: int, core: int) -> Iterator[None]:
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(count)]
    try:
        for loop in loops:
            os.sched_setaffinity(loop.pid, {core})
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def test_a_core_that_others_use_too_is_found_out(simulator, tmp_path, asked):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("there is but one core: the server would starve with the generator")
    process = started(
        simulator, *asked, *LOAD, "--out", tmp_path / "r", preexec_fn=lambda: os.sched_setaffinity(0, cores[:1])
    )
    wait_for_load(tmp_path / "r")
    with busy_loops(6, cores[0]):
        time.sleep(1.0)  # as long as requests are due: not while the summary is made
    summary = summary_of(process)

    invalid = reasons_of(summary, "invalid")
    assert "something else used its core, for which it waited" in invalid["generator_lateness"]
    assert summary["process"]["core_wait_pct"] > SHARED_PCT


def test_a_process_that_was_stopped_is_found_out(simulator, tmp_path, asked):
    process = started(simulator, *asked, *LOAD, "--out", tmp_path / "r")
    wait_for_load(tmp_path / "r")
    time.sleep(0.25)
    process.send_signal(signal.SIGSTOP)
    time.sleep(0.3)
    process.send_signal(signal.SIGCONT)
    summary = summary_of(process)

    invalid, warned = reasons_of(summary, "invalid"), reasons_of(summary, "warned")
    assert {"generator_lateness", "sent_late"} <= set(invalid)
    assert "the load process stood still for" in warned["loop_lag"] and "paused?" in warned["loop_lag"]
    assert 250 < summary["process"]["loop_lag"]["max"]
    assert {"completed": OFFERED} == summary["outcomes"]  # late, and none is dropped


def test_a_cap_below_the_need_is_told_of(simulator, tmp_path, asked):
    summary = summary_of(started(simulator, *asked, *LOAD, "--max-concurrency", "45", "--out", tmp_path / "r"))

    warned = reasons_of(summary, "warned")
    assert "the load was not the offered one" in warned["cap_delay"]
    assert "raise --max-concurrency" in warned["cap_delay"]
    # The cap is the user's own: what waited for it is not the generator's lateness.
    assert 50 < summary["metrics"]["lateness"]["max"]
    assert summary["metrics"]["generator_lateness"]["max"] < summary["metrics"]["lateness"]["max"] / 2


def test_too_few_descriptors_are_found_out(simulator, tmp_path, asked):
    process = started(
        simulator, *asked, *LOAD, "--out", tmp_path / "r",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (AT_ONCE + 4, AT_ONCE + 4)),
    )  # fmt: skip
    summary = summary_of(process)

    told = reasons_of(summary, "invalid")["client_limit"]
    assert f"{summary['outcomes']['client_limit']} requests met a limit of this machine (descriptors)" in told
    assert "raise `ulimit -n`" in told


def in_own_network(low: int, high: int, *arguments: str | Path) -> dict[str, Any]:
    """The summary of a run in a network whose connections have the ports from `low` to `high`; skips without one."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("there is no unshare to make a network of our own with")
    done = subprocess.run(
        [unshare, "--map-root-user", "--net", sys.executable, NETWORK, str(low), str(high), *map(str, arguments)],
        capture_output=True, text=True, timeout=60, env=CLEAN, check=False,
    )  # fmt: skip
    if done.returncode == UNAVAILABLE or "unshare" in done.stderr:
        pytest.skip(f"this machine lets us have no network of our own: {done.stderr.strip()[:200]}")
    assert 0 == done.returncode, done.stderr
    return json.loads(done.stdout)


def test_too_few_ports_are_found_out(tmp_path, asked):
    few = in_own_network(40_000, 40_000 + AT_ONCE // 2, *asked, *LOAD, "--out", tmp_path / "r")

    told = reasons_of(few, "invalid")["client_limit"]
    assert f"{few['outcomes']['client_limit']} requests met a limit of this machine (ports)" in told
    assert "ip_local_port_range" in told


def test_enough_ports_are_no_fault(tmp_path, asked):
    enough = quiet_run(lambda n: in_own_network(40_000, 41_000, *asked, *LOAD, "--out", tmp_path / f"q{n}"))

    assert {} == reasons_of(enough, "invalid")
    assert {"completed": OFFERED} == enough["outcomes"]


def test_a_schedule_far_beyond_the_machine_is_found_out(simulator, tmp_path):
    short = recording(tmp_path / "short.jsonl", "ttft_ms=0,tokens=1")
    summary = summary_of(
        started(
            simulator, "--recording", short, "--rate", "20000", "--duration", "200ms", "--json", "--out", tmp_path / "r"
        )
    )

    invalid = reasons_of(summary, "invalid")
    assert {"generator_lateness", "sent_late"} <= set(invalid)
    assert 4000 == summary["offered"] == sum(summary["outcomes"].values())
