"""Gates and goals: every name of METRICS section 6 on a run whose numbers were worked out by hand."""

import itertools
import math
import re
import statistics
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from report.folder import LONG, closed, folder_of, lags, stream, unanswered, unsent

from loadgen.cli.judging import Judging
from loadgen.cli.summary import close_run
from loadgen.errors import UsageError
from loadgen.report.gates import Result, evaluate, parse_gate, parse_goals
from loadgen.report.measured import Measured
from loadgen.report.quantities import TOTALS, known_names
from loadgen.results.record import Closed, Record
from loadgen.results.rundir import RunDir
from loadgen.results.slo import parse_slo

OBJECTIVE = "ttft<350ms"
STATISTICS = ("min", "mean", "max", "p0", "p5", "p33.3", "p50", "p90", "p95", "p99", "p99.9", "p100")

# The window is [1 s, 11 s]. What is due before it has absurd values, which must not count.
RECORDS: list[Record] = [
    stream(0, 500, [3000, 5000], late=400, wait=50, connect=90, is_warmup=True, input_tokens=999),
    stream(1, 1000, [100, 200, 300], tokens=5, late=1, connect=1, input_tokens=10),
    stream(
        2, 2000, [200, 400, 600], kinds=["reasoning", "text", "text"], tokens=3, late=2, wait=2, place=LONG,
        tokens_approximate=True,
    ),
    stream(3, 3000, [300, 500], outcome="truncated", finish_reason="length", input_tokens=30),
    stream(
        4, 4000, [400, 500], finished=False, late=1, place=LONG, outcome="interrupted", detail="reset",
        finish_reason=None, tokens_approximate=True,
    ),
    unanswered(5, 5000, late=1, outcome="rejected", status=429, retry_after_s=1.0),
    stream(5, 5000, [500, 700], tokens=5, late=1011, connect=3, attempt=2, input_tokens=20),
    unanswered(6, 6000, late=1, place=LONG, outcome="rejected", status=503),
    unsent(7, 7000),
    unanswered(8, 8000, late=3, outcome="responded", status=200, finished=None),
    lags(read=[1, 1, 1, 5], loop=[2, 4]),
    closed(9000),
]  # fmt: skip
DUE = [500, *range(1000, 9000, 1000)]

# By hand: sent is due + late + wait + connect (1002, 2004, 3000, 4001, 6014, 6001, 8003 ms).
SAMPLES: dict[str, list[float]] = {
    "llm.ttft": [100, 200, 300, 400, 500],
    "llm.first-text": [100, 400, 300, 400, 500],
    "llm.e2e": [300, 600, 500, 700],
    "llm.completion": [310, 610, 710],
    "llm.itl": [200 / 4, 400 / 2, 200 / 1, 200 / 4],
    "llm.user-tokens-per-sec": [20, 5, 5, 20],
    "llm.ttft-from-due": [102, 204, 300, 401, 1514],
    "llm.first-text-from-due": [102, 404, 300, 401, 1514],
    "llm.e2e-from-due": [302, 604, 500, 1714],
    "llm.completion-from-due": [312, 614, 1724],
    "run.lateness": [2, 4, 0, 1, 1014, 1, 3],
    "run.generator-lateness": [1, 2, 0, 1, 1, 1, 3],  # a retried request's is that of its first attempt
    "run.connect": [1, 3],
}
POOLED: dict[str, list[float]] = {
    "llm.frame-gap": [100, 100, 200, 200, 200, 200],
    "run.read-lag": [1, 1, 1, 5],
    "run.loop-lag": [2, 4],
}
LLM_WINDOW_S = (6014 + 700 - 1002) / 1e3  # first sent to last output
WHOLE: dict[str, float] = {
    "llm.requests": 5,
    "llm.incomplete": 1,
    "llm.output-tokens": 5 + 3 + 2 + 5,
    "llm.input-tokens": 10 + 30 + 20,
    "llm.token-count-approx-pct": 100 * 1 / 4,
    "llm.output-tokens-per-sec": 15 / LLM_WINDOW_S,
    "llm.input-tokens-per-sec": 60 / LLM_WINDOW_S,
    "llm.total-tokens-per-sec": 75 / LLM_WINDOW_S,
    "llm.goodput-tokens-per-sec": (5 + 3) / LLM_WINDOW_S,
    "llm.steady-output-tokens-per-sec": (2 + 5 + 3 + 2 + 2 + 5) / 10,  # whatever arrived in the window
    "run.offered": 8,
    "run.offered-work": 9,
    "run.retries": 1,
    "run.submitted": 7,
    "run.good": 2,
    "run.offered-per-sec": 0.8,
    "run.submitted-per-sec": 0.7,
    "run.completed-per-sec": 0.3,
    "run.goodput-per-sec": 0.2,
    "run.useful-per-sec": 0.2,
    "run.useful-pct": 25,
    "run.completed-pct": 37.5,
    "run.truncated-pct": 12.5,
    "run.noneligible-finish-pct": 0,
    "run.rejected-pct": 12.5,
    "run.http-error-pct": 0,
    "run.api-error-pct": 0,
    "run.interrupted-pct": 12.5,
    "run.timeout-pct": 0,
    "run.protocol-error-pct": 0,
    "run.connect-error-pct": 0,
    "run.client-limit-pct": 0,
    "run.unfinished-pct": 0,
    "run.unsent-pct": 12.5,
    "run.responded-pct": 12.5,
}
# What METRICS section 6 lists, and its goal names.
GOALS = {
    "llmTtftP50": "llm.ttft-p50",
    "llmTtftP95": "llm.ttft-p95",
    "llmTtftMax": "llm.ttft-max",
    "llmE2eP50": "llm.e2e-p50",
    "llmE2eP95": "llm.e2e-p95",
    "llmE2eMax": "llm.e2e-max",
    "llmItlP50": "llm.itl-p50",
    "llmItlP95": "llm.itl-p95",
    "llmItlMax": "llm.itl-max",
    "llmUserTokensPerSecP50": "llm.user-tokens-per-sec-p50",
    "llmUserTokensPerSecP95": "llm.user-tokens-per-sec-p95",
    "llmOutputTokensPerSec": "llm.output-tokens-per-sec",
    "llmOutputTokenCount": "llm.output-tokens",
    "llmRequestCount": "llm.requests",
    "llmIncompleteCount": "llm.incomplete",
    "llmTokenCountApproxPct": "llm.token-count-approx-pct",
}


