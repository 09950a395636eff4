"""Servers scraped beside a run: the client's time is explained by the server's, and no scrape costs a run."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import loadgen

ASKED = ("--prompt", "hi there", "--model", "sim", "--cache", "warm")


def run(url: str, out: Path, *arguments: str) -> dict[str, Any]:
    done = loadgen("run", url, *ASKED, "--allow-invalid", "--out", out, "--json", *arguments)
    assert 0 == done.returncode, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(("rate", "requests"), [("4", "8"), ("30", "60")])
def test_the_clients_ttft_is_queue_time_prefill_and_delivery(simulate, tmp_path, rate, requests):
    url = simulate("--ttft", "100ms", "--itl", "10ms", "--tokens", "11", "--slots", "4", "--queue", "1000")
    summary = run(url, tmp_path / "run", "--rate", rate, "--requests", requests, "--metrics-url", f"{url}/metrics")
    server, client = summary["server"]["metrics"], summary["metrics"]
    passed = server["queue_time"]["mean"] + server["prefill_time"]["mean"]

    assert int(requests) == server["ttft"]["n"] == client["ttft"]["n"]
    assert passed == pytest.approx(server["ttft"]["mean"], rel=0.01)
    assert passed == pytest.approx(client["ttft"]["mean"], rel=0.15)
    assert (rate == "30") == (server["queue_time"]["mean"] > 100)
    assert 11 * int(requests) == server["output_tokens"]["total"]
    pairs = {pair["name"]: pair for pair in summary["server"]["pairs"]}
    assert pairs["output_tokens"]["client"] == pairs["output_tokens"]["server"]
    assert summary["server"]["where"].startswith("of ")


def test_what_cannot_be_scraped_is_an_alert_and_the_run_is_whole(simulator, tmp_path):
    urls = ("--metrics-url", "http://127.0.0.1:1/metrics", "--metrics-url", f"{simulator}/health")
    summary = run(simulator, tmp_path / "run", "--rate", "20", "--requests", "10", *urls)
    shown = loadgen("summary", tmp_path / "run").stdout

    assert {"completed": 10} == summary["outcomes"]
    assert {} == summary["server"]["metrics"]
    assert 2 == sum("scrapes failed" in alert for alert in summary["server"]["alerts"])
    assert "Connection refused" in shown
    assert "no page of metrics" in shown


def test_the_first_scrape_comes_before_the_first_request_and_the_last_after_the_last_answer(simulator, tmp_path):
    summary = run(
        simulator, tmp_path / "run", "--rate", "20", "--requests", "10", "--metrics-url", f"{simulator}/metrics"
    )
    scrapes = pl.read_parquet(tmp_path / "run" / "server.parquet").filter(pl.col("sample") == "up")
    rows = pl.read_parquet(tmp_path / "run" / "requests.parquet")

    assert scrapes["at_ns"][0] < rows["sent_ns"].min()
    assert scrapes["at_ns"][-1] > rows["end_ns"].max()
    assert 0 == summary["server"]["replicas"][0]["failed"]


def test_the_table_has_the_servers_columns(simulator, tmp_path):
    for level in ("10", "20"):
        run(simulator, tmp_path / level, "--rate", level, "--requests", "5", "--metrics-url", f"{simulator}/metrics")
    as_csv = loadgen("table", tmp_path / "10", tmp_path / "20", "--csv").stdout.splitlines()
    shown = loadgen("table", tmp_path / "10", tmp_path / "20").stdout

    assert {"server_queue_time_mean_ms", "server_output_tokens_total", "server_waiting_mean"} <= set(
        as_csv[0].split(",")
    )
    assert "queue" in shown


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--metrics-url", "http://127.0.0.1:1"), "names no page"),
        (("--metrics-url", "ftp://127.0.0.1/metrics"), "is not supported"),
        (("--metrics-url", "http://127.0.0.1:1/m", "--metrics-every", "0s"), "--metrics-every is 0"),
    ],
)
def test_a_wrong_page_is_refused_before_anything_is_sent(simulator, options, words):
    refused = loadgen("run", simulator, *ASKED, "--rate", "1", "--requests", "1", *options)

    assert 2 == refused.returncode
    assert words in refused.stderr
