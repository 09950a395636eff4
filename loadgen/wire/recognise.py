"""Which dialect a stream speaks, from the stream itself: never from the path or the content type."""

from loadgen.wire.events import Malformed
from loadgen.wire.formats import FORMATS, Dialect
from loadgen.wire.framing import Frame
from loadgen.wire.jsontext import parse


def recognise(frame: Frame) -> Dialect | None:
    """Return the dialect that this frame shows, None when it does not tell.

    >>> recognise(Frame(b"", b'{"choices": [{"delta": {}}]}')).name
    'openai'
    >>> recognise(Frame(b"", b'{"temperature": 21}')) is None
    True
    """
    try:
        value = parse(frame.data)
    except Malformed:
        value = None
    return next((dialect for dialect in FORMATS.values() if dialect.tells(frame, value)), None)
