"""Two real llama.cpp servers scraped beside a load, one of them restarted in its midst: their totals are ours."""

import json
import socket
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from conftest import start_loadgen, until_it_sends
from environments import CannotInstall
from realservers.llamacpp.server import start

pytestmark = pytest.mark.llamacpp

CACHE = Path(__file__).parents[2] / ".venv" / "real-servers"
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
A_SCRAPE_S = 0.2


def ask(url: str, tokens: int) -> dict[str, int]:
    """Have a server generate some tokens; return its own count."""
    asked = {"prompt": f"count to {tokens}", "max_tokens": tokens, "ignore_eos": True, "cache_prompt": False}
    request = urllib.request.Request(
        f"{url}/v1/completions", json.dumps(asked).encode(), {"content-type": "application/json"}
    )
    with DIRECT.open(request, timeout=20) as answer:
        usage: dict[str, int] = json.load(answer)["usage"]
    return usage


@pytest.fixture(scope="module")
def summary(tmp_path_factory) -> tuple[dict[str, Any], list[dict[str, int]]]:
    """The run's summary, and what else the second server was asked while it ran."""
    out = tmp_path_factory.mktemp("metrics") / "run"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    try:
        with ExitStack() as servers, ExitStack() as second:
            loaded, other = servers.enter_context(start(CACHE)), second.enter_context(start(CACHE, port=port))
            ask(other, 50)
            run = start_loadgen(
                "run", loaded, "--input-tokens", "8..40", "--output-tokens", "5..30", "--model", "tiny", "--rate", "10",
                "--duration", "5s", "--metrics-url", f"{loaded}/metrics", "--metrics-url", f"{other}/metrics",
                "--metrics-every", f"{A_SCRAPE_S}s", "--out", out,
            )  # fmt: skip
            until_it_sends(out, run)
            time.sleep(5 * A_SCRAPE_S)
            asked = [ask(other, 9)]
            time.sleep(5 * A_SCRAPE_S)
            second.close()
            second.enter_context(start(CACHE, port=port))
            asked.append(ask(other, 4))
            said, _ = run.communicate(timeout=60)
            assert run.returncode == 0, said
    except CannotInstall as reason:
        pytest.skip(str(reason))
    return json.loads((out / "summary.json").read_text()), asked


def test_the_servers_tokens_are_ours_over_the_restart(summary):
    made, asked = summary
    metrics, llm = made["server"]["metrics"], made["llm"]

    assert made["offered"] == made["metrics"]["e2e"]["n"] + sum(
        entry["requests"] for entry in made["details"] if entry["detail"] == "no_answer"
    )
    assert (
        llm["output_tokens"] + sum(usage["completion_tokens"] for usage in asked) == metrics["output_tokens"]["total"]
    )
    assert llm["input_tokens"] + sum(usage["prompt_tokens"] for usage in asked) == metrics["input_tokens"]["total"]


def test_the_restart_is_told_of(summary):
    made, _ = summary

    assert any("counted anew before" in alert for alert in made["server"]["alerts"])
    assert ["llamacpp", "llamacpp"] == [replica["dialect"] for replica in made["server"]["replicas"]]
