"""A run told in the formats of other tools; contract tests over the table, then each format's own facts."""

import csv
import io
import json
import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import polars as pl
import pytest
from conftest import loadgen
from report.folder import LONG, SHORT, closed, folder_of, lags, stream, unanswered, unsent

from loadgen.cli import app
from loadgen.cli.summary import close_run
from loadgen.errors import UsageError
from loadgen.report.exporters import EXPORTERS
from loadgen.report.measured import Measured
from loadgen.results.histogram import Histogram
from loadgen.results.slo import parse_slo

COUNT = 200


def full(path: Path):
    """200 streams of 2 classes, 10 frames each; then a rejected request, a cut stream, and one never sent."""
    rows = [
        stream(
            seq,
            10.0 * seq,
            [100.0 + seq + 20.0 * place for place in range(10)],
            place=LONG if seq % 4 == 0 else SHORT,
            input_tokens=17,
        )
        for seq in range(COUNT)
    ]
    rows.append(unanswered(COUNT, 2000.0, outcome="rejected", status=429, detail="rate_limit_error"))
    rows.append(stream(COUNT + 1, 2010.0, [50.0], finished=False, outcome="interrupted", detail="reset"))
    rows.append(unsent(COUNT + 2, 2020.0))
    due = [10.0 * seq for seq in range(COUNT + 3)]
    return folder_of(path, [*rows, lags(), closed(3000.0)], due=due, length=2030.0, nominal_rate=100.0)


def all_failed(path: Path):
    rows = [unanswered(seq, 10.0 * seq, outcome="http_error", status=500) for seq in range(5)]
    return folder_of(path, [*rows, lags(), closed(100.0)], due=[10.0 * seq for seq in range(5)], length=50.0)


def empty(path: Path):
    return folder_of(path, [lags(), closed(100.0)], due=[], length=None, callers=1)


RUNS = {"full": full, "all failed": all_failed, "empty": empty}


@pytest.fixture(scope="module")
def measured_runs(tmp_path_factory):
    found = {}
    for name, make in RUNS.items():
        rundir = make(tmp_path_factory.mktemp("exported") / "run")
        summary = close_run(rundir)
        found[name] = (Measured.read(rundir, [parse_slo("ttft<150ms")]), summary | {"slo": ["ttft<150ms"]})
    return found


