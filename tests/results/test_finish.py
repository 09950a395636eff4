"""From a journal to a summary: one row a scheduled request however the run ended, and numbers done by hand."""

import io
from array import array
from collections.abc import Sequence

import polars as pl
import pytest
from rich.console import Console

from loadgen.cli.judging import Judging
from loadgen.cli.summary import close_run
from loadgen.errors import UsageError
from loadgen.report.measured import Measured
from loadgen.report.numbers import samples_needed
from loadgen.report.summary import summarise
from loadgen.report.text import write_summary
from loadgen.results.finish import finish
from loadgen.results.histogram import read_log
from loadgen.results.journal import Journal
from loadgen.results.record import Closed, Planned, Record, Row, Sample, Sent
from loadgen.results.rundir import Plan, RunDir
from loadgen.results.slo import parse_slo
from loadgen.wire.events import FRAME_KINDS

SECOND = 1_000_000_000
NAME = "r1"

PLANNED = [
    Planned("a", "short", None, "POST", "/v1/chat/completions", "m", 17, None),
    Planned("b", "long", None, "POST", "/v1/chat/completions", "m", 99, None),
]


def ns(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * SECOND)


def run_of(
    tmp_path,
    records: Sequence[Record],
    *,
    due: Sequence[float] = (),
    warmup_s: float = 0.0,
    length_s: float | None = None,
    callers: int | None = None,
    torn: bytes = b"",
    **config,
) -> RunDir:
    """A run folder as it is when the load process has ended, in one way or the other."""
    rundir = RunDir.create(tmp_path / NAME)
    places = [seq % 2 for seq in range(len(due))]
    rundir.write_plan(
        Plan(
            due_ns=array("q", map(ns, due)).tobytes(),
            places=array("q", places).tobytes(),
            warmup_ns=ns(warmup_s) or 0,
            recorded=2,
            requests=PLANNED,
            is_closed=callers is not None,
        )
    )
    rundir.write_json(
        rundir.manifest,
        {
            "run": NAME,
            "label": None,
            "status": "running",
            "loadgen": "0",
            "command": ["loadgen", "run"],
            "target": "http://127.0.0.1:8000",
            "config": config,
            "schedule": {
                "sha256": "0" * 64,
                "requests": len(due) or None,
                "measured": None,
                "callers": callers,
                "nominal_rate": None,
                "warmup_s": warmup_s,
                "length_s": length_s,
                "repeats": False,
            },
            "recording": {"requests": 2, "classes": {}},
            "host": {},
            "clock": {"started": "2026-12-01T00:00:00+00:00", "started_unix_ns": 1_796_083_200 * SECOND},
        },
    )
    journal = Journal(rundir.journal)
    for record in records:
        journal.append(record)
    journal.close()
    with rundir.journal.open("ab") as file:
        file.write(torn)
    return rundir


def stream(seq: int, at: float, outputs: Sequence[float], tokens: int | None, **changes) -> Row:
    """A stream sent at `at` (s) whose output frames came at `outputs`, with an end marker 0.1 s after the last."""
    finished = changes.get("finished", True)
    times = [*outputs, outputs[-1] + 0.1] if finished else [*outputs]
    kinds = ["text"] * len(outputs) + ["done"] * finished
    reported = {
        "due_ns": ns(at),
        "is_warmup": False,
        "outcome": "completed",
        "status": 200,
        "format": "openai",
        "finished": True,
        "finish_reason": "stop",
        "output_tokens": tokens,
        "first_text_ns": ns(outputs[0]),
        "terminal_ns": ns(times[-1]) if finished else None,
        "end_ns": ns(times[-1]),
    }
    sent = changes.pop("sent", at)
    return Row(
        seq=seq,
        place=seq % 2,
        fired_ns=ns(sent),
        admitted_ns=ns(sent),
        connected_ns=ns(sent),
        sent_ns=ns(sent),
        first_sent_ns=ns(sent),
        headers_ns=ns(outputs[0]),
        first_frame_ns=ns(outputs[0]),
        first_output_ns=ns(outputs[0]),
        last_output_ns=ns(outputs[-1]),
        frames=len(times),
        output_frames=len(outputs),
        output_chars=len(outputs),
        reads=len(times),
        stamp_source="kernel",
        stamp_uncertainty_ns=1000,
        connection_reused=True,
        frame_at_ns=array("q", map(ns, times)).tobytes(),
        frame_bytes=array("I", [9] * len(times)).tobytes(),
        frame_kinds=bytes(map(FRAME_KINDS.index, kinds)),
        **reported | changes,
    )


