"""The recording file: one request a line, as JSON.

Only `path` is required; what is absent is null. A `body` is kept byte for byte as it stands in the line.
"""

import base64
import binascii
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from loadgen.errors import UsageError

T = TypeVar("T")

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PATH = re.compile(r"/[\x21-\x7e]*")


class RecordedFrame(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One frame of a recorded response; `ms` is null when the source had no frame timing."""

    ms: float | None = None
    data: str | None = None
    b64: str | None = None


class RecordedResponse(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the recorded server answered."""

    status: int | None = None
    headers: dict[str, str] | None = None
    end: str | None = None
    frames: list[RecordedFrame] | None = None
    usage: msgspec.Raw = msgspec.Raw(b"null")


class Synthetic(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The lengths of a prompt whose text the source did not keep."""

    input_tokens: int | None = None
    hash_ids: list[int] | None = None
    block_tokens: int | None = None


class RecordedRequest(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, rename={"klass": "class"}
):
    """One request as it was, or is to be, sent; the line of a recording.

    >>> parse_line(b'{"path": "/v1/models"}').payload
    b''
    """

    path: str
    id: str | None = None
    at_s: float | None = None  # from the first request's; null when unknown
    method: str | None = None
    headers: dict[str, str] | None = None
    body: msgspec.Raw = msgspec.Raw(b"null")
    body_b64: str | None = None
    klass: str | None = None
    session: str | None = None
    model: str | None = None
    expected_output_tokens: int | None = None
    fixed_length: bool | None = None
    source: str | None = None
    response: RecordedResponse | None = None
    synthetic: Synthetic | None = None

    @property
    def payload(self) -> bytes:
        """The body's bytes."""
        if self.body_b64 is not None:
            return base64.b64decode(self.body_b64, validate=True)
        body = bytes(self.body)
        return b"" if body == b"null" else body

    @property
    def is_made_up(self) -> bool:
        """Whether the body is written anew each time it is asked for."""
        return False

    @property
    def shape(self) -> dict[str, Any] | None:
        """The body of a made-up request but its prompt; None where the body has to be looked at."""
        return None

    @property
    def verb(self) -> str:
        """The method; by default POST with a body, GET without."""
        return self.method or ("POST" if self.payload else "GET")


_HINT = "a recording holds one JSON object a line; see schedules/README.md"
_decoder = msgspec.json.Decoder(RecordedRequest)
_encoder = msgspec.json.Encoder()


def parse_line(line: bytes) -> RecordedRequest:
    """Return the request of one line; raises ValueError with what is wrong with it."""
    request = _decoder.decode(line)
    if not _PATH.fullmatch(request.path):
        raise ValueError(f"path {request.path!r} is not an absolute path of printable ASCII")
    if request.method is not None and not _TOKEN.fullmatch(request.method):
        raise ValueError(f"method {request.method!r} is not an HTTP token")
    for name, value in (request.headers or {}).items():
        if not _TOKEN.fullmatch(name) or any(c in value for c in "\r\n\0"):
            raise ValueError(f"header {name!r} cannot be sent")
    if request.at_s is not None and not (math.isfinite(request.at_s) and request.at_s >= 0):
        raise ValueError(f"at_s {request.at_s} is not a time after the first request")
    if request.body_b64 is not None:
        if bytes(request.body) != b"null":
            raise ValueError("both body and body_b64 are given")
        try:
            base64.b64decode(request.body_b64, validate=True)
        except binascii.Error as error:
            raise ValueError(f"body_b64: {error}") from None
    return request


def read_recording(path: Path) -> list[RecordedRequest]:
    """Return the requests of a recording file (`-` is standard input), in its order; raises UsageError."""
    with _reading(path) as lines:
        return parse_recording(str(path), enumerate(lines, 1))[0]


def parse_recording(name: str, lines: Iterable[tuple[int, bytes]]) -> tuple[list[RecordedRequest], bool]:
    """Return the requests of a recording's numbered lines, and whether its last line is torn; raises UsageError.

    A last line that breaks off is no fault of the recording: whoever wrote it was killed over it.
    """
    requests, torn = _parsed(name, lines, parse_line, noun="request", hint=_HINT)
    return requests, torn is not None


def read_lines(path: Path, parse: Callable[[bytes], T], *, noun: str, hint: str) -> list[T]:
    """Return one value a line, blank lines skipped; raises UsageError naming the line that is wrong."""
    with _reading(path) as lines:
        values, torn = _parsed(str(path), enumerate(lines, 1), parse, noun=noun, hint=hint)
    if torn is not None:
        raise torn
    return values


def _parsed(
    name: str, lines: Iterable[tuple[int, bytes]], parse: Callable[[bytes], T], *, noun: str, hint: str
) -> tuple[list[T], UsageError | None]:
    """Return the lines' values, and what is wrong with the last line where that breaks off."""
    values: list[T] = []
    torn: UsageError | None = None
    for number, line in lines:
        if line.isspace():
            continue
        if torn is not None:
            raise torn
        try:
            values.append(parse(line.rstrip(b"\r\n")))
        except (ValueError, RecursionError, msgspec.ValidationError, msgspec.DecodeError) as error:
            torn = UsageError(f"{name}:{number}: {error}", hint=hint)
            if "truncated" not in str(error):
                raise torn from None
    if torn is not None and not values:
        raise torn
    if not values:
        raise UsageError(f"{name}: no {noun} in it", hint=f"give a file with at least one {noun}")
    return values, torn


@contextmanager
def _reading(path: Path) -> Iterator[BinaryIO]:
    try:
        with sys.stdin.buffer if str(path) == "-" else path.open("rb") as file:
            yield file
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="check the file's name and permissions") from None


def encode_line(request: RecordedRequest) -> bytes:
    """Return the request as a line that `parse_line` reads back equal, its line end with it."""
    return _encoder.encode(request) + b"\n"


def write_recording(path: Path, requests: Iterable[RecordedRequest]) -> None:
    """Write a recording file that `read_recording` reads back equal."""
    with path.open("wb") as file:
        for request in requests:
            file.write(encode_line(request))
