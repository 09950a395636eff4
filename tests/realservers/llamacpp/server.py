"""A real llama.cpp server for a test: installed on first use, made anew when its pins or its model change."""

import hashlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
START_S = 30.0
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback needs no proxy


class CannotInstall(Exception):
    """The wheel is not to be had on this machine; the message is one line."""


def install(cache: Path) -> Path:
    """Return a folder with a virtual environment `venv` and a model `tiny.gguf`; raises CannotInstall."""
    pins, maker = HERE / "requirements.txt", HERE / "make_model.py"
    sources = pins.read_bytes() + maker.read_bytes() + (HERE / "words.py").read_bytes()
    folder = cache / hashlib.sha256(sources + sys.version.encode()).hexdigest()[:16]
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
            raise CannotInstall(f"llama.cpp cannot be installed here: {reason}")
    subprocess.run([python, maker, folder / "tiny.gguf"], check=True, capture_output=True)
    made.touch()
    return folder


@contextmanager
def start(cache: Path, *, slots: int = 4) -> Iterator[str]:
    """Yield the URL of a running server; raises CannotInstall, or RuntimeError with the server's last words."""
    folder = install(cache)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryFile("w+") as log:
        command = [folder / "venv" / "bin" / "python", HERE / "serve.py", folder / "tiny.gguf", str(port), str(slots)]
        server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            until = time.monotonic() + START_S
            while not _is_up(url):
                if server.poll() is not None or time.monotonic() > until:
                    log.seek(0)
                    raise RuntimeError(f"llama.cpp did not start:\n{log.read()[-2000:]}")
                time.sleep(0.1)
            yield url
        finally:
            server.terminate()
            try:
                server.wait(5)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _is_up(url: str) -> bool:
    try:
        with _DIRECT.open(f"{url}/health", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
