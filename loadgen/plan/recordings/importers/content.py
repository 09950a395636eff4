"""A source as bytes: a file, standard input or a folder, gzip'd or not; recognised by its beginning, then read once."""

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from loadgen.errors import UsageError

HEAD_BYTES = 64 * 1024
_CHUNK_BYTES = 256 * 1024
_BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"
_WIDE = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
_UNREADABLE = (EOFError, zlib.error, OSError)


class Content:
    """An opened source: `head` is its beginning; its whole is taken once, by `lines` or by `chunks`.

    A folder has neither, only `files`. Whatever breaks while reading is a UsageError with the place.
    """

    def __init__(self, name: str, stream: BinaryIO | None, *, folder: Path | None = None) -> None:
        self.name = name
        self.folder = folder
        self.head = b""
        if stream is not None:
            self._stream, self.head = self._begun(stream)
            if self.head.startswith(_GZIP):
                self._stream, self.head = self._begun(cast(BinaryIO, gzip.GzipFile(fileobj=self._stream)))
            self.head = self.head.removeprefix(_BOM)

    def broken(
        self, row: int, fact: str, *, hint: str = "get the whole of it again, or cut the broken part off"
    ) -> UsageError:
        """Return the error that the source cannot be read on, to be raised."""
        return UsageError(f"{self.name}:{row}: {fact}", hint=hint)

    def not_utf8(self, row: int, encoding: str = "LATIN1") -> UsageError:
        """Return the error of a text in another encoding, to be raised."""
        return self.broken(row, "is not UTF-8", hint=f"convert it, as in iconv -f {encoding} -t UTF-8 {self.name}")

    def lines(self, *, keep_blank: bool = False) -> Iterator[tuple[int, bytes]]:
        """Yield each line that is not blank, with its number, without its end."""
        number = 0
        try:
            for number, line in enumerate(self._stream, 1):
                if keep_blank or not line.isspace():
                    yield number, (line if number > 1 else line.removeprefix(_BOM)).rstrip(b"\r\n")
        except _UNREADABLE as error:
            raise self._unreadable(number + 1, error) from None

    def chunks(self) -> Iterator[bytes]:
        """Yield the whole in pieces."""
        is_first = True
        try:
            while piece := self._stream.read(_CHUNK_BYTES):
                yield piece.removeprefix(_BOM) if is_first else piece
                is_first = False
        except _UNREADABLE as error:
            raise self._unreadable(1, error) from None

    def files(self, *suffixes: str) -> list[Path]:
        """Return the files below a folder whose names end so, in the order of their names."""
        if self.folder is None:
            return []
        return sorted(path for path in self.folder.rglob("*") if path.suffix in suffixes and path.is_file())

    def _begun(self, stream: BinaryIO) -> tuple[BinaryIO, bytes]:
        """Read the beginning; return what gives the whole, beginning included."""
        try:
            head = stream.read(HEAD_BYTES)
            if stream.seekable():
                stream.seek(0)
                return stream, head
        except _UNREADABLE as error:
            raise self._unreadable(1, error) from None
        return cast(BinaryIO, io.BufferedReader(_Joined(head, stream), _CHUNK_BYTES)), head

    def _unreadable(self, row: int, error: Exception) -> UsageError:
        if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
            return UsageError(f"{self.name}: {error.strerror or error}", hint="check the file's name and permissions")
        return self.broken(row, f"the gzip'd data is broken here: {error}")


@contextmanager
def opened(path: Path) -> Iterator[Content]:
    """Open a source (`-` is standard input); raises UsageError, also when there is nothing in it or no text."""
    if str(path) == "-":
        yield _checked(Content("standard input", sys.stdin.buffer))
    elif path.is_dir():
        yield Content(str(path), None, folder=path)
    else:
        try:
            stream = path.open("rb")
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}", hint="check the file's name and permissions") from None
        with stream:
            yield _checked(Content(str(path), stream))


def _checked(content: Content) -> Content:
    head = content.head
    if not head.strip():
        raise UsageError(f"{content.name}: no request in it", hint="give a file with at least one request")
    if head.startswith(_WIDE) or head[1::2].count(0) > len(head) // 3 or head[0::2].count(0) > len(head) // 3:
        raise content.not_utf8(1, "UTF-16")
    return content


class _Joined(io.RawIOBase):
    """What was read of a stream that cannot go back, and then the rest of it."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head, self._rest = head, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        piece = self._head[: len(buffer)] or self._rest.read(len(buffer))
        self._head = self._head[len(piece) :] if self._head else b""
        buffer[: len(piece)] = piece
        return len(piece)
