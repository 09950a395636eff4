"""The journal: an append-only file of records, safe to be killed at any byte."""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from loadgen.results.record import Record

_LENGTH_BYTES = 4


class Journal:
    """Appends records in memory; `flush` writes them out. The load loop flushes several times a second."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._encode_into = msgspec.msgpack.Encoder().encode_into
        self._buffer = bytearray()

    def append(self, record: Record) -> None:
        buffer = self._buffer
        start = len(buffer)
        self._encode_into(record, buffer, start + _LENGTH_BYTES)
        buffer[start : start + _LENGTH_BYTES] = (len(buffer) - start - _LENGTH_BYTES).to_bytes(_LENGTH_BYTES, "big")

    def flush(self) -> None:
        """Write what was appended; raises OSError and keeps what could not be written."""
        while self._buffer:
            written = os.write(self._fd, self._buffer)
            del self._buffer[:written]

    def close(self) -> None:
        self.flush()
        os.close(self._fd)


def read_journal(path: Path) -> Iterator[Record]:
    """Yield the records of a journal; a last one that was cut by a crash is left out."""
    decode = msgspec.msgpack.Decoder(Record).decode
    with path.open("rb") as file:
        while len(prefix := file.read(_LENGTH_BYTES)) == _LENGTH_BYTES:
            size = int.from_bytes(prefix, "big")
            if not size or len(body := file.read(size)) < size:  # a tail of zeros is a lost power's
                return
            yield decode(body)
