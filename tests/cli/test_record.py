"""`loadgen record` at the command line: what it says and refuses, what a kill leaves, and the replay."""

import json
import re
import signal
import socket
import threading
import time
from contextlib import suppress
from http.client import HTTPException

import pytest
from conftest import ASKED, KEY, loadgen

from loadgen.plan.recordings.ours import read_recording


def test_what_was_recorded_is_told_and_can_be_replayed(record, simulator, tmp_path):
    recorder = record(simulator)
    answers = [recorder.ask() for _ in range(3)]
    recorder.ask(stream=False)
    code, said = recorder.end()
    rec = tmp_path / "rec.jsonl"
    lines = read_recording(rec)
    replay = loadgen(
        "run", simulator, "--recorded", "--recording", rec, "--speed", "5", "--out", tmp_path / "run", "--json"
    )

    assert f"recording at {recorder.url} -> {simulator} into {rec}  (Ctrl-C stops it)\n" == recorder.greeting
    assert 130 == code
    assert f"4 requests passed on, 4 recorded in {rec}\nformats  openai 3, json 1\n" in said
    assert re.search(r"added    p50 [\d.]+, p99 [\d.]+, max [\d.]+ ms to each read of an answer", said)
    assert [answer.decode() for answer in answers] == [
        "".join(frame.data for frame in line.response.frames) for line in lines[:3]
    ]
    assert KEY not in rec.read_text() + said
    assert 0 == replay.returncode, replay.stderr
    assert 4 == json.loads(replay.stdout)["offered"]


def test_a_kill_leaves_a_file_that_reads_and_lacks_open_exchanges_alone(record, simulate, tmp_path):
    upstream = simulate("--ttft", "5ms", "--itl", "1ms", "--tokens", "20", "--slots", "0")
    recorder = record(upstream)
    rec = tmp_path / "rec.jsonl"

    answered = []

    def load() -> None:
        with suppress(OSError, HTTPException):
            while True:
                answered.append(recorder.ask())

    callers = [threading.Thread(target=load) for _ in range(8)]
    for caller in callers:
        caller.start()
    deadline = time.monotonic() + 15
    while rec.stat().st_size < 300_000 and time.monotonic() < deadline:
        time.sleep(0.01)
    recorder.process.send_signal(signal.SIGKILL)
    recorder.process.wait()
    for caller in callers:
        caller.join()
    lines = read_recording(rec)
    again = record(upstream, "--append")
    again.ask()
    again.end()

    # Of each caller an answer may be whole, and its line not yet written.
    assert 20 < len(answered) <= len(lines) + 2 * len(callers)
    assert all(line.response.frames[-1].data == "data: [DONE]\n\n" for line in lines if line.response.end == "clean")
    assert len(lines) + 1 == len(read_recording(rec))


def test_a_second_signal_cuts_what_is_open(record, simulate, tmp_path):
    upstream = simulate("--ttft", "10ms", "--itl", "10s", "--tokens", "20", "--slots", "0")
    recorder = record(upstream)
    with socket.create_connection(("127.0.0.1", int(recorder.url.rpartition(":")[2]))) as client:
        client.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(ASKED) + ASKED
        )
        client.recv(100)
        recorder.process.send_signal(signal.SIGTERM)
        assert "second signal" in recorder.process.stderr.readline()
        assert recorder.process.poll() is None
        code, said = recorder.end(signal.SIGTERM)
    (line,) = read_recording(tmp_path / "rec.jsonl")

    assert 143 == code
    assert "cut at the end 1" in said
    assert ("cut", 200) == (line.response.end, line.response.status)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--listen", "nowhere"], "--listen 'nowhere' is not HOST:PORT"),
        (["--redact", "body:x"], "--redact body:x is no path into JSON"),
        (["--upstream", "ftp://x"], "scheme 'ftp' is not supported"),
        (["--upstream", "http://127.0.0.1:9/?key=abc"], "--upstream has a query"),
        (["--sample", "2"], "Invalid value for '--sample'"),
        (["--out", "/nowhere/rec.jsonl"], "No such file or directory"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is(tmp_path, options, words):
    defaults = {"--upstream": "http://127.0.0.1:9", "--out": str(tmp_path / "rec.jsonl"), "--listen": "127.0.0.1:0"}
    given = defaults | dict(zip(options[::2], options[1::2], strict=True))
    found = loadgen("record", *[word for pair in given.items() for word in pair])

    assert 2 == found.returncode
    assert words in " ".join(found.stderr.replace("│", " ").split())
    assert [] == list(tmp_path.iterdir())


def test_an_upstream_that_is_down_at_the_start_is_exit_4_and_leaves_no_file(tmp_path):
    found = loadgen("record", "--upstream", "http://127.0.0.1:9", "--out", tmp_path / "rec.jsonl", "--listen", ":0")

    assert 4 == found.returncode
    assert "http://127.0.0.1:9: " in found.stderr
    assert [] == list(tmp_path.iterdir())


def test_a_recording_that_is_there_is_kept(tmp_path, simulator):
    rec = tmp_path / "rec.jsonl"
    rec.write_text('{"path": "/a"}\n')
    found = loadgen("record", "--upstream", simulator, "--out", rec, "--listen", ":0")

    assert 2 == found.returncode
    assert f"error: {rec} exists\nhint: give another --out, or --append to add to it\n" == found.stderr
    assert '{"path": "/a"}\n' == rec.read_text()


def test_a_listener_for_other_machines_says_so(record, simulator):
    recorder = record(simulator, "--listen", "0.0.0.0:0")
    _, said = recorder.end()

    assert "other machines can reach it" in said
