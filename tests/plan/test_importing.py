"""From a source to a recording: counts, windows, ties, speed, models, classes; whole or not at all."""

import json
import subprocess
import sys
import tracemalloc
from array import array
from itertools import pairwise
from pathlib import Path
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sources import lines

from loadgen.errors import UsageError
from loadgen.plan.recordings.importers.found import Asked
from loadgen.plan.recordings.importing import Changes, import_recording, load, parse_class_by
from loadgen.plan.recordings.ours import read_recording
from loadgen.plan.recordings.spreading import spread_uniform
from loadgen.plan.recordings.survey import UNKNOWN_NS, Lengths, arrivals, quantum_ns
from loadgen.plan.schedule import open_loop, recorded_times

# What the README beside them says: rows, span, mean rate, gap CV, different times, most at once, sums of tokens.
EXCERPTS = {
    "mooncake_conversation_head3000.jsonl": (3000, 987.000, 3.0385, 2.849, 330, 19, 40550180, 1048832),
    "mooncake_synthetic_head500.jsonl": (500, 139.272, 3.5829, 0.981, 499, 2, 6403130, 97659),
    "azure_2023_conv_head4000.csv": (4000, 815.079, 4.9063, 1.082, 4000, 1, 4731122, 1014932),
    "azure_2023_code_head4000.csv": (4000, 1365.358, 2.9289, 13.973, 4000, 1, 8171220, 109683),
}


def trace(tmp_path: Path, *rows: tuple[int, int, int]) -> Path:
    """A length-only trace of (ms, input, output)."""
    path = tmp_path / "trace"
    names = ("timestamp", "input_length", "output_length")
    path.write_bytes(lines(*(dict(zip(names, row, strict=True)) for row in rows)))
    return path


def imported(source: Path, out: Path | None = None, **changes: object) -> dict[str, object]:
    return import_recording(source, out, asked=Asked(model="m"), changes=Changes(**changes))


def times(path: Path) -> list[float | None]:
    return [request.at_s for request in read_recording(path)]


# -- against the excerpts of public traces -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXCERPTS)
def test_the_counts_of_public_traces_are_those_that_are_known(shared, name):
    rows, span, rate, cv, distinct, most, asked, answered = EXCERPTS[name]

    report = imported(shared / "traces" / name)

    assert (rows, 0) == (report["rows"], report["refused"]["rows"])
    assert (span, rate, cv) == (
        round(report["span_s"], 3), round(report["mean_rate_per_s"], 4), round(report["gap_cv"], 3)
    )  # fmt: skip
    assert (distinct, most) == (report["distinct_times"], report["most_at_once"])
    assert (asked, answered) == (report["input_tokens"]["sum"], report["output_tokens"]["sum"])


def test_batches_cut_off_at_milliseconds_have_the_quantum_of_the_batches(shared):
    report = imported(shared / "traces" / "mooncake_conversation_head3000.jsonl")

    assert (3.0, 0.001) == (report["quantum_s"], report["resolution_s"])


def test_public_pairs_of_a_proxy_are_read(shared, tmp_path):
    report = imported(shared / "traces" / "rrpair", tmp_path / "out.jsonl")

    recorded = read_recording(tmp_path / "out.jsonl")
    assert (3, 3, "UTC") == (report["rows"], report["distinct_times"], report["zone"])
    assert ["/basic/status", "/customers", "/customers/7c9e6679-7425-40de-944b-e07fc1f90ae7"] == [
        request.path for request in recorded
    ]
    assert all("authorization" not in request.headers for request in recorded)
    assert [200, 200, 200] == [request.response.status for request in recorded]


def test_the_same_seed_makes_the_same_schedule_of_a_public_trace(shared, tmp_path):
    def sha256(name: str, seed: int) -> str:
        source = shared / "traces" / "mooncake_conversation_head3000.jsonl"
        imported(source, tmp_path / name, spread_ties="uniform", seed=seed, limit=200)
        requests = read_recording(tmp_path / name)
        due, places = recorded_times(requests)
        return open_loop(requests, due, which=places).sha256

    assert sha256("a", 1) == sha256("b", 1) != sha256("c", 2)


# -- arrivals ----------------------------------------------------------------------------------------------------------

moments = st.lists(st.integers(0, 10**6), min_size=1, max_size=30).map(lambda at: array("q", sorted(at)))


