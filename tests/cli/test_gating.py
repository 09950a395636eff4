"""Exit codes of judged runs: 1 where a gate or goal fails, 3 where a run is INVALID and must not be, 2 before a run."""

import json
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import typer
from conftest import CLEAN, loadgen
from typer.main import get_command

from loadgen.cli import app
from loadgen.errors import UsageError

PROMPT = ("--prompt", "hi", "--model", "sim", "--cache", "warm")
PASSES, FAILS = "llm.ttft-p50 > 5000", "llm.ttft-p50 > 1"
FEW = 48  # descriptors


def code_of(command: str, *arguments: str | Path) -> int:
    """The exit code of a command that runs within this process."""
    known = get_command(app).commands[command]  # type: ignore[attr-defined]
    try:
        known.invoke(known.make_context(command, [*map(str, arguments)]))
    except typer.Exit as end:
        return end.exit_code
    except UsageError as error:
        return error.exit_code
    return 0


def run_that_is_valid(simulator: str, tmp_path: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run in a closed loop, where a busy machine cannot make the generator late, with frames far apart."""
    body = {"model": "sim", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    row = {"path": "/v1/chat/completions", "headers": {"x-sim": "tokens=2,itl_ms=50"}, "body": body}
    (tmp_path / "rec.jsonl").write_text(json.dumps(row) + "\n")
    load = ("--recording", tmp_path / "rec.jsonl", "--concurrency", "5", "--requests", "25", "--usage")
    return loadgen("run", simulator, *load, *arguments, "--out", tmp_path / "valid")


@pytest.fixture(scope="module")
def slow(simulate) -> str:
    return simulate("--ttft", "600ms", "--tokens", "2", "--slots", "0")


def run_that_is_invalid(slow: str, tmp_path: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run with too few descriptors for the answers' slowness: its client_limit makes it INVALID."""
    load = (*PROMPT, "--rate", "200", "--requests", "60", "--out", tmp_path / "invalid")
    return subprocess.run(
        [sys.executable, "-m", "loadgen", "run", slow, *map(str, (*load, *arguments))],
        capture_output=True, text=True, timeout=60, env=CLEAN, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, FEW)),
    )  # fmt: skip


