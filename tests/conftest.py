"""What tests share: servers, the command line in a process of its own, the odd streams beside the checkout."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from hypothesis import settings

# A shared machine may be slow for a moment; that is no fault of the code.
settings.register_profile("shared", deadline=None)
settings.load_profile("shared")

# Run inside an environment of their own.
collect_ignore_glob = ["realservers/llamacpp/*", "realclients/clients/*"]

SHARED = Path(__file__).parents[2] / "shared"
CLEAN = {name: value for name, value in os.environ.items() if name != "LLM_API_KEY"} | {"COLUMNS": "120"}


KEY = "sk-0123456789abcdef"
ASKED = b'{"model": "sim", "stream": true, "messages": [{"role": "user", "content": "hi"}]}'


class Recorder:
    """A recorder in a process of its own."""

    def __init__(self, upstream: str, out: Path, *options: str, env: dict[str, str] | None = None) -> None:
        command = [sys.executable, "-m", "loadgen", "record", "--upstream", upstream, "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(
            [*command, "--out", str(out), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=CLEAN | (env or {}),
        )
        assert self.process.stdout is not None
        self.greeting = self.process.stdout.readline()
        found = re.search(r"http://\S+", self.greeting)
        assert found, self.process.communicate()
        self.url = found[0]

    def ask(self, *, stream: bool = True, path: str = "/v1/chat/completions") -> bytes:
        asked = ASKED if stream else ASKED.replace(b"true", b"false")
        headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
        with urlopen(Request(self.url + path, asked, headers), timeout=10) as response:
            return response.read()

    def end(self, number: int = signal.SIGINT) -> tuple[int, str]:
        """Stop it; return its exit code and what it said."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=20)
        return self.process.returncode, said


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


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Callable[..., Recorder]]:
    """Start a recorder before an upstream, into rec.jsonl."""
    running: list[Recorder] = []

    def start(upstream: str, *options: str, out: Path = tmp_path / "rec.jsonl") -> Recorder:
        running.append(Recorder(upstream, out, *options))
        return running[-1]

    yield start
    for recorder in running:
        if recorder.process.poll() is None:
            recorder.process.kill()
        recorder.process.communicate()