def statistic_of(values: Sequence[float], statistic: str) -> float:
    """The same statistic by another's hand: the standard library's inclusive quantiles are linear, as numpy's."""
    match statistic:
        case "min" | "p0":
            return min(values)
        case "max" | "p100":
            return max(values)
        case "mean":
            return statistics.fmean(values)
    return statistics.quantiles(values, n=1000, method="inclusive")[round(float(statistic[1:]) * 10) - 1]


class Folder:
    """A finished run folder, to hold gates against."""

    def __init__(self, rundir: RunDir, *slos: str) -> None:
        self.rundir = rundir
        self.summary = close_run(rundir, Judging(slo=[*slos]))
        self.measured = Measured.read(rundir, [parse_slo(text) for text in slos])

    def held_to(self, gate: str, before: "Folder | None" = None) -> Result:
        baseline = None if before is None else (before.measured, before.summary)
        return evaluate([parse_gate(gate)], self.measured, self.summary, before=baseline)[0]

    def number(self, name: str, before: "Folder | None" = None) -> float | None:
        return self.held_to(f"{name} > 0", before).value.number

    def numbers(self, names: Sequence[str]) -> dict[str, float | None]:
        return {name: self.number(name) for name in names}


def run_of(path: Path, records: Sequence[Record], due: Sequence[float], **about: object) -> RunDir:
    return folder_of(path, records, due=due, **{"length": 10_000.0} | about)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("gates") / "known"
    return Folder(run_of(path, RECORDS, DUE, warmup=1000.0), OBJECTIVE)


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """Nobody was connected: no metric has a sample."""
    path = tmp_path_factory.mktemp("gates") / "failed"
    rows = [
        unanswered(seq, 1000.0 * seq, outcome="connect_error", detail="refused", reads=0, sent_ns=None,
                   first_sent_ns=None, connected_ns=None, connection_reused=None, headers_ns=None)
        for seq in range(3)
    ]  # fmt: skip
    return Folder(run_of(path, [*rows, closed(3000)], [0, 1000, 2000]))


@pytest.fixture(scope="module")
def closed_loop(tmp_path_factory):
    path = tmp_path_factory.mktemp("gates") / "closed"
    rows = [stream(seq, 1000.0 * seq, [100, 200 + seq], in_closed_loop=True) for seq in range(3)]
    return Folder(run_of(path, [*rows, closed(3000)], [], callers=1, length=None))


# -- every name ----------------------------------------------------------------


def test_every_name_has_the_value_that_was_worked_out_by_hand(run):
    exact = {
        f"{name}-{statistic}": statistic_of(values, statistic)
        for name, values in SAMPLES.items()
        for statistic in STATISTICS
    } | WHOLE

    assert set() == set(known_names()) - exact.keys() - {f"{name}-{s}" for name in POOLED for s in STATISTICS}
    assert exact == pytest.approx(run.numbers([*exact]), rel=1e-9)


def test_a_few_of_those_values_in_figures(run):
    figures = {
        "llm.ttft-p50": 300.0,
        "llm.ttft-p95": 480.0,
        "llm.ttft-p99": 496.0,
        "llm.e2e-p50": 550.0,
        "llm.itl-mean": 125.0,
        "llm.user-tokens-per-sec-p95": 20.0,
        "llm.user-tokens-per-sec-p50": 12.5,
        "llm.ttft-from-due-max": 1514.0,
        "run.lateness-p99": 4 + 0.94 * 1010,
    }

    assert figures == pytest.approx(run.numbers([*figures]))


