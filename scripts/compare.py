"""What `loadgen compare` finds where the truth is known: nothing between equal servers, and a planted slowdown.

scripts/compare [--equal 40] [--slower 10]
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOADGEN = [sys.executable, "-m", "loadgen"]
MODEL = ("--slots", "16", "--queue", "1000", "--tokens", "20", "--jitter", "0.3", "--ttft", "100ms", "--itl", "10ms")
EQUAL = ("--rate", "40", "--arrivals", "poisson", "--requests", "400")  # three quarters of what it can serve
SLOWER = ("--rate", "200", "--requests", "2000")
TRIES = 4
CORES = sorted(os.sched_getaffinity(0))


@contextmanager
def simulated(*options: str) -> Iterator[str]:
    """A server on the last core; yields its URL."""
    server = subprocess.Popen(
        [*LOADGEN, "simulate", "--port", "0", *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, CORES[-1:]),
    )  # fmt: skip
    try:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found
        yield found[0]
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def run(out: Path, load: tuple[str, ...], *model: str) -> Path:
    """One run, on the first core, against a server of its own."""
    with simulated(*MODEL, *model) as url:
        subprocess.run(
            [*LOADGEN, "run", url, "--prompt", "hi", "--model", "sim", "--cache", "warm", *load, "--out", out],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=lambda: os.sched_setaffinity(0, CORES[:1]),
        )  # fmt: skip
    return out


def pair(folder: Path, load: tuple[str, ...], models: list[tuple[str, ...]], primary: str) -> str:
    """What is concluded of two runs; INVALID ones, which say nothing of servers, are done again."""
    for attempt in range(TRIES):
        sides = [run(folder / f"{attempt}-{side}", load, *model) for side, model in enumerate(models)]
        if (kind := conclusion(*sides, primary)) != "none":
            break
    return kind


def conclusion(a: Path, b: Path, primary: str) -> str:
    made = subprocess.run(
        [*LOADGEN, "compare", a, b, "--primary", primary, "--json"], check=True, capture_output=True, text=True
    )
    told = json.loads(made.stdout)["conclusion"]
    print(f"  {told['sentence']}", flush=True)
    return str(told["kind"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--equal", type=int, default=40)
    parser.add_argument("--slower", type=int, default=10)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, kinds = Path(name), []
        for number in range(asked.equal):
            seeds = [("--seed", f"{2 * number + side}") for side in (0, 1)]
            kinds.append(pair(folder / f"equal{number}", EQUAL, seeds, "ttft-p95"))
        print(f"equal servers: {dict(Counter(kinds))}")
        kinds = []
        for number in range(asked.slower):
            itls = [("--slots", "0", "--itl", itl, "--seed", f"{100 + number}") for itl in ("10ms", "11ms")]
            kinds.append(pair(folder / f"slower{number}", SLOWER, itls, "itl-p50"))
        print(f"10 % slower: {dict(Counter(kinds))}")


main()
