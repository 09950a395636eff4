"""Limits of this machine are met before the run, or become rows that say so."""

import resource
import subprocess
import sys

import polars as pl
from conftest import CLEAN, loadgen

FEW = 64


def with_few_descriptors(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "loadgen", *arguments],
        capture_output=True, text=True, check=False, timeout=60, env=CLEAN,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, FEW)),
    )  # fmt: skip


PROMPT = ("--prompt", "hi", "--model", "sim")


def test_callers_that_need_more_descriptors_than_there_are_do_not_start(simulator, tmp_path):
    done = with_few_descriptors(
        "run", simulator, *PROMPT, "--concurrency", "100", "--requests", "200", "--out", str(tmp_path / "r")
    )

    assert done.returncode == 2
    assert "100 connections at once need more descriptors than" in done.stderr
    assert "hint: raise `ulimit -n`" in done.stderr
    assert not (tmp_path / "r").exists()


def test_an_open_loop_that_may_run_out_is_warned_and_its_limit_is_not_the_servers_fault(simulate, tmp_path):
    slow = simulate("--ttft", "3s", "--tokens", "2", "--slots", "0")
    done = with_few_descriptors(
        "run", slow, *PROMPT, "--rate", "200", "--requests", "100", "--out", str(tmp_path / "r")
    )

    rows = pl.read_parquet(tmp_path / "r" / "requests.parquet")
    assert "note: if every answer takes its whole deadline" in done.stderr
    assert {"completed", "client_limit"} == set(rows["outcome"])
    assert {"descriptors"} == set(rows.filter(pl.col("outcome") == "client_limit")["detail"])
    assert "met a limit of this machine" in done.stdout


def test_an_unforeseen_fault_is_exit_5(simulator, tmp_path):
    (tmp_path / "run.json").write_text('{"run": "x"}')
    (tmp_path / "requests.parquet").write_text("no parquet")
    (tmp_path / "summary.json").write_text('{"run": "x"}')

    done = loadgen("summary", tmp_path)

    assert done.returncode == 5
    assert "a fault of loadgen's own" in done.stderr
