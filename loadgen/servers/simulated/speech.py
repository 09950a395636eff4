"""One answer as chunks, said token by token."""

from loadgen.servers.simulated.apis import Api
from loadgen.servers.simulated.babble import CALL, Babble
from loadgen.servers.simulated.chunks import LAST_CHUNK, Chunks, Numbered, Same, chunk
from loadgen.servers.simulated.fate import Fate
from loadgen.wire.events import End, Failure, Finish, Output, OutputKind, Role, Told, Usage
from loadgen.wire.formats.responses import around_number, with_numbers

# Model names are the clients' choice: without a bound they would be a leak.
_KEPT = 128


class Voices:
    """The words of one babble as chunks: for each API, model, and kinds of output up to the one that they are of."""

    def __init__(self, babble: Babble) -> None:
        self.babble = babble
        self._kept: dict[tuple[str, str, tuple[OutputKind, ...]], Chunks] = {}

    def chunks(self, api: Api, model: str, kinds: tuple[OutputKind, ...]) -> Chunks:
        """Return the chunks of words that go on in a part of the last kind."""
        key = (api.name, model, kinds)
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            found = self._kept[key] = self._made(api, model, kinds)
        return found

    def _made(self, api: Api, model: str, kinds: tuple[OutputKind, ...]) -> Chunks:
        encoder = api.encoder(model)
        words = self.babble.words
        for kind in kinds:
            for event in _opened(kind, words[0]):
                encoder.encode(event)
        frames = {word: encoder.encode(Output(kinds[-1], word)) for word in set(words)}
        if api.numbered:
            return Numbered([around_number(frames[word]) for word in words])
        return Same([frames[word] for word in words])


class Speech:
    """Says one answer, each token once and in order.

    What opens and closes a part is encoded as it comes, since it may repeat what was said; in between a token costs a
    look-up, and the encoder is told of those in one piece before it is asked again.
    """

    def __init__(self, voices: Voices, fate: Fate, *, api: Api, model: str) -> None:
        self._voices = voices
        self._fate = fate
        self._start = fate.text_start
        self._api = api
        self._model = model
        self._encoder = api.encoder(model)
        self._place = -1  # in the parts
        self._told = 0  # tokens that the encoder knows of
        self._looked_up = 0  # up to this token they are found in
        self._chunks: Chunks  # set by the first turn
        self._number = 0

    def opening(self) -> bytes:
        """Return what comes before the first token."""
        return self._wrapped(self._encoder.encode(Role()))

    def tokens(self, first: int, stop: int) -> bytes:
        """Return what says these tokens."""
        if stop <= self._looked_up:
            number = self._number
            self._number = number + stop - first
            return self._chunks.run(self._start + first, stop - first, number)
        turn = max(first, self._looked_up)
        before = self.tokens(first, turn) if first < turn else b""
        turned = before + self._turn(turn)
        return turned + self.tokens(turn + 1, stop) if turn + 1 < stop else turned

    def closing(self, usage: Usage | None) -> bytes:
        """Return all that follows the last token of a whole answer."""
        self._tell(self._fate.tokens)
        report = [] if usage is None else [usage]
        reason = self._api.reasons[self._fate.finish_reason]
        return self._said(Finish(reason), *report, End()) + LAST_CHUNK

    def failing(self) -> bytes:
        """Return all that follows the last token of an answer that ends in an error."""
        return self._said(Failure(self._api.failure), End()) + LAST_CHUNK

    def _turn(self, token: int) -> bytes:
        """Say the first token of the next part, or the last of a call's arguments."""
        self._tell(token)
        parts, following = self._fate.parts, self._place + 1
        if following == len(parts) or token < parts[following].start:
            said: tuple[Told, ...] = (Output("tool", self._piece(token, token + 1)),)
        else:
            part, self._place = parts[following], following
            kinds = tuple(each.kind for each in parts[: following + 1])
            self._chunks = self._voices.chunks(self._api, self._model, kinds)
            self._looked_up = part.stop - (part.kind == "tool" and part.whole)
            said = _opened(part.kind, self._piece(token, token + 1))
        self._told = token + 1
        return self._said(*said)

    def _tell(self, stop: int) -> None:
        """Let the encoder know what was looked up before `stop`."""
        if self._told < stop:
            kind = self._fate.parts[self._place].kind
            self._encoder.encode(Output(kind, self._piece(self._told, stop)))
            self._told = stop

    def _piece(self, first: int, stop: int) -> str:
        part = self._fate.parts[self._place]
        return self._voices.babble.piece(part, first, stop, start=self._start)

    def _said(self, *events: Told) -> bytes:
        return b"".join(self._wrapped(self._encoder.encode(event)) for event in events)

    def _wrapped(self, frames: bytes) -> bytes:
        if self._api.numbered and frames:
            frames, first = with_numbers(frames, self._number), self._number
            self._number = first + frames.count(b"\n\n")
        return chunk(frames)


def _opened(kind: OutputKind, text: str) -> tuple[Told, ...]:
    said = Output(kind, text)
    return (CALL, said) if kind == "tool" else (said,)