@given(moments)
def test_arrivals_are_counted_as_a_textbook_does(at_ns):
    found = arrivals(at_ns)
    gaps = [after - before for before, after in pairwise(at_ns)]

    assert found["span_s"] == (at_ns[-1] - at_ns[0]) / 1e9
    assert found["distinct_times"] == len(set(at_ns)) == len(at_ns) - found["tied_rows"]
    assert found["most_at_once"] == max(list(at_ns).count(at) for at in at_ns)
    if sum(gaps):
        assert pytest.approx(len(gaps) / sum(gaps) * 1e9) == found["mean_rate_per_s"]
        assert pytest.approx(pstdev(gaps) / fmean(gaps)) == found["gap_cv"]


@given(moments, st.randoms())
def test_arrivals_out_of_order_are_counted_alike_and_said_to_be(at_ns, rng):
    mixed = array("q", rng.sample(list(at_ns), len(at_ns)))

    assert arrivals(at_ns) | {"is_in_order": list(mixed) == sorted(mixed)} == arrivals(mixed)


def test_arrivals_that_are_none_or_one_say_what_they_can():
    assert (None, None, None) == tuple(arrivals(array("q"))[name] for name in ("span_s", "gap_cv", "quantum_s"))
    assert (0.0, None, None) == tuple(arrivals(array("q", [5]))[name] for name in ("span_s", "gap_cv", "quantum_s"))


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(1, 10**10))
def test_every_time_is_a_whole_number_of_quanta_after_the_first(steps, size):
    at_ns = array("q", (sum(steps[:end]) * size for end in range(len(steps) + 1)))

    quantum, resolution = quantum_ns(at_ns)

    assert quantum % size == 0
    assert all((at - at_ns[0]) % quantum <= resolution or -(at - at_ns[0]) % quantum <= resolution for at in at_ns)


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(-1, 1)), min_size=4, max_size=60), st.sampled_from([1000, 3000])
)
def test_a_batchs_step_is_found_though_its_times_are_cut_off(steps, size):
    at = 0
    found = [0]
    for step, off in [(1, 0), *steps, (1, 1)]:
        at += step * size
        found.append(at + off)

    assert (size, 1) == quantum_ns(array("q", found))


@given(moments, st.integers(1, 10**6), st.integers(0, 5))
def test_spreading_ties_keeps_order_and_quantum(at_ns, quantum, seed):
    spread = spread_uniform(at_ns, quantum_ns=quantum, seed=seed)

    assert list(spread) == sorted(spread)
    for before, after in zip(at_ns, spread, strict=True):
        assert before <= after < before + quantum
        if list(at_ns).count(before) == 1:
            assert before == after
    assert spread == spread_uniform(at_ns, quantum_ns=quantum, seed=seed)


def test_spreading_leaves_unknown_times_and_the_order_of_rows():
    at_ns = array("q", [6, UNKNOWN_NS, 0, 6, 0])

    spread = spread_uniform(at_ns, quantum_ns=6, seed=3)

    assert UNKNOWN_NS == spread[1]
    assert 0 <= spread[2] <= spread[4] < 6 <= spread[0] <= spread[3] < 12


def test_ties_are_spread_over_their_whole_quantum():
    spread = spread_uniform(array("q", [0] * 10_000), quantum_ns=10**9, seed=1)

    assert pytest.approx(0.5e9, rel=0.02) == fmean(spread)
    assert pytest.approx(10**9 / 12**0.5, rel=0.02) == pstdev(spread)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=50))
def test_lengths_are_told_as_a_textbook_does(tokens):
    lengths = Lengths()
    for count in tokens:
        lengths.add(count)
    ascending = sorted(tokens)

    def percentile(share: float) -> float:
        rank = share * (len(ascending) - 1)
        low = ascending[int(rank)]
        return low + (ascending[min(int(rank) + 1, len(ascending) - 1)] - low) * (rank - int(rank))

    told = lengths.as_json()
    assert (len(tokens), sum(tokens), max(tokens)) == (told["n"], told["sum"], told["max"])
    assert pytest.approx((percentile(0.5), percentile(0.99))) == (told["p50"], told["p99"])


# -- changes -----------------------------------------------------------------------------------------------------------


