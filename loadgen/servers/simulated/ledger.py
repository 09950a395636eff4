"""What became of each request, by the server's own clock: the truth that a client's numbers can be held against."""

from collections.abc import Callable
from typing import BinaryIO, Literal, TypeAlias

import msgspec

End: TypeAlias = Literal["completed", "cut", "reset", "stalled", "errored", "left", "rejected", "overflowed"]


class Entry(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One request; moments are ns on the monotonic clock, null when they never happened."""

    id: str | None  # its x-request-id
    path: str
    received_ns: int  # all of it was there, and its turn on its connection had come
    started_ns: int | None = None  # it got its slot
    first_ns: int | None = None  # its first token was said, and its last so far
    last_ns: int | None = None
    input_tokens: int = 0
    tokens: int = 0  # that were said
    end: End


Reader: TypeAlias = Callable[[Entry], None]


class LedgerFile:
    """Writes entries to a file, a JSON object a line, each as it ends."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._encode = msgspec.json.Encoder().encode

    def __call__(self, entry: Entry) -> None:
        self._file.write(self._encode(entry) + b"\n")