def refused(seq: int, at: float) -> Row:
    return Row(
        seq=seq,
        place=0,
        outcome="connect_error",
        detail="refused",
        finished=False,
        due_ns=ns(at),
        fired_ns=ns(at),
        admitted_ns=ns(at),
        end_ns=ns(at + 0.001),
    )


def responded(seq: int, at: float) -> Row:
    return Row(
        seq=seq,
        place=1,
        outcome="responded",
        status=200,
        due_ns=ns(at),
        fired_ns=ns(at),
        admitted_ns=ns(at),
        connected_ns=ns(at),
        sent_ns=ns(at),
        first_sent_ns=ns(at),
        headers_ns=ns(at + 0.01),
        end_ns=ns(at + 0.02),
        connection_reused=True,
        reads=1,
        stamp_source="read",
    )


# Window [1 s, 5 s]; what each row adds to the numbers is worked out in the tests below.
FINISHED = [
    stream(0, 0.5, [1.0, 1.5], 2, is_warmup=True),
    stream(1, 1.0, [1.101, 1.201, 1.301], 6, sent=1.001, input_tokens=10),
    stream(2, 2.0, [2.2, 2.4], 2, tokens_approximate=True),
    stream(
        3, 3.0, [3.3], 1, tokens_approximate=True, outcome="interrupted", detail="eof", finished=False, end_ns=ns(3.4)
    ),
    stream(4, 4.0, [4.9, 5.5], 4, input_tokens=20),
    Closed(6 * SECOND),
]
DUE = [0.5, 1.0, 2.0, 3.0, 4.0]


def finished_run(tmp_path, **config) -> RunDir:
    return run_of(tmp_path, FINISHED, due=DUE, warmup_s=1.0, length_s=4.0, **config)


def closed_loop_of(*records: Record):
    return lambda tmp_path: run_of(tmp_path, records, callers=2)


# Requests in the order of sending, whatever the order of their ends.
TAKEN = [Sent(0, 1, 1, 0), Sent(1, 0, 1, SECOND), Sent(2, 1, 1, 2 * SECOND)]
ENDED = [stream(1, 1.0, [1.5, 1.6], 2, due_ns=None), stream(0, 0.0, [0.5, 1.9], 3, due_ns=None)]

ENDS = {
    "finished": (finished_run, ["4 requests in 4.0 s", "after 1 s of warm-up", "completed", "interrupted", "ttft"]),
    "crashed": (
        lambda tmp_path: run_of(
            tmp_path,
            [Sent(0, 0, 1, 0), stream(0, 0.0, [0.5, 0.6], 2), Sent(1, 1, 1, SECOND), Sample(ns(1.5), 1, 2, 3, 4, 5, 6)],
            due=[0, 1, 2, 3],
            length_s=4.0,
            torn=b"\0\0\0\x20torn",
        ),
        ["crashed", "1 requests were in flight", "unfinished", "unsent", "crash"],
    ),
    "stopped": (
        lambda tmp_path: run_of(
            tmp_path,
            [Sent(0, 0, 1, 0), stream(0, 0.0, [0.5, 0.6], 2), Closed(SECOND, "SIGINT")],
            due=[0, 1, 2],
            length_s=3.0,
        ),
        ["stopped by SIGINT", "unsent", "stopped", "never sent"],
    ),
    "closed loop": (
        closed_loop_of(TAKEN[0], *TAKEN[1:2], *ENDED, Closed(3 * SECOND)),
        ["closed loop, 2 callers", "2 requests", "nothing here is about an"],
    ),
    "closed loop, crashed": (closed_loop_of(*TAKEN, *ENDED), ["crashed", "unfinished"]),
    "closed loop, crashed at once": (closed_loop_of(), ["crashed", "0 requests"]),
    "all failed": (
        lambda tmp_path: run_of(
            tmp_path, [refused(0, 0), refused(1, 1), Closed(SECOND)], due=[0, 1], length_s=2.0, slo=["ttft<1s"]
        ),
        ["connect_error", "refused", "good"],
    ),
    "no streams": (
        lambda tmp_path: run_of(
            tmp_path, [responded(0, 0), responded(1, 1), Closed(2 * SECOND)], due=[0, 1], length_s=2.0
        ),
        ["responded", "lateness"],
    ),
    "all at once": (
        lambda tmp_path: run_of(
            tmp_path, [stream(0, 0, [0.1], 1), stream(1, 0, [0.2], 1), Closed(SECOND)], due=[0, 0], length_s=0.0
        ),
        ["2 requests", "completed"],
    ),
}


