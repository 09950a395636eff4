"""What tests share: servers, the command line in a process of its own, the odd streams beside the checkout."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# A shared machine may be slow for a moment; that is no fault of the code.
settings.register_profile("shared", deadline=None)
settings.load_profile("shared")

# Run inside an environment of their own.
collect_ignore_glob = ["realservers/llamacpp/*", "realclients/clients/*"]

SHARED = Path(__file__).parents[2] / "shared"
CLEAN = {name: value for name, value in os.environ.items() if name != "LLM_API_KEY"} | {"COLUMNS": "120"}


@pytest.fixture(scope="session")
def shared() -> Path:
    """The shared material; skips where this checkout has none."""
    if not SHARED.is_dir():
        pytest.skip("the shared cases and servers are not beside this checkout")
    return SHARED


def loadgen(
    *arguments: str | Path, env: dict[str, str] | None = None, **options: object
) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    command = [sys.executable, "-m", "loadgen", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, env=CLEAN | (env or {}), check=False, **options
    )  # type: ignore[call-overload,no-any-return]


def start_loadgen(*arguments: str | Path) -> subprocess.Popen[str]:
    """Start the command line and leave it running."""
    command = [sys.executable, "-m", "loadgen", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=CLEAN)


def until_it_sends(run: Path, process: subprocess.Popen[str]) -> None:
    """Wait until a run's journal holds something: before that, a signal finds no run to stop."""
    journal = run / "journal" / "records.msgpack"
    while not (journal.exists() and journal.stat().st_size):
        assert process.poll() is None
        time.sleep(0.05)


@pytest.fixture(scope="session")
def simulate() -> Iterator[Callable[..., str]]:
    """Start a simulated model server with these options; return its URL."""
    running: list[subprocess.Popen[str]] = []

    def start(*options: str) -> str:
        process = start_loadgen("simulate", "--port", "0", *options)
        running.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line
        return found[0]

    yield start
    for process in running:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=10)


@pytest.fixture(scope="session")
def simulator(simulate: Callable[..., str]) -> str:
    """A fast simulated server without faults of its own."""
    return simulate("--ttft", "20ms", "--itl", "2ms", "--tokens", "10", "--slots", "0")
