"""HAR 1.2: a browser's or a proxy's exchanges; Chrome keeps when each event of an event stream came.

What a page was made of (documents, styles, pictures) is refused: it is no request of an API.
"""

import base64
import binascii
from collections.abc import Iterator
from typing import Any

from loadgen.plan.recordings.importers.content import Content
from loadgen.plan.recordings.importers.exchanges import exchange, response_of
from loadgen.plan.recordings.importers.fields import listed, number, record, text
from loadgen.plan.recordings.importers.found import Asked, Found, Refused, each
from loadgen.plan.recordings.importers.jsontexts import JsonText
from loadgen.plan.recordings.importers.sample import Sample
from loadgen.plan.recordings.importers.times import number_ns, stamp_ns
from loadgen.plan.recordings.ours import RecordedFrame

_OF_A_PAGE = ("text/html", "text/css", "image/", "font/", "audio/", "video/", "javascript", "/wasm", "/manifest")


def tells(sample: Sample) -> bool:
    return "log/entries" in sample.paths


def read(content: Content, asked: Asked) -> Iterator[Found | Refused]:
    """Yield the requests of an API among the entries."""
    entries = enumerate(JsonText(content).items("log", "entries"), 1)
    return each(((row, record(entry)) for row, entry in entries), _found)


def _found(row: int, entry: dict[str, Any]) -> Found:
    request, response = record(entry.get("request")), record(entry.get("response"))
    started = text(entry.get("startedDateTime"))
    at_ns, zone = stamp_ns(started) if started else (None, None)
    content = record(response.get("content"))
    mime = text(content.get("mimeType")) or ""
    post = record(request.get("postData"))
    method = text(request.get("method")) or "GET"
    if method == "OPTIONS":
        raise ValueError("OPTIONS: a browser asking whether it may ask")
    if method == "GET" and any(kind in mime for kind in _OF_A_PAGE):
        raise ValueError("GET of what a page is made of: no request of an API")
    if entry.get("_fromCache"):
        raise ValueError("answered from the browser's cache: it was never sent")
    body = text(post.get("text"))
    if body is None and record(post).get("params"):
        raise ValueError("its body was kept as form fields, not as it was sent")
    frames = _timed(listed(entry.get("_eventSourceMessages")), at_ns)
    return Found(
        request=exchange(
            method=method,
            url=text(request.get("url")) or "",
            headers=_pairs(request.get("headers")),
            body=_bytes(body or "", post.get("encoding")),
            source="har",
            response=response_of(
                status=response.get("status"),
                headers=_pairs(response.get("headers")),
                body=_bytes(text(content.get("text")) or "", content.get("encoding")),
                content_type=mime,
                frames=frames or None,
            ),
        ),
        row=row,
        at_ns=at_ns,
        zone=zone,
    )


def _timed(messages: list[Any], at_ns: int | None) -> list[RecordedFrame]:
    """Frames of an event stream as Chrome saw its events: `time` is Unix time in seconds, and `at_ns` the request's."""
    frames = []
    for message in map(record, messages):
        time = number(message.get("time"))
        lines = [f"event: {name}"] if (name := text(message.get("eventName"))) and name != "message" else []
        lines += [f"id: {mark}"] if (mark := text(message.get("eventId"))) else []
        lines += [f"data: {line}" for line in str(message.get("data") or "").split("\n")]
        ms = None if time is None or at_ns is None else round((number_ns(time) - at_ns) / 1e6, 3)
        frames.append(RecordedFrame(ms=ms, data="\n".join(lines) + "\n\n"))
    return frames


def _bytes(words: str, encoding: object) -> bytes:
    if encoding != "base64":
        return words.encode()
    try:
        return base64.b64decode(words, validate=True)
    except binascii.Error:
        raise ValueError("a body said to be base64 is not") from None


def _pairs(headers: object) -> Iterator[tuple[str, str]]:
    for of in map(record, listed(headers)):
        name, value = text(of.get("name")), of.get("value")
        if name and isinstance(value, str):
            yield name, value
