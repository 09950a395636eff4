"""A frame of a stream, and what takes bytes apart into frames."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from loadgen.wire.events import Malformed

MAX_FRAME_BYTES = 32 * 1024 * 1024


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One frame: its event name (b"" where it has none) and its data."""

    event: bytes
    data: bytes


class Framer(Protocol):
    """What turns a response body into frames."""

    def feed(self, data: bytes) -> Sequence[Frame]:
        """Take the next bytes, return the frames they complete; raises Broken or Foreign, and is useless then."""
        ...

    def finish(self) -> Sequence[Frame]:
        """Return the frames that a clean end of the message completes; raises Foreign."""
        ...


class Broken(Malformed):
    """Framing that does not hold; `frames` are those that the same bytes completed before."""

    def __init__(self, detail: str, frames: Sequence[Frame] = ()) -> None:
        super().__init__(detail)
        self.frames = frames


class Foreign(Malformed):
    """The first bytes show another kind of body than its content type says; `body` is what came of it."""

    def __init__(self, body: bytes) -> None:
        super().__init__("not_a_stream")
        self.body = body
