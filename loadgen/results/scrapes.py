"""Pages of metrics as a table: every sample of every scrape, on the run's clock."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as prometheus_text

from loadgen.results.record import Scrape

OPEN_METRICS = "application/openmetrics-text"
# One row a sample. `replica` is its URL, `tick` numbers its scrapes; `le` is a bucket's bound, and no label. Of each
# scrape itself there is a sample `up`, as Prometheus has it: 1, and who the server says it is; or 0, and why not.
COLUMNS: dict[str, pl.DataType] = {
    "at_ns": pl.Int64(),
    "replica": pl.String(),
    "tick": pl.Int64(),
    "family": pl.String(),
    "kind": pl.String(),
    "sample": pl.String(),
    "labels": pl.String(),
    "le": pl.Float64(),
    "value": pl.Float64(),
}


class Found(NamedTuple):
    """One sample, whenever it was scraped."""

    family: str
    kind: str
    sample: str
    labels: str  # name=value, by name
    le: float | None
    value: float


class Pages:
    """Reads the pages of a run's replicas, one after the other."""

    def __init__(self) -> None:
        self._ticks: dict[str, int] = {}
        self._seen: dict[str, dict[str, Found | None]] = {}  # the lines of each replica's last page
        self._tables: list[pl.DataFrame] = []

    def take(self, scrape: Scrape) -> None:
        """Read one page; one that cannot be read is a scrape that failed."""
        tick = self._ticks[scrape.replica] = self._ticks.get(scrape.replica, -1) + 1
        failure = scrape.failure
        found: list[Found] = []
        if failure is None:
            try:
                found = self._read(scrape)
                failure = None if found else "a page without a metric"
            except Exception as error:  # whatever the library makes of bytes that are no exposition
                failure = f"no page of metrics ({type(error).__name__})"
        told = f"server={scrape.server or ''}" if failure is None else f"failure={failure}"
        found.append(Found("up", "gauge", "up", told, None, float(failure is None)))
        rows = [(scrape.at_ns, scrape.replica, tick, *one) for one in found]
        self._tables.append(pl.DataFrame(rows, schema=COLUMNS, orient="row"))

    def write(self, path: Path) -> None:
        """Write all that was read, where anything was."""
        if self._tables:
            pl.concat(self._tables).sort("replica", "tick").write_parquet(path)

    def _read(self, scrape: Scrape) -> list[Found]:
        text = scrape.body.decode("utf-8")
        if scrape.content_type == OPEN_METRICS:
            return [found for family in open_metrics(text) for found in _found(family)]
        # Most of a page's lines are those of the last one, and reading them anew is what costs.
        before = self._seen.get(scrape.replica, {})
        lines = [line for line in text.split("\n") if line and not line.isspace()]
        fresh = [line for line in lines if line not in before or line.startswith("#")]
        found = [one for family in prometheus_text("\n".join(fresh) + "\n") for one in _found(family, keep_all=True)]
        named = [line for line in fresh if not line.startswith("#")]
        if len(named) != len(found):
            raise ValueError(f"{len(found)} samples in {len(named)} lines")
        now = {line: before.get(line) for line in lines if not line.startswith("#")}
        now.update(zip(named, found, strict=True))
        self._seen[scrape.replica] = now
        return [one for one in now.values() if one is not None and _is_wanted(one.sample)]


def _found(family: Metric, *, keep_all: bool = False) -> Iterator[Found]:
    for sample in family.samples:
        if not keep_all and not _is_wanted(sample.name):
            continue
        le = sample.labels.get("le") if sample.name.endswith("_bucket") else None
        labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()) if name != "le")
        yield Found(
            family.name, family.type, sample.name, labels, None if le is None else float(le), float(sample.value)
        )


def _is_wanted(sample: str) -> bool:
    """When a series began is no measurement."""
    return not sample.endswith("_created")
