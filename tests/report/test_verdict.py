"""The verdict: every reason of METRICS section 5 alone, just below its bound and just above it."""

import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import loadgen
from report.folder import LONG, closed, folder_of, lags, ns, stream, unanswered, unsent
from rich.console import Console

from loadgen.cli.summary import close_run
from loadgen.report.text import write_summary
from loadgen.results.record import Record, Row, Sample, Sent

COUNT = 300  # enough for a p99 of its own
DUE = [10.0 * seq for seq in range(COUNT)]  # a window of 3 s: 1 % of it is 30 ms
END = 3_200.0

Change = dict[str, Any]


def rows_of(change: Callable[[int], Change] = lambda seq: {}) -> list[Row]:
    """A quiet run's rows: 0.2 ms late, first output after 100 ms, gaps of 10 ms; `change` bends the one or other."""
    rows = []
    for seq, due in enumerate(DUE):
        bent = change(seq)
        outputs = bent.pop("outputs", [100, 110, 120])
        rows.append(stream(seq, due, outputs, **{"late": 0.2, "place": seq % 2} | bent))
    return rows


def run_of(path: Path, rows: Sequence[Record] = (), *more: Record, **about: Any) -> dict[str, Any]:
    """The summary of a run of these rows, which is quiet in everything else."""
    settings: dict[str, Any] = {"due": DUE, "length": 3_000.0, "nominal_rate": 100.0}
    ends = about.pop("ends", True)
    quiet = () if any(type(record).__name__ == "Lags" for record in more) else (lags(read=[0.1], loop=[0.1] * 100),)
    records = [*(rows or rows_of()), *quiet, *more, *[closed(END)] * ends]
    return close_run(folder_of(path / "run", records, **settings | about))


def first(count: int, **change: Any) -> Callable[[int], Change]:
    """Bend the first so many."""
    return lambda seq: dict(change) if seq < count else {}


def each(**change: Any) -> Callable[[int], Change]:
    return first(COUNT, **change)


def reasons_of(summary: dict[str, Any]) -> list[tuple[str, str]]:
    return [(reason["name"], reason["level"]) for reason in summary["verdict"]["reasons"]]


def only_reason(summary: dict[str, Any]) -> dict[str, str]:
    (reason,) = summary["verdict"]["reasons"]
    return reason


def printed(summary: dict[str, Any], width: int = 100, **how: Any) -> str:
    file = io.StringIO()
    write_summary(summary, Console(file=file, width=width, highlight=False, **how))
    return file.getvalue()


# -- quiet ---------------------------------------------------------------------


def test_a_quiet_run_is_valid_and_gives_no_reason(tmp_path):
    summary = run_of(tmp_path)

    assert {"valid": True, "reasons": []} == summary["verdict"]
    assert "VALID" == printed(summary).splitlines()[0]


# -- each reason alone ---------------------------------------------------------

# What bends a quiet run: rows, further records, and what is about the whole run.
Bent = tuple[Sequence[Record], Sequence[Record], dict[str, Any]]


def rows(change: Callable[[int], Change]) -> Bent:
    return rows_of(change), (), {}


def also(*records: Record, **about: Any) -> Bent:
    return (), records, about


def about(**changes: Any) -> Bent:
    return (), (), changes


def drawn(count: int, nominal: float) -> Bent:
    """So many requests in the window."""
    due = [3_000 * seq / count for seq in range(count)]
    made = [stream(seq, at, [100, 110, 120], late=0.2) for seq, at in enumerate(due)]
    return made, (), {"due": due, "nominal_rate": nominal}


LATE_TTFT = {"outputs": [1000, 1010, 1020]}  # 1 % of it is 10 ms
LIMIT = {"outcome": "client_limit", "finished": False}
FROM_READS = {"stamp_source": "read"}
AT_ONCE = {"outputs": [100, 300, 500]}  # 5 % of the gap is 10 ms

