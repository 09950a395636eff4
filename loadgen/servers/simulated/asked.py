"""What one generation request asks for."""

from typing import Annotated, Any

import msgspec

from loadgen.servers.simulated.responses import RefusedError
from loadgen.servers.simulated.wish import Wish

_SLICE = 1 << 20


class Asked(msgspec.Struct, frozen=True):
    """One request as the model sees it; `cap` is the most tokens it may answer."""

    chat: bool
    model: str
    stream: bool
    include_usage: bool
    cap: int | None
    ignore_eos: bool
    input_tokens: int
    wish: Wish


_Cap = Annotated[int, msgspec.Meta(ge=1)]


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class _Body(msgspec.Struct):
    model: str | None = None
    messages: list[dict[str, Any]] | None = None
    prompt: Any = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    max_tokens: _Cap | None = None
    max_completion_tokens: _Cap | None = None
    ignore_eos: bool | None = None


_body = msgspec.json.Decoder(_Body).decode


def asked_from(body: bytes, *, chat: bool, otherwise: str, wish: Wish) -> Asked:
    """Read a request's body, for the model `otherwise` where it names none; raises RefusedError (400)."""
    try:
        said = _body(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RefusedError(400, f"the body is no such request: {error}") from None
    if chat and not said.messages:
        raise RefusedError(400, "messages is missing or empty")
    if not chat and said.prompt is None:
        raise RefusedError(400, "prompt is missing")
    counted = _message_tokens(said.messages or []) if chat else _prompt_tokens(said.prompt)
    return Asked(
        chat=chat,
        model=otherwise if said.model is None else said.model,
        stream=bool(said.stream),
        include_usage=said.stream_options is not None and bool(said.stream_options.include_usage),
        cap=said.max_tokens if said.max_completion_tokens is None else said.max_completion_tokens,
        ignore_eos=bool(said.ignore_eos),
        input_tokens=max(1, counted),
        wish=wish,
    )


def words_in(text: str) -> int:
    """Count the words between whitespace.

    >>> words_in("  two\\n words ")
    2
    """
    # In slices: split on tens of megabytes would hold a gigabyte of words.
    words = 0
    for start in range(0, len(text), _SLICE):
        piece = text[start : start + _SLICE]
        goes_on = start > 0 and not text[start - 1].isspace() and not piece[0].isspace()
        words += len(piece.split()) - goes_on
    return words


def _message_tokens(messages: list[dict[str, Any]]) -> int:
    total = 0
    for message in messages:
        content = message.get("content")
        parts = content if isinstance(content, list) else [content]
        for part in parts:
            text = part.get("text") if isinstance(part, dict) else part
            total += words_in(text) if isinstance(text, str) else 0
    return total


def _prompt_tokens(prompt: Any) -> int:
    total = 0
    for item in prompt if isinstance(prompt, list) else [prompt]:
        match item:
            case str():
                total += words_in(item)
            case list():
                total += len(item)
            case int():
                total += 1
    return total
