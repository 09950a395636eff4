"""Prompts to requests: a prompt a line, or JSON lines with `prompt`, `class` and `max_tokens`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from loadgen.plan.recordings.ours import RecordedRequest, read_lines


class Prompt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"klass": "class"}):
    """One prompt, and what the request made of it is to say."""

    prompt: str
    klass: str | None = None
    max_tokens: int | None = None


_decoder = msgspec.json.Decoder(Prompt)


def parse_line(line: bytes) -> Prompt:
    """Return the prompt of one line; a line that opens a JSON object is read as one. Raises ValueError."""
    if line.lstrip().startswith(b"{"):
        return _decoder.decode(line)
    return Prompt(line.decode("utf-8"))


def read_prompts(path: Path) -> list[Prompt]:
    """Return the prompts of a file (`-` is standard input); raises UsageError naming the line that is wrong."""
    hint = "a prompt file holds a prompt a line, or JSON lines with prompt, class, max_tokens"
    return read_lines(path, parse_line, noun="prompt", hint=hint)


def _openai_chat(prompt: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": prompt}], "stream": True}


def _openai_completions(prompt: str) -> dict[str, Any]:
    return {"prompt": prompt, "stream": True}


def request_of(prompt: Prompt, *, api: str, model: str) -> RecordedRequest:
    """Return the streaming request that asks `model` this prompt over `api` (a key of APIS)."""
    path, build = APIS[api]
    body: dict[str, Any] = {"model": model, **build(prompt.prompt)}
    if prompt.max_tokens is not None:
        body["max_tokens"] = prompt.max_tokens
    return RecordedRequest(
        path=path, body=msgspec.Raw(msgspec.json.encode(body)), klass=prompt.klass, model=model, source="prompt"
    )


APIS: dict[str, tuple[str, Callable[[str], dict[str, Any]]]] = {
    "openai-chat": ("/v1/chat/completions", _openai_chat),
    "openai-completions": ("/v1/completions", _openai_completions),
}
