"""mitmproxy flows: one tnetstring after another; no frame timing.

A tnetstring is `LENGTH:DATA` and a mark of its type; mitmproxy's `;` is text in UTF-8, its `,` bytes. The few fields
that are read here have kept their names through its versions since 1.0.
"""

from collections.abc import Callable, Iterator
from typing import Any

from loadgen.plan.recordings.importers.content import Content
from loadgen.plan.recordings.importers.exchanges import exchange, response_of
from loadgen.plan.recordings.importers.fields import listed, record
from loadgen.plan.recordings.importers.found import Asked, Found, Refused, each
from loadgen.plan.recordings.importers.sample import Sample
from loadgen.plan.recordings.importers.times import perhaps_ns

_MOST_BYTES = 1024 * 1024 * 1024
_LONGEST_PREFIX = 11
_DEEPEST = 32


def tells(sample: Sample) -> bool:
    prefix, colon, _ = sample.head.partition(b":")
    return bool(colon) and prefix.isdigit() and len(prefix) < _LONGEST_PREFIX and b"version" in sample.head


def read(content: Content, asked: Asked) -> Iterator[Found | Refused]:
    """Yield each HTTP flow's request."""
    return each(_flows(content), _found)


def _flows(content: Content) -> Iterator[tuple[int, Any] | Refused]:
    chunks = content.chunks()
    held, at, row = b"", 0, 0
    while True:
        size = _size(held, at)
        while size is None or len(held) - at < size:
            more = _at_least(chunks, (size or 1) - (len(held) - at))
            if not more:
                if at < len(held):
                    yield Refused(row + 1, "cut off: its flow has no end")
                return
            held, at = held[at:] + more, 0
            size = _size(held, at)
        row += 1
        try:
            yield row, _value(held, at)[0]
        except ValueError as error:
            raise content.broken(row, f"flow {row} is no tnetstring: {error}") from None
        at += size


def _at_least(chunks: Iterator[bytes], wanted: int) -> bytes:
    """Read on, as far as there is something to read."""
    pieces = []
    while wanted > 0 and (piece := next(chunks, b"")):
        pieces.append(piece)
        wanted -= len(piece)
    return b"".join(pieces)


def _size(data: bytes, at: int) -> int | None:
    """The size of the tnetstring at a place; None where its length is not all there, 0 where none is."""
    prefix, colon, _ = data[at : at + _LONGEST_PREFIX].partition(b":")
    if not colon and len(data) - at < _LONGEST_PREFIX:
        return None
    if not colon or not prefix.isdigit() or int(prefix) > _MOST_BYTES:
        return 0
    return len(prefix) + 1 + int(prefix) + 1


def _value(data: bytes, at: int, deep: int = 0) -> tuple[Any, int]:
    """The value of the tnetstring at a place, and where it ends; raises ValueError."""
    colon = data.find(b":", at, at + _LONGEST_PREFIX)
    if colon < 0 or not data[at:colon].isdigit() or deep > _DEEPEST:
        raise ValueError("no length where one should be")
    begin = colon + 1
    end = begin + int(data[at:colon])
    mark = data[end : end + 1]
    if mark in _PLAIN:
        return _PLAIN[mark](data[begin:end]), end + 1
    if mark not in (b"]", b"}"):
        raise ValueError("no mark of a type where one should be")
    values = []
    while begin < end:
        value, begin = _value(data, begin, deep + 1)
        values.append(value)
    if begin != end:
        raise ValueError("an item longer than what it is in")
    if mark == b"]":
        return values, end + 1
    return dict(zip(map(_text, values[0::2]), values[1::2], strict=True)), end + 1


_PLAIN: dict[bytes, Callable[[bytes], Any]] = {
    b",": bytes,
    b";": lambda data: data.decode("utf-8"),
    b"#": int,
    b"^": float,
    b"!": lambda data: data == b"true",
    b"~": lambda data: None,
}


def _found(row: int, flow: Any) -> Found:
    kind = _text(record(flow).get("type"))
    if kind != "http":
        raise ValueError(f"{kind[:20] or 'no'} flow: not an HTTP request")
    request, response = record(flow.get("request")), record(flow.get("response"))
    body = request.get("content")
    if body is None:
        raise ValueError("its body was not kept: it passed as a stream")
    return Found(
        request=exchange(
            method=_text(request.get("method")),
            url=_text(request.get("path")) or "/",
            headers=_pairs(request.get("headers")),
            body=body if isinstance(body, bytes) else b"",
            source="mitmproxy",
            response=response_of(
                status=response.get("status_code"),
                headers=_pairs(response.get("headers")),
                body=content if isinstance(content := response.get("content"), bytes) else b"",
                end="cut" if flow.get("error") else "clean",
            ),
        ),
        row=row,
        at_ns=perhaps_ns(request.get("timestamp_start")),
        zone="UTC",
    )


def _pairs(headers: object) -> Iterator[tuple[str, str]]:
    for of in listed(headers):
        if isinstance(of, list) and len(of) == 2:
            yield _text(of[0]), _text(of[1])


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value if isinstance(value, str) else ""