def printed(summary) -> str:
    console = Console(file=io.StringIO(), width=100)
    write_summary(summary, console)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def outcomes_of(rundir: RunDir) -> list[tuple[int, str, str | None]]:
    return pl.read_parquet(rundir.requests).select("seq", "outcome", "detail").rows()


@pytest.mark.parametrize("how", ENDS)
def test_a_summary_prints_and_says_how_the_run_ended(tmp_path, how):
    make, words = ENDS[how]

    text = printed(close_run(make(tmp_path)))

    assert [] == [word for word in (NAME, "http://127.0.0.1:8000", *words) if word not in text]


@pytest.mark.parametrize("how", ENDS)
def test_a_stored_summary_prints_the_same_again(tmp_path, how):
    rundir = ENDS[how][0](tmp_path)
    made = close_run(rundir, Judging(slo=["ttft<1s"]))

    assert printed(made) == printed(rundir.read_summary())


@pytest.mark.parametrize("how", ENDS)
def test_a_runs_files_are_whole_and_its_journal_is_gone(tmp_path, how):
    rundir = ENDS[how][0](tmp_path)
    close_run(rundir)

    names = ["frames.parquet", "latency.hlog", "requests.parquet", "run.json", "schedule.parquet", "summary.json"]
    assert names == sorted(path.name for path in rundir.path.iterdir())


def test_a_run_that_ended_has_a_row_for_each_scheduled_request(tmp_path):
    rundir = finished_run(tmp_path)

    finished = finish(rundir)

    assert (False, None, 0, 6 * SECOND) == (
        finished.crashed,
        finished.stopped_by,
        finished.lost_rows,
        finished.end_ns,
    )
    assert [
        (0, "completed", None),
        (1, "completed", None),
        (2, "completed", None),
        (3, "interrupted", "eof"),
        (4, "completed", None),
    ] == outcomes_of(rundir)
    schedule = pl.read_parquet(rundir.schedule)
    assert [
        (seq, ns(at), "ab"[seq % 2], "warmup" if seq == 0 else "measure") for seq, at in enumerate(DUE)
    ] == schedule.select("seq", "due_ns", "id", "phase").rows()


def test_after_a_crash_what_was_sent_is_unfinished_and_the_rest_unsent(tmp_path):
    rundir = ENDS["crashed"][0](tmp_path)

    finished = finish(rundir)

    assert (True, None, 1, ns(1.5)) == (finished.crashed, finished.stopped_by, finished.lost_rows, finished.end_ns)
    assert [
        (0, "completed", None),
        (1, "unfinished", "crash"),
        (2, "unsent", "crash"),
        (3, "unsent", "crash"),
    ] == outcomes_of(rundir)
    requests = pl.read_parquet(rundir.requests)
    assert [0, SECOND, None, None] == requests["sent_ns"].to_list()
    assert [0, SECOND, 2 * SECOND, 3 * SECOND] == requests["due_ns"].to_list()
    assert ["a", "b", "a", "b"] == requests["id"].to_list()


