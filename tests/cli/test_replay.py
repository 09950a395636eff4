"""The whole story: traffic recorded from a server that knows the truth, replayed, and held against the recording."""

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from conftest import Recorder, loadgen

from loadgen.plan.recordings.ours import RecordedRequest, read_recording

PACE = ("--tokens", "20", "--slots", "0")
REQUESTS = 30
GATE = ("--fail-if", "llm.itl-p50-change-pct > 25", "--allow-invalid")
TIMED = ("ttft", "e2e", "itl", "user_tokens_per_sec")


@dataclass(frozen=True)
class Recorded:
    """A server, what a load through the recorder left of it, and the server's own word on that."""

    url: str
    recording: Path
    truth: list[dict[str, Any]]


@pytest.fixture(scope="module")
def recorded(simulate, tmp_path_factory) -> Recorded:
    folder = tmp_path_factory.mktemp("recorded")
    url = simulate("--ttft", "100ms", "--itl", "10ms", *PACE, "--log", str(folder / "truth.jsonl"))
    recorder = Recorder(url, folder / "rec.jsonl")
    load = ("--prompt", "hi", "--model", "sim", "--rate", "30", "--requests", str(REQUESTS), "--cache", "warm")
    run = loadgen("run", recorder.url, *load, "--out", folder / "run")
    recorder.end()
    assert 0 == run.returncode, run.stderr
    truth = [json.loads(line) for line in (folder / "truth.jsonl").read_text().splitlines()]
    return Recorded(url, folder / "rec.jsonl", truth)


def replay(url: str, recording: Path, out: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    run = loadgen(
        "run", url, "--recording", recording, "--recorded", "--cache", "warm", "--out", out, "--json", *arguments
    )
    assert run.stdout, run.stderr
    return run.returncode, json.loads(run.stdout)


def changes(summary: dict[str, Any], statistic: str | None) -> dict[str, dict[str, Any]]:
    return {
        change["name"]: change for change in summary["recorded"]["changes"] if change["statistic"] == statistic
    }  # fmt: skip


def request_id(line: RecordedRequest) -> str:
    return {name.lower(): value for name, value in (line.headers or {}).items()}["x-request-id"]


def output_ms(line: RecordedRequest) -> list[float]:
    """When each frame with text came; the role frame has an empty one."""
    assert line.response is not None
    return [
        frame.ms
        for frame in line.response.frames or []
        if frame.ms is not None and '"content":"' in (frame.data or "") and '"content":""' not in (frame.data or "")
    ]


def test_what_is_recorded_is_what_the_server_did(recorded):
    by_id = {entry["id"]: entry for entry in recorded.truth}
    lines = read_recording(recorded.recording)
    pairs = [(by_id[request_id(line)], output_ms(line)) for line in lines]

    assert REQUESTS == len(lines)
    assert all(20 == entry["tokens"] == len(times) for entry, times in pairs)
    ttft_off = [times[0] - (entry["first_ns"] - entry["received_ns"]) / 1e6 for entry, times in pairs]
    itl_off = [times[-1] - times[0] - (entry["last_ns"] - entry["first_ns"]) / 1e6 for entry, times in pairs]
    assert abs(median(ttft_off)) < 5
    assert abs(median(itl_off)) < 5


def test_the_same_server_shows_no_change(recorded, tmp_path):
    code, summary = replay(recorded.url, recorded.recording, tmp_path / "run", *GATE)
    shown = loadgen("summary", tmp_path / "run", "--flag-change", "1000").stdout

    assert (0, REQUESTS) == (code, summary["recorded"]["requests"])
    assert [{"was": "completed", "now": "completed", "requests": REQUESTS}] == summary["recorded"]["transitions"]
    assert 0 == changes(summary, None)["output_tokens"]["change_pct"]
    assert not any(changes(summary, "p50")[name]["flagged"] for name in TIMED)
    assert f"no change of 1000 % or more for the worse against the recording, over {REQUESTS} requests" in shown
    assert 6 == sum(line.startswith("  recorded ") for line in shown.splitlines())


def test_a_slower_server_is_flagged_and_fails_the_gate(recorded, simulate, tmp_path):
    slower = simulate("--ttft", "150ms", "--itl", "15ms", *PACE)
    code, summary = replay(slower, recorded.recording, tmp_path / "run", *GATE)

    assert 1 == code
    assert all(changes(summary, "p50")[name]["flagged"] for name in TIMED)
    assert 50 == pytest.approx(changes(summary, "p50")["itl"]["change_pct"], rel=0.2)


def test_what_the_server_refuses_now_is_in_the_table_of_outcomes(recorded, simulate, tmp_path):
    _, summary = replay(simulate("--reject-pct", "100"), recorded.recording, tmp_path / "run")
    shown = loadgen("summary", tmp_path / "run").stdout

    assert [{"was": "completed", "now": "rejected", "requests": REQUESTS}] == summary["recorded"]["transitions"]
    assert ["completed", "rejected", str(REQUESTS)] in [line.split() for line in shown.splitlines()]


def test_a_gate_on_a_change_needs_recorded_answers(simulator, tmp_path):
    recording = tmp_path / "bare.jsonl"
    recording.write_text('{"path": "/v1/models", "at_s": 0}\n')
    refused = loadgen(
        "run", simulator, "--recording", recording, "--recorded", "--fail-if", "llm.ttft-p50-change-pct > 1"
    )

    assert 2 == refused.returncode
    assert "replay a recording that has answers" in refused.stderr


def test_sessions_keep_their_order_and_the_wait_is_told(simulate, tmp_path):
    url = simulate("--ttft", "300ms", "--itl", "1ms", "--tokens", "2", "--slots", "0")
    body = {"model": "sim", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    turns = [{"path": "/v1/chat/completions", "body": body, "at_s": at / 10, "session": "a"} for at in range(3)]
    recording = tmp_path / "turns.jsonl"
    recording.write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    _, summary = replay(url, recording, tmp_path / "run", "--keep-sessions")

    (delay,) = (reason for reason in summary["verdict"]["reasons"] if reason["name"] == "session_delay")
    assert delay["fact"].startswith("the order of sessions delayed 2 requests")
    assert summary["metrics"]["lateness"]["max"] > 300
    assert summary["metrics"]["ttft"]["n"] == 3


def test_keeping_sessions_needs_some(simulator):
    refused = loadgen(
        "run", simulator, "--prompt", "hi", "--model", "sim", "--rate", "1", "--requests", "1", "--keep-sessions"
    )

    assert 2 == refused.returncode
    assert "no request is of a session" in refused.stderr