def no_constant(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("name", EXPORTERS)
def test_every_format_tells_every_run(measured_runs, name, run):
    files = EXPORTERS[name](*measured_runs[run])

    assert files or (name == "hgrm" and run == "empty")
    for file, text in files.items():
        assert Path(file).name == file
        assert text.endswith("\n")
        if file.endswith(".json"):
            json.loads(text, parse_constant=no_constant)


def test_no_two_formats_write_the_same_file(measured_runs):
    names = [file for export in EXPORTERS.values() for file in export(*measured_runs["full"])]

    assert sorted(set(names)) == sorted(names)
    assert not set(names) & {"run.json", "summary.json", "report.html"}


def test_csv_has_every_row_and_every_column(measured_runs):
    measured, summary = measured_runs["full"]
    rows = list(csv.DictReader(io.StringIO(EXPORTERS["csv"](measured, summary)["requests.csv"])))

    assert COUNT + 3 == len(rows)
    assert measured.everything.columns == list(rows[0])
    assert ("completed", "100.0", "true") == (rows[0]["outcome"], rows[0]["ttft_ms"], rows[0]["good"])
    assert ("unsent", "") == (rows[-1]["outcome"], rows[-1]["ttft_ms"])


def test_csv_writes_what_is_not_flat_as_json(measured_runs):
    measured, summary = measured_runs["full"]
    checked = pl.struct(pl.lit(value=True).alias("json"), pl.lit(None, dtype=pl.Boolean).alias("regex"))
    with_checks = replace(measured, everything=measured.everything.with_columns(checked.alias("checks")))

    rows = list(csv.DictReader(io.StringIO(EXPORTERS["csv"](with_checks, summary)["requests.csv"])))

    assert {"json": True, "regex": None} == json.loads(rows[0]["checks"])


def test_hgrm_holds_the_percentiles_of_each_time(measured_runs):
    measured, summary = measured_runs["full"]
    files = EXPORTERS["hgrm"](measured, summary)
    lines = files["ttft.hgrm"].splitlines()
    told = [list(map(float, line.split())) for line in lines[2:-3]]

    assert {"ttft", "e2e", "itl", "frame_gap", "lateness"} <= {Path(file).stem for file in files}
    assert ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"] == lines[0].split()
    assert sorted(told) == told
    assert [1.0, COUNT + 1] == told[-1][1:]
    for value, percentile, count, rest in told[:-1]:
        exact = measured.offered["ttft_ms"].quantile(percentile, "higher")
        assert value == pytest.approx(exact, rel=0.011)
        assert count >= percentile * (COUNT + 1)
        assert rest == pytest.approx(1 / (1 - percentile), abs=0.01)
    assert [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55] == pytest.approx([level for _, level, *_ in told[:7]])


def test_hgrm_is_written_to_the_letter_as_hdrhistograms_own():
    from loadgen.report.exporters.hgrm import lines

    histogram = Histogram()
    for ms in (1, 2, 3, 80):
        histogram.record(ms * 1_000_000)

    assert [
        "       Value     Percentile TotalCount 1/(1-Percentile)",
        "",
        "       1.000 0.000000000000          1           1.00",
        "       1.000 0.100000000000          1           1.11",
        "       1.000 0.200000000000          1           1.25",
        "       2.001 0.300000000000          2           1.43",
        "       2.001 0.400000000000          2           1.67",
        "       2.001 0.500000000000          2           2.00",
        "       3.000 0.550000000000          3           2.22",
        "       3.000 0.600000000000          3           2.50",
        "       3.000 0.650000000000          3           2.86",
        "       3.000 0.700000000000          3           3.33",
        "       3.000 0.750000000000          3           4.00",
        "      80.019 0.775000000000          4           4.44",
        "      80.019 1.000000000000          4",
        "#[Mean    =       21.497, StdDeviation   =       33.777]",
        "#[Max     =       80.019, Total count    =            4]",
        "#[Buckets =           23, SubBuckets     =         2048]",
    ] == "".join(lines(histogram)).splitlines()


# Of AIPerf 0.13.0: its names, and the units it shows them in.
AIPERF_UNITS = {
    "time_to_first_token": "ms",
    "request_latency": "ms",
    "inter_token_latency": "ms",
    "output_token_throughput_per_user": "tokens/sec/user",
    "output_sequence_length": "tokens",
    "input_sequence_length": "tokens",
    "request_count": "requests",
    "error_request_count": "requests",
    "request_throughput": "requests/sec",
    "output_token_throughput": "tokens/sec",
    "total_token_throughput": "tokens/sec",
    "total_osl": "tokens",
    "total_isl": "tokens",
    "benchmark_duration": "sec",
    "good_request_count": "requests",
    "goodput": "requests/sec",
}


def test_aiperf_json_has_aiperfs_names_and_units(measured_runs):
    told = json.loads(EXPORTERS["aiperf-json"](*measured_runs["full"])["profile_export_aiperf.json"])
    metrics = {name: of for name, of in told.items() if isinstance(of, dict) and "unit" in of}

    assert AIPERF_UNITS == {name: of["unit"] for name, of in metrics.items()}
    assert {
        "avg",
        "min",
        "max",
        "std",
        "sum",
        "count",
        "p1",
        "p5",
        "p10",
        "p25",
        "p50",
        "p75",
        "p90",
        "p95",
        "p99",
    } == (metrics["time_to_first_token"].keys() - {"unit"})


def test_aiperf_json_tells_the_summarys_numbers(measured_runs):
    measured, summary = measured_runs["full"]
    told = json.loads(EXPORTERS["aiperf-json"](measured, summary)["profile_export_aiperf.json"])

    for theirs, ours in (("time_to_first_token", "ttft"), ("request_latency", "e2e"), ("inter_token_latency", "itl")):
        numbers = summary["metrics"][ours]
        assert (numbers["p99"], numbers["mean"], numbers["n"]) == pytest.approx(
            (told[theirs]["p99"], told[theirs]["avg"], told[theirs]["count"])
        )
    assert (COUNT, 3) == (told["request_count"]["avg"], told["error_request_count"]["avg"])
    assert 2000 == told["total_osl"]["avg"]
    assert {"rejected": 1, "interrupted": 1, "unsent": 1} == {
        entry["error_details"]["type"]: entry["count"] for entry in told["error_summary"]
    }


def test_an_invalid_run_is_no_complete_one_to_aiperf(measured_runs):
    measured, summary = measured_runs["full"]
    reason = {"name": "client_limit", "level": "invalid", "fact": "no descriptors", "remedy": "ulimit"}
    invalid = summary | {"verdict": {"valid": False, "reasons": [reason]}}

    told = json.loads(EXPORTERS["aiperf-json"](measured, invalid)["profile_export_aiperf.json"])

    assert (False, "no descriptors") == (told["is_complete"], told["incomplete_reason"])


# Of llm-d's benchmark report 0.2: the fields there are, where no others may stand, and units that fit.
STATISTICS = {"mean", "stddev", "min", "max", "mode", "units"} | {
    f"p{percentile}" for percentile in ("0p1", 1, 5, 10, 25, 50, 75, 90, 95, 99, "99p9")
}
LLMD_UNITS = {
    "requests": {"input_length": "count", "output_length": "count", "request_size": "bytes"},
    "latency": {
        "time_to_first_token": "s",
        "request_latency": "s",
        "time_per_output_token": "s/token",
        "normalized_time_per_output_token": "s/token",
    },
    "throughput": {
        "request_rate": "queries/s",
        "output_token_rate": "tokens/s",
        "input_token_rate": "tokens/s",
        "total_token_rate": "tokens/s",
    },
}


@pytest.mark.parametrize("run", RUNS)
def test_llm_d_has_only_fields_of_its_schema(measured_runs, run):
    told = json.loads(EXPORTERS["llm-d"](*measured_runs[run])["benchmark_report.json"])
    aggregate = told["results"]["request_performance"]["aggregate"]

    assert "0.2" == told["version"]
    assert {"version", "run", "results"} <= told.keys() <= {"version", "run", "results", "scenario"}
    assert {"uid", "time", "description", "keywords"} == told["run"].keys()
    assert re.fullmatch(r"PT[0-9.]+S", told["run"]["time"]["duration"])
    assert datetime.fromisoformat(told["run"]["time"]["start"]) <= datetime.fromisoformat(told["run"]["time"]["end"])
    assert {"total", "failures", "incomplete"} <= aggregate["requests"].keys()
    for group, units in LLMD_UNITS.items():
        found = {name: of for name, of in aggregate[group].items() if isinstance(of, dict)}
        assert {name: of["units"] for name, of in found.items()}.items() <= units.items()
        assert all({"units", "mean"} <= of.keys() <= STATISTICS for of in found.values())


def test_llm_d_accounts_for_every_request_and_says_what_was_asked(measured_runs):
    told = json.loads(EXPORTERS["llm-d"](*measured_runs["full"])["benchmark_report.json"])
    requests = told["results"]["request_performance"]["aggregate"]["requests"]
    latency = told["results"]["request_performance"]["aggregate"]["latency"]
    load = told["scenario"]["load"]

    assert (COUNT + 3, 2, 1) == (requests["total"], requests["failures"], requests["incomplete"])
    assert 0.020 == pytest.approx(latency["time_per_output_token"]["p50"])
    assert 0.1995 == pytest.approx(latency["time_to_first_token"]["mean"], rel=0.01)
    assert {"metadata", "standardized", "native"} == load.keys()
    assert {"tool", "tool_version", "source", "input_seq_len"} <= load["standardized"].keys()
    assert ("fixed", 17.0) == (
        load["standardized"]["input_seq_len"]["distribution"],
        load["standardized"]["input_seq_len"]["value"],
    )
    assert 100.0 == load["standardized"]["rate_qps"]
    assert "inter_token_latency" not in latency  # measured between tokens, and a frame is none


def test_summary_writes_what_is_asked_for_and_nothing_for_a_format_unknown(tmp_path):
    rundir = full(tmp_path / "run")
    close_run(rundir)

    done = loadgen("summary", rundir.path, "--export", "csv", "--export", "llm-d", "--slo", "ttft<1ms")
    refused = loadgen("summary", rundir.path, "--export", "hgrm", "--export", "xlsx", "--out", tmp_path / "to")

    assert 0 == done.returncode
    assert str(rundir.path / "benchmark_report.json") in done.stderr
    goods = {row["good"] for row in csv.DictReader(io.StringIO((rundir.path / "requests.csv").read_text()))}
    assert {"false"} == goods
    assert 2 == refused.returncode
    assert "there are csv, hgrm, aiperf-json, llm-d" in refused.stderr
    assert not (tmp_path / "to").exists()


def test_a_place_for_no_export_is_refused(tmp_path):
    with pytest.raises(UsageError, match="--out without --export"):
        app(["summary", str(tmp_path), "--out", str(tmp_path / "to")], standalone_mode=False)