def test_times_count_from_the_earliest_though_it_is_not_the_first(tmp_path):
    report = imported(trace(tmp_path, (5000, 1, 1), (2000, 2, 1), (9000, 3, 1)), tmp_path / "out")

    assert [3.0, 0.0, 7.0] == times(tmp_path / "out")
    assert not report["is_in_order"]
    assert 7.0 == report["span_s"]


def test_a_window_holds_its_start_and_not_its_end_and_starts_anew(tmp_path):
    source = trace(tmp_path, (1000, 1, 1), (2000, 2, 1), (3000, 3, 1), (4000, 4, 1))

    report = imported(source, tmp_path / "out", window_s=(1.0, 3.0))

    assert [0.0, 1.0] == times(tmp_path / "out")
    assert [2, 3] == [request.synthetic.input_tokens for request in read_recording(tmp_path / "out")]
    assert (2, 1.0, 5) == (report["rows"], report["span_s"], report["input_tokens"]["sum"])


def test_a_limit_counts_in_the_window_and_stops_reading_without_one(tmp_path):
    source = trace(tmp_path, (0, 1, 1), (1000, 2, 1), (2000, 3, 1), (3000, 4, 0))

    whole = imported(source, None, limit=2)
    inside = imported(source, None, limit=1, window_s=(1.0, 9.0))

    assert (2, 3, 0) == (whole["rows"], whole["input_tokens"]["sum"], whole["refused"]["rows"])
    assert (1, 2, 1) == (inside["rows"], inside["input_tokens"]["sum"], inside["refused"]["rows"])


def test_an_empty_window_and_one_without_times_are_errors(tmp_path):
    with pytest.raises(UsageError, match="no request is in the window"):
        imported(trace(tmp_path, (0, 1, 1)), None, window_s=(5.0, 9.0))
    (tmp_path / "timeless").write_bytes(lines({"prompt": "x"}))
    with pytest.raises(UsageError, match="timeless:1: no arrival time: it is in no window"):
        imported(tmp_path / "timeless", None, window_s=(0.0, 9.0))


def test_speed_divides_times_after_ties_are_spread(tmp_path):
    source = trace(tmp_path, (0, 1, 1), (0, 1, 1), (3000, 1, 1), (6000, 1, 1))

    imported(source, tmp_path / "slow", spread_ties="uniform", seed=1)
    report = imported(source, tmp_path / "fast", spread_ties="uniform", seed=1, speed=2.0)

    assert [at / 2 for at in times(tmp_path / "slow")] == times(tmp_path / "fast")
    assert 0 <= times(tmp_path / "slow")[0] < times(tmp_path / "slow")[1] < 3
    assert (6.0, 1, 2.0) == (report["span_s"], report["tied_rows"], report["changes"]["speed"])


def test_ties_at_one_time_alone_cannot_be_spread(tmp_path):
    with pytest.raises(UsageError, match="all requests have one time, or none"):
        imported(trace(tmp_path, (0, 1, 1), (0, 1, 1)), None, spread_ties="uniform")


def test_models_are_mapped_in_bodies_paths_and_lengths(tmp_path):
    body = {"model": "old", "messages": [{"role": "user", "content": "x"}]}
    (tmp_path / "source").write_bytes(
        lines(
            {"path": "/v1/chat/completions", "model": "old", "body": body},
            {"path": "/v1/chat/completions", "model": "old", "synthetic": {"input_tokens": 5}},
            {"path": "/v1/chat/completions", "model": "other", "body": body | {"model": "other"}},
        )
    )

    report = imported(tmp_path / "source", tmp_path / "out", map_model={"old": "new"})

    mapped, lengths, other = read_recording(tmp_path / "out")
    assert {"new": 2, "other": 1} == report["models"]
    assert ("new", "new", "other") == (json.loads(mapped.payload)["model"], lengths.model, other.model)
    assert json.dumps(body | {"model": "other"}).encode() == other.payload


def test_classes_are_made_of_lengths_where_they_are_known(tmp_path):
    source = trace(tmp_path, (0, 999, 1), (1, 1000, 1), (2, 5, 80))

    by_input = imported(source, None, class_by=parse_class_by("input_tokens:1000"))
    by_output = imported(source, None, class_by=parse_class_by("output_tokens:50"))

    assert ({"long": 1, "short": 2}, {"long": 1, "short": 2}) == (by_input["classes"], by_output["classes"])
    for wrong in ("input_tokens", "tokens:5", "input_tokens:-1", "input_tokens:x"):
        with pytest.raises(UsageError, match="is not LENGTH:TOKENS"):
            parse_class_by(wrong)


