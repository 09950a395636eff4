"""Requests of which the source kept only the lengths: their text is made up when they are planned."""

from typing import TypeGuard

from loadgen.plan.recordings.apis import APIS
from loadgen.plan.recordings.importers.found import Asked
from loadgen.plan.recordings.ours import RecordedRequest, RecordedResponse, Synthetic

_MOST_TOKENS = 100_000_000


def path_of(asked: Asked, model: str | None) -> str:
    """Return the path to ask a model at."""
    return APIS[asked.api].path_for(model or asked.model or "")


def length_only(
    asked: Asked,
    source: str,
    *,
    input_tokens: object,
    output_tokens: object,
    path: str | None = None,
    hash_ids: list[int] | None = None,
    block_tokens: int | None = None,
    response: RecordedResponse | None = None,
    model: str | None = None,
    id: str | None = None,
    session: str | None = None,
    klass: str | None = None,
) -> RecordedRequest:
    """Return a request of these lengths; raises ValueError where they are none.

    `path` is `path_of` it, for who has it at hand.
    """
    if not _is_length(input_tokens):
        raise ValueError(f"input tokens {_shown(input_tokens)}: not a prompt's length")
    if not _is_length(output_tokens):
        if output_tokens == 0:
            raise ValueError("output tokens 0: the request failed, or was given up, at its source")
        raise ValueError(f"output tokens {_shown(output_tokens)}: not an answer's length")
    model = model or asked.model
    return RecordedRequest(
        path or path_of(asked, model),
        id,
        klass=klass,
        session=session,
        model=model,
        expected_output_tokens=output_tokens,
        source=source,
        response=response,
        synthetic=Synthetic(input_tokens, hash_ids, block_tokens),
    )


def _is_length(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 < value <= _MOST_TOKENS


def _shown(value: object) -> str:
    """A value in words that stay the same from row to row, as far as they can."""
    return "null" if value is None else str(value)[:20] if isinstance(value, int) else f"{type(value).__name__}"
