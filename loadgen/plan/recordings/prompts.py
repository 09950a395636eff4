"""Prompts to requests: a prompt a line, or JSON lines with `prompt`, `class` and `max_tokens`."""

from pathlib import Path

import msgspec

from loadgen.plan.recordings.apis import APIS
from loadgen.plan.recordings.edits import put
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


def request_of(prompt: Prompt, *, api: str, model: str) -> RecordedRequest:
    """Return the streaming request that asks `model` this prompt over `api` (a key of APIS)."""
    kind = APIS[api]
    body = kind.body(prompt.prompt, model)
    cap = prompt.max_tokens or kind.needs_cap
    if cap is not None:
        put(body, kind.caps[0], cap)
    return RecordedRequest(
        path=kind.path_for(model),
        body=msgspec.Raw(msgspec.json.encode(body)),
        klass=prompt.klass,
        model=model,
        source="prompt",
    )
