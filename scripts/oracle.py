"""Our metrics against AIPerf's own classes, over the same drawn streams; the result is written as Markdown.

oracle.py AIPERF_PYTHON [--seed N] [--runs N] [--out FILE]; ends with 1 on a disagreement that is not accounted for.
"""

import argparse
import os
import subprocess
import tempfile
from pathlib import Path
from random import Random

import msgspec
from aiperf_oracle import ours, table
from aiperf_oracle.compare import TOLERANCE, Agreement, Shown
from aiperf_oracle.differences import DIFFERENCES
from aiperf_oracle.draw import draw_run
from aiperf_oracle.streams import Run, Side

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "results" / "oracle" / "README.md"
AGREE = "agree"
RUNS_PER_DIFFERENCE = 8


def draw(seed: int, runs: int) -> list[Run]:
    """Return the runs of a seed: those on which both must agree, every fortieth a large one, then the differences."""
    rng = Random(seed)
    drawn = [
        draw_run(rng, AGREE, sizes=(200, 300), most_tokens=30) if place % 40 == 39 else draw_run(rng, AGREE)
        for place in range(runs)
    ]
    for difference in DIFFERENCES:
        drawn += [
            draw_run(
                rng,
                difference.words,
                change=difference.change,
                usages=difference.usages,
                sizes=(5, 13, 34),
                most_tokens=200,
                wall_ns=difference.wall_ns,
            )
            for _ in range(RUNS_PER_DIFFERENCE)
        ]
    return drawn


def measure(runs: list[Run], aiperf_python: str) -> tuple[Side, Side]:
    """Return what either side makes of the runs; AIPerf in a process of its own environment."""
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder) / "runs.msgpack", Path(folder) / "numbers.msgpack"
        given.write_bytes(msgspec.msgpack.encode(runs))
        process = subprocess.Popen(
            [aiperf_python, "-m", "aiperf_oracle.theirs", given, made],
            env={**os.environ, "PYTHONPATH": str(ROOT / "scripts")},
            cwd=folder,
        )
        try:
            our_side = ours.measure(runs)
        finally:
            code = process.wait()
        if code:
            raise SystemExit(f"error: AIPerf's side ended with {code}")
        return our_side, msgspec.msgpack.decode(made.read_bytes(), type=Side)


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/oracle", description=__doc__)
    parser.add_argument("aiperf_python", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=400, help="on which both must agree")
    parser.add_argument("--out", type=Path, default=RESULT)
    asked = parser.parse_args()
    runs = draw(asked.seed, asked.runs)
    our_side, their_side = measure(runs, os.path.abspath(asked.aiperf_python))
    agreement, shown = Agreement(), {difference.words: Shown() for difference in DIFFERENCES}
    for run, our, their in zip(runs, our_side.numbers, their_side.numbers, strict=True):
        (agreement if run.part == AGREE else shown[run.part]).add(run, our, their)
    print(f"{agreement.streams} streams, {agreement.runs} runs: largest relative difference {agreement.worst:.1e}")
    findings = list(agreement.findings)
    for difference in DIFFERENCES:
        findings += [(size, f"{difference.words}\n{words}") for size, words in shown[difference.words].findings]
    if findings:
        smallest = min(findings)[1]
        raise SystemExit(f"error: {len(findings)} disagreements beyond {TOLERANCE:g}, not accounted for\n{smallest}")
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(
        table.write(
            agreement,
            [(difference, shown[difference.words]) for difference in DIFFERENCES],
            versions=our_side.versions | their_side.versions,
            seed=asked.seed,
        )
    )
    print(f"result: {os.path.relpath(asked.out)}")


main()
