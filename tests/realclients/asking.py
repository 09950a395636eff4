"""The official clients, asked in an environment of their own."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from environments import CannotInstall, environment

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".venv" / "real-clients"
PROMPT = "five words are in here"


def ask_clients(url: str, asked: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what each client made of its question (`client, wish, cap`), one after the other; skips without them."""
    try:
        folder = environment(CACHE, HERE / "clients" / "requirements.txt")
    except CannotInstall as reason:
        pytest.skip(str(reason))
    python, ask = folder / "venv" / "bin" / "python", HERE / "clients" / "ask.py"
    plain = {
        name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "OPENAI_", "ANTHROPIC_"))
    }
    done = subprocess.run(
        [python, ask, url], input="".join(json.dumps({"prompt": PROMPT} | one) + "\n" for one in asked),
        capture_output=True, text=True, timeout=120, check=False,
        env=plain | {"NO_PROXY": "*", "AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]
