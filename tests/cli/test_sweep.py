"""Sweeps and their table, on the simulated server."""

import csv
import io
import json
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import loadgen, start_loadgen, until_it_sends

ROOT = Path(__file__).parents[2]
SAY = ("--prompt", "hi", "--model", "sim", "--cache", "cold")


@pytest.fixture(scope="module")
def sixteen(simulate) -> str:
    """A server that serves 16 at once: 16 callers fill it."""
    return simulate("--slots", "16", "--ttft", "50ms", "--itl", "5ms", "--tokens", "20")


@pytest.fixture(scope="module")
def closed(sixteen, tmp_path_factory):
    folder = tmp_path_factory.mktemp("closed") / "sweep"
    options = ("--concurrency", "4,16,32", "--duration", "1s", "--slo", "ttft<120ms", "--cool-down", "0s")
    done = loadgen("sweep", sixteen, *SAY, *options, "--out", folder)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def levels_in(folder: Path, *options: str) -> dict:
    return json.loads(loadgen("table", folder, "--json", *options).stdout)


def test_a_closed_loop_saturates_where_the_server_is_full(closed):
    four, sixteen, more = (level["completed_per_sec"] for level in levels_in(closed[0])["levels"])

    assert 3 < sixteen / four < 4.5
    assert 0.85 < more / sixteen < 1.2


def test_a_closed_loop_is_called_one_and_has_no_offered_rate(closed):
    folder, shown = closed

    assert "closed loop" in shown
    assert "offered" not in shown
    assert not any("offered_per_sec" in level for level in levels_in(folder)["levels"])
    assert "offered_per_sec" not in loadgen("table", folder, "--csv").stdout


def test_the_knee_is_the_highest_level_that_meets_the_objectives(closed):
    folder, shown = closed

    assert "knee: 16 callers" in shown
    assert "16 callers" == levels_in(folder)["knee"]
    assert "32 callers" == levels_in(folder, "--slo", "ttft<10s")["knee"]
    assert levels_in(folder, "--slo", "ttft<1us")["knee"] is None


def test_without_objectives_there_is_no_knee(sixteen, tmp_path):
    done = loadgen(
        "sweep", sixteen, *SAY, "--rates", "5,10", "--requests", "5", "--cool-down", "0s", "--out", tmp_path / "s"
    )

    assert "no objective was given" in done.stdout
    assert levels_in(tmp_path / "s")["knee"] is None


def test_finished_levels_are_skipped_and_others_done(sixteen, tmp_path):
    options = ("--rates", "40,20", "--duration", "1500ms", "--cool-down", "0s", "--out", tmp_path / "s")
    process = start_loadgen("sweep", sixteen, *SAY, *options)
    until_it_sends(tmp_path / "s" / "rate-20", process)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=30)
    before = (tmp_path / "s" / "rate-40" / "summary.json").stat().st_mtime_ns

    again = loadgen("sweep", sixteen, *SAY, *options)

    assert 130 == process.returncode, said
    assert 0 == again.returncode, again.stderr
    assert "rate-40: finished before" in again.stderr
    assert before == (tmp_path / "s" / "rate-40" / "summary.json").stat().st_mtime_ns
    stopped = json.loads((tmp_path / "s" / "rate-20" / "summary.json").read_text())
    assert "SIGINT" == stopped["ended"]["stopped_by"]
    assert [20.0, 40.0] == [level["rate"] for level in levels_in(tmp_path / "s")["levels"]]


def test_a_sweep_does_not_go_on_with_other_options(closed, sixteen):
    refused = loadgen("sweep", sixteen, *SAY, "--concurrency", "4,16,32", "--duration", "9s", "--out", closed[0])

    assert 2 == refused.returncode
    assert "another options" in refused.stderr


def test_everything_but_the_level_is_the_same(closed):
    configs = [json.loads((closed[0] / f"callers-{n}" / "run.json").read_text())["config"] for n in (4, 16, 32)]

    different = {name for name in configs[0] if len({json.dumps(config[name]) for config in configs}) > 1}
    assert {"concurrency"} == different


def test_caps_are_swept_under_one_rate(sixteen, tmp_path):
    done = loadgen(
        "sweep", sixteen, *SAY, "--rate", "50", "--max-concurrency", "2,20", "--duration", "1s", "--cool-down", "0s",
        "--out", tmp_path / "s",
    )  # fmt: skip

    assert ["cap 2", "cap 20"] == [level["level"] for level in levels_in(tmp_path / "s")["levels"]]
    assert "cap 2: the cap delayed" in done.stdout
    assert "from due" in done.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "no levels given"),
        (("--rates", "1,2", "--concurrency", "1,2"), "--rates and --concurrency given"),
        (("--rates", "1,0"), "'0' is not a level"),
        (("--rates", "1,x"), "'x' is not a level"),
        (("--concurrency", "1.5,2"), "'1.5' is not a level"),
        (("--rates", "1,2", "--slo", "tfft<1s"), "no metric 'tfft'"),
        (("--rates", "1,2", "--stages", "1@1s"), "given"),
        (("--rates", "1,2", "--cool-down", "5"), "--cool-down"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_levels_that_cannot_be_done_are_refused_before_anything_is_sent(sixteen, tmp_path, options, words):
    refused = loadgen("sweep", sixteen, *SAY, "--duration", "1s", *options, "--out", tmp_path / "s")

    assert 2 == refused.returncode
    assert words in refused.stderr
    assert not (tmp_path / "s").exists()


def test_a_gate_that_fails_at_one_level_is_the_sweeps_exit_code(sixteen, tmp_path):
    done = loadgen(
        "sweep", sixteen, *SAY, "--rates", "5,10", "--requests", "4", "--cool-down", "0s", "--allow-invalid",
        "--fail-if", "run.submitted-per-sec > 7", "--out", tmp_path / "s",
    )  # fmt: skip

    assert (1, True) == (done.returncode, "rate-5: exit 0" in done.stderr)
    assert 2 == len(levels_in(tmp_path / "s")["levels"])


def test_a_headers_secret_reaches_every_level_and_no_file(simulate, sixteen, tmp_path):
    done = loadgen(
        "sweep", sixteen, *SAY, "--rates", "5,10", "--requests", "2", "--cool-down", "0s",
        "--header", "Authorization: Bearer hush", "--out", tmp_path / "s",
    )  # fmt: skip

    assert 0 == done.returncode
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"hush" in path.read_bytes()]


def test_the_table_is_also_csv(closed):
    rows = list(csv.DictReader(io.StringIO(loadgen("table", closed[0], "--csv").stdout)))

    assert ["4", "16", "32"] == [row["callers"] for row in rows]
    assert all(float(row["ttft_p50_ms"]) > 40 for row in rows)


def test_a_table_takes_runs_as_well_as_sweeps(closed):
    folders = [closed[0] / f"callers-{n}" for n in (32, 4)]

    levels = json.loads(loadgen("table", *folders, "--json").stdout)["levels"]

    assert ["4 callers", "32 callers"] == [level["level"] for level in levels]


def test_what_is_no_run_is_refused(tmp_path):
    refused = loadgen("table", tmp_path)

    assert 2 == refused.returncode
    assert "no run in it" in refused.stderr


def test_the_sweep_script_shows_the_same_by_plain_runs(sixteen, tmp_path):
    done = subprocess.run(
        [ROOT / "scripts" / "sweep", sixteen, "2 4", *SAY, "--duration", "1s"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip

    assert "closed loop" in done.stdout
    assert "4 callers" in done.stdout
