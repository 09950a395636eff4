"""Prompts made up to a stated length, with the prefixes that the source's prompts shared.

A prompt is ordinary words, as many as it has tokens (see `words`). Equal keys make equal texts, longer ones begin like
shorter ones, and different keys differ within their first words: what shared a prefix still shares it, nothing else
does. Texts are made when a request is sent and not kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from random import Random
from typing import Any

import msgspec

from loadgen.errors import UsageError
from loadgen.plan.recordings.apis import APIS, api_of_path
from loadgen.plan.recordings.edits import Edits, asked_of, put
from loadgen.plan.recordings.nonces import NONCE_PLACE, NONCE_WORDS
from loadgen.plan.recordings.ours import RecordedRequest, Synthetic
from loadgen.plan.recordings.words import WORDS

_MARK_WORDS = 8  # of 8 bits each: what tells a key's text from all others
_RIVER_WORDS = 16384
# APIs whose servers may know `ignore_eos`.
_ENDLESS = ("openai-chat", "openai-completions")

_encode = msgspec.json.Encoder().encode


class Writer:
    """Writes texts of whole words; the same for the same seed and words."""

    def __init__(self, words: Sequence[str] = WORDS, *, seed: int = 0) -> None:
        self._seed = seed
        self._marks = [words[byte % len(words)] for byte in range(256)]
        river = Random(f"river/{seed}").choices(words, k=_RIVER_WORDS)
        # Twice, so that it can be read from any word on without turning round.
        self._river = " ".join(river * 2)
        self._starts = [0]
        for word in river * 2:
            self._starts.append(self._starts[-1] + len(word) + 1)

    def text(self, key: str, words: int) -> str:
        """Return this many words for a key.

        >>> short, long = (Writer().text("a", words) for words in (3, 1000))
        >>> len(long.split()), long.startswith(short), Writer().text("b", 8) == Writer().text("a", 8)
        (1000, True, False)
        """
        digest = blake2b(f"{self._seed}/{key}".encode(), digest_size=_MARK_WORDS + 8).digest()
        pieces = [self._marks[byte] for byte in digest[: min(words, _MARK_WORDS)]]
        begin = int.from_bytes(digest[_MARK_WORDS:]) % _RIVER_WORDS
        left = words - _MARK_WORDS
        while left > 0:
            taken = min(left, _RIVER_WORDS)
            pieces.append(self._river[self._starts[begin] : self._starts[begin + taken] - 1])
            left -= taken
        return " ".join(pieces)

    def prompt(self, of: Synthetic, own: str, *, spare: int = 0) -> str:
        """Return a prompt: a text for each block's id, then one of its own; `spare` words fewer than its tokens."""
        left = (of.input_tokens or 1) - spare
        pieces = []
        if of.hash_ids and of.block_tokens:
            for block in of.hash_ids:
                if left <= 0:
                    break
                pieces.append(self.text(f"block/{block}", min(of.block_tokens, left)))
                left -= of.block_tokens
        if left > 0 or not pieces:
            pieces.append(self.text(f"own/{own}", max(left, 1)))
        return " ".join(pieces)


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """How requests are made of lengths: by whom their texts are written, and what is asked beside."""

    writer: Writer
    model: str | None = None  # whatever the row says
    max_tokens: int | None = None  # where the row says no output length
    edits: Edits = field(default_factory=Edits)  # of what all are asked
    fix_lengths: bool = False  # ask servers that can to go on to the very output length
    unique_prefix: bool = False

    def request(self, row: RecordedRequest, place: int) -> "SyntheticRequest":
        """Return the request of a row without a body; raises UsageError where the row does not say enough for one."""
        name = row.id or f"{place + 1}"
        row = row if self.model is None else asked_of(row, self.model)
        api = api_of_path(row.path)
        if row.synthetic is None or not (row.synthetic.input_tokens or 0) > 0:
            raise UsageError(f"request {name}: it has no input_tokens", hint="a row without a body needs its length")
        if api is None:
            raise UsageError(
                f"request {name}: no API is known at {row.path}", hint=f"import it with --api: {', '.join(APIS)}"
            )
        if row.model is None:
            raise UsageError("rows of lengths alone name no model", hint="name it with --model")
        if self.fix_lengths and api.name not in _ENDLESS:
            raise UsageError(
                f"--fix-lengths: {api.name} has no way to ask for it", hint=f"it is for {' and '.join(_ENDLESS)}"
            )
        given = msgspec.structs.asdict(row)
        given |= {"fixed_length": self.fix_lengths or row.fixed_length, "making": self, "place": place}
        return SyntheticRequest(**given)


class SyntheticRequest(RecordedRequest, frozen=True, kw_only=True):
    """A request whose body is written anew each time it is asked for: a million of them are no million prompts."""

    making: Making
    place: int

    @property
    def is_made_up(self) -> bool:
        return True

    @property
    def verb(self) -> str:
        return self.method or "POST"

    @property
    def payload(self) -> bytes:
        """The body's bytes."""
        assert self.synthetic is not None, self.path
        marked = self.making.unique_prefix
        spare = NONCE_WORDS if marked else 0
        prompt = self.making.writer.prompt(self.synthetic, str(self.place), spare=spare)
        return _encode(self._asking(f"{NONCE_PLACE} {prompt}" if marked else prompt))

    @property
    def shape(self) -> dict[str, Any]:
        return self._asking("")

    def _asking(self, prompt: str) -> dict[str, Any]:
        making, api = self.making, api_of_path(self.path)
        assert api is not None, self.path
        body = api.body(prompt, self.model or "")
        cap = self.expected_output_tokens or making.max_tokens or api.needs_cap
        if cap is not None:
            put(body, api.caps[0], cap)
        if making.fix_lengths and self.expected_output_tokens:
            body["ignore_eos"] = True
        making.edits.change(body, api)
        return body
