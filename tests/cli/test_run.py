"""`loadgen run` as a user runs it, against the simulated server on a real socket."""

import json
import math
import re
import signal
import socket
import time
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from conftest import loadgen, start_loadgen, until_it_sends

from loadgen.results.histogram import read_log

BODY = {"model": "sim", "messages": [{"role": "user", "content": "one two three"}], "stream": True}
PROMPT = ("--prompt", "hi", "--model", "sim")
USAGE = {"stream_options": {"include_usage": True}}


def write_recording(path: Path, *rows: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def asked(sim: str = "", **more: object) -> dict[str, object]:
    """A recorded request that tells the simulated server how to answer it."""
    headers = {"x-sim": sim} if sim else {}
    return {"path": "/v1/chat/completions", "headers": headers, "body": BODY | USAGE, **more}


def rows_of(folder: Path) -> pl.DataFrame:
    return pl.read_parquet(folder / "requests.parquet").sort("seq")


def summary_of(folder: Path) -> dict[str, object]:
    return json.loads((folder / "summary.json").read_text())


@pytest.fixture(scope="module")
def run(simulator, tmp_path_factory):
    """One ordinary run of two classes, with a secret in every place where one can be."""
    folder = tmp_path_factory.mktemp("run") / "ordinary"
    recording = write_recording(
        folder.parent / "rec.jsonl",
        *(asked("tokens=8", id=f"s{i}", **{"class": "short"}) for i in range(3)),
        asked("tokens=30", id="l", **{"class": "long"}),
    )
    done = loadgen(
        "run", simulator, "--recording", recording, "--rate", "100", "--duration", "1500ms", "--warmup", "500ms",
        "--slo", "ttft<10s", "--slo", "itl<5s", "--out", folder, "--header", "X-Api-Key: sk-secret-1", "--label", "lab",
        env={"LLM_API_KEY": "sk-secret-2"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder, done


def test_the_run_folder_is_complete_and_its_journal_gone(run):
    folder, done = run

    names = {path.name for path in folder.iterdir()}
    assert {
        "run.json", "schedule.parquet", "requests.parquet", "frames.parquet", "latency.hlog", "summary.json"
    } == names  # fmt: skip
    assert f"run folder: {folder}" in done.stdout


def test_there_is_one_row_per_scheduled_request_and_warm_up_is_marked(run):
    folder, _ = run
    rows, schedule = rows_of(folder), pl.read_parquet(folder / "schedule.parquet")

    assert list(range(200)) == rows["seq"].to_list() == schedule["seq"].to_list()
    assert dict(rows.group_by("phase").len().iter_rows()) == {"warmup": 50, "measure": 150}
    assert rows["due_ns"].to_list() == schedule["due_ns"].to_list() == [i * 10_000_000 for i in range(200)]
    assert {"completed"} == set(rows["outcome"])


def test_moments_come_in_their_order(run):
    rows = rows_of(run[0])
    names = ("due", "fired", "admitted", "connected", "sent", "headers", "first_frame", "first_output", "last_output")
    order = [*names, "terminal", "end"]

    for before, after in pairwise(order):
        assert (rows[f"{before}_ns"] <= rows[f"{after}_ns"]).all(), (before, after)


def test_tokens_come_from_usage_and_frames_are_kept(run):
    rows = rows_of(run[0])
    frames = pl.read_parquet(run[0] / "frames.parquet").sort("seq")

    assert {("short", 8), ("long", 30)} == set(rows.select("class", "output_tokens").iter_rows())
    assert not rows["tokens_approximate"].any()
    assert rows["frames"].to_list() == frames["kind"].list.len().to_list() == frames["at_ns"].list.len().to_list()
    assert ["role", *["text"] * 8, "finish", "usage", "done"] == frames.filter(pl.col("seq") == 0)["kind"][0].to_list()
    assert {"kernel"} == set(rows["stamp_source"])


def test_request_ids_join_a_row_with_the_servers_log(run):
    assert [f"ordinary-{seq}" for seq in range(200)] == rows_of(run[0])["request_id"].to_list()


def test_the_summary_holds_the_rows_numbers(run):
    rows = rows_of(run[0]).filter(pl.col("phase") == "measure")
    summary = summary_of(run[0])

    assert (summary["offered"], summary["outcomes"], summary["good"]) == (150, {"completed": 150}, 150)
    assert pytest.approx(100.0) == summary["offered_per_sec"]
    ttft = summary["metrics"]["ttft"]
    assert 150 == ttft["n"]
    assert pytest.approx(rows["ttft_ms"].quantile(0.95, "linear")) == ttft["p95"]
    assert ttft["too_few_for"] == ["p99"]
    assert {"short", "long"} == set(summary["classes"])
    assert rows["output_tokens"].sum() == summary["llm"]["output_tokens"]


def test_histograms_agree_with_the_exact_percentiles(run):
    rows = rows_of(run[0]).filter(pl.col("phase") == "measure")
    log = read_log(run[0] / "latency.hlog")

    for tag, column in (("ttft", "ttft_ms"), ("e2e", "e2e_ms"), ("itl", "itl_ms"), ("lateness", "lateness_ms")):
        values = rows[column].drop_nulls()
        for percentile in (50, 90):
            exact = values.sort()[math.ceil(len(values) * percentile / 100) - 1]
            found = log[tag].percentiles_ns([percentile])[percentile] / 1e6
            assert abs(found - exact) <= max(0.002 * exact, 0.002), (tag, percentile)
        assert len(values) == log[tag].count
    assert rows["output_frames"].sum() - len(rows) == log["frame_gap"].count
    assert log["ttft"].count == log["ttft[short]"].count + log["ttft[long]"].count


def test_the_histogram_log_is_valid(run):
    lines = (run[0] / "latency.hlog").read_text().splitlines()
    data = [line for line in lines if not line.startswith(("#", '"'))]

    assert lines[1] == "#[Histogram log format version 1.3]"
    assert all(
        re.fullmatch(r"Tag=[^, ]+,\d+\.\d{3},\d+\.\d{3},\d+\.\d{3},HISTFAAA[A-Za-z0-9+/=]+", line) for line in data
    )
    starts = [float(line.split(",")[1]) for line in data]
    assert sorted(starts) == starts


def test_no_secret_is_stored_or_printed(run):
    folder, done = run
    stored = b"".join(path.read_bytes() for path in folder.iterdir())

    assert b"sk-secret" not in stored
    assert "sk-secret" not in done.stdout + done.stderr
    manifest = json.loads((folder / "run.json").read_text())
    assert manifest["config"]["header"] == ["X-Api-Key: ***"]


def test_the_manifest_says_what_is_needed_to_repeat_the_run(run):
    manifest = json.loads((run[0] / "run.json").read_text())

    assert (manifest["run"], manifest["label"], manifest["status"]) == ("ordinary", "lab", "finished")
    assert tuple(manifest["config"][name] for name in ("rate", "duration", "seed")) == (100.0, "1500ms", 0)
    assert 64 == len(manifest["schedule"]["sha256"])
    assert 3 == manifest["recording"]["classes"]["short"]["requests"]


def test_json_is_on_stdout_and_talk_on_stderr(simulator, tmp_path):
    done = loadgen(
        "run", simulator, "--prompt", "hi", "--model", "sim", "--rate", "50", "--requests", "5", "--json",
        "--out", tmp_path / "r",
    )  # fmt: skip

    assert 5 == json.loads(done.stdout)["offered"]
    assert "run folder" in done.stderr


def test_summary_judges_the_rows_anew(run):
    again = loadgen("summary", run[0], "--slo", "ttft<1us", "--json")

    assert (again.returncode, json.loads(again.stdout)["good"]) == (0, 0)


OUTCOMES = [
    (asked(), "completed", None, "stop"),
    (asked("tokens=50", body=BODY | {"max_tokens": 5}), "truncated", None, "length"),
    (asked("tokens=50", body=BODY | {"max_tokens": 5, "ignore_eos": True}), "completed", None, "length"),
    (asked("fault=reject"), "rejected", "rate_limit_error", None),
    (asked("fault=cut"), "interrupted", "closed", None),
    (asked("fault=reset"), "interrupted", "reset", None),
    (asked("fault=error"), "api_error", None, None),
    (asked("fault=stall"), "timeout", None, None),
    ({"path": "/no/such/path", "body": BODY}, "http_error", None, None),
    ({"path": "/v1/models"}, "responded", None, None),
    (asked(body=BODY | {"stream": False}), "responded", None, None),
]


def test_whatever_the_server_does_becomes_one_row_with_its_outcome(simulator, tmp_path):
    recording = write_recording(tmp_path / "rec.jsonl", *(row for row, *_ in OUTCOMES))
    done = loadgen(
        "run", simulator, "--recording", recording, "--rate", "100", "--deadline", "1s", "--out", tmp_path / "r"
    )

    rows = rows_of(tmp_path / "r")
    assert 0 == done.returncode
    assert [outcome for _, outcome, *_ in OUTCOMES] == rows["outcome"].to_list()
    for row, (_, _, detail, reason) in zip(rows.iter_rows(named=True), OUTCOMES, strict=True):
        assert detail in (None, row["detail"])
        assert reason in (None, row["finish_reason"])
    assert rows["output_tokens"].to_list()[:3] == [10, 5, 5]
    assert rows.filter(pl.col("outcome") == "rejected")["retry_after_s"].item() == 1.0
    stalled = rows.filter(pl.col("outcome") == "timeout").row(0, named=True)
    assert stalled["first_output_ns"] is not None
    assert stalled["e2e_ms"] is None


def test_a_wrong_path_is_rows_and_a_hint(simulator, tmp_path):
    done = loadgen("run", f"{simulator}/v2", *PROMPT, "--rate", "20", "--requests", "5", "--out", tmp_path / "r")

    assert done.returncode == 0
    assert {("http_error", 404)} == set(rows_of(tmp_path / "r").select("outcome", "status").iter_rows())
    assert "every request was answered 404: check the path" in done.stdout


def test_a_json_answer_to_a_stream_request_is_not_a_stream(simulator, tmp_path):
    recording = write_recording(tmp_path / "rec.jsonl", {"path": "/v1/models", "method": "GET", "body": BODY})
    done = loadgen("run", simulator, "--recording", recording, "--rate", "10", "--out", tmp_path / "r")

    row = rows_of(tmp_path / "r").row(0, named=True)
    assert ("protocol_error", "not_a_stream:application/json") == (row["outcome"], row["detail"])
    assert row["format"] is None
    assert "where a stream was asked for" in done.stdout


def test_a_closed_loop_says_so_and_names_no_rate(simulator, tmp_path):
    done = loadgen(
        "run", simulator, "--prompt", "hi", "--model", "sim", "--concurrency", "3", "--requests", "30", "--out",
        tmp_path / "r",
    )  # fmt: skip

    rows = rows_of(tmp_path / "r")
    assert 30 == len(rows)
    assert rows["due_ns"].is_null().all()
    assert rows["lateness_ms"].is_null().all()
    assert "closed loop, 3 callers" in done.stdout
    assert "asked" not in done.stdout
    assert "drawn" not in done.stdout


def test_the_recorded_times_are_sent_at_the_asked_speed(simulator, tmp_path):
    recording = write_recording(tmp_path / "rec.jsonl", *(asked(at_s=at) for at in (5.0, 5.5, 6.0)))
    loadgen("run", simulator, "--recording", recording, "--recorded", "--speed", "5", "--out", tmp_path / "r")

    assert rows_of(tmp_path / "r")["due_ns"].to_list() == [0, 100_000_000, 200_000_000]


def test_a_saved_schedule_is_played_as_it_was_drawn(simulator, tmp_path):
    loadgen(
        "plan", "--rate", "80", "--arrivals", "poisson", "--seed", "5", "--requests", "20", "--out", tmp_path / "s.csv"
    )
    common = ("--prompt", "hi", "--model", "sim")
    loadgen("run", simulator, *common, "--schedule", tmp_path / "s.csv", "--out", tmp_path / "a")
    drawn = ("--rate", "80", "--arrivals", "poisson", "--seed", "5", "--requests", "20")
    loadgen("run", simulator, *common, *drawn, "--out", tmp_path / "b")

    hashes = {json.loads((tmp_path / name / "run.json").read_text())["schedule"]["sha256"] for name in "ab"}
    assert 1 == len(hashes)


def test_a_killed_run_is_recovered_with_one_row_per_scheduled_request(simulator, tmp_path):
    folder = tmp_path / "r"
    process = start_loadgen(
        "run", simulator, "--prompt", "hi", "--model", "sim", "--rate", "100", "--duration", "30s", "--out", folder
    )
    journal = folder / "journal" / "records.msgpack"
    while not journal.exists() or journal.stat().st_size < 100_000:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()

    refused = loadgen("summary", folder)
    recovered = loadgen("recover", folder)

    rows = rows_of(folder)
    assert (refused.returncode, recovered.returncode) == (2, 0)
    assert "loadgen recover" in refused.stderr
    assert 3000 == len(rows) == len(rows["seq"].unique())
    assert {"completed", "unfinished", "unsent"} >= set(rows["outcome"])
    assert {"crash"} == set(rows.filter(pl.col("outcome") != "completed")["detail"])
    lost = rows.filter(pl.col("outcome") == "unfinished")
    # What was in flight, and at most a second's worth of what had ended.
    assert len(lost) < 150
    assert "crashed" in recovered.stdout and str(len(lost)) in recovered.stdout
    assert not (folder / "journal").exists()
    assert json.loads((folder / "run.json").read_text())["status"] == "crashed"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_submitting_and_drains(simulator, tmp_path, number, code):
    folder = tmp_path / "r"
    recording = write_recording(tmp_path / "rec.jsonl", asked("ttft_ms=500"))
    process = start_loadgen(
        "run", simulator, "--recording", recording, "--rate", "50", "--duration", "30s", "--out", folder
    )
    until_it_sends(folder, process)
    time.sleep(1)
    process.send_signal(number)
    output, _ = process.communicate(timeout=20)

    rows = rows_of(folder)
    assert code == process.returncode
    assert 1500 == len(rows)
    assert {"completed", "unsent"} == set(rows["outcome"])
    assert {"stopped"} == set(rows.filter(pl.col("outcome") == "unsent")["detail"])
    assert f"stopped by {number.name}" in output


def test_a_second_signal_cuts_what_is_in_flight(simulator, tmp_path):
    recording = write_recording(tmp_path / "rec.jsonl", asked("ttft_ms=60000"))
    process = start_loadgen(
        "run", simulator, "--recording", recording, "--rate", "20", "--duration", "30s", "--out", tmp_path / "r"
    )
    until_it_sends(tmp_path / "r", process)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)

    rows = rows_of(tmp_path / "r")
    assert (process.returncode, len(rows)) == (130, 600)
    assert {"unfinished", "unsent"} == set(rows["outcome"])


def test_a_cap_is_told_of(simulator, tmp_path):
    done = loadgen(
        "run", simulator, "--prompt", "hi", "--model", "sim", "--rate", "200", "--requests", "60", "--max-concurrency",
        "2", "--out", tmp_path / "r",
    )  # fmt: skip

    assert "the cap delayed" in done.stdout
    assert {"completed"} == set(rows_of(tmp_path / "r")["outcome"])


def unused_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--recording", "bad.jsonl", "--rate", "5"), 2, "bad.jsonl:2: "),
        (("--recording", "empty.jsonl", "--rate", "5"), 2, "empty.jsonl: no request"),
        (("--recording", "nowhere.jsonl", "--rate", "5"), 2, "nowhere.jsonl: No such file"),
        ((*PROMPT, "--rate", "5"), 2, "the run has no end"),
        (("--prompt", "hi", "--rate", "5", "--requests", "1"), 2, "prompts need a model"),
        ((*PROMPT, "--requests", "1"), 2, "no schedule given"),
        ((*PROMPT, "--rate", "5", "--concurrency", "2", "--requests", "1"), 2, "--rate and --concurrency"),
        (("--rate", "5"), 2, "nothing given to send"),
        ((*PROMPT, "--rate", "-1", "--requests", "1"), 2, "--rate -1"),
        ((*PROMPT, "--rate", "5", "--duration", "5"), 2, "--duration '5' is not a duration"),
        ((*PROMPT, "--rate", "5", "--requests", "1", "--arrivals", "uniform"), 2, "--arrivals 'uniform'"),
        ((*PROMPT, "--rate", "5", "--requests", "1", "--api", "cobol"), 2, "--api 'cobol'"),
        ((*PROMPT, "--rate", "5", "--requests", "1", "--slo", "tft<5ms"), 2, "no metric 'tft'"),
        ((*PROMPT, "--rate", "5", "--requests", "1", "--header", "oops"), 2, "--header 'oops'"),
        ((*PROMPT, "--rate", "5", "--requests", "1", "--set", "a=b"), 2, "--set a: 'b' is not JSON"),
        ((*PROMPT, "--rate", "5", "--requests", "1", "--reject-status", "x"), 2, "--reject-status 'x'"),
        ((*PROMPT, "--rate", "5", "--requests", "1", "--out", "taken"), 2, "taken: there is something in it"),
        ((*PROMPT, "--rate", "5", "--requests", "1", "--out", "/proc/run"), 2, "/proc/run: "),
    ],
    ids=lambda value: "-".join(value)[:40] if isinstance(value, tuple) else None,
)
def test_bad_input_is_one_clear_line_a_hint_and_exit_2(simulator, tmp_path, arguments, code, words):
    (tmp_path / "bad.jsonl").write_text('{"path": "/x"}\n{"path": 3}\n')
    (tmp_path / "empty.jsonl").write_text("\n")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "run.json").write_text("{}")

    done = loadgen("run", simulator, *arguments, cwd=tmp_path)

    lines = done.stderr.strip().splitlines()
    assert code == done.returncode, done.stderr
    assert lines[0].startswith("error: ") and words in lines[0]
    assert lines[-1].startswith("hint: ")
    assert "" == done.stdout
    assert not (tmp_path / "results").exists()


def test_an_unreachable_target_is_exit_4_and_leaves_nothing_behind(tmp_path):
    done = loadgen("run", f"127.0.0.1:{unused_port()}", *PROMPT, "--rate", "5", "--requests", "1", cwd=tmp_path)

    assert 4 == done.returncode
    assert "Connection refused" in done.stderr and "hint: " in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["ftp://x", "http://", "http://u:p@host", "http://h:99999"])
def test_a_target_that_is_none_is_exit_2(target, tmp_path):
    done = loadgen("run", target, *PROMPT, "--rate", "5", "--requests", "1", cwd=tmp_path)

    fact, hint = done.stderr.strip().splitlines()
    assert (2, True, True) == (done.returncode, fact.startswith("error: target"), hint.startswith("hint: "))


def test_the_target_can_be_a_full_endpoint(simulator, tmp_path):
    recording = write_recording(tmp_path / "rec.jsonl", asked() | {"path": "/elsewhere"})
    loadgen(
        "run", f"{simulator}/v1/chat/completions", "--recording", recording, "--rate", "10", "--out", tmp_path / "r"
    )

    assert list(rows_of(tmp_path / "r").select("outcome", "path").iter_rows()) == [
        ("completed", "/v1/chat/completions")
    ]
