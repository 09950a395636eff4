"""A nonce first in each prompt, against prefix caches: of whole words, as long as its place.

What is planned and hashed has the place in it; what is sent has words there that no other send of the run has.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from loadgen.errors import UsageError
from loadgen.plan.recordings.ours import RecordedRequest
from loadgen.plan.recordings.words import WORDS

NONCE_WORDS = 8
_LETTERS = 4  # words of one length: a body is as long with any of them
_FEWEST_WORDS = 16
NONCE_PLACE = " ".join(["~" * _LETTERS] * NONCE_WORDS)


class Nonces:
    """The nonces of one run; `salt` makes them others than those of any other run."""

    def __init__(self, salt: str, *, words: Sequence[str] = WORDS) -> None:
        self.salt = salt
        short = [word for word in words if len(word) == _LETTERS]
        self._words = short if len(short) >= _FEWEST_WORDS else [word for word in WORDS if len(word) == _LETTERS]

    def of(self, seq: int) -> bytes:
        """Return the nonce of a scheduled request, the same at each of its attempts.

        >>> len(Nonces("a").of(1)) == len(NONCE_PLACE), Nonces("a").of(1) == Nonces("a").of(2)
        (True, False)
        """
        digest = blake2b(f"{self.salt}/{seq}".encode(), digest_size=NONCE_WORDS).digest()
        return " ".join(self._words[byte % len(self._words)] for byte in digest).encode()


def with_nonce_place(request: RecordedRequest) -> RecordedRequest:
    """Return a request with a nonce's place where its prompt begins; raises UsageError where no prompt is found."""
    try:
        body = msgspec.json.decode(request.payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        body = None
    if not isinstance(body, dict) or not _marked(body):
        raise UsageError(
            f"request {request.id or request.path}: no prompt is found in its body",
            hint="leave out --unique-prefix to send it as recorded",
        )
    return msgspec.structs.replace(request, body=msgspec.Raw(msgspec.json.encode(body)), body_b64=None)


def _marked(body: dict[str, Any]) -> bool:
    """Mark what a model reads first: a system prompt comes before the messages, wherever its key stands."""
    first = next((key for key in ("system", "instructions", "messages", "prompt", "input") if body.get(key)), None)
    return first is not None and _mark(body, first)


def _mark(holder: Any, key: Any) -> bool:
    """Mark the first text at or below a key."""
    value = holder[key]
    if isinstance(value, str):
        holder[key] = f"{NONCE_PLACE} {value}"
        return True
    if isinstance(value, list):
        return any(_mark(value, place) for place in range(len(value)))
    if isinstance(value, dict):
        return any(_mark(value, inner) for inner in ("content", "text") if inner in value)
    return False
