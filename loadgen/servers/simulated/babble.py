"""What the model says: seeded ordinary words, and the frames that carry them, encoded once."""

import random

from loadgen.wire.events import End, Event, Failure, Finish, Output, Role, Usage
from loadgen.wire.formats.openai import Encoder

# Any answer is a piece of one long text, so that a token costs one look-up.
LENGTH = 4096
LAST_CHUNK = b"0\r\n\r\n"
# Model names are the clients' choice: without a bound they would be a leak.
_MODELS_KEPT = 64

_TEXT = """
the of and to in that it is was for on are as with they at be this from have or by one had not but what all were when
we there can an your which their said if do will each about how up out them then she many some so these would other
into has more her two like him see time could no make than first been its who now people my made over did down only
way find use may water long little very after words called just where most know get through back much before go good
new write our used me man too any day same right look think also around another came come work three word must because
does part even place well such here take why things help put years different away again off went old number great tell
men say small every found still between name should home big give air line set own under read last never us left end
along while might next sound below saw something thought both few those always looked show large often together asked
house world going want school important until form food keep children feet land side without boy once animals life
enough took sometimes four head above kind began almost live page got earth need far hand high year mother light parts
country father let night
"""


class Frames:
    """The frames of one model's streams in one dialect, each already a chunk of HTTP's chunked coding.

    `tokens` runs along the babble's words; `role` opens a stream and is empty where the dialect has no such frame.
    """

    def __init__(self, words: list[str], *, model: str, chat: bool) -> None:
        self._encoder = Encoder(model=model, id="chatcmpl-sim" if chat else "cmpl-sim", created=0, chat=chat)
        chunks = {word: self._chunk(Output("text", word)) for word in set(words)}
        self.tokens = [chunks[word] for word in words]
        self.role = self._chunk(Role()) if chat else b""
        self._end = self._chunk(End()) + LAST_CHUNK

    def closing(self, reason: str, usage: Usage | None) -> bytes:
        """Return all that follows the last token of a whole answer."""
        report = b"" if usage is None else self._chunk(usage)
        return self._chunk(Finish(reason)) + report + self._end

    def failing(self, detail: str) -> bytes:
        """Return all that follows the last token of an answer that ends in an error."""
        return self._chunk(Failure(detail)) + self._end

    def _chunk(self, event: Event) -> bytes:
        frame = self._encoder.encode(event)
        return b"%x\r\n%b\r\n" % (len(frame), frame)


class Babble:
    """The endless text of one seed; it comes round after LENGTH tokens."""

    def __init__(self, seed: int) -> None:
        self._words = [f" {word}" for word in random.Random(f"babble {seed}").choices(_TEXT.split(), k=LENGTH)]
        self._frames: dict[tuple[str, bool], Frames] = {}

    def text(self, start: int, tokens: int) -> str:
        """Return an answer of so many tokens, from one place of the text on."""
        return "".join(self._words[(start + token) % LENGTH] for token in range(tokens))

    def frames(self, *, model: str, chat: bool) -> Frames:
        """Return the frames that say the text under a model's name."""
        frames = self._frames.get((model, chat))
        if frames is None:
            if len(self._frames) >= _MODELS_KEPT:
                self._frames.clear()
            frames = self._frames[model, chat] = Frames(self._words, model=model, chat=chat)
        return frames