def test_after_a_signal_what_was_not_sent_is_unsent(tmp_path):
    rundir = ENDS["stopped"][0](tmp_path)

    finished = finish(rundir)

    assert (False, "SIGINT", 0) == (finished.crashed, finished.stopped_by, finished.lost_rows)
    assert [(0, "completed", None), (1, "unsent", "stopped"), (2, "unsent", "stopped")] == outcomes_of(rundir)


def test_a_warmup_request_that_a_crash_took_stays_warmup(tmp_path):
    rundir = run_of(tmp_path, [Sent(0, 0, 1, 0)], due=[0, 1, 2], warmup_s=1.0, length_s=2.0)

    finish(rundir)

    assert ["warmup", "measure", "measure"] == pl.read_parquet(rundir.requests)["phase"].to_list()


def test_a_closed_loop_has_rows_for_what_was_taken_and_no_due_times(tmp_path):
    rundir = ENDS["closed loop, crashed"][0](tmp_path)

    finish(rundir)

    assert [(0, "completed", None), (1, "completed", None), (2, "unfinished", "crash")] == outcomes_of(rundir)
    requests = pl.read_parquet(rundir.requests)
    assert [None] * 3 == requests["due_ns"].to_list()
    assert "b" == requests["id"].to_list()[2]  # as its mark says


def test_a_run_without_a_journal_cannot_be_finished(tmp_path):
    rundir = finished_run(tmp_path)
    close_run(rundir)

    with pytest.raises(UsageError, match="no journal to finish\nhint: "):
        finish(rundir)


@pytest.fixture
def summary(tmp_path):
    return close_run(finished_run(tmp_path), Judging(slo=["ttft<500ms"]))


def test_requests_are_counted_over_the_scheduled_window(summary):
    assert {"start_s": 1.0, "length_s": 4.0} == summary["window"]
    assert (1, 4, 4) == (summary["warmup_requests"], summary["offered"], summary["submitted"])
    assert (1.0, 1.0, 0.75) == tuple(summary[f"{name}_per_sec"] for name in ("offered", "submitted", "completed"))
    assert {"completed": 3, "interrupted": 1} == summary["outcomes"]
    assert [{"outcome": "interrupted", "detail": "eof", "status": 200, "requests": 1}] == summary["details"]


def test_goodput_counts_what_completed_within_its_objectives(summary):
    # ttft of the completed: 100, 200 and 900 ms.
    assert (["ttft<500ms"], 2, 0.5, 50.0, 0) == tuple(
        summary[name] for name in ("slo", "good", "goodput_per_sec", "useful_pct", "good_unmeasurable")
    )


def test_an_objective_that_cannot_be_measured_is_counted(tmp_path):
    rows = [stream(0, 0.0, [0.1], 1), stream(1, 1.0, [1.1, 1.2], 2), Closed(2 * SECOND)]

    made = close_run(run_of(tmp_path, rows, due=[0, 1], length_s=2.0), Judging(slo=["itl<1s"]))

    assert (1, 1) == (made["good"], made["good_unmeasurable"])


def test_token_rates_are_of_finished_streams_over_the_streams_own_window(summary):
    seconds = 5.5 - 1.001  # first measured request sent to last output received

    assert {
        "requests": 4,
        "incomplete": 1,
        "output_tokens": 12,
        "input_tokens": 30,
        "token_count_approx_pct": 100 / 3,
        "window_s": seconds,
        "output_tokens_per_sec": 12 / seconds,
        "goodput_tokens_per_sec": 8 / seconds,
        "input_tokens_per_sec": 30 / seconds,
        "total_tokens_per_sec": 42 / seconds,
    } == pytest.approx({key: value for key, value in summary["llm"].items() if value is not None})
    assert (None, None) == (summary["llm"]["cached_tokens"], summary["llm"]["reasoning_tokens"])


def test_the_steady_rate_counts_output_that_arrived_inside_the_window(summary):
    # Warm-up's 2, then 6, 2, the cut stream's 1, and of the last stream's 4 the half that came before 5 s.
    assert 13 / 4 == pytest.approx(summary["steady_output_tokens_per_sec"])