def test_pooled_quantities_are_exact_to_the_histograms_three_digits(run):
    by_rank = {"min": 0, "p0": 0, "max": -1, "p100": -1}
    expected = {}
    for name, values in POOLED.items():
        ascending = sorted(values)
        for statistic in STATISTICS:
            rank = by_rank.get(statistic)
            if statistic == "mean":
                expected["mean of " + name] = statistics.fmean(values)
            elif rank is not None:
                expected[f"{name}-{statistic}"] = ascending[rank]
            else:
                place = math.ceil(float(statistic[1:]) / 100 * len(values))
                expected[f"{name}-{statistic}"] = ascending[place - 1]
    means = {key: run.number(f"{key.removeprefix('mean of ')}-mean") for key in expected if key.startswith("mean")}

    actual = means | run.numbers([key for key in expected if key not in means])
    assert expected == pytest.approx(actual, rel=2e-3)


def test_every_name_of_the_design_is_a_gate_and_a_goal(shared):
    section = (shared / "design" / "METRICS.md").read_text().partition("## 6.")[2].partition("## 7.")[0]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `llm.")]
    named = {
        goal: gate
        for gates, goals in rows
        for gate, goal in zip(re.findall("`(.+?)`", gates), re.findall("`(.+?)`", goals), strict=True)
    }

    assert named == GOALS
    assert [*GOALS.values()] == [str(gate.quantity) for gate in parse_goals({g: {"too_high": 1} for g in GOALS})]


def test_a_count_has_the_offered_requests_as_its_n_and_a_metric_its_samples(run):
    def n(name):
        return run.held_to(f"{name} > 0").value.samples

    assert {"run.offered": 8, "llm.requests": 8, "run.useful-pct[short]": 4, "llm.ttft-p95": 5} == {
        "run.offered": n("run.offered"),
        "llm.requests": n("llm.requests"),
        "run.useful-pct[short]": n("run.useful-pct[short]"),
        "llm.ttft-p95": n("llm.ttft-p95"),
    }
    assert (8, 3, 6, 4) == (
        n("llm.ttft-p95[offered]"),
        n("llm.ttft-p95[completed]"),
        n("llm.frame-gap-p95"),
        n("run.read-lag-p95"),
    )


def test_dash_and_underscore_and_case_are_alike(run):
    spellings = ("llm.user-tokens-per-sec-p95", "llm.user_tokens_per_sec_p95", "LLM.User_Tokens-per_sec-P95")

    assert [20.0] * 3 == [run.number(name) for name in spellings]
    assert run.number("run.noneligible_finish_pct") == run.number("run.noneligible-finish-pct") == 0
    assert "llm.user-tokens-per-sec-p95" == str(parse_gate(f"{spellings[1]} > 1").quantity)


@given(
    values=st.lists(st.integers(1, 10**12).map(lambda whole: whole / 1000), min_size=2, max_size=40),
    percentile=st.integers(1, 999),
)
def test_percentiles_are_linear_between_samples(values, percentile):
    measured = _measured_of(values)
    name = f"llm.ttft-p{percentile / 10}"

    (result,) = evaluate([parse_gate(f"{name} > 0")], measured, {}, before=None)

    expected = statistics.quantiles(values, n=1000, method="inclusive")[percentile - 1]
    assert result.value.number == pytest.approx(expected, rel=1e-9)
    assert len(values) == result.value.samples


@given(
    values=st.lists(st.integers(1, 10**9).map(float), min_size=1, max_size=30),
    missing=st.integers(0, 30),
    thousandths=st.integers(0, 1000),
)
@example(values=[1.0] * 34, missing=2967, thousandths=11)  # (3001 - 1) * 1.1 / 100 is a hair above 33 in floats
def test_an_offered_percentile_is_infinite_exactly_from_the_first_missing_request_on(values, missing, thousandths):
    measured = _measured_of([*values, *[None] * missing])
    percentile = "100" if thousandths == 1000 else f"{thousandths / 10}"

    (result,) = evaluate([parse_gate(f"llm.ttft-p{percentile}[offered] > 1e9")], measured, {}, before=None)

    place, part = divmod((len(values) + missing - 1) * thousandths, 1000)
    if place + (part > 0) >= len(values):
        assert math.inf == result.value.number and not result.passed
    else:
        low, high = sorted(values)[place], sorted(values)[place + (part > 0)]
        assert low + (high - low) * part / 1000 == pytest.approx(result.value.number)


def _measured_of(ttfts: Sequence[float | None]) -> Measured:
    """A run whose requests have these ttfts, without the files of one."""
    import polars as pl

    offered = pl.DataFrame({"ttft_ms": pl.Series(ttfts, dtype=pl.Float64), "outcome": ["completed"] * len(ttfts)})
    nothing = pl.DataFrame()
    return Measured(
        manifest={}, everything=offered, attempts=offered, offered=offered, frames=nothing, gaps=nothing, lags={},
        start_s=0.0, length_s=1.0, slos=[],
    )  # fmt: skip


# -- populations ---------------------------------------------------------------

POPULATIONS: dict[str, float] = {
    # Eight were offered: 100, 200, 300, 400, 500 ms, and three that are infinitely slow.
    "llm.ttft-min[offered]": 100,
    "llm.ttft-p50[offered]": 450,
    "llm.ttft-p57[offered]": 499,
    "llm.ttft-p58[offered]": math.inf,  # between 500 and infinity
    "llm.ttft-p95[offered]": math.inf,
    "llm.ttft-max[offered]": math.inf,
    "llm.ttft-mean[offered]": math.inf,
    "llm.e2e-p42[offered]": 600 + 0.94 * 100,
    "llm.e2e-p43[offered]": math.inf,
    "llm.completion-p25[offered]": 610 + 0.75 * 100,
    "llm.completion-p50[offered]": math.inf,
    "run.lateness-max[offered]": math.inf,  # one was never sent
    "run.generator-lateness-p85[offered]": 2 + 0.95 * (3 - 2),
    # Without a rate a request is infinitely slow, which is a rate of 0.
    "llm.user-tokens-per-sec-min[offered]": 0,
    "llm.user-tokens-per-sec-p50[offered]": 2.5,
    "llm.user-tokens-per-sec-mean[offered]": 50 / 8,
    "llm.user-tokens-per-sec-p95[offered]": 20,
    # Six gaps, and four requests that have none.
    "llm.frame-gap-p50[offered]": 200,
    "llm.frame-gap-p60[offered]": math.inf,
    "llm.ttft-p50[completed]": 200,
    "llm.ttft-p95[completed]": 470,
    "llm.first-text-p50[completed]": 400,
    "llm.e2e-max[completed]": 700,
    "llm.itl-mean[completed]": 100,
    "llm.user-tokens-per-sec-min[completed]": 5,
    "llm.ttft-from-due-max[completed]": 1514,
    "run.lateness-p50[completed]": 4,
    "llm.ttft-p50[short]": 300,
    "llm.ttft-p95[short]": 480,
    "llm.e2e-mean[short]": 500,
    "llm.ttft-p50[long]": 300,
    "llm.ttft-max[long]": 400,
    "llm.e2e-p99[long]": 600,
    "run.lateness-max[long]": 4,
    "run.offered[short]": 4,
    "run.offered[long]": 3,
    "run.offered[offered]": 8,
    "run.useful-pct[short]": 25,
    "run.useful-pct[long]": 100 / 3,
    "run.goodput-per-sec[long]": 0.1,
    "run.completed-pct[short]": 50,
    "run.rejected-pct[long]": 100 / 3,
    "run.rejected-pct[short]": 0,
    "llm.requests[short]": 3,
    "llm.incomplete[long]": 1,
    "llm.incomplete[short]": 0,
    "llm.output-tokens[short]": 12,
    "llm.output-tokens[long]": 3,
    "llm.input-tokens[short]": 60,
    "llm.token-count-approx-pct[long]": 100,
    "llm.token-count-approx-pct[short]": 0,
    "llm.output-tokens-per-sec[long]": 3 / ((4001 + 500 - 2004) / 1e3),
    "llm.output-tokens-per-sec[offered]": 15 / LLM_WINDOW_S,
}


def test_populations_have_the_values_that_were_worked_out_by_hand(run):
    assert POPULATIONS == pytest.approx(run.numbers([*POPULATIONS]))


def test_pooled_gaps_of_a_population_are_of_its_own_streams(run):
    names = ("llm.frame-gap-min[short]", "llm.frame-gap-max[short]", "llm.frame-gap-min[long]")

    assert [100, 200, 200] == pytest.approx([run.number(name) for name in names], rel=2e-3)
    assert (5, 4, 2) == tuple(
        run.held_to(f"llm.frame-gap-p50[{of}] > 0").value.samples for of in ("completed", "short", "long")
    )


def test_a_finished_stream_of_one_frame_has_no_gap_to_be_offered(tmp_path):
    run = Folder(run_of(tmp_path / "r", [stream(0, 0, [100, 150]), stream(1, 1, [100]), closed(300)], [0, 1]))

    assert math.inf == run.number("llm.frame-gap-max[offered]") == run.number("llm.itl-max[offered]")
    assert 50 == pytest.approx(run.number("llm.frame-gap-max"), rel=2e-3)


def test_survivors_cannot_pass_a_gate_on_what_was_offered(run):
    survivors, offered = run.held_to("llm.ttft-p95 > 600"), run.held_to("llm.ttft-p95[offered] > 600")

    assert (True, False) == (survivors.passed, offered.passed)
    assert "inf ms is > 600" == offered.words
    assert (None, 8) == (offered.as_json()["measured"], offered.as_json()["n"])


def test_a_result_says_whom_it_is_about(run):
    words = {name: run.held_to(f"{name} > 0").as_json()["population"] for name in (
        "llm.ttft-p95", "llm.ttft-p95[offered]", "llm.ttft-p95[completed]", "llm.ttft-p95[long]", "llm.e2e-max",
        "run.lateness-max", "llm.frame-gap-max", "run.read-lag-max", "run.loop-lag-max", "run.offered",
    )}  # fmt: skip

    assert [
        "streams that produced output",
        "every offered request, without the metric as infinitely slow",
        "completed requests",
        "class long",
        "finished streams",
        "everything submitted",
        "finished streams, pooled",
        "reads",
        "ticks",
        "the run",
    ] == [*words.values()]


# -- without samples -----------------------------------------------------------


def test_a_metric_without_samples_fails_whatever_the_gate_says_and_says_so(failed):
    for name, op in itertools.product([n for n in known_names() if n.startswith("llm.")], (">", "<")):
        result = failed.held_to(f"{name} {op} 0")
        assert (False, None, 0) == (result.passed, result.value.number, result.value.samples), name
        assert result.words.startswith("no samples: "), name


def test_the_words_of_a_missing_sample_tell_why(failed, run, closed_loop):
    def words(folder, name):
        return folder.held_to(f"{name} > 0").words.removeprefix("no samples: ")

    assert "none of 3 requests has llm.ttft" == words(failed, "llm.ttft-p95")
    assert "none of 3 requests has llm.frame-gap" == words(failed, "llm.frame-gap-p95")
    assert "none of 3 requests of class short has llm.ttft" == words(failed, "llm.ttft-p95[short]")
    assert "none of 0 completed requests has llm.ttft" == words(failed, "llm.ttft-p95[completed]")
    assert "none of 0 requests of class night has llm.ttft" == words(run, "llm.ttft-p95[night]")
    assert "no request of class night was sent" == words(run, "run.useful-pct[night]")
    assert "no stream of a language model was seen" == words(failed, "llm.requests")
    assert "it was not measured" == words(failed, "run.loop-lag-p99")
    assert "this run has no llm.input-tokens" == words(run, "llm.input-tokens[long]")
    assert "none of 3 requests has run.lateness" == words(closed_loop, "run.lateness-p99")


def test_without_a_metric_the_offered_are_infinitely_slow_and_rates_are_zero(failed):
    assert math.inf == failed.number("llm.ttft-p50[offered]") == failed.number("llm.frame-gap-p50[offered]")
    assert 0 == failed.number("llm.user-tokens-per-sec-p50[offered]")
    assert [False, False] == [
        failed.held_to(gate).passed
        for gate in ("llm.ttft-p50[offered] > 800", "llm.user-tokens-per-sec-p50[offered] < 5")
    ]


def test_counts_and_shares_of_a_run_that_failed_are_numbers(failed):
    assert {"run.offered": 3, "run.submitted": 0, "run.useful-pct": 0, "run.connect-error-pct": 100} == failed.numbers(
        ["run.offered", "run.submitted", "run.useful-pct", "run.connect-error-pct"]
    )


def test_a_rate_that_does_not_exist_is_absent_per_gpu_too(tmp_path):
    silent = unanswered(0, 0, outcome="interrupted", format="openai", frames=0)

    run = Folder(run_of(tmp_path / "r", [silent, closed(100)], [0], gpus=4))

    assert 1 == run.number("llm.requests") and run.number("llm.output-tokens-per-sec") is None
    assert "output_tokens_per_sec_per_gpu" not in run.summary["llm"]


def test_a_run_that_sent_nothing_has_no_shares(tmp_path):
    run = Folder(run_of(tmp_path / "r", [Closed(0)], [], callers=1, length=None))

    assert (0, None, None) == tuple(run.number(f"run.{name}") for name in ("offered", "useful-pct", "completed-pct"))
    assert not run.held_to("run.useful-pct < 99").passed


def test_a_closed_loop_has_no_offered_rate_and_no_lateness(closed_loop):
    for name in ("run.offered-per-sec", "run.lateness-p50", "run.generator-lateness-max", "llm.ttft-from-due-p95"):
        result = closed_loop.held_to(f"{name} < 0")
        assert (None, False) == (result.value.number, result.passed), name
    assert (100, 3) == (closed_loop.number("llm.ttft-p50"), closed_loop.number("run.offered"))
    assert math.inf == closed_loop.number("llm.ttft-from-due-p95[offered]")


# -- operators and numbers -----------------------------------------------------


@pytest.mark.parametrize(
    ("op", "holds_at"), [(">", "+"), (">=", "0+"), ("<", "-"), ("<=", "-0"), ("==", "0"), ("!=", "-+")]
)
def test_a_gate_fails_when_its_condition_is_true(run, op, holds_at):
    # The measured value is 300; `holds_at` says on which side of the number the condition is true.
    for side, number in (("+", 299.5), ("0", 300), ("-", 300.5)):
        result = run.held_to(f"llm.ttft-p50 {op} {number}")
        assert (side not in holds_at) == result.passed, (op, number)
        assert f"300 ms {'is not' if result.passed else 'is'} {op} {number:g}" == result.words


@pytest.mark.parametrize(
    "text",
    ["llm.ttft-p95>800", " llm.ttft-p95 >800 ", "llm.ttft_p95  >  800.0", "llm.ttft-p95 > 8e2", "LLM.ttft-p95>800"],
)
def test_a_gate_may_be_written_with_or_without_spaces(text):
    assert "llm.ttft-p95 > 800" == str(parse_gate(text))


@pytest.mark.parametrize("number", ["-1.5", "0", "1e-3", "12345678"])
def test_any_finite_number_can_stand_in_a_gate(number):
    assert float(number) == parse_gate(f"run.offered > {number}").number


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("", "is not NAME OP NUMBER"),
        ("llm.ttft-p95", "is not NAME OP NUMBER"),
        ("llm.ttft-p95 >", "is not NAME OP NUMBER"),
        ("llm.ttft-p95 = 800", "is not NAME OP NUMBER"),
        ("llm.ttft-p95 => 800", "is not NAME OP NUMBER"),
        ("llm.ttft-p95 > much", "is not NAME OP NUMBER"),
        ("llm.ttft-p95 > inf", "is not NAME OP NUMBER"),
        ("llm.ttft-p95 > nan", "is not NAME OP NUMBER"),
        ("llm.ttft-p95 > 1e999", "is not NAME OP NUMBER"),
        ("llm.ttft-p95[] > 800", "is not NAME OP NUMBER"),
        ("800 < llm.ttft-p95", "is not NAME OP NUMBER"),
        ("llm.ttft-p95 > 800ms", "'ms' after the number"),
        ("llm.ttft-p95 > 800 and more", "'and more' after the number"),
        ("run.useful-pct < 99%", "'%' after the number"),
    ],
)
def test_what_is_no_gate_is_refused_with_an_example(text, fact):
    with pytest.raises(UsageError) as refusal:
        parse_gate(text)

    assert fact in str(refusal.value) and "\nhint: " in str(refusal.value)
    assert "as in --fail-if 'llm.ttft-p95 > 800'" in str(refusal.value)


# -- wrong names ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("ttft-p95", "llm.ttft-p95"),
        ("llm.tfft-p95", "llm.ttft-p95"),
        ("llm.ttft", "llm.ttft-p50"),
        ("llm.ttft-p", "llm.ttft-p50"),
        ("llm.ttft-p101", "llm.ttft-p95"),
        ("llm.ttft-p99.", "llm.ttft-p99"),
        ("llm.ttft-avg", "llm.ttft-max"),
        ("llm.ttft-p95-p99", "llm.ttft-p99"),
        ("llm.ttft-change-pct", "llm.ttft-p95"),
        ("llm.lateness-p99", "run.lateness-p99"),
        ("run.ttft-p95", "llm.ttft-p95"),
        ("llm.frames-gap-p95", "llm.frame-gap-p95"),
        ("run.read-lags-max", "run.read-lag-max"),
        ("llm.output-tokens-p95", "llm.output-tokens"),
        ("llm.output-token-count", "llm.output-tokens"),
        ("llm.incompletes", "llm.incomplete"),
        ("llm.token-count-approx-percent", "llm.token-count-approx-pct"),
        ("run.usefull-pct", "run.useful-pct"),
        ("run.complete-pct", "run.completed-pct"),
        ("run.reject-pct", "run.rejected-pct"),
        ("run.goodput", "run.goodput-per-sec"),
        ("run.offered-pct", "run.offered"),
        ("llmTtftP95", "llm.ttft-p95"),
    ],
)
def test_a_name_that_is_none_is_refused_with_near_ones(name, near):
    with pytest.raises(UsageError) as refusal:
        parse_gate(f"{name} > 1")

    fact, hint = str(refusal.value).split("\nhint: ")
    assert fact == f"gate {name + ' > 1'!r}: there is no {name!r}"
    assert near in hint.removeprefix("near ones: ").split(", ")


def test_a_name_near_none_is_refused_with_the_forms_there_are():
    with pytest.raises(UsageError, match=r"there is no 'q'\nhint: .*llm\.<metric>-p95.*run\.useful-pct"):
        parse_gate("q > 1")


@pytest.mark.parametrize("name", ["llm.ttft-p95[night]", "run.useful-pct[night]", "llm.requests[night]"])
def test_a_class_that_is_not_sent_is_refused_with_those_that_are(name):
    with pytest.raises(UsageError, match=r"no class 'night' in what is sent\nhint: there are long, short; and comp"):
        parse_gate(f"{name} > 1", classes={"short", "long"})
    with pytest.raises(UsageError, match="there are no classes; and completed, offered"):
        parse_gate(f"{name} > 1", classes=())


@pytest.mark.parametrize("population", ["completed", "offered", "long"])
def test_a_population_that_there_is_is_taken(population):
    gate = parse_gate(f"llm.ttft-p95[{population}] > 1", classes={"short", "long"})

    assert (population, f"llm.ttft-p95[{population}] > 1") == (gate.quantity.population, str(gate))


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("run.read-lag-p99[long]", "run.read-lag is the generator's own"),
        ("run.loop-lag-max[offered]", "run.loop-lag is the generator's own"),
        ("run.completed-pct[completed]", r"run.completed-pct has no population \[completed\]"),
        ("llm.requests[completed]", r"llm.requests has no population \[completed\]"),
        ("run.retries[long]", r"run.retries has no population \[long\]"),
        ("llm.steady-output-tokens-per-sec[long]", r"has no population \[long\]"),
    ],
)
def test_a_population_that_a_quantity_has_not_is_refused(name, fact):
    with pytest.raises(UsageError, match=rf"{fact}\nhint: write "):
        parse_gate(f"{name} > 1", classes={"short", "long"})


# -- changes -------------------------------------------------------------------


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """A run to count changes from: two short streams and a refusal, without usage of the input."""
    path = tmp_path_factory.mktemp("gates") / "before"
    rows = [
        stream(0, 0, [150, 250], tokens=3),
        stream(1, 1000, [350, 450], tokens=3),
        unanswered(2, 2000, outcome="rejected", status=429),
        lags(loop=[1]),
        closed(3000),
    ]
    return Folder(run_of(path, rows, [0, 1000, 2000]), OBJECTIVE)


def test_a_change_is_counted_from_the_baseline_in_percent(run, before):
    seconds = (1000 + 450) / 1e3
    changes = {
        "llm.ttft-p50-change-pct": 100 * (300 - 250) / 250,
        "llm.ttft-min-change-pct": 100 * (100 - 150) / 150,
        "llm.ttft-p50-change-pct[short]": 100 * (300 - 250) / 250,
        "llm.ttft-max-change-pct[completed]": 100 * (500 - 350) / 350,
        "llm.itl-p50-change-pct": 100 * (125 - 50) / 50,
        "llm.output-tokens-change-pct": 100 * (15 - 6) / 6,
        "llm.output-tokens-per-sec-change-pct": 100 * (15 / LLM_WINDOW_S / (6 / seconds) - 1),
        "llm.requests-change-pct": 100 * (5 - 2) / 2,
        "run.useful-pct-change-pct": 100 * (25 - 100 / 3) / (100 / 3),  # 150 ms is useful, 350 is not
        "run.offered_change_pct": 100 * (8 - 3) / 3,
    }

    assert changes == pytest.approx({name: run.number(name, before) for name in changes})
    result = run.held_to("llm.ttft-p50-change-pct > 19.9", before)
    assert (False, "20 % is > 19.9", "llm.ttft-p50-change-pct > 19.9") == (
        result.passed,
        result.words,
        str(result.gate),
    )


def test_no_change_is_counted_from_nothing_or_from_zero(run, before, failed):
    def words(name, folder):
        result = run.held_to(f"{name} < -1e9", folder)
        assert (None, False) == (result.value.number, result.passed)
        return result.words

    assert "no samples: there is nothing to count a change from (--baseline RUN)" == words(
        "llm.ttft-p50-change-pct", None
    )
    assert "no samples: none of 3 requests has llm.ttft, before the change" == words("llm.ttft-p50-change-pct", failed)
    assert "no samples: no request of class long was sent, before the change" == words(
        "run.offered-change-pct[long]", before
    )
    assert "no samples: no change can be counted from 0 to 1" == words("llm.incomplete-change-pct", before)
    assert "no samples: no change can be counted from inf to 450" == words("llm.ttft-p50-change-pct[offered]", failed)
    stopped = failed.held_to("llm.ttft-p50-change-pct[offered] > 10", before)
    assert (False, "no samples: no change can be counted from 350 to inf") == (stopped.passed, stopped.words)


def test_what_stays_zero_has_not_changed(run, before):
    assert 0 == before.number("llm.incomplete-change-pct", before)
    assert 0 == run.number("run.timeout-pct-change-pct", before)
    assert before.held_to("llm.incomplete-change-pct > 0", before).passed


def test_a_change_of_what_this_run_has_no_samples_of_says_so(failed, before):
    result = failed.held_to("llm.ttft-p50-change-pct > 10", before)

    assert (False, "no samples: none of 3 requests has llm.ttft") == (result.passed, result.words)


def test_a_baseline_is_held_to_the_runs_own_objectives(run, before):
    judging = Judging(slo=[OBJECTIVE], fail_if=["run.good-change-pct < 0"], baseline=before.rundir.path)

    (gate,) = judging.summarise(run.measured, run.summary["process"])["gates"]

    assert (100.0, True) == (gate["measured"], gate["passed"])  # two are good, where one was


def test_a_change_without_a_baseline_is_refused_before_anything_is_sent():
    for judging in (
        Judging(fail_if=["llm.ttft-p95-change-pct > 10"]),
        Judging(goals={"llm.ttft-p95-change-pct": {"too_high": 10}}),
    ):
        with pytest.raises(UsageError, match="nothing to count a change from\nhint: name a run with --baseline"):
            judging.check((), has_recorded=False)


# -- goals ---------------------------------------------------------------------


@pytest.mark.parametrize(("bound", "op"), [("too_high", ">"), ("too_low", "<")])
def test_a_goal_of_the_design_is_its_gate(run, bound, op):
    gates = parse_goals({goal: {bound: 1} for goal in GOALS})

    assert [f"{name} {op} 1" for name in GOALS.values()] == [str(gate) for gate in gates]
    results = evaluate(gates, run.measured, run.summary, before=None)
    assert [run.number(name) for name in GOALS.values()] == [result.value.number for result in results]


def test_a_goal_can_have_both_bounds(run):
    high, low = parse_goals({"llmTtftP50": {"too_high": 310, "too_low": 290.5}})

    assert ("llm.ttft-p50 > 310", "llm.ttft-p50 < 290.5") == (str(high), str(low))
    assert [True, True] == [result.passed for result in evaluate([high, low], run.measured, run.summary, before=None)]


@pytest.mark.parametrize(
    ("goal", "gate"),
    [
        ("llmFirstTextP99", "llm.first-text-p99"),
        ("llmTtftFromDueP95", "llm.ttft-from-due-p95"),
        ("llmFrameGapMean", "llm.frame-gap-mean"),
        ("llmE2eP5", "llm.e2e-p5"),
        ("runGeneratorLatenessP99", "run.generator-lateness-p99"),
        ("runUsefulPct", "run.useful-pct"),
        ("runHttpErrorPct", "run.http-error-pct"),
        ("runOffered", "run.offered"),
        ("runGoodputPerSec", "run.goodput-per-sec"),
        ("llmTtftP95ChangePct", "llm.ttft-p95-change-pct"),
        ("llmTtftP95[long]", "llm.ttft-p95[long]"),
        ("llmRequestCount[long]", "llm.requests[long]"),
        ("llm.ttft-p99.9[offered]", "llm.ttft-p99.9[offered]"),
        ("run.useful_pct", "run.useful-pct"),
    ],
)
def test_a_goal_may_be_any_gate_in_camel_case_or_by_its_name(goal, gate):
    (made,) = parse_goals({goal: {"too_low": 3}}, classes={"long"})

    assert f"{gate} < 3" == str(made)


@pytest.mark.parametrize(
    "bounds", [800, "800", None, [], {}, {"too_big": 1}, {"too_high": "800"}, {"too_high": True},
               {"too_high": math.inf}, {"too_high": math.nan}, {"too_high": 1, "low": 1}, {"ttft-p95": {"too_high": 1}}]
)  # fmt: skip
def test_a_goal_without_a_bound_is_refused(bounds):
    with pytest.raises(UsageError, match=r"goal llmTtftP95: .* is no bound\nhint: as in llmTtftP95 = {too_high = 800}"):
        parse_goals({"llmTtftP95": bounds})


@pytest.mark.parametrize(
    ("goal", "near"),
    [
        ("llmTtfP95", "llm.ttft-p95"),
        ("llmTtft", "llm.ttft-p50"),
        ("llmOutputTokensCount", "llm.output-tokens"),
        ("ttftP95", "llm.ttft-p95"),
        ("llm.tfft-p95", "llm.ttft-p95"),
    ],
)
def test_a_goal_that_is_no_name_is_refused_with_near_ones(goal, near):
    with pytest.raises(UsageError) as refusal:
        parse_goals({goal: {"too_high": 1}})

    fact, hint = str(refusal.value).split("\nhint: ")
    assert fact.startswith(f"goal {goal}: there is no ") and near in hint


def test_a_goals_class_is_one_that_is_sent():
    with pytest.raises(UsageError, match=r"goal llmTtftP95\[night\]: no class 'night' .*\nhint: there are long"):
        parse_goals({"llmTtftP95[night]": {"too_high": 1}}, classes={"long"})


def test_every_total_names_a_number_of_a_run(run):
    assert set(TOTALS) == set(WHOLE)
    assert [] == [name for name in TOTALS if run.number(name) is None]
