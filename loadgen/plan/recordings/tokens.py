"""A model's own tokenizer, by tokenizers (extra `tokenizers`), for exact lengths; the only file that knows it."""

from pathlib import Path
from random import Random

from loadgen.errors import UsageError
from loadgen.plan.recordings.words import WORDS

_FEWEST_WORDS = 16
_TRIED_WORDS = 8192


def words_of_one_token(path: Path) -> tuple[str, ...]:
    """Return those of our words that are one token each in a local tokenizer.json, also one after another.

    Raises UsageError where the file is none, or has too few of them.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise UsageError("--tokenizer needs tokenizers", hint="install loadgen[tokenizers]") from None
    try:
        tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="name a model's tokenizer.json") from None
    except Exception as error:  # the library raises no other kind
        raise UsageError(f"{path}: no tokenizer: {str(error)[:80]}", hint="name a model's tokenizer.json") from None

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids)

    words = tuple(word for word in WORDS if count(word) == 1 and count(f"{word} {word}") == 2)
    if len(words) >= _FEWEST_WORDS and count(" ".join(Random(0).choices(words, k=_TRIED_WORDS))) == _TRIED_WORDS:
        return words
    raise UsageError(
        f"{path}: {len(words)} of {len(WORDS)} common words are one token each: too few to count with",
        hint="leave out --tokenizer: lengths are approximate then",
    )
