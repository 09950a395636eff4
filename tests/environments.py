"""Environments of their own for other people's software: installed on first use, anew when what makes them changes."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path


class CannotInstall(Exception):
    """A package is not to be had on this machine; the message is one line."""


def environment(
    cache: Path, pins: Path, *sources: Path, complete: Callable[[Path], None] = lambda folder: None
) -> Path:
    """Return a folder whose virtual environment `venv` has the pinned packages; raises CannotInstall.

    A new one is made where the pins or other `sources` changed, and `complete` adds to it what else it needs.
    """
    read = b"".join(path.read_bytes() for path in (pins, *sources))
    folder = cache / hashlib.sha256(read + sys.version.encode()).hexdigest()[:16]
    made = folder / "made"  # written last: a folder without it was left half-way
    if made.exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    venv = folder / "venv"
    python = venv / "bin" / "python"
    if uv := shutil.which("uv"):
        steps = [
            [uv, "venv", "--quiet", "--python", sys.executable, venv],
            [uv, "pip", "install", "--quiet", "--python", python],
        ]
    else:
        steps = [[sys.executable, "-m", "venv", venv], [python, "-m", "pip", "install", "--quiet"]]
    steps[1] += ["--require-hashes", "-r", pins]
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise CannotInstall(f"{pins.parent.name} cannot be installed here: {reason}")
    complete(folder)
    made.touch()
    return folder
