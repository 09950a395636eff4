"""A real llama.cpp server for a test: installed on first use, made anew when its pins or its model change."""

import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from environments import environment

HERE = Path(__file__).parent
START_S = 30.0
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback needs no proxy


def install(cache: Path) -> Path:
    """Return a folder with a virtual environment `venv` and a model `tiny.gguf`; raises CannotInstall."""
    maker = HERE / "make_model.py"

    def make_model(folder: Path) -> None:
        python = folder / "venv" / "bin" / "python"
        subprocess.run([python, maker, folder / "tiny.gguf"], check=True, capture_output=True)

    return environment(cache, HERE / "requirements.txt", maker, HERE / "words.py", complete=make_model)


@contextmanager
def start(cache: Path, *, slots: int = 4, port: int = 0) -> Iterator[str]:
    """Yield the URL of a running server; raises CannotInstall, or RuntimeError with the server's last words."""
    folder = install(cache)
    if not port:
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
