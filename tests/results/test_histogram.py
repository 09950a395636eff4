"""Histograms: three digits of the truth, and a log that HdrHistogram's own reader reads."""

import re

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from hypothesis import given
from hypothesis import strategies as st

from loadgen.results.histogram import HIGHEST_NS, LOWEST_NS, Histogram, HistogramLog, read_log

LINE = re.compile(r"(Tag=[^, ]+,)?\d+\.\d+,\d+\.\d+,\d+\.\d+,HISTF[A-Za-z0-9+/=]+")
PERCENTILES = [0.0, 1.0, 50.0, 90.0, 95.0, 99.0, 99.9, 100.0]

durations = st.integers(LOWEST_NS, HIGHEST_NS)


def near(truth):
    """Three digits, but never finer than the half microsecond that HdrHistogram makes of a lowest value of one."""
    return pytest.approx(truth, rel=1e-3, abs=512)


def histogram_of(*durations_ns: int) -> Histogram:
    histogram = Histogram()
    for duration in durations_ns:
        histogram.record(duration)
    return histogram


def exact(durations_ns: list[int], percentile: float) -> int:
    """The sample of the nearest rank, halves rounded up: what hdrh takes for a percentile."""
    rank = max(1, int(percentile / 100 * len(durations_ns) + 0.5))
    return sorted(durations_ns)[rank - 1]


@given(st.lists(durations, min_size=1, max_size=50))
def test_percentiles_are_the_truth_to_three_digits_or_half_a_microsecond(durations_ns):
    found = histogram_of(*durations_ns).percentiles_ns(PERCENTILES)

    assert {p: exact(durations_ns, p) for p in PERCENTILES} == near(found)


@given(durations)
def test_one_sample_is_every_percentile_and_the_maximum(duration):
    histogram = histogram_of(duration)

    assert {50.0: duration, 99.9: duration} == near(histogram.percentiles_ns([50.0, 99.9]))
    assert duration == near(histogram.max_ns)


def test_a_duration_recorded_many_times_counts_as_many():
    histogram = Histogram()
    histogram.record(1_000_000, 99)
    histogram.record(9_000_000)

    assert 100 == histogram.count
    assert {99.0: 1_000_000, 99.5: 9_000_000} == near(histogram.percentiles_ns([99.0, 99.5]))


def test_without_samples_there_are_no_percentiles():
    assert ({}, 0) == (Histogram().percentiles_ns([50.0]), Histogram().count)


def test_below_a_microsecond_counts_as_one():
    histogram = histogram_of(-5, 0, 1, 999)

    assert (4, 0) == (histogram.count, histogram.over_range)
    assert LOWEST_NS == near(histogram.max_ns)


def test_above_an_hour_is_counted_apart_and_nowhere_else():
    histogram = histogram_of(HIGHEST_NS)
    histogram.record(HIGHEST_NS * 2, 3)
    histogram.record(HIGHEST_NS * 10)

    assert (1, 4) == (histogram.count, histogram.over_range)
    assert HIGHEST_NS == near(histogram.max_ns)


@given(st.lists(durations, max_size=30))
def test_a_blob_holds_the_whole_histogram(durations_ns):
    histogram = histogram_of(*durations_ns)

    blob = histogram.blob()
    again = Histogram(blob)

    assert blob.startswith(b"HISTFAAA")
    assert (len(durations_ns), histogram.max_ns) == (again.count, again.max_ns)
    assert histogram.percentiles_ns(PERCENTILES) == again.percentiles_ns(PERCENTILES)


def test_a_decoded_histogram_goes_on_recording():
    histogram = Histogram(histogram_of(5_000_000).blob())
    histogram.record(7_000_000)

    assert 2 == histogram.count
    assert 7_000_000 == near(histogram.max_ns)


INTERVALS = [
    ("ttft", 0.0, [1_234_567, 2_000_000]),
    ("e2e[long]", 0.0, [900_000_000]),
    ("ttft", 1.0, [3_000_000] * 3),
    ("ttft", 4.0, [LOWEST_NS]),
]


@pytest.fixture
def log_path(tmp_path):
    path = tmp_path / "latency.hlog"
    with path.open("w", encoding="ascii", newline="\n") as file:
        log = HistogramLog(file, started_s=1_441_812_279.4744, comment="loadgen, ns")
        for tag, start_s, durations_ns in INTERVALS:
            log.write(tag, start_s, 1.0, histogram_of(*durations_ns))
    return path


def test_a_log_has_the_head_of_the_format(log_path):
    assert [
        "#[loadgen, ns]",
        "#[Histogram log format version 1.3]",
        "#[BaseTime: 1441812279.474 (seconds since epoch)]",
        "#[StartTime: 1441812279.474 (seconds since epoch)]",
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"',
    ] == log_path.read_text().splitlines()[:5]


def test_each_line_of_a_log_is_an_interval_in_the_format(log_path):
    lines = log_path.read_text().splitlines()[5:]

    assert [] == [line for line in lines if not LINE.fullmatch(line)]
    assert [(f"Tag={tag}", f"{start:.3f}", "1.000") for tag, start, _ in INTERVALS] == [
        tuple(line.split(",")[:3]) for line in lines
    ]
    assert [max(durations_ns) / 1e6 for *_, durations_ns in INTERVALS] == pytest.approx(
        [float(line.split(",")[3]) for line in lines], rel=1e-3, abs=5.12e-4
    )


def test_hdrhistograms_own_reader_reads_the_log(log_path):
    reader = HistogramLogReader(str(log_path), HdrHistogram(LOWEST_NS, HIGHEST_NS, 3))
    read = []
    while (interval := reader.get_next_interval_histogram()) is not None:
        read.append((interval.get_tag(), interval.get_start_time_stamp(), interval.get_total_count()))
        read.append(interval.get_max_value())
    reader.close()

    base_ms = 1_441_812_279_474
    expected = []
    for tag, start_s, durations_ns in INTERVALS:
        expected.append((tag, pytest.approx(base_ms + start_s * 1000, abs=1), len(durations_ns)))
        expected.append(near(max(durations_ns)))
    assert expected == read


def test_a_log_is_read_back_as_one_histogram_a_tag(log_path):
    merged = read_log(log_path)

    assert {"ttft": 6, "e2e[long]": 1} == {tag: histogram.count for tag, histogram in merged.items()}
    assert {50.0: 2_000_000, 90.0: 3_000_000} == near(merged["ttft"].percentiles_ns([50.0, 90.0]))


@pytest.mark.parametrize("tag", ["a,b", "a b", "a\rb", "a\nb", "a\r\nb, c"])
def test_a_tag_can_not_break_a_line(tmp_path, tag):
    path = tmp_path / "latency.hlog"
    with path.open("w", newline="\n") as file:
        HistogramLog(file, started_s=1.0, comment="c").write(tag, 0.0, 1.0, histogram_of(1_000_000))

    lines = path.read_text().splitlines()[5:]
    assert 1 == len(lines) and LINE.fullmatch(lines[0])
    assert [1] == [histogram.count for histogram in read_log(path).values()]
