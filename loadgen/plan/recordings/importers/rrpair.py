"""proxymock RRPairs: a folder (or one file) of request/response pairs, as Markdown or as JSON; no frame timing.

A Markdown pair shows its request in the first fenced blocks under `### REQUEST ###` (in older ones with `(TEST)` or
`(MOCK)` in it), and holds itself as JSON in its last. JSON bodies are shown indented, and read back without spaces.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from loadgen.errors import UsageError
from loadgen.plan.recordings.importers.content import Content, opened
from loadgen.plan.recordings.importers.exchanges import exchange, response_of
from loadgen.plan.recordings.importers.fields import listed, record, text
from loadgen.plan.recordings.importers.found import Asked, Found, Refused, each
from loadgen.plan.recordings.importers.jsontexts import objects
from loadgen.plan.recordings.importers.sample import Sample
from loadgen.plan.recordings.importers.times import stamp_ns

_SECTION = re.compile(r"^### ([A-Z]+).*###[ \t]*$", re.MULTILINE)
_FENCED = re.compile(r"^```[^\n]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_SPLIT = re.compile(r"(?<!\\), ")


def tells(sample: Sample) -> bool:
    return sample.head.lstrip().startswith(b"### REQUEST") or (sample.has("msgType", "http") and not sample.is_list)


def read(content: Content, asked: Asked) -> Iterator[Found | Refused]:
    """Yield each pair's request; a row is a file of the folder, or a line of the one file."""
    if content.folder is None:
        yield from _of_file(content, 1)
        return
    for row, path in enumerate(content.files(".md", ".json"), 1):
        try:
            with opened(path) as file:
                yield from _of_file(file, row)
        except UsageError:
            yield Refused(row, "a file that is empty, or cannot be read")


def _of_file(content: Content, row: int) -> Iterator[Found | Refused]:
    if content.head.lstrip().startswith(b"### "):
        data = b"".join(content.chunks())
        yield from each([(row, data)], _of_markdown)
    elif content.head.lstrip().startswith((b"{", b"[")):
        yield from each(objects(content), _of_json)
    else:
        yield Refused(row, "neither a Markdown nor a JSON pair")


def _of_json(row: int, pair: dict[str, Any]) -> Found:
    http = record(pair.get("http"))
    asked, answered = record(http.get("req")), record(http.get("res"))
    if not asked:
        raise ValueError(f"{text(pair.get('l7protocol')) or 'no'} traffic: not an HTTP request")
    at_ns, zone = stamp_ns(text(pair.get("ts")) or "")
    return Found(
        request=exchange(
            method=text(asked.get("method")) or "GET",
            url=text(asked.get("uri")) or text(asked.get("url")) or "",
            headers=_headers(asked.get("headers")),
            body=_body(asked),
            source="rrpair",
            response=response_of(
                status=answered.get("statusCode"),
                headers=_headers(answered.get("headers")),
                body=_body(answered),
                content_type=text(answered.get("contentType")) or "",
            ),
        ),
        row=row,
        at_ns=at_ns,
        zone=zone,
    )


def _of_markdown(row: int, data: bytes) -> Found:
    sections = _sections(data.decode("utf-8").replace("\r\n", "\n"))
    line, headers, body = _message(sections.get("REQUEST", ""))
    method, _, rest = line.partition(" ")
    url = rest.rpartition(" ")[0] or rest
    status, answer_headers, answer = _message(sections.get("RESPONSE", ""))
    code = status.split(" ")[1:2]
    inner = record(record(_inner(sections.get("INTERNAL", "")).get("http")).get("req"))
    stamps = re.search(r"^ts: (\S+)", sections.get("METADATA", ""), re.MULTILINE)
    at_ns, zone = stamp_ns(stamps[1]) if stamps else (None, None)
    return Found(
        request=exchange(
            method=method,
            url=url,
            headers=headers,
            body=_exact(body, _body(inner)),
            source="rrpair",
            response=response_of(
                status=int(code[0]) if code and code[0].isdecimal() and len(code[0]) == 3 else None,
                headers=answer_headers,
                body=_compact(answer).encode(),
            ),
        ),
        row=row,
        at_ns=at_ns,
        zone=zone,
    )


def _sections(markdown: str) -> dict[str, str]:
    marks = list(_SECTION.finditer(markdown))
    ends = [mark.start() for mark in marks[1:]] + [len(markdown)]
    return {mark[1]: markdown[mark.end() : end] for mark, end in zip(marks, ends, strict=True)}


def _message(section: str) -> tuple[str, list[tuple[str, str]], str]:
    """First line, headers and body of the fenced blocks of a message; raises ValueError without them."""
    blocks = _FENCED.findall(section)
    if not blocks:
        raise ValueError("no fenced block where its request or response should be")
    first, *lines = blocks[0].rstrip("\n").split("\n")
    headers = []
    for name, colon, value in (line.partition(":") for line in lines):
        if colon:
            headers += [(name, _unescaped(part)) for part in _SPLIT.split(value.strip())]
    return first, headers, blocks[1].removesuffix("\n") if len(blocks) > 1 else ""


def _unescaped(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value)


def _inner(section: str) -> dict[str, Any]:
    _, found, line = section.partition("json: ")
    try:
        return record(msgspec.json.decode(line.partition("\n")[0])) if found else {}
    except (msgspec.DecodeError, RecursionError):
        return {}


def _exact(shown: str, inside: bytes) -> bytes:
    """The body as it was sent, where the pair still holds it and nobody has edited what is shown of it."""
    compact = _compact(shown).encode()
    return inside if inside and _compact(inside.decode("utf-8", "replace")).encode() == compact else compact


def _compact(body: str) -> str:
    """A body as it is read back from how it is shown."""
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return body
    return msgspec.json.format(body, indent=-1)


def _body(message: dict[str, Any]) -> bytes:
    encoded = text(message.get("bodyBase64"))
    try:
        return base64.b64decode(encoded, validate=True) if encoded else b""
    except binascii.Error:
        raise ValueError("its bodyBase64 is not base64") from None


def _headers(headers: object) -> Iterator[tuple[str, str]]:
    for name, values in record(headers).items():
        for value in listed(values):
            if isinstance(value, str):
                yield name, value