# -- whole or not at all -----------------------------------------------------------------------------------------------


def test_a_file_is_never_overwritten(tmp_path):
    source, out = trace(tmp_path, (0, 1, 1)), tmp_path / "out"
    out.write_text("mine")

    with pytest.raises(UsageError, match="there is a file already\nhint: "):
        imported(source, out)

    assert "mine" == out.read_text()


def test_a_failed_import_leaves_nothing(tmp_path):
    source = tmp_path / "source"
    source.write_bytes(b'{"log": {"entries": [' + json.dumps({"request": {"url": "http://h/"}}).encode() + b", {")

    with pytest.raises(UsageError, match="no whole JSON"):
        imported(source, tmp_path / "out")

    assert [source] == list(tmp_path.iterdir())


def test_an_import_leaves_the_recording_alone_beside_its_source(tmp_path):
    source = trace(tmp_path, (5, 1, 1), (0, 1, 1))

    imported(source, tmp_path / "out", window_s=(0.0, 1.0))

    assert {source, tmp_path / "out"} == set(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_an_error_of_the_user(tmp_path):
    with pytest.raises(UsageError, match="No such file or directory"):
        imported(trace(tmp_path, (0, 1, 1)), tmp_path / "nowhere" / "out")


def test_our_own_recording_comes_through_byte_for_byte(tmp_path):
    line = b'{"path":"/v1/chat/completions","at_s":0.0,"headers":{"x":"y"},"body":{ "a":1.0 , "b":"\\u00e9"}}\n'
    (tmp_path / "source").write_bytes(line)

    imported(tmp_path / "source", tmp_path / "out")

    assert line == (tmp_path / "out").read_bytes()


def test_another_kind_can_be_loaded_at_once_with_its_times(tmp_path):
    loaded = load(trace(tmp_path, (5000, 1, 1), (2000, 2, 1), (3000, 1, 0)), asked=Asked())

    assert ("mooncake", 1, [3.0, 0.0]) == (loaded.kind, loaded.refused, [request.at_s for request in loaded.requests])


# -- memory ------------------------------------------------------------------------------------------------------------


def _csv(path: Path, rows: int) -> Path:
    with path.open("w") as file:
        file.write("TIMESTAMP,ContextTokens,GeneratedTokens\n")
        for row in range(rows):
            file.write(
                f"2023-11-16 {row // 3600 % 24:02}:{row // 60 % 60:02}:{row % 60:02}.5000000,{row % 4000 + 1},7\n"
            )
    return path


def _peak_bytes(source: Path) -> int:
    tracemalloc.start()
    imported(source, None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def test_memory_grows_by_no_more_than_a_time_for_each_row(tmp_path):
    few, many = 5_000, 15_000
    imported(_csv(tmp_path / "warm", few), None)

    grown = _peak_bytes(_csv(tmp_path / "many", many)) - _peak_bytes(_csv(tmp_path / "few", few))

    # 8 bytes for its time, as long as it takes another 8 for a copy, and what an array has in reserve.
    assert grown / (many - few) < 40


def test_a_document_is_read_without_being_held(tmp_path):
    entry = json.dumps({"startedDateTime": "2026-03-01T10:00:00Z", "request": {"url": "http://h/", "method": "POST"}})
    source = tmp_path / "large"
    with source.open("w") as file:
        file.write('{"log": {"entries": [' + entry)
        for _ in range(20_000):
            file.write("," + entry + " " * 400)
        file.write("]}}")
    size = source.stat().st_size
    program = (
        "import resource, sys; from pathlib import Path;"
        "from loadgen.plan.recordings.importing import *;"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "report = import_recording(Path(sys.argv[1]), None, asked=Asked(), changes=Changes());"
        "print(report['rows'], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )

    done = subprocess.run([sys.executable, "-c", program, source], capture_output=True, text=True, check=True)

    rows, grown_kib = map(int, done.stdout.split())
    assert 20_001 == rows
    assert grown_kib * 1024 < size / 2
