"""Frames as chunks of HTTP's chunked coding; of what is said again and again, encoded once."""

from collections.abc import Sequence
from typing import Protocol

from loadgen.servers.simulated.babble import LENGTH

LAST_CHUNK = b"0\r\n\r\n"


def chunk(frames: bytes) -> bytes:
    """Return frames as one chunk; nothing where there are none, since an empty chunk is the last."""
    return b"%x\r\n%b\r\n" % (len(frames), frames) if frames else b""


class Chunks(Protocol):
    """A chunk for each place of the endless text, which comes round."""

    def run(self, place: int, count: int, number: int) -> bytes:
        """Return so many chunks from a place on; `number` is that of the first, where events are numbered."""
        ...


class Same:
    """Chunks that are the same in every stream."""

    def __init__(self, frames: Sequence[bytes]) -> None:
        made = {frame: chunk(frame) for frame in set(frames)}
        self._chunks = [made[frame] for frame in frames]

    def run(self, place: int, count: int, number: int) -> bytes:
        if count == 1:
            return self._chunks[place % LENGTH]
        return b"".join(self._chunks[each % LENGTH] for each in range(place, place + count))


class Numbered:
    """Chunks that hold a running number, between the two pieces that each is given in."""

    def __init__(self, pieces: Sequence[tuple[bytes, bytes]]) -> None:
        made = {piece: (*piece, sum(map(len, piece))) for piece in set(pieces)}
        self._pieces = [made[piece] for piece in pieces]

    def run(self, place: int, count: int, number: int) -> bytes:
        if count == 1:
            return self._one(place, number)
        return b"".join(self._one(place + each, number + each) for each in range(count))

    def _one(self, place: int, number: int) -> bytes:
        before, after, size = self._pieces[place % LENGTH]
        digits = b"%d" % number
        return b"%x\r\n%b%b%b\r\n" % (size + len(digits), before, digits, after)
