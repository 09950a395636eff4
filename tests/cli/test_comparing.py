"""`loadgen compare` at the command line: what it prints, and its exit codes."""

import json
from pathlib import Path

import pytest
from conftest import loadgen
from report.test_compare import noisy, rows, run_of


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Two runs of equal servers, one of a slower one, one under another cache condition."""
    folder = tmp_path_factory.mktemp("runs")
    for name, seed, by, config in (
        ("a", 1, 1.0, {}),
        ("b", 2, 1.0, {}),
        ("slow", 3, 1.3, {}),
        ("cold", 4, 1.0, {"cache": "cold"}),
    ):
        run_of(folder / name, rows(noisy(seed, by)), **config)
    return folder


def test_the_conclusion_comes_first_and_the_accounting_after_it(runs):
    told = loadgen("compare", runs / "a", runs / "slow")

    assert 0 == told.returncode, told.stderr
    assert told.stdout.startswith("B is worse: ttft-p95 is ")
    assert ["completed", "300", "100.0", "300", "100.0"] in [line.split() for line in told.stdout.splitlines()]
    assert ["long", "100", "100", "100.0", "100", "100.0"] in [line.split() for line in told.stdout.splitlines()]
    assert "ttft p95 *" in told.stdout


def test_a_gate_on_a_change_sets_the_exit_code(runs):
    gate = ("--fail-if", "llm.ttft-p50-change-pct > 10")
    passed, failed = (
        loadgen("compare", runs / "a", runs / "b", *gate),
        loadgen("compare", runs / "a", runs / "slow", *gate),
    )

    assert (0, 1) == (passed.returncode, failed.returncode)
    assert "FAIL" in failed.stdout


def test_all_of_it_is_there_as_json(runs):
    made = json.loads(loadgen("compare", runs / "a", runs / "b", "--primary", "itl-p50", "--json").stdout)

    assert ("itl-p50", "no difference") == (made["primary"], made["conclusion"]["kind"])
    assert {"a", "b", "classes", "same", "shifts", "useful", "transitions", "gates"} <= made.keys()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("a", "cold"), "cache condition: not stated / cold"),
        (("a", "a,b,a"), "a run is named twice"),
        (("a", "nowhere"), "no run in it"),
        (("a", "b", "--primary", "speed"), "is not METRIC-pNN"),
        (("a", "b", "--fail-if", "llm.speed > 1"), "there is no 'llm.speed'"),
    ],
)
def test_what_cannot_be_compared_is_exit_2(runs, arguments, words):
    paths = [",".join(str(runs / part) for part in argument.split(",")) for argument in arguments[:2]]
    refused = loadgen("compare", *paths, *arguments[2:])

    assert 2 == refused.returncode
    assert words in refused.stderr
