"""Durations in HdrHistograms; the only file that knows hdrh."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TextIO

from hdrh.histogram import HdrHistogram

LOWEST_NS = 1_000
HIGHEST_NS = 3_600_000_000_000
DIGITS = 3


class Histogram:
    """Durations in nanoseconds, 1 us to 1 h: three significant digits, and below half a millisecond half a microsecond.

    Below a microsecond counts as one; what is above an hour is counted in `over_range` and nowhere else.

    >>> histogram = Histogram()
    >>> histogram.record(2_000_000)
    >>> histogram.percentiles_ns([50])
    {50: 2000895}
    """

    def __init__(self, blob: bytes | None = None) -> None:
        if blob is None:
            self._hdr = HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS)
        else:
            self._hdr = HdrHistogram.decode(blob)
        self.over_range = 0

    @property
    def count(self) -> int:
        return int(self._hdr.get_total_count())

    @property
    def max_ns(self) -> int:
        return int(self._hdr.get_max_value())

    @property
    def min_ns(self) -> int:
        return int(self._hdr.get_min_value())

    @property
    def mean_ns(self) -> float:
        return float(self._hdr.get_mean_value())

    @property
    def buckets(self) -> tuple[int, int]:
        """How many buckets there are, and sub-buckets in each."""
        return self._hdr.bucket_count, self._hdr.sub_bucket_count

    def recorded(self) -> Iterator[tuple[int, int, int]]:
        """Yield lowest, highest and how many of the values that count as the same, ascending."""
        # hdrh's own iterator goes through its buckets twenty times slower.
        for index, count in enumerate(self._hdr.counts):
            if count:
                lowest = self._hdr.get_value_from_index(index)
                yield lowest, self._hdr.get_highest_equivalent_value(lowest), count

    def record(self, duration_ns: int, times: int = 1) -> None:
        # hdrh drops what does not fit and only says so in its return value.
        if duration_ns > HIGHEST_NS or not self._hdr.record_value(max(duration_ns, LOWEST_NS), times):
            self.over_range += times

    def percentiles_ns(self, percentiles: list[float]) -> dict[float, int]:
        """Return the value at each percentile (0 to 100), in one pass; {} without samples."""
        if not self.count:
            return {}
        found: dict[float, int] = self._hdr.get_percentile_to_value_dict(percentiles)
        return found

    def blob(self) -> bytes:
        """Return it compressed, in HdrHistogram's own V2 encoding, base64."""
        encoded = self._hdr.encode()
        return encoded if isinstance(encoded, bytes) else encoded.encode()


class HistogramLog:
    """A `.hlog` of format 1.3 that HdrHistogram's own tools read: one series a tag, lines ascending in time.

    Written by hand: hdrh's log writer drops tags, floors the maximum and fails on a start time.
    """

    def __init__(self, file: TextIO, *, started_s: float, comment: str) -> None:
        self._file = file
        file.write(f"#[{comment}]\n#[Histogram log format version 1.3]\n")
        file.write(f"#[BaseTime: {started_s:.3f} (seconds since epoch)]\n")
        file.write(f"#[StartTime: {started_s:.3f} (seconds since epoch)]\n")
        file.write('"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n')

    def write(self, tag: str, start_s: float, length_s: float, histogram: Histogram) -> None:
        """Write one interval, `start_s` seconds after the log's start."""
        tag = "".join("_" if c in ", \r\n" else c for c in tag)
        most = histogram.max_ns / 1e6
        blob = histogram.blob().decode("ascii")
        self._file.write(f"Tag={tag},{start_s:.3f},{length_s:.3f},{most:.3f},{blob}\n")


def read_log(path: Path, *, tags: Collection[str] | None = None) -> Mapping[str, Histogram]:
    """Return the whole-run histogram of each tag of a `.hlog`, or of those asked for that are in it."""
    merged: dict[str, Histogram] = {}
    for line in path.read_text(encoding="ascii").splitlines():
        if line.startswith("Tag="):
            tag, _, _, _, blob = line[4:].split(",")
            if tags is None or tag in tags:
                merged.setdefault(tag, Histogram())._hdr.decode_and_add(blob.encode())
    return merged
