"""What a request's body asks for, read as each API has it."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import msgspec

from loadgen.servers.simulated.responses import RefusedError

_SLICE = 1 << 20
_Cap = Annotated[int, msgspec.Meta(ge=1)]
_Messages = list[dict[str, Any]]
T = TypeVar("T")


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a body asks; `cap` is the most tokens of an answer, `model` is None where the body names none."""

    model: str | None = None
    stream: bool
    include_usage: bool = True
    cap: int | None
    ignore_eos: bool = False
    input_tokens: int


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class _OpenAI(msgspec.Struct):
    model: str | None = None
    messages: _Messages | None = None
    prompt: Any = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    max_tokens: _Cap | None = None
    max_completion_tokens: _Cap | None = None
    ignore_eos: bool | None = None


class _Responses(msgspec.Struct):
    model: str | None = None
    input: str | list[Any] | None = None
    instructions: Any = None
    stream: bool | None = None
    max_output_tokens: _Cap | None = None
    ignore_eos: bool | None = None


class _Anthropic(msgspec.Struct):
    model: str | None = None
    messages: _Messages | None = None
    system: Any = None
    stream: bool | None = None
    max_tokens: _Cap | None = None
    ignore_eos: bool | None = None
    anthropic_version: str | None = None


class _Options(msgspec.Struct):
    num_predict: int | None = None


class _Ollama(msgspec.Struct):
    model: str | None = None
    messages: _Messages | None = None
    prompt: str | None = None
    system: str | None = None
    stream: bool | None = None
    options: _Options | None = None


class _InferenceConfig(msgspec.Struct):
    max_tokens: _Cap | None = msgspec.field(default=None, name="maxTokens")


class _Converse(msgspec.Struct):
    messages: _Messages | None = None
    system: Any = None
    inference_config: _InferenceConfig | None = msgspec.field(default=None, name="inferenceConfig")


def _decoder(kind: type[T]) -> Callable[[bytes], T]:
    decode = msgspec.json.Decoder(kind).decode

    def decoded(body: bytes) -> T:
        try:
            return decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RefusedError(400, f"the body is no such request: {error}") from None

    return decoded


_openai, _responses, _anthropic = _decoder(_OpenAI), _decoder(_Responses), _decoder(_Anthropic)
_ollama, _converse = _decoder(_Ollama), _decoder(_Converse)


# Each raises RefusedError (400).


def chat(body: bytes) -> Question:
    said = _openai(body)
    return _openai_question(said, _messages(said.messages))


def completion(body: bytes) -> Question:
    said = _openai(body)
    if said.prompt is None:
        raise RefusedError(400, "prompt is missing")
    return _openai_question(said, _ids_or_words(said.prompt))


def response(body: bytes) -> Question:
    said = _responses(body)
    if not said.input:
        raise RefusedError(400, "input is missing or empty")
    words = words_in(said.input) if isinstance(said.input, str) else _in_messages(said.input)
    return Question(
        model=said.model,
        stream=bool(said.stream),
        cap=said.max_output_tokens,
        ignore_eos=bool(said.ignore_eos),
        input_tokens=words + _in_parts(said.instructions),
    )


def message(body: bytes) -> Question:
    said = _anthropic(body)
    return _anthropic_question(said, stream=bool(said.stream))


def invocation(body: bytes) -> Question:
    said = _anthropic(body)
    if not said.anthropic_version:
        raise RefusedError(400, "anthropic_version: Field required")
    return _anthropic_question(said, stream=True)


def ollama_chat(body: bytes) -> Question:
    said = _ollama(body)
    return _ollama_question(said, _messages(said.messages))


def ollama_generate(body: bytes) -> Question:
    said = _ollama(body)
    if said.prompt is None:
        raise RefusedError(400, "prompt is missing")
    return _ollama_question(said, words_in(said.prompt) + words_in(said.system or ""))


def converse(body: bytes) -> Question:
    said = _converse(body)
    return Question(
        stream=True,
        cap=said.inference_config.max_tokens if said.inference_config else None,
        input_tokens=_messages(said.messages) + _in_parts(said.system),
    )


def _openai_question(said: _OpenAI, words: int) -> Question:
    return Question(
        model=said.model,
        stream=bool(said.stream),
        include_usage=said.stream_options is not None and bool(said.stream_options.include_usage),
        cap=said.max_tokens if said.max_completion_tokens is None else said.max_completion_tokens,
        ignore_eos=bool(said.ignore_eos),
        input_tokens=words,
    )


def _anthropic_question(said: _Anthropic, *, stream: bool) -> Question:
    if said.max_tokens is None:
        raise RefusedError(400, "max_tokens: Field required")
    return Question(
        model=said.model,
        stream=stream,
        cap=said.max_tokens,
        ignore_eos=bool(said.ignore_eos),
        input_tokens=_messages(said.messages) + _in_parts(said.system),
    )


def _ollama_question(said: _Ollama, words: int) -> Question:
    most = said.options.num_predict if said.options else None
    return Question(
        model=said.model,
        stream=said.stream is not False,
        cap=most if most is not None and most > 0 else None,  # -1 and -2 are no cap
        input_tokens=words,
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


def _messages(messages: _Messages | None) -> int:
    if not messages:
        raise RefusedError(400, "messages is missing or empty")
    return _in_messages(messages)


def _in_messages(messages: list[Any]) -> int:
    return sum(_in_parts(message.get("content")) for message in messages if isinstance(message, dict))


def _in_parts(content: Any) -> int:
    total = 0
    for part in content if isinstance(content, list) else [content]:
        text = part.get("text") if isinstance(part, dict) else part
        total += words_in(text) if isinstance(text, str) else 0
    return total


def _ids_or_words(prompt: Any) -> int:
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
