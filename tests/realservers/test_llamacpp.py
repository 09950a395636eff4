"""Real input: recorded prompts of two classes, open loop, against a real llama.cpp server."""

import json
import random
from pathlib import Path

import polars as pl
import pytest
import trio
from conftest import loadgen
from environments import CannotInstall
from net.peer import client_of
from realservers.llamacpp.server import start
from realservers.llamacpp.words import WORDS

from loadgen.net.reach import reach
from loadgen.net.route import Route
from loadgen.net.target import parse_target

pytestmark = pytest.mark.llamacpp

CACHE = Path(__file__).parents[2] / ".venv" / "real-servers"
REQUESTS = 240


@pytest.fixture(scope="module")
def llamacpp():
    try:
        with start(CACHE) as url:
            yield url
    except CannotInstall as reason:
        pytest.skip(str(reason))


def prompt(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words))


def body(text: str, **more: object) -> dict[str, object]:
    asked = {"model": "tiny", "messages": [{"role": "user", "content": text}], "stream": True, "temperature": 1.0}
    # An identical prompt would be answered from llama.cpp's prompt cache, and the first token with it.
    return asked | {"stream_options": {"include_usage": True}, "cache_prompt": False} | more


@pytest.fixture(scope="module")
def run(llamacpp, tmp_path_factory):
    folder = tmp_path_factory.mktemp("llamacpp")
    rng = random.Random(5)
    rows = []
    for i in range(REQUESTS):
        short = i % 4 != 3
        asked = body(prompt(rng, 8), max_tokens=12) if short else body(prompt(rng, 300))
        rows.append(
            {"id": str(i), "path": "/v1/chat/completions", "class": "short" if short else "long", "body": asked}
        )
    (folder / "rec.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = loadgen(
        "run", llamacpp, "--recording", folder / "rec.jsonl", "--rate", "40", "--arrivals", "poisson", "--deadline",
        "30s", "--out", folder / "run", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return pl.read_parquet(folder / "run" / "requests.parquet"), json.loads(done.stdout)


def test_every_scheduled_request_has_one_row_and_was_answered(run):
    rows, _ = run

    assert list(range(REQUESTS)) == rows["seq"].to_list()
    assert {"openai"} == set(rows["format"])
    assert rows["finished"].all()


def test_finish_reasons_decide_the_outcome(run):
    rows, _ = run
    answered = rows.filter(pl.col("output_frames") > 0)
    silent = rows.filter(pl.col("output_frames") == 0)  # its first token was the end

    assert {("completed", "stop"), ("truncated", "length")} == set(
        answered.select("outcome", "finish_reason").iter_rows()
    )
    assert {("noneligible_finish", "stop", "no_answer")} >= set(
        silent.select("outcome", "finish_reason", "detail").iter_rows()
    )
    assert {"short"} == set(rows.filter(pl.col("outcome") == "truncated")["class"])


def test_tokens_come_from_the_servers_usage_report(run):
    rows, summary = run
    capped = rows.filter(pl.col("finish_reason") == "length")

    assert not rows["tokens_approximate"].any()
    assert {12} == set(capped["output_tokens"])
    assert rows.filter(pl.col("class") == "short")["output_tokens"].max() <= 12
    assert rows.filter(pl.col("class") == "long")["input_tokens"].min() >= 300
    assert summary["llm"]["output_tokens"] == rows["output_tokens"].sum()


def test_the_classes_are_told_apart(run):
    _, summary = run

    assert {"short": 180, "long": 60} == {name: part["offered"] for name, part in summary["classes"].items()}
    ttft = {name: part["metrics"]["ttft"]["p50"] for name, part in summary["classes"].items()}
    assert ttft["long"] > ttft["short"]  # a prompt of 300 words takes longer to read than one of eight


async def test_our_times_stand_beside_the_servers_own(llamacpp, capsys):
    """One at a time, so that no queue stands between its clock and ours."""
    rng = random.Random(6)
    address = await reach(Route(target=parse_target(llamacpp), connect_timeout_s=5))
    ours, theirs = [], []
    async with client_of(address) as client:
        for _ in range(30):
            asked = json.dumps(body(prompt(rng, 200), max_tokens=60, ignore_eos=True)).encode()
            exchange = client.exchange(asked, path="/v1/chat/completions")
            seen = Overheard(exchange.sink)
            exchange.sink = seen
            with trio.fail_after(20):
                await client.network.perform(exchange)
            reading, timings = seen.reading, seen.timings()
            span = reading.last_output_ns - reading.first_output_ns
            ours.append(
                ((reading.first_output_ns - exchange.sent_ns) / 1e6, span / 1e6 / (reading.usage.output_tokens - 1))
            )
            theirs.append((timings["prompt_ms"], timings["predicted_per_token_ms"]))

    def median(values: list[float]) -> float:
        return sorted(values)[len(values) // 2]

    ttft, itl = median([t for t, _ in ours]), median([i for _, i in ours])
    prompt_ms, per_token_ms = median([p for p, _ in theirs]), median([p for _, p in theirs])
    with capsys.disabled():
        print(
            f"\n  llama.cpp says prompt {prompt_ms:.2f} ms, {per_token_ms:.3f} ms/token; "
            f"we say ttft {ttft:.2f} ms, itl {itl:.3f} ms (medians of 30)"
        )
    assert ttft > prompt_ms  # it also parses, tokenizes and sends
    assert 0.5 < itl / per_token_ms < 2.0


class Overheard:
    """A reading, and the bytes it was made of."""

    def __init__(self, reading):
        self.reading = reading
        self._kept = b""

    @property
    def ended(self) -> bool:
        return self.reading.ended

    @property
    def broken(self) -> bool:
        return self.reading.broken

    def head(self, status, headers, at_ns):
        self.reading.head(status, headers, at_ns)

    def body(self, data, at_ns, floor_ns):
        self._kept += data
        self.reading.body(data, at_ns, floor_ns)

    def timings(self) -> dict[str, float]:
        lines = [line[6:] for line in self._kept.split(b"\n") if b'"timings"' in line]
        return json.loads(lines[-1])["timings"]
