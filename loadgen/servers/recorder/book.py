"""The recording file while it is written: a line at a time, each with one write, never anything but appended."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

import msgspec

from loadgen.errors import UsageError


class _Line(msgspec.Struct):
    path: str
    at_s: float | None = None


_line = msgspec.json.Decoder(_Line).decode


class Book:
    """An open recording; `lines` and `until_s` (the latest arrival in it) count what an appended one had before.

    A line that a crash tore, which can only be the last one, is cut off when the file is opened to be appended to.
    """

    def __init__(self, fd: int, path: Path, *, lines: int = 0, until_s: float = 0.0, torn_bytes: int = 0) -> None:
        self._fd = fd
        self.path = path
        self.lines = lines
        self.until_s = until_s
        self.torn_bytes = torn_bytes
        self.failure: str | None = None  # why nothing more can be written

    def write(self, line: bytes) -> bool:
        """Append a line; return whether it is in the file. What could be written of it only in part is taken back."""
        if self.failure is not None:
            return False
        written = 0
        try:
            while written < len(line):
                written += os.write(self._fd, line[written:] if written else line)
        except OSError as error:
            self.failure = error.strerror or str(error)
            with suppress(OSError):
                os.ftruncate(self._fd, os.fstat(self._fd).st_size - written)
            return False
        self.lines += 1
        return True

    def close(self) -> None:
        os.close(self._fd)


def open_book(path: Path, *, append: bool) -> Book:
    """Open a recording to be written, readable by its owner alone; raises UsageError for one that is there already.

    With `append` it may be there, if it is a recording and nobody else writes it.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | (0 if append else os.O_EXCL), 0o600)
    except FileExistsError:
        raise UsageError(f"{path} exists", hint="give another --out, or --append to add to it") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="give a file that can be written as --out") from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return _read_through(fd, path)
    except BaseException as error:
        os.close(fd)
        if isinstance(error, BlockingIOError):
            raise UsageError(f"{path} is being written by another recorder", hint="give another --out") from None
        if isinstance(error, OSError):
            raise UsageError(f"{path}: {error.strerror}", hint="give a regular file as --out") from None
        raise


def _read_through(fd: int, path: Path) -> Book:
    lines, until_s, sound_bytes = 0, 0.0, 0
    line = b""
    with open(fd, "rb", closefd=False) as file:
        for number, line in enumerate(file, 1):
            if not line.isspace():
                try:
                    until_s = max(until_s, _line(line).at_s or 0.0)
                except (msgspec.DecodeError, ValueError) as error:
                    if not line.endswith(b"\n"):
                        break
                    raise UsageError(f"{path}:{number}: {error}", hint="--append adds to a recording only") from None
                lines += 1
            sound_bytes += len(line)
        else:
            if line and not line.endswith(b"\n"):
                os.write(fd, b"\n")
                sound_bytes += 1
    torn = os.fstat(fd).st_size - sound_bytes
    if torn:
        os.ftruncate(fd, sound_bytes)
    return Book(fd, path, lines=lines, until_s=until_s, torn_bytes=torn)
