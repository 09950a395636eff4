"""JSON read as a stream: the items of an array deep in a document, of which only one is held at a time."""

import codecs
import json
from collections.abc import Iterator
from typing import Any, NoReturn, TypeAlias

import msgspec

from loadgen.plan.recordings.importers.content import Content
from loadgen.plan.recordings.importers.found import HALF_A_PAIR, Refused

_MOST_CHARACTERS = 256 * 1024 * 1024
_SPACE = " \t\r\n"
_LONGEST_ESCAPE = 16  # and as long as the longest literal: how near its end a cut text fails
_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_decode_line = msgspec.json.Decoder().decode
_decode_at = json.JSONDecoder().raw_decode

Item: TypeAlias = tuple[int, dict[str, Any]]


def objects(content: Content) -> Iterator[Item | Refused]:
    """Yield the objects of JSON lines, of an array or of values one after another, each with its line or place."""
    head = content.head.lstrip()
    if head.startswith(b"[") or not _are_lines(content.head):
        text = JsonText(content)
        found = text.items() if head.startswith(b"[") else text.values()
        for number, value in enumerate(found, 1):
            yield (number, value) if isinstance(value, dict) else Refused(number, "not a JSON object")
        return
    for number, line in content.lines():
        try:
            value = _decode_line(line)
        except _NOT_JSON as error:
            yield Refused(number, why_not_json(error))
            continue
        yield (number, value) if isinstance(value, dict) else Refused(number, "not a JSON object")


def why_not_json(error: Exception) -> str:
    """Return in words that stay the same from row to row why a line is no JSON, or not the JSON it should be."""
    if isinstance(error, msgspec.ValidationError):
        return str(error)
    words = str(error)
    reasons = {"truncated": "cut off: its JSON has no end", "UTF-8": "not UTF-8", "surrogate": HALF_A_PAIR}
    return next((reason for sign, reason in reasons.items() if sign in words), "not JSON")


def _are_lines(head: bytes) -> bool:
    """Tell whether one of the first lines is an object by itself; a line that goes beyond the head is taken for one."""
    first, *others = head.split(b"\n", 4)[:4]
    if not others and len(first) > 1024:
        return True
    return any(_is_object(line) for line in (first, *others))


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(_decode_line(line), dict)
    except _NOT_JSON:
        return False


class JsonText:
    """One document; `items` or `values` can be taken once. Raises UsageError where the text is not whole JSON."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._chunks = content.chunks()
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._text = ""
        self._at = 0
        self._line = 1  # at the text's beginning

    def items(self, *keys: str) -> Iterator[Any]:
        """Yield the items of the array that stands under these keys."""
        for key in keys:
            self._enter(key)
        self._take("[")
        while self._next() != "]":
            yield self._value()
            if self._next() == ",":
                self._at += 1
            elif self._next() != "]":
                self._fail("ends within an array" if not self._next() else "is no JSON from here on")

    def values(self) -> Iterator[Any]:
        """Yield values one after another, with nothing but space between them."""
        while self._next():
            yield self._value()

    def _enter(self, wanted: str) -> None:
        """Go to the value of a key of the object that begins here."""
        self._take("{")
        while self._next() != "}":
            key = self._value()
            self._take(":")
            self._next()
            if key == wanted:
                return
            self._value()
            if self._next() == ",":
                self._at += 1
        self._fail(f"has no {wanted!r}")

    def _take(self, character: str) -> None:
        if self._next() != character:
            self._fail(f"has no {character!r}")
        self._at += 1

    def _next(self) -> str:
        """Return the next character that is no space; "" at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _SPACE:
                    return self._text[self._at]
                self._at += 1
            if not self._grow():
                return ""

    def _value(self) -> Any:
        while True:
            try:
                value, end = _decode_at(self._text, self._at)
            except RecursionError:
                self._fail("is nested too deep")
            except json.JSONDecodeError as error:
                is_cut = error.pos > len(self._text) - _LONGEST_ESCAPE or error.msg.startswith("Unterminated")
                if not is_cut or not self._grow():
                    self._fail(f"is no whole JSON from here on: {error.msg}")
            else:
                if end < len(self._text):
                    self._at = end
                    return value
                # What reaches the end of the text at hand may go on.
                if not self._grow():
                    self._at = len(self._text)
                    return value

    def _grow(self) -> bool:
        """Read on, at least as much again as is held; False when there is no more."""
        self._line += self._text.count("\n", 0, self._at)
        self._text, self._at = self._text[self._at :], 0
        if len(self._text) > _MOST_CHARACTERS:
            return False
        pieces = [self._text]
        grown = 0
        while grown <= len(self._text):
            chunk = next(self._chunks, b"")
            try:
                piece = self._decoder.decode(chunk, not chunk)
            except UnicodeDecodeError:
                raise self._content.not_utf8(self._line) from None
            if not chunk:
                break
            pieces.append(piece)
            grown += len(piece)
        self._text = "".join(pieces)
        return grown > 0

    def _fail(self, fact: str) -> NoReturn:
        line = self._line + self._text.count("\n", 0, self._at)
        raise self._content.broken(line, fact)