def test_percentiles_are_exact_and_linear(summary):
    ttft, e2e = summary["metrics"]["ttft"], summary["metrics"]["e2e"]

    assert {"n": 4, "min": 100, "mean": 375, "max": 900, "p50": 250, "p90": 720, "p95": 810, "p99": 882} == (
        pytest.approx({key: ttft[key] for key in ("n", "min", "mean", "max", "p50", "p90", "p95", "p99")})
    )
    assert (3, 400.0, 1280.0) == pytest.approx((e2e["n"], e2e["p50"], e2e["p90"]))
    assert (0.0, 25.0) == (ttft["excluded_pct"], e2e["excluded_pct"])
    assert {"n": 4, "max": 900.0} == pytest.approx({key: summary["metrics"]["first_text"][key] for key in ("n", "max")})
    assert (3, 25.0) == tuple(summary["metrics"]["first_text[completed]"][key] for key in ("n", "excluded_pct"))


def test_itl_and_lateness_are_of_their_own_requests(summary):
    metrics = summary["metrics"]

    # 200/5, 200/1, 600/3 ms.
    assert (3, 40.0, 200.0, 200.0) == pytest.approx(tuple(metrics["itl"][key] for key in ("n", "min", "p50", "max")))
    assert (4, 1.0) == pytest.approx(tuple(metrics["lateness"][key] for key in ("n", "max")))
    assert "connect" not in metrics  # no connection was new: left out, not zero


def test_frame_gaps_are_pooled_to_three_digits(summary):
    gaps = summary["metrics"]["frame_gap"]

    assert (4, 25.0) == (gaps["n"], gaps["excluded_pct"])
    assert (100.0, 600.0) == pytest.approx((gaps["p50"], gaps["max"]), rel=1e-3)


def test_each_class_has_its_own_numbers(summary):
    short, long = summary["classes"]["short"], summary["classes"]["long"]

    # Short are 2 and 4 (the warm-up's 0 counts nowhere), long are 1 and 3.
    assert (2, 2) == (short["offered"], long["offered"])
    assert (1, {"completed": 1, "interrupted": 1}) == (long["good"], long["outcomes"])
    assert (1, {"completed": 2}) == (short["good"], short["outcomes"])
    assert (550.0, 200.0) == pytest.approx((short["metrics"]["ttft"]["p50"], long["metrics"]["ttft"]["p50"]))
    assert (6, 6) == (short["llm"]["output_tokens"], long["llm"]["output_tokens"])
    assert (2, 2) == (short["metrics"]["frame_gap"]["n"], long["metrics"]["frame_gap"]["n"])


@pytest.mark.parametrize(("percentile", "samples"), [(50, 5), (90, 29), (95, 59), (99, 299)])
def test_a_percentile_needs_samples_for_its_own_bound(percentile, samples):
    assert samples == samples_needed(percentile)


@pytest.mark.parametrize(
    ("count", "too_few"), [(4, ["p50", "p90", "p95", "p99"]), (5, ["p90", "p95", "p99"]), (59, ["p99"]), (299, [])]
)
def test_a_percentile_with_too_few_samples_is_marked(tmp_path, count, too_few):
    rows = [stream(seq, seq / 10, [seq / 10 + 0.05], 1) for seq in range(count)]

    made = close_run(run_of(tmp_path, [*rows, Closed(0)], due=[seq / 10 for seq in range(count)], length_s=30.0))

    assert too_few == made["metrics"]["ttft"]["too_few_for"]
    line = next(line for line in printed(made).splitlines() if line.startswith("ttft "))
    assert bool(too_few) == ("*" in line)


@pytest.mark.parametrize(("how", "submitted"), [("all failed", 0), ("no streams", 2)])
def test_without_llm_streams_there_are_no_llm_numbers(tmp_path, how, submitted):
    made = close_run(ENDS[how][0](tmp_path))

    assert "llm" not in made and made["steady_output_tokens_per_sec"] is None
    assert submitted == made["submitted"]
    assert set() == {"ttft", "e2e", "itl", "first_text", "frame_gap"} & set(made["metrics"])


