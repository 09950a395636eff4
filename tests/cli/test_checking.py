"""Checks at the command line: what is useful, what stays of an answer's text, and what is refused."""

import json

import polars as pl
from conftest import loadgen

ASKED = ("--prompt", "hi", "--model", "sim", "--cache", "warm", "--rate", "20", "--requests", "10", "--allow-invalid")


def test_useful_is_good_and_passes_every_check_and_no_text_stays(simulator, tmp_path):
    out = tmp_path / "run"
    checks = ("--check", "min-chars=1", "--check", "json", "--fail-if", "run.useful-pct < 100")
    run = loadgen("run", simulator, *ASKED, *checks, "--out", out, "--json")
    summary = json.loads(run.stdout)
    rows = pl.read_parquet(out / "requests.parquet")
    shown = loadgen("summary", out).stdout

    assert 1 == run.returncode
    assert (10, 0, 0.0) == (summary["good"], summary["useful"], summary["useful_pct"])
    assert {"passed": 10, "failed": 0, "not_run": 0, "why": None} == summary["checks"]["min-chars=1"]
    assert (0, 10) == (summary["checks"]["json"]["passed"], summary["checks"]["json"]["failed"])
    assert rows["good"].all()
    assert not rows["useful"].any()
    assert "no JSON at character" in shown
    assert not {"answer", "arguments"} & {*rows.columns}
    assert {path.name for path in out.iterdir()} == {
        *("run.json", "requests.parquet", "frames.parquet", "schedule.parquet", "latency.hlog", "summary.json"),
    }


def test_bodies_are_kept_where_asked_and_replay(simulator, tmp_path):
    out = tmp_path / "run"
    loadgen("run", simulator, *ASKED, "--keep-bodies", "--out", out)
    answers = pl.read_parquet(out / "answers.parquet")
    again = loadgen(
        "run", simulator, "--recording", out / "recording.jsonl", "--rate", "20", "--out", tmp_path / "b", "--json"
    )

    assert 10 == len(answers)
    assert answers["answer"].str.len_chars().min() > 0
    assert 1 == json.loads(again.stdout)["offered"]


def test_a_check_that_cannot_be_is_refused_before_anything_is_sent(simulator):
    refused = loadgen("run", simulator, *ASKED, "--check", "regex=(")

    assert 2 == refused.returncode
    assert "no regular expression" in refused.stderr
