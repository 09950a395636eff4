"""Every API as a user asks for it, against the simulated server."""

import json
from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pytest
from conftest import loadgen

from loadgen.plan.recordings.apis import APIS
from loadgen.servers.simulated.apis import APIS as SIMULATED
from loadgen.wire.formats import FORMATS

EVERY_API = pytest.mark.parametrize("api", APIS)
FORMAT = {name: dialect.name for dialect in FORMATS.values() for name in dialect.encoders}
KEYS = {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none"}
# Of an answer of 8 tokens after 3 of reasoning: those of text, those there are in all, and the frames that say them.
# Text completions have neither reasoning nor calls; Ollama says a call in one line, and in `generate` none.
COUNTS = dict.fromkeys(APIS, (4, 11, 11))
COUNTS |= {"openai-completions": (8, 8, 8), "ollama-chat": (4, 11, 8), "ollama-generate": (8, 11, 11)}
COUNTS_REASONING = {"openai-chat", "openai-responses", "anthropic", "bedrock-anthropic"}


@pytest.fixture(scope="module")
def thinking(simulate) -> str:
    """A server whose every answer reasons first and ends in a call."""
    return simulate(
        "--ttft", "20ms", "--itl", "2ms", "--tokens", "8", "--reasoning", "3", "--tools-pct", "100", "--slots", "0"
    )


@pytest.fixture(scope="module")
def asked(thinking, tmp_path_factory):
    """What a probe told, and the rows of a run, of each API; two at a time, since starting takes most of it."""
    folder = tmp_path_factory.mktemp("apis")

    def ask(api: str) -> tuple[dict, pl.DataFrame]:
        probe = loadgen("probe", thinking, "sim", "--api", api, env=KEYS)
        assert probe.returncode == 0, probe.stderr
        run = loadgen(
            "run", thinking, "--api", api, "--prompt", "one two three", "--model", "sim", "--rate", "100", "--requests",
            "10", "--out", folder / api, env=KEYS,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
        return json.loads(probe.stdout), pl.read_parquet(folder / api / "requests.parquet")

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(APIS, pool.map(ask, APIS), strict=True))


def natural(api: str) -> str:
    return SIMULATED[api].reasons["tool_calls" if SIMULATED[api].calls else "stop"]


@EVERY_API
def test_a_probe_reads_every_api(asked, api):
    told, _ = asked[api]

    assert ("completed", natural(api), FORMAT[api]) == (told["outcome"], told["finish_reason"], told["format"])
    assert COUNTS[api][0] == told["text_events"]
    assert told["first_text_seconds"] >= told["ttft_seconds"] >= 0.02


@EVERY_API
def test_a_run_measures_every_api(asked, api):
    _, rows = asked[api]
    reasoning = 3 if api in COUNTS_REASONING else None

    assert [("completed", FORMAT[api], True)] * 10 == list(rows.select("outcome", "format", "finished").iter_rows())
    counts = rows.select("input_tokens", "output_tokens", "reasoning_tokens", "output_frames", "tokens_approximate")
    assert {(3, COUNTS[api][1], reasoning, COUNTS[api][2], False)} == set(counts.iter_rows())
    assert rows["ttft_ms"].min() >= 20


def test_a_feed_is_responded_to_and_gives_no_models_numbers(thinking, tmp_path):
    (tmp_path / "rec.jsonl").write_text('{"path": "/feed?events=5", "method": "GET"}\n')
    done = loadgen(
        "run", thinking, "--recording", tmp_path / "rec.jsonl", "--rate", "100", "--requests", "4", "--out",
        tmp_path / "run", "--json",
    )  # fmt: skip
    summary = json.loads(done.stdout)

    assert {"responded": 4} == summary["outcomes"]
    assert [5] * 4 == pl.read_parquet(tmp_path / "run" / "requests.parquet")["frames"].to_list()


def test_a_model_that_cannot_be_is_refused():
    refused = loadgen("simulate", "--tools-pct", "101")

    assert 2 == refused.returncode
    assert "tools_pct" in refused.stderr
