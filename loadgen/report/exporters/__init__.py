"""A run's results in the formats of other tools: one file each, and the table of them."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from loadgen.report.exporters import aiperf, csv, hgrm, llmd
from loadgen.report.measured import Measured

# From a run's rows and its summary to the files that tell them, by name.
Exporter: TypeAlias = Callable[[Measured, dict[str, Any]], Mapping[str, str]]

EXPORTERS: dict[str, Exporter] = {
    "csv": csv.export,
    "hgrm": hgrm.export,
    "aiperf-json": aiperf.export,
    "llm-d": llmd.export,
}
