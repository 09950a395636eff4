"""The capacity of the simulated server, where queueing theory puts it."""

import json
from pathlib import Path

import pytest
from conftest import loadgen

from loadgen.cli import app
from loadgen.errors import UsageError

SAY = ("--prompt", "hi", "--model", "sim", "--cache", "cold", "--cool-down", "0s", "--tries", "8")
SLOTS, SERVICE_S = 16, 0.4
BOUNDS = ("--from", "37.5", "--to", "41.5", "--precision", "6%", "--longest-probe", "2s")
SEARCH = (*SAY, "--slo", "ttft<420ms", "--target-good-pct", "90", *BOUNDS)


def capacity(*arguments: str | Path) -> int:
    """Run the command here; return its exit code. The runs that it makes are processes of their own."""
    return app(["capacity", *map(str, arguments)], standalone_mode=False)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def sixteen(simulate) -> str:
    """16 slots, each taken for 400 ms: the first token after 380 ms, and two more."""
    return simulate("--slots", "16", "--ttft", "380ms", "--itl", "10ms", "--tokens", "3", "--queue", "500")


@pytest.fixture(scope="module")
def found(sixteen, tmp_path_factory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("capacity") / "found"
    done = loadgen("capacity", sixteen, *SEARCH, "--json", "--out", folder)
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)


def test_the_capacity_is_where_queueing_theory_puts_it(found):
    """Constant arrivals at servers with a constant time of service (D/D/c): nobody waits up to c / service time."""
    theory = SLOTS / SERVICE_S
    told = found[1]
    passed, failed = told["interval_per_sec"]

    assert 40.0 == theory
    assert passed == told["capacity_per_sec"] == pytest.approx(theory, rel=0.05)
    assert passed <= theory <= failed == pytest.approx(theory, rel=0.05)


def test_the_answer_says_how_sure_it_is_and_what_limits(found):
    told = found[1]

    assert (95.0, 90.0, "precise") == (told["confidence_pct"], told["target_good_pct"], told["ended"])
    assert "not ttft<420ms" in told["limit"]
    assert all(probe["good_low_pct"] >= 90 for probe in told["probes"] if probe["judgement"] == "passed")


def test_probes_are_kept_as_runs(found):
    folder, told = found
    runs = [run for probe in told["probes"] for run in probe["runs"]]

    assert all((folder / run / "requests.parquet").is_file() for run in runs)
    levels = json.loads(loadgen("table", folder, "--json").stdout)["levels"]
    assert {probe["rate"] for probe in told["probes"]} == {level["rate"] for level in levels}


def test_the_same_command_again_takes_what_was_found(found, sixteen, capsys):
    folder, told = found

    assert 0 == capacity(sixteen, *SEARCH, "--out", folder)

    said = capsys.readouterr().out
    assert " ".join(told["words"].split()) in " ".join(said.split())
    assert "constant arrivals" in said
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == sorted(
        run for probe in told["probes"] for run in probe["runs"]
    )


def test_a_search_does_not_go_on_with_another_target(found, sixteen):
    with pytest.raises(UsageError, match="with another search"):
        capacity(sixteen, *SEARCH, "--target-good-pct", "95", "--out", found[0])


def test_without_a_rate_that_passes_the_exit_code_is_one(sixteen, tmp_path, capsys):
    bounds = ("--from", "40", "--to", "50", "--target-good-pct", "90", "--requests", "20")

    assert 1 == capacity(sixteen, *SAY, *bounds, "--slo", "ttft<5ms", "--out", tmp_path / "c")

    said = capsys.readouterr().out
    assert "no rate passed; 40/s fails: the lowest rate asked for does not" in said
    assert "at 40/s: not ttft<5ms 100.0 %" in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "no objective given"),
        (("--slo", "tfft<1s"), "no metric 'tfft'"),
        (("--slo", "ttft<1s", "--target-good-pct", "100"), "--target-good-pct 100 is not between"),
        (("--slo", "ttft<1s", "--from", "8", "--to", "4"), "--from 8 is not below --to 4"),
        (("--slo", "ttft<1s", "--from", "0"), "--from 0 is not a rate"),
        (("--slo", "ttft<1s", "--precision", "0"), "--precision '0' is not a percentage"),
        (("--slo", "ttft<1s", "--requests", "100"), "--requests 100: even extended, a probe could not pass"),
        (("--slo", "ttft<1s", "--arrivals", "bursty"), "bursty"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_search_that_cannot_be_done_is_refused_before_anything_is_sent(tmp_path, options, words):
    with pytest.raises(UsageError, match=words):
        capacity("http://127.0.0.1:9", *SAY, *options, "--out", tmp_path / "c")

    assert not (tmp_path / "c").exists()


def test_a_target_that_is_not_there_ends_the_search(tmp_path):
    assert 4 == capacity("http://127.0.0.1:9", *SAY, "--slo", "ttft<1s", "--from", "5", "--out", tmp_path / "c")
