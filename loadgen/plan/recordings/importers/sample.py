"""The beginning of a source, as tells look at it: which keys, which columns; never its name."""

import re
from dataclasses import dataclass

from loadgen.plan.recordings.importers.content import Content, opened

_DEEP = 4
_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|([{}\[\],:])')


@dataclass(frozen=True, slots=True)
class Sample:
    """What a source begins with.

    `keys` are those of its first JSON object, be it a line, an item of an array or the document; `paths` the keys below
    it, as in `log/entries`; `columns` the cells of its first line.
    """

    head: bytes
    keys: frozenset[str]
    paths: frozenset[str]
    columns: tuple[str, ...]
    is_list: bool = False  # the document is an array

    def has(self, *keys: str) -> bool:
        """Tell whether the first object has all these keys."""
        return self.keys.issuperset(keys)


def sample_of(content: Content) -> Sample:
    """Return the beginning of a source; of a folder, that of its first file."""
    if content.folder is not None:
        for path in content.files(".md", ".json")[:1]:
            with opened(path) as first:
                return sample_of(first)
        return Sample(b"", frozenset(), frozenset(), ())
    text = content.head.decode("utf-8", "replace")
    is_list = text.lstrip().startswith("[")
    paths = outline(text) if text.lstrip()[:1] in ("{", "[") else frozenset()
    if is_list:
        paths = frozenset(path.removeprefix("*/") for path in paths if path != "*")
    columns = () if paths else tuple(cell.strip().strip('"') for cell in text.partition("\n")[0].split(","))
    return Sample(content.head, frozenset(path for path in paths if "/" not in path), paths, columns, is_list)


def outline(text: str) -> frozenset[str]:
    """Return the keys of the first value of a JSON text that may be cut off anywhere, down to a few levels.

    >>> sorted(outline('{"log": {"entries": [{"a": 1}, {"b'))
    ['log', 'log/entries', 'log/entries/*/a']
    """
    found = set()
    # Of every container that is open: its kind, and the key at which it stands.
    opened: list[tuple[str, str | None]] = []
    key: str | None = None
    is_key = False
    for match in _TOKEN.finditer(text):
        word, mark = match[1], match[2]
        if mark in ("{", "["):
            opened.append((mark, key))
            is_key, key = mark == "{", None
        elif mark in ("}", "]"):
            opened.pop()
            is_key, key = False, None
        elif mark == ",":
            is_key, key = bool(opened) and opened[-1][0] == "{", None
        elif mark is None and is_key:
            key, is_key = word, False
            if len(opened) <= _DEEP:
                above = ["*" if at is None else at for _, at in opened[1:]]
                found.add("/".join([*above, word]))
        if not opened:
            break
    return frozenset(found)