def test_a_closed_loop_offers_what_was_submitted_over_first_to_last_submission(tmp_path):
    made = close_run(ENDS["closed loop"][0](tmp_path))

    assert ("closed", 2, {"start_s": 0.0, "length_s": 1.0}) == (made["loop"], made["offered"], made["window"])
    assert set() == {name for name in made["metrics"] if "due" in name or "lateness" in name}


def test_a_crashed_closed_loops_window_reaches_to_its_last_submission(tmp_path):
    made = close_run(ENDS["closed loop, crashed"][0](tmp_path))

    # Submitted at 0, 1 and 2 s, the last one known by its mark only.
    assert (3, 2.0, 1.5) == (made["offered"], made["window"]["length_s"], made["submitted_per_sec"])
    assert made["offered_per_sec"] is None


@pytest.mark.parametrize(("lasts_s", "growing", "slope", "most"), [(1.0, False, 0.0, 10), (None, True, 10.0, 599)])
def test_a_backlog_that_grows_is_said_in_words(tmp_path, lasts_s, growing, slope, most):
    due = [seq / 10 for seq in range(600)]
    rows = [stream(seq, at, [at + (lasts_s or 61 - at) - 0.1], 1) for seq, at in enumerate(due)]

    made = close_run(run_of(tmp_path, [*rows, Closed(61 * SECOND)], due=due, length_s=60.0))

    flight = made["in_flight"]
    assert (growing, growing) == (flight["growing"], "the backlog grew" in printed(made))
    assert (slope, most) == (pytest.approx(flight["slope_per_s"], abs=0.1), pytest.approx(flight["max"], abs=1))


def test_the_histogram_log_and_the_rows_tell_the_same(tmp_path):
    rundir = finished_run(tmp_path)
    made = close_run(rundir)

    log = read_log(rundir.histograms)

    counts = {name: numbers["n"] for name, numbers in made["metrics"].items() if numbers["unit"] == "ms"}
    del counts["first_text[completed]"]
    assert counts == {tag: histogram.count for tag, histogram in log.items() if "[" not in tag and "_lag" not in tag}
    assert {name: made["metrics"][name]["max"] for name in counts} == pytest.approx(
        {name: log[name].max_ns / 1e6 for name in counts}, rel=1e-3, abs=1e-3
    )
    for part, of in made["classes"].items():
        assert of["metrics"]["ttft"]["n"] == log[f"ttft[{part}]"].count


def test_a_finished_run_is_judged_anew_from_its_rows(tmp_path):
    rundir = finished_run(tmp_path)
    first = close_run(rundir, Judging(slo=["ttft<500ms"]))

    again = summarise(Measured.read(rundir, [parse_slo("ttft<150ms")]), first["process"])

    assert (2, 1) == (first["good"], again["good"])
    assert first["metrics"] == again["metrics"]


def test_throughput_is_given_per_gpu_where_they_are_counted(tmp_path):
    llm = close_run(finished_run(tmp_path, gpus=4))["llm"]

    assert llm["output_tokens_per_sec"] / 4 == llm["output_tokens_per_sec_per_gpu"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tokens_approximate": True}, "reported no usage"),
        ({"reasoning_tokens": 9}, "reasoned in tokens that no frame showed"),
        ({"outcome": "client_limit"}, "met a limit of this machine"),
        ({"outcome": "unfinished"}, "still in flight at the end"),
        ({"detail": "encoded", "outcome": "responded"}, "compressed and not measured as streams"),
    ],
)
def test_what_bends_the_numbers_is_said_in_words(tmp_path, changes, words):
    def notes(name: str, row: Row) -> str:
        rundir = run_of(tmp_path / name, [row, Closed(SECOND)], due=[0], length_s=1.0)
        made = close_run(rundir)
        return " ".join([*made["notes"], *(reason["fact"] for reason in made["verdict"]["reasons"])])

    assert words in notes("bent", stream(0, 0.0, [0.5, 0.6], 2, **changes))
    assert words not in notes("plain", stream(0, 0.0, [0.5, 0.6], 2))
