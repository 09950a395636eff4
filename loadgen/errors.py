"""What can go wrong that is ours or the user's; what the server does wrong is a row, never an exception.

    LoadgenError          5  our own fault
    ├── UsageError        2  a bad option, file or value, found before anything is sent
    └── TargetError       4  the target cannot be reached before the run

Each says what, where, and in a second line `hint: …` the next step.
"""

# Exit codes, as CLI.md fixes them.
EXIT_FINE = 0
EXIT_GATE_FAILED = 1  # a --fail-if or goal is true, or its metric had no samples
EXIT_USAGE = 2
EXIT_INVALID = 3  # the run is INVALID where validity is required
EXIT_UNREACHABLE = 4
EXIT_FAULT = 5
EXIT_SIGINT = 130  # stopped by a signal: every row kept, summary made
EXIT_SIGTERM = 143


class LoadgenError(Exception):
    """Our own fault, in one line."""

    exit_code = EXIT_FAULT

    def __init__(self, fact: str, *, hint: str | None = None) -> None:
        super().__init__(fact if hint is None else f"{fact}\nhint: {hint}")


class UsageError(LoadgenError):
    """What the user asked for cannot be done as asked."""

    exit_code = EXIT_USAGE


class TargetError(LoadgenError):
    """The target did not answer before the run."""

    exit_code = EXIT_UNREACHABLE
