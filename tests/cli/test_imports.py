"""`loadgen import` and made-up prompts as a user runs them, the sending ones against the simulated server."""

import gzip
import json
from pathlib import Path

import polars as pl
import pytest
from conftest import loadgen
from typer.testing import CliRunner

from loadgen.cli import app
from loadgen.errors import UsageError

ROWS = [(0, 1000, 5, [0, 1]), (0, 700, 9, [0, 2]), (3000, 20, 1, [3]), (6000, 20, 0, [3])]


@pytest.fixture
def trace(tmp_path) -> Path:
    """A small trace of lengths: batches every 3 s, one row of a failed request."""
    names = ("timestamp", "input_length", "output_length", "hash_ids")
    path = tmp_path / "trace.txt"
    path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in ROWS))
    return path


def rows_of(folder: Path) -> pl.DataFrame:
    return pl.read_parquet(folder / "requests.parquet").sort("seq")


def test_an_import_says_what_it_found_and_what_is_missing(trace, tmp_path):
    done = loadgen("import", trace, "--out", "rec.jsonl", "--class-by", "input_tokens:100", cwd=tmp_path)

    assert (0, "") == (done.returncode, done.stderr)
    assert [
        f"{trace}  mooncake  3 requests",
        "arrivals       span 3.000 s  mean rate 0.6667/s  gap CV 1.000",
        "quantum        3 s",
        "ties           3 requests at 2 different times, at most 2 at one",
        "time zone      none stated",
        "input tokens   mean 573.3  p50 700.0  p99 994.0  max 1,000",
        "output tokens  mean 5.0  p50 5.0  p99 8.9  max 9",
        "classes        long 2, short 1",
        "lacks          bodies, models, responses, frame timing",
        "refused        output tokens 0: the request failed, or was given up, at its source (row 4)",
        "changed        class by input_tokens:100",
        "recording: rec.jsonl",
    ] == done.stdout.splitlines()
    assert 3 == len((tmp_path / "rec.jsonl").read_text().splitlines())


def test_the_report_is_json_when_asked_and_nothing_is_written_without_out(trace, tmp_path):
    done = loadgen("import", trace, "--json", "--speed", "2", "--limit", "2", "--map-model", "a=b", cwd=tmp_path)

    report = json.loads(done.stdout)
    assert ("mooncake", 2, 0.0, 0) == (report["kind"], report["rows"], report["span_s"], report["refused"]["rows"])
    assert {"limit": 2, "speed": 2.0, "map_model": {"a": "b"}} == report["changes"]
    assert [trace] == list(tmp_path.iterdir())


def test_standard_input_is_a_source_gzipped_or_not(trace, tmp_path):
    for data in (trace.read_bytes(), gzip.compress(trace.read_bytes())):
        (tmp_path / "piped").write_bytes(data)
        with (tmp_path / "piped").open("rb") as piped:
            done = loadgen("import", "-", "--json", stdin=piped)

        assert ("standard input", 3) == (json.loads(done.stdout)["source"], json.loads(done.stdout)["rows"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere",), "nowhere: No such file"),
        (("empty",), "empty: no request in it"),
        (("garbage",), "garbage: no recording or trace that is known"),
        (("utf16",), "utf16:1: is not UTF-8"),
        (("cut.har",), "cut.har:1: is no whole JSON from here on"),
        (("cut.gz",), "cut.gz:1: the gzip'd data is broken here"),
        (("refused",), "refused:1: input tokens 0: not a prompt's length; none of its 1 rows"),
        (("trace.txt", "--out", "empty"), "empty: there is a file already"),
        (("trace.txt", "--out", "no/where"), "no/where: No such file or directory"),
        (("trace.txt", "--api", "cobol"), "--api 'cobol' is not known"),
        (("trace.txt", "--api", "bedrock-converse"), "--api bedrock-converse asks a model by its path"),
        (("trace.txt", "--spread-ties", "evenly"), "--spread-ties 'evenly' is not known"),
        (("trace.txt", "--window", "5s"), "--window '5s' is not START:END"),
        (("trace.txt", "--window", "5s:5s"), "--window '5s:5s' is not START:END"),
        (("trace.txt", "--window", "5:6"), "--window '5' is not a duration"),
        (("trace.txt", "--window", "1h:"), "trace.txt: no request is in the window"),
        (("trace.txt", "--speed", "0"), "--speed 0 is not above 0"),
        (("trace.txt", "--map-model", "x"), "--map-model 'x' is not KEY=VALUE"),
        (("trace.txt", "--class-by", "x:1"), "--class-by 'x:1' is not LENGTH:TOKENS"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else None,
)
def test_bad_input_is_one_clear_line_and_a_hint_and_leaves_nothing(trace, tmp_path, monkeypatch, arguments, words):
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "garbage").write_bytes(bytes(range(256)))
    (tmp_path / "utf16").write_bytes(trace.read_text().encode("utf-16"))
    (tmp_path / "cut.har").write_bytes(b'{"log": {"entries": [{"request": {"url": "http')
    (tmp_path / "cut.gz").write_bytes(gzip.compress(trace.read_bytes())[:-20])
    (tmp_path / "refused").write_text(json.dumps({"timestamp": 0, "input_length": 0, "output_length": 1}))
    before = set(tmp_path.iterdir())

    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["import", *arguments])

    assert isinstance(done.exception, UsageError)
    fact, hint = str(done.exception).splitlines()
    assert words in fact
    assert hint.startswith("hint: ")
    assert ("", before) == (done.stdout, set(tmp_path.iterdir()))


