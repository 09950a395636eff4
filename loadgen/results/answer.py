"""The answer in a response's bytes, read again after it has ended: what the load loop has no time for."""

from collections.abc import Iterator

from loadgen.wire.events import Event, Malformed, Output
from loadgen.wire.framing import FRAMINGS
from loadgen.wire.recognise import recognise


def events_of(content_type: str, body: bytes) -> Iterator[Event]:
    """Yield what a stream's frames say, up to its end or to where it breaks; nothing for what is no stream."""
    framing = FRAMINGS.get(content_type)
    if framing is None:
        return
    framer = framing()
    decode = None
    try:
        for frame in (*framer.feed(body), *framer.finish()):
            if decode is None and (dialect := recognise(frame)) is not None:
                decode = dialect.decoder()
            if decode is not None:
                yield from decode(frame)
    except Malformed:
        return


def answer_texts(content_type: str, body: bytes) -> list[str]:
    """Return the pieces of answer text of the first choice, as they came: no reasoning, no tool arguments."""
    return [
        event.text
        for event in events_of(content_type, body)
        if isinstance(event, Output) and event.kind == "text" and event.choice == 0
    ]
