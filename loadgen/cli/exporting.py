"""`--export FORMAT`: a finished run's results in the formats of other tools."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from loadgen.errors import UsageError

if TYPE_CHECKING:
    from loadgen.report.measured import Measured


def check_formats(formats: Sequence[str], *, into: Path | None) -> None:
    """Refuse a format that nobody writes, and a place for none; raises UsageError."""
    if not formats:
        if into is not None:
            raise UsageError("--out without --export", hint="say what to write: --export csv, hgrm, aiperf-json, llm-d")
        return
    from loadgen.report.exporters import EXPORTERS

    for name in formats:
        if name not in EXPORTERS:
            raise UsageError(f"--export {name!r} is not known", hint=f"there are {', '.join(EXPORTERS)}")


def write_exports(formats: Sequence[str], measured: "Measured", summary: dict[str, Any], *, into: Path) -> None:
    """Write each format's files, over older ones of the same name, and say where; raises UsageError."""
    from loadgen.report.exporters import EXPORTERS

    for name in dict.fromkeys(formats):
        for file, text in EXPORTERS[name](measured, summary).items():
            path = into / file
            try:
                into.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            except OSError as error:
                raise UsageError(f"{path}: {error.strerror}", hint="give an --out that you can write") from None
            typer.echo(f"{name}: {path}", err=True)