# name, level: below its bound, above it, the figure and the remedy that are then said.
BOUNDS: dict[str, tuple[str, str, Bent, Bent, str, str]] = {
    "lateness, by 2 ms": (
        "generator_lateness", "invalid", rows(each(late=2.0)), rows(each(late=2.01)),
        "p99 is 2.01 ms, above 2.00 ms", "a core of its own",
    ),
    "lateness, by 1 % of ttft": (
        "generator_lateness", "invalid", rows(each(late=10.0, **LATE_TTFT)), rows(each(late=10.01, **LATE_TTFT)),
        "p99 is 10 ms, above 10 ms", "a core of its own",
    ),
    "lateness, of 1 % of the requests": (
        "generator_lateness", "invalid", rows(first(2, late=20.0)), rows(first(4, late=20.0)),
        "p99 is 20 ms, above 2.00 ms", "a core of its own",
    ),
    "sent late, by 1 % of the window": (
        "sent_late", "invalid", rows(first(4, late=0.0, connect=30.0)), rows(first(4, late=0.0, connect=30.001)),
        "1.3 % of the requests were sent more than 30 ms (1 % of the window, at least 2 ms) late", "a core of its own",
    ),
    "sent late, 1 % of the requests": (
        "sent_late", "invalid", rows(first(3, connect=40.0)), rows(first(4, connect=40.0)),
        "1.3 % of the requests", "a core of its own",
    ),
    "stamps, by 1 ms": (
        "stamp_uncertainty", "invalid",
        rows(each(stamp_uncertainty_ns=ns(1.0))), rows(each(stamp_uncertainty_ns=ns(1.01))),
        "uncertain by 1.01 ms at p99, above 1.00 ms", "a core of its own",
    ),
    "stamps, by 5 % of the gap": (
        "stamp_uncertainty", "invalid", rows(each(stamp_uncertainty_ns=ns(10.0), **AT_ONCE)),
        rows(each(stamp_uncertainty_ns=ns(10.01), **AT_ONCE)), "uncertain by 10 ms at p99, above 10 ms", "quiet",
    ),
    "stamps, of 1 % of the requests": (
        "stamp_uncertainty", "invalid", rows(first(2, stamp_uncertainty_ns=ns(9))),
        rows(first(4, stamp_uncertainty_ns=ns(9))), "uncertain by 9.00 ms at p99", "quiet",
    ),
    "no kernel stamps, by 1 ms": (
        "stamp_uncertainty", "invalid",
        (rows_of(each(**FROM_READS)), (lags(loop=[0.1] * 98 + [0.99] * 2),), {}),
        (rows_of(each(**FROM_READS)), (lags(loop=[0.1] * 98 + [1.02] * 2),), {}),
        "no kernel stamps (read) and loop lag p99 is 1.02 ms, above 1.00 ms", "quiet",
    ),
    "no kernel stamps, by 5 % of the gap": (
        "stamp_uncertainty", "invalid",
        (rows_of(each(**FROM_READS, **AT_ONCE)), (lags(loop=[9.9]),), {}),
        (rows_of(each(**FROM_READS, **AT_ONCE)), (lags(loop=[10.2]),), {}),
        "loop lag p99 is 10 ms, above 10 ms", "quiet",
    ),
    "a standstill": (
        "loop_lag", "warned", also(lags(loop=[0.1] * 999 + [99.5])), also(lags(loop=[0.1] * 999 + [101])),
        "stood still for 101 ms", "paused",
    ),
    "a cap": (
        "cap_delay", "warned", rows(each(wait=0.0)), rows(first(7, wait=5.0)),
        "the cap delayed 7 requests, 5.00 ms at the median", "raise --max-concurrency",
    ),
    "a rate that was not drawn": (
        "nominal_rate", "warned", drawn(315, 100.0), drawn(316, 100.0),
        "drew 105.33 requests/s where 100.00 were asked for", "make the run longer",
    ),
    "a rate below": (
        "nominal_rate", "warned", drawn(304, 106.6), drawn(304, 106.7),
        "drew 101.33 requests/s where 106.70 were asked for", "--seed",
    ),
    "prompts that repeat": (
        "repeated_prompts", "warned", about(repeats=True, cache="cold"), about(repeats=True),
        "no cache condition was stated", "--cache",
    ),
    "too few samples": (
        "too_few_samples", "warned",
        rows(first(1, finished=False, outcome="interrupted", output_tokens=1)),
        rows(first(2, finished=False, outcome="interrupted", output_tokens=1)),
        "p99 needs 299 samples; there are: e2e 298, itl 298", "run longer",
    ),
    "tokens that were not reported": (
        "approximate_tokens", "warned", rows(each(tokens_approximate=False)), rows(first(3, tokens_approximate=True)),
        "1 % of the finished streams reported no usage", "--usage",
    ),
    "reasoning that nobody saw": (
        "hidden_reasoning", "warned",
        rows(first(5, reasoning_tokens=9, kinds=["reasoning", "text", "text"])), rows(first(5, reasoning_tokens=9)),
        "5 streams reasoned in tokens that no frame showed", "compare e2e",
    ),
    "a stream that never ended": (
        "unfinished", "warned", rows(each()),
        rows(first(1, outcome="unfinished", finished=False, detail="drain")),
        "1 requests were still in flight at the end", "--drain",
    ),
    "longer answers": (
        "output_lengths", "warned",
        (rows_of(each(tokens=105)), (), {"expected": 100}), (rows_of(each(tokens=106)), (), {"expected": 100}),
        "answers have 106.0 tokens where the recording's had 100.0 (+6 %)", "ignore_eos",
    ),
    "shorter answers": (
        "output_lengths", "warned",
        (rows_of(each(tokens=95)), (), {"expected": 100}), (rows_of(each(tokens=94)), (), {"expected": 100}),
        "(-6 %)", "ignore_eos",
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", BOUNDS)
def test_a_reason_is_given_just_above_its_bound_and_not_just_below(tmp_path, how):
    name, level, below, above, figure, remedy = BOUNDS[how]
    quiet = run_of(tmp_path / "below", below[0], *below[1], **below[2])
    bent = run_of(tmp_path / "above", above[0], *above[1], **above[2])

    assert [] == reasons_of(quiet)
    assert [(name, level)] == reasons_of(bent)
    assert (level != "invalid") == bent["verdict"]["valid"]
    reason = only_reason(bent)
    assert figure in reason["fact"] and remedy in reason["remedy"]
    text = printed(bent, width=400)
    assert ("VALID, 1 warning" if level == "warned" else f"INVALID: {name}") == text.splitlines()[0]
    assert f"{reason['fact']} -> {reason['remedy']}" in text


@pytest.mark.parametrize(
    ("detail", "remedy"),
    [
        ("descriptors", "raise `ulimit -n`"),
        ("ports", "widen net.ipv4.ip_local_port_range"),
        ("memory", "give the machine more memory"),
        (None, "give the generator more of it"),
    ],
)
def test_one_request_that_met_our_own_limit_spoils_a_run(tmp_path, detail, remedy):
    summary = run_of(tmp_path, rows_of(first(1, **LIMIT, detail=detail)))

    reason = only_reason(summary)
    assert ("client_limit", "invalid") == (reason["name"], reason["level"])
    assert f"1 requests met a limit of this machine ({detail or 'unknown'})" in reason["fact"]
    assert remedy in reason["remedy"]


def test_each_limit_is_told_by_its_name(tmp_path):
    bent = {0: "ports", 1: "descriptors"}
    summary = run_of(tmp_path, rows_of(lambda seq: LIMIT | {"detail": bent[seq]} if seq in bent else {}))

    told = [r["fact"] for r in summary["verdict"]["reasons"] if r["name"] == "client_limit"]
    assert ["(descriptors)", "(ports)"] == [re.findall(r"\(.*?\)", fact)[0] for fact in told]
    assert "INVALID: client_limit" == printed(summary).splitlines()[0]


def after_a_warm_up(path: Path, early: Row) -> dict[str, Any]:
    """A quiet run, a second after one warm-up request."""
    late = [stream(1 + seq, 1000 + due, [100, 110, 120], late=0.2, place=seq % 2) for seq, due in enumerate(DUE)]
    return run_of(path, [early, *late], due=[0, *[1000 + due for due in DUE]], warmup=1000.0)


def test_a_limit_that_was_met_in_the_warm_up_counts_too(tmp_path):
    summary = after_a_warm_up(
        tmp_path, unanswered(0, 0, outcome="client_limit", detail="ports", is_warmup=True, reads=0)
    )

    assert [("client_limit", "invalid")] == reasons_of(summary)
    assert {"completed": COUNT} == summary["outcomes"]


def test_a_limit_that_a_later_attempt_did_not_meet_counts_too(tmp_path):
    limited = unanswered(0, 0, outcome="client_limit", detail="ports")
    retried = stream(0, 0, [100, 110, 120], late=600, attempt=2)

    summary = run_of(tmp_path, [limited, retried, *rows_of()[1:]])

    assert [("client_limit", "invalid")] == reasons_of(summary)
    assert {"completed": COUNT} == summary["outcomes"]


# -- what is not the generator's doing -----------------------------------------


def test_what_was_late_in_the_warm_up_does_not_spoil_a_run(tmp_path):
    late = stream(0, 0, [100, 110, 120], late=900, is_warmup=True, stamp_uncertainty_ns=ns(80))

    assert [] == reasons_of(after_a_warm_up(tmp_path, late))


def retried(*, late: float) -> list[Row]:
    """Each request is turned away, and sent again a second later."""
    return [
        row
        for seq, due in enumerate(DUE)
        for row in (
            unanswered(seq, due, late=late, outcome="rejected", status=429, retry_after_s=1.0),
            stream(seq, due, [100, 110, 120], late=1000, attempt=2),
        )
    ]


def test_a_retry_is_not_the_generators_lateness(tmp_path):
    summary = run_of(tmp_path, retried(late=0.2))

    assert [] == reasons_of(summary)
    assert (COUNT, COUNT) == (summary["retries"], summary["metrics"]["generator_lateness"]["n"])
    assert 0.2 == pytest.approx(summary["metrics"]["generator_lateness"]["max"])


def test_a_late_first_attempt_of_a_retried_request_is(tmp_path):
    assert [("generator_lateness", "invalid")] == reasons_of(run_of(tmp_path, retried(late=20)))


def test_waiting_for_a_slot_is_told_of_and_is_no_lateness(tmp_path):
    summary = run_of(tmp_path, rows_of(each(wait=200.0)))

    reason = only_reason(summary)
    assert ("cap_delay", "warned") == (reason["name"], reason["level"])
    assert "the cap delayed 300 requests, 200 ms at the median" in reason["fact"]
    assert 0.2 == pytest.approx(summary["generator"]["lateness_p99_ms"])


def test_opening_a_connection_is_not_the_generators_lateness(tmp_path):
    assert [] == reasons_of(run_of(tmp_path, rows_of(each(connect=25.0))))


def test_who_waits_for_a_slot_at_the_end_is_warned_of(tmp_path):
    *kept, _ = rows_of(first(1, wait=1.0))

    summary = run_of(tmp_path, [*kept, unsent(COUNT - 1, DUE[-1], place=LONG)])

    assert [("cap_delay", "warned"), ("unsent", "warned")] == reasons_of(summary)
    assert "1 scheduled requests were never sent" == summary["verdict"]["reasons"][1]["fact"]
    assert "--max-concurrency" in summary["verdict"]["reasons"][1]["remedy"]


def test_all_at_once_is_no_window_to_be_late_in(tmp_path):
    made = [stream(seq, 0, [100, 110, 120], late=0.2) for seq in range(COUNT)]

    summary = run_of(tmp_path, made, due=[0] * COUNT, length=0.0, nominal_rate=None)

    assert [] == reasons_of(summary)
    assert (2.0, 0.0) == (summary["generator"]["late_ms"], summary["generator"]["late_pct"])


# -- stamps --------------------------------------------------------------------


def test_loop_lag_says_nothing_of_frames_that_the_kernel_stamped(tmp_path):
    assert [] == reasons_of(run_of(tmp_path, rows_of(), lags(loop=[50.0] * 100)))


def test_without_kernel_stamps_loop_lag_stands_in_for_their_uncertainty(tmp_path):
    read = rows_of(each(**FROM_READS, stamp_uncertainty_ns=ns(80)))

    assert [] == reasons_of(run_of(tmp_path / "quiet", read, lags(loop=[0.5] * 100)))
    assert [("stamp_uncertainty", "invalid")] == reasons_of(run_of(tmp_path / "late", read, lags(loop=[50.0] * 100)))


def test_one_stream_without_kernel_stamps_is_enough_for_that(tmp_path):
    reason = only_reason(run_of(tmp_path, rows_of(first(1, **FROM_READS)), lags(loop=[50.0] * 100)))

    assert reason["fact"].startswith("frames have no kernel stamps (read) and loop lag p99 is 50 ms")


def test_frames_that_come_together_are_no_gap_to_be_uncertain_of(tmp_path):
    # Four frames in two reads: the gaps within a read are 0, and 5 % of the 200 ms between reads are 10 ms.
    together = {"outputs": [100, 100, 300, 300], "stamp_uncertainty_ns": ns(9.9)}

    assert [] == reasons_of(run_of(tmp_path, rows_of(each(**together))))


# -- loops, crashes, backlogs --------------------------------------------------


def callers_of(path: Path, **changes: Any) -> dict[str, Any]:
    made = [stream(seq, at, [100, 110, 120], in_closed_loop=True, **changes) for seq, at in enumerate(DUE)]
    return run_of(path, made, due=[], length=None, callers=4, nominal_rate=None)


def test_a_closed_loop_is_warned_of_and_has_no_lateness(tmp_path):
    summary = callers_of(tmp_path)

    reason = only_reason(summary)
    assert ("closed_loop", "warned") == (reason["name"], reason["level"])
    assert "closed loop of 4 callers: the server set the pace" == reason["fact"]
    assert "nothing here is about an arrival rate" in reason["remedy"]
    assert (None, None) == (summary["generator"]["lateness_p99_ms"], summary["generator"]["late_pct"])


def test_a_closed_loop_can_be_invalid_too(tmp_path):
    summary = callers_of(tmp_path, stamp_uncertainty_ns=ns(30))

    assert [("stamp_uncertainty", "invalid"), ("closed_loop", "warned")] == reasons_of(summary)


def test_a_run_whose_process_died_is_invalid(tmp_path):
    *kept, _ = rows_of()
    mark = Sent(COUNT - 1, 0, 1, ns(DUE[-1]))

    summary = run_of(tmp_path, [*kept, mark], ends=False)

    assert [("crashed", "invalid"), ("unfinished", "warned")] == reasons_of(summary)
    reason = summary["verdict"]["reasons"][0]
    assert "died before the schedule was exhausted; 1 requests in flight were lost" in reason["fact"]
    assert reason["remedy"]


def test_a_backlog_that_grows_is_warned_of_and_one_that_stands_is_not(tmp_path):
    def lasting(ms: Callable[[float], float]) -> list[Row]:
        return [stream(seq, due, [100, 110, ms(due)], late=0.2) for seq, due in enumerate(DUE)]

    assert [] == reasons_of(run_of(tmp_path / "stands", lasting(lambda due: 500)))
    reason = only_reason(run_of(tmp_path / "grows", lasting(lambda due: 4_000 - due)))
    assert ("backlog", "warned") == (reason["name"], reason["level"])
    assert "the backlog grew by 100.0 requests a second" == reason["fact"]
    assert "lower the rate" in reason["remedy"]


def test_a_signal_leaves_a_run_valid_and_says_what_was_not_sent(tmp_path):
    kept, left = rows_of()[:299], [unsent(299, DUE[-1])]

    summary = run_of(tmp_path, [*kept, *left], closed(END, "SIGINT"), ends=False)

    assert [("unsent", "warned")] == reasons_of(summary)
    assert "let the run end by itself" == only_reason(summary)["remedy"]


def test_a_run_that_reached_nobody_is_no_fault_of_the_generator(tmp_path):
    made = [
        unanswered(seq, due, late=0.2, outcome="connect_error", detail="refused", reads=0, sent_ns=None,
                   first_sent_ns=None, connected_ns=None, connection_reused=None)
        for seq, due in enumerate(DUE)
    ]  # fmt: skip

    assert {"valid": True, "reasons": []} == run_of(tmp_path, made)["verdict"]


# -- remedies by what the process saw of itself --------------------------------


def samples(*, cpu_pct: float, core_wait_pct: float | None) -> list[Record]:
    return [
        Sample(
            at_ns=ns(1000.0 * second),
            cpu_ns=round(ns(1000.0 * second) * cpu_pct / 100),
            core_wait_ns=None if core_wait_pct is None else round(ns(1000.0 * second) * core_wait_pct / 100),
            resident_bytes=2**25,
            descriptors=20,
            connections=5,
            in_flight=5,
        )
        for second in range(4)
    ]


@pytest.mark.parametrize(
    ("cpu_pct", "core_wait_pct", "loop", "remedy"),
    [
        (30, 5.5, 0.1, "something else used its core, for which it waited 6 % of the time"),
        (86, 4.5, 0.1, "it used 86 % of its core: lower the rate"),
        (84, 4.5, 250, "it stood still for 250 ms: was the process, or its machine, paused?"),
        (84, 4.5, 0.1, "keep the machine quiet"),
        (84, None, 0.1, "keep the machine quiet"),
    ],
)
def test_lateness_has_the_remedy_of_its_likely_cause(tmp_path, cpu_pct, core_wait_pct, loop, remedy):
    more = samples(cpu_pct=cpu_pct, core_wait_pct=core_wait_pct)

    summary = run_of(tmp_path, rows_of(each(late=20)), *more, lags(loop=[0.1] * 500 + [loop]))

    reason = summary["verdict"]["reasons"][0]
    assert "generator_lateness" == reason["name"]
    assert remedy in reason["remedy"]


def test_a_process_that_measured_nothing_of_itself_can_still_be_judged(tmp_path):
    records = [*rows_of(each(late=20, **FROM_READS))]
    folder = folder_of(tmp_path / "run", [*records, closed(END)], due=DUE, length=3_000.0)

    assert [("generator_lateness", "invalid")] == reasons_of(close_run(folder))


# -- how it is shown -----------------------------------------------------------


def spoilt(path: Path) -> dict[str, Any]:
    change = LIMIT | {"detail": "ports"}
    return run_of(
        path, rows_of(lambda seq: change if seq == 0 else {"late": 20.0, "wait": 9.0, "tokens_approximate": True}),
        repeats=True,
    )  # fmt: skip


def test_reasons_for_invalid_come_first(tmp_path):
    summary = spoilt(tmp_path)

    assert [
        ("generator_lateness", "invalid"),
        ("client_limit", "invalid"),
        ("cap_delay", "warned"),
        ("repeated_prompts", "warned"),
        ("approximate_tokens", "warned"),
    ] == reasons_of(summary)
    shown = [line.split()[0] for line in printed(summary, width=400).splitlines()[1:6]]
    assert [name for name, _ in reasons_of(summary)] == shown
    assert "verdict" == next(iter(summary))


SHOWN = {
    "valid": (lambda path: run_of(path), "VALID"),
    "warned": (lambda path: run_of(path, rows_of(first(9, wait=2.0, tokens_approximate=True))), "VALID, 2 warnings"),
    "invalid": (spoilt, "INVALID: generator_lateness, client_limit"),
}


@pytest.mark.parametrize("which", SHOWN)
def test_the_verdict_is_the_first_line_at_any_width_and_with_colours(tmp_path, which):
    make, line = SHOWN[which]
    summary = make(tmp_path)

    for width in (60, 80, 200):
        plain = printed(summary, width=width)
        assert line == plain.splitlines()[0]
        assert max(map(len, plain.splitlines())) <= width
        coloured = printed(summary, width=width, force_terminal=True)
        assert "\x1b[" in coloured.splitlines()[0]
        assert plain == re.sub(r"\x1b\[[0-9;]*m", "", coloured)


@pytest.mark.parametrize("which", SHOWN)
def test_the_verdict_is_the_first_line_where_stdout_is_no_terminal(tmp_path, which, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    make, line = SHOWN[which]

    write_summary(make(tmp_path))

    shown = capsys.readouterr().out
    assert line == shown.splitlines()[0]
    assert max(map(len, shown.splitlines())) <= 60 and "\x1b" not in shown


def test_the_verdict_is_the_first_line_that_the_command_prints(tmp_path):
    spoilt(tmp_path)

    done = loadgen("summary", tmp_path / "run", env={"COLUMNS": "60"})

    assert (0, "INVALID: generator_lateness, client_limit") == (done.returncode, done.stdout.splitlines()[0])
    assert "\x1b" not in done.stdout


def test_every_reason_and_remedy_fits_into_sixty_columns(tmp_path):
    text = printed(spoilt(tmp_path), width=60)

    assert max(map(len, text.splitlines())) <= 60
    folded = " ".join(text.split())
    for word in ("generator_lateness", "client_limit", "cap_delay", "repeated_prompts", "net.ipv4.ip_local_port_range"):
        assert word in folded


def test_what_a_user_named_is_shown_as_it_is_named(tmp_path, capsys):
    name = "[red]:fire:[/]"
    made = close_run(folder_of(tmp_path / "run", [*rows_of(), closed(END)], due=DUE, length=3_000.0, classes=[name]))

    write_summary(made)

    shown = capsys.readouterr().out
    assert f"ttft[{name}]" in shown
    assert shown.count(name) >= 4  # in the table of classes, and for three metrics