def test_an_error_is_exit_2_with_its_hint(tmp_path):
    done = loadgen("import", tmp_path / "nowhere", "--out", tmp_path / "out")

    assert 2 == done.returncode
    assert ["error", "hint"] == [line.partition(":")[0] for line in done.stderr.splitlines()]


def test_an_imported_trace_is_played_with_prompts_of_its_lengths(simulator, trace, tmp_path):
    recording = tmp_path / "rec.jsonl"
    loadgen("import", trace, "--out", recording, "--speed", "10", "--spread-ties", "uniform", "--seed", "1")
    done = loadgen(
        "run", simulator, "--recording", recording, "--model", "sim", "--recorded", "--fix-lengths",
        "--out", tmp_path / "r",
    )  # fmt: skip

    rows = rows_of(tmp_path / "r")
    assert {"completed"} == set(rows["outcome"]), done.stderr
    assert [1000, 700, 20] == rows["input_tokens"].to_list()
    assert [5, 9, 1] == rows["output_tokens"].to_list() == rows["expected_output_tokens"].to_list()
    at_s = [json.loads(line)["at_s"] for line in recording.read_text().splitlines()]
    assert 0 < at_s[0] < at_s[1] < 0.3 == at_s[2]
    assert [round((at - at_s[0]) * 1e9) for at in at_s] == rows["due_ns"].to_list()
    assert "3 prompts were made up at 1 token a word" in " ".join(done.stdout.split())


def test_a_trace_is_played_without_an_import_and_told_of(simulator, trace, tmp_path):
    done = loadgen("run", simulator, "--recording", trace, "--model", "sim", "--rate", "50", "--out", tmp_path / "r")

    assert f"note: {trace} is read as mooncake: 3 requests, 1 rows refused" in done.stderr
    assert [1000, 700, 20] == rows_of(tmp_path / "r")["input_tokens"].to_list()


def test_prompts_are_made_up_of_lengths_without_a_recording(simulator, tmp_path):
    done = loadgen(
        "run", simulator, "--input-tokens", "20..40", "--output-tokens", "3", "--prefix-share", "0.5", "--model", "sim",
        "--rate", "50", "--requests", "30", "--unique-prefix", "--out", tmp_path / "r",
    )  # fmt: skip

    rows, manifest = rows_of(tmp_path / "r"), json.loads((tmp_path / "r" / "run.json").read_text())
    assert {"truncated", "completed"} >= set(rows["outcome"]), done.stderr
    assert rows["input_tokens"].is_between(20, 40).all() and rows["input_tokens"].n_unique() > 5
    assert {3} == set(rows["output_tokens"])
    assert {"requests": 30, "tokens_per_word": 1, "is_exact": False} == manifest["recording"]["made_up"]
    assert 16 == len(manifest["recording"]["nonces"])