@pytest.fixture(scope="module")
def valid(simulator, tmp_path_factory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A VALID run, two of whose three gates and goals fail."""
    folder = tmp_path_factory.mktemp("gating")
    (folder / "goals.toml").write_text("[goals]\nllmTtftP50 = {too_high = 1}\n")
    done = run_that_is_valid(
        simulator, folder, "--config", folder / "goals.toml", "--fail-if", PASSES, "--fail-if",
        "llm.e2e-max[offered]>2", "--slo", "ttft<5s", "--junit", folder / "gates.xml",
    )  # fmt: skip
    return folder / "valid", done


@pytest.fixture(scope="module")
def invalid(slow, tmp_path_factory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """An INVALID run whose only goal is met."""
    folder = tmp_path_factory.mktemp("gating")
    (folder / "goals.toml").write_text("[goals]\nllmTtftP50 = {too_high = 5000}\n")
    done = run_that_is_invalid(
        slow, folder, "--config", folder / "goals.toml", "--junit", folder / "gates.xml"
    )  # fmt: skip
    return folder / "invalid", done


# -- real runs -----------------------------------------------------------------


def test_a_gate_that_holds_lets_a_valid_run_pass(simulator, tmp_path):
    done = run_that_is_valid(simulator, tmp_path, "--fail-if", PASSES)

    assert 0 == done.returncode, done.stdout
    assert done.stdout.startswith("VALID")
    assert "pass" in next(line for line in done.stdout.splitlines() if line.startswith("llm.ttft-p50 > 5000"))


def test_a_gate_or_goal_that_fails_is_exit_1_and_is_shown(valid):
    folder, done = valid

    assert 1 == done.returncode, done.stdout
    assert done.stdout.startswith("VALID")
    lines = {line[:24].rstrip(): line for line in done.stdout.splitlines() if line.startswith("llm.")}
    assert ["pass", "FAIL", "FAIL"] == [
        "FAIL" if "FAIL" in lines[gate] else "pass" for gate in (PASSES, "llm.e2e-max[offered] > 2", FAILS)
    ]
    stored = json.loads((folder / "summary.json").read_text())
    assert [True, False, False] == [gate["passed"] for gate in stored["gates"]]
    assert stored["requires_valid"]


def test_goals_require_a_valid_run_even_where_they_are_met(invalid):
    folder, done = invalid

    assert 3 == done.returncode, done.stdout
    assert done.stdout.startswith("INVALID: ") and "client_limit" in done.stdout.splitlines()[0]
    assert "the run is INVALID, and these gates require a valid one (--allow-invalid opts out)" in done.stdout
    assert [True] == [gate["passed"] for gate in json.loads((folder / "summary.json").read_text())["gates"]]


def test_a_run_writes_its_gates_for_ci(valid, invalid):
    passed, spoilt = (ET.parse(folder.parent / "gates.xml").getroot() for folder, _ in (valid, invalid))

    assert (["valid", PASSES, "llm.e2e-max[offered] > 2", FAILS], "2") == (
        [case.get("name") for case in passed],
        passed.get("failures"),
    )
    assert (["valid", PASSES], "1") == ([case.get("name") for case in spoilt], spoilt.get("failures"))
    assert "limit of this machine" in spoilt[0].find("failure").get("message")


# -- the same by `loadgen summary` ----------------------------------------------

VALID, INVALID = "valid", "invalid"


@pytest.mark.parametrize(
    ("which", "options", "code"),
    [
        (VALID, [], 0),
        (VALID, ["--fail-if", PASSES], 0),
        (VALID, ["--fail-if", FAILS], 1),
        (VALID, ["--fail-if", PASSES, "--fail-if", FAILS], 1),
        (VALID, ["--fail-if", "llm.input-tokens[completed] > 1"], 2),
        (VALID, ["--fail-if", "run.connect-p50 > 1e9", "--fail-if", "llm.frame-gap-p50[offered] > 1e9"], 0),
        (VALID, ["--require-valid"], 0),
        (VALID, ["--require-valid", "--fail-if", FAILS], 1),
        (VALID, ["--allow-invalid", "--fail-if", FAILS], 1),
        (VALID, ["--slo", "ttft<1us"], 0),
        (VALID, ["--slo", "ttft<1us", "--fail-if", "run.useful-pct < 99"], 1),
        (VALID, ["--fail-if", "run.useful-pct < 99"], 0),  # by the run's own objective
        (VALID, ["--fail-if", "llm.tfft-p95 > 1"], 2),
        (VALID, ["--fail-if", "llm.ttft-p95[night] > 1"], 2),
        (VALID, ["--fail-if", "llm.ttft-p95-change-pct > 1"], 2),
        (VALID, ["--slo", "tfft<1s"], 2),
        (VALID, ["--baseline", "/nowhere"], 2),
        (VALID, ["--junit", "/nowhere/gates.xml"], 2),
        (INVALID, [], 0),
        (INVALID, ["--require-valid"], 3),
        (INVALID, ["--allow-invalid"], 0),
        (INVALID, ["--fail-if", PASSES], 3),
        (INVALID, ["--fail-if", FAILS], 3),  # 3 wins over 1
        (INVALID, ["--require-valid", "--fail-if", FAILS], 3),
        (INVALID, ["--allow-invalid", "--fail-if", PASSES], 0),
        (INVALID, ["--allow-invalid", "--fail-if", FAILS], 1),
        (INVALID, ["--allow-invalid", "--fail-if", "run.client-limit-pct > 0"], 1),
        (INVALID, ["--slo", "ttft<1us"], 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)  # fmt: skip
def test_a_finished_run_is_gated_anew(request, which, options, code):
    folder, _ = request.getfixturevalue(which)

    assert code == code_of("summary", folder, *options)


def test_a_summary_by_other_gates_leaves_the_run_as_it_is(valid, tmp_path):
    folder, _ = valid
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    assert 1 == code_of("summary", folder, "--fail-if", FAILS, "--junit", tmp_path / "gates.xml")

    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}
    assert ["valid", FAILS] == [case.get("name") for case in ET.parse(tmp_path / "gates.xml").getroot()]


def test_a_junit_file_alone_tells_the_runs_own_gates(valid, invalid, tmp_path):
    codes = [code_of("summary", folder, "--junit", tmp_path / "gates.xml") for folder, _ in (valid, invalid)]

    assert [1, 3] == codes
    assert ["valid", PASSES] == [case.get("name") for case in ET.parse(tmp_path / "gates.xml").getroot()]


def test_a_summary_counts_changes_from_another_run(valid, invalid, capsys):
    folder, _ = valid
    change = ("--baseline", invalid[0], "--fail-if", "llm.ttft-p50-change-pct > -50")

    assert 0 == code_of("summary", folder, *change, "--json")
    (gate,) = json.loads(capsys.readouterr().out)["gates"]
    assert -100 < gate["measured"] < -50  # some 20 ms, where there were 600
    assert ("%", True) == (gate["unit"], gate["passed"])


def test_gates_on_the_command_line_judge_a_finished_run_as_a_user_sees_it(invalid):
    done = loadgen("summary", invalid[0], "--fail-if", FAILS)

    assert 3 == done.returncode
    assert done.stdout.startswith("INVALID: ")
    assert "llm.ttft-p50 > 1  FAIL" in done.stdout and "require a valid one" in done.stdout


# -- refusals before a run -----------------------------------------------------


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    """A server that tells whether anybody came."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


@pytest.mark.parametrize(
    "options",
    [
        ["--fail-if", "llm.tfft-p95 > 1"],
        ["--fail-if", "llm.ttft-p95"],
        ["--fail-if", PASSES, "--fail-if", "llm.ttft-p95 > 800ms"],
        ["--fail-if", "llm.ttft-p95[night] > 1"],
        ["--fail-if", "run.retries[completed] > 1"],
        ["--fail-if", "llm.ttft-p95-change-pct > 1"],
        ["--fail-if", PASSES, "--baseline", "nowhere"],
        ["--slo", "tfft<1s"],
        ["--junit", "nowhere/gates.xml"],
        ["--config", "goals.toml"],
        ["--config", "bounds.toml"],
    ],
    ids=lambda options: " ".join(options),
)
def test_what_cannot_be_judged_is_refused_before_anything_is_sent_or_written(tmp_path, monkeypatch, listening, options):
    monkeypatch.chdir(tmp_path)
    Path("goals.toml").write_text("[goals]\nllmTfftP95 = {too_high = 1}\n")
    Path("bounds.toml").write_text("[goals]\nllmTtftP95 = {high = 1}\n")
    there = {path.name for path in tmp_path.iterdir()}
    target = f"127.0.0.1:{listening.getsockname()[1]}"

    assert 2 == code_of("run", target, *PROMPT, "--rate", "5", "--requests", "1", "--deadline", "2s", *options)

    with pytest.raises(BlockingIOError):
        listening.accept()
    assert there == {path.name for path in tmp_path.iterdir()}


def test_a_refused_gate_is_one_line_and_a_hint_with_near_names(tmp_path, listening):
    rows = [{"path": "/v1/chat/completions", "class": name, "body": {"stream": True}} for name in ("short", "long")]
    (tmp_path / "rec.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    target = f"127.0.0.1:{listening.getsockname()[1]}"

    done = loadgen(
        "run", target, "--recording", "rec.jsonl", "--rate", "5", "--fail-if", "llm.ttft-p95[lnog] > 5", cwd=tmp_path
    )

    assert (2, "") == (done.returncode, done.stdout)
    assert [
        "error: gate 'llm.ttft-p95[lnog] > 5': no class 'lnog' in what is sent",
        "hint: there are long, short; and completed, offered",
    ] == done.stderr.splitlines()
    assert ["rec.jsonl"] == [path.name for path in tmp_path.iterdir()]
