"""Which dialect a stream speaks, from the stream itself: never from the path, and from its framing only where an error
is all that it says."""

from loadgen.wire.events import Malformed
from loadgen.wire.failures import error_word
from loadgen.wire.formats import FORMATS, Dialect
from loadgen.wire.frame import Frame
from loadgen.wire.jsontext import parse


def recognise(frame: Frame, *, is_line: bool = False) -> Dialect | None:
    """Return the dialect that this frame shows, None when it does not tell; `is_line` says that JSON lines gave it.

    >>> recognise(Frame(b"", b'{"choices": [{"delta": {}}]}')).name
    'openai'
    >>> recognise(Frame(b"", b'{"error": "no memory left"}'), is_line=True).name
    'ollama'
    >>> recognise(Frame(b"", b'{"temperature": 21}')) is None
    True
    """
    try:
        value = parse(frame.data)
    except Malformed:
        value = None
    for dialect in FORMATS.values():
        if dialect.tells(frame, value):
            return dialect
    # An error has no dialect's shape of its own: it is taken for one of those that such a framing is made for.
    if frame.event == b"error" or error_word(value) is not None:
        return FORMATS["ollama" if is_line else "openai"]
    return None
