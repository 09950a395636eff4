"""The kinds of API that models are asked over: paths, bodies, and where a body says what; the table is the last thing.

What stands where is FORMATS section 8.1's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias
from urllib.parse import quote

# Keys from a body's top to one of its fields.
Place: TypeAlias = tuple[str, ...]
Body: TypeAlias = dict[str, Any]

_SSE, _JSON_LINES, _EVENT_STREAM = "text/event-stream", "application/x-ndjson", "application/vnd.amazon.eventstream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One kind: how a prompt is asked, and where its body holds what options change.

    `path` may hold `{model}`; then the body names none. `caps` are where a cap on output tokens stands, the first of
    them unless a body has another. `streams_unasked` says that no `stream` key is needed to get a stream.
    """

    name: str
    path: str
    body: Callable[[str, str], Body]
    caps: tuple[Place, ...] = (("max_tokens",),)
    temperature: Place = ("temperature",)
    accept: str = _SSE
    asks_usage: bool = False  # by stream_options.include_usage; elsewhere it always comes
    streams_unasked: bool = False
    auth: Callable[[str], Mapping[str, str]] = lambda key: {"authorization": f"Bearer {key}"}
    headers: Mapping[str, str] | None = None
    needs_cap: int | None = None  # a cap the API insists on, where nobody set one
    signed: bool = False  # by AWS Signature Version 4, unless a bearer token is given

    def path_for(self, model: str) -> str:
        """Return the path for a model; in a path its name is one segment, percent-encoded."""
        return self.path.format(model=quote(model, safe=""))

    @property
    def names_model_in_path(self) -> bool:
        return "{model}" in self.path


def _messages(prompt: str) -> list[Body]:
    return [{"role": "user", "content": prompt}]


def _bedrock_anthropic(prompt: str, model: str) -> Body:
    return {"anthropic_version": "bedrock-2023-05-31", "messages": _messages(prompt)}


def _bedrock_converse(prompt: str, model: str) -> Body:
    return {"messages": [{"role": "user", "content": [{"text": prompt}]}]}


APIS: dict[str, Api] = {
    api.name: api
    for api in (
        Api(
            name="openai-chat",
            path="/v1/chat/completions",
            body=lambda prompt, model: {"model": model, "messages": _messages(prompt), "stream": True},
            caps=(("max_tokens",), ("max_completion_tokens",)),
            asks_usage=True,
        ),
        Api(
            name="openai-completions",
            path="/v1/completions",
            body=lambda prompt, model: {"model": model, "prompt": prompt, "stream": True},
            asks_usage=True,
        ),
        Api(
            name="openai-responses",
            path="/v1/responses",
            body=lambda prompt, model: {"model": model, "input": prompt, "stream": True, "store": False},
            caps=(("max_output_tokens",),),
        ),
        Api(
            name="anthropic",
            path="/v1/messages",
            body=lambda prompt, model: {"model": model, "messages": _messages(prompt), "stream": True},
            auth=lambda key: {"x-api-key": key},
            headers={"anthropic-version": "2023-06-01"},
            needs_cap=1024,
        ),
        Api(
            name="ollama-chat",
            path="/api/chat",
            body=lambda prompt, model: {"model": model, "messages": _messages(prompt), "stream": True},
            caps=(("options", "num_predict"),),
            temperature=("options", "temperature"),
            accept=_JSON_LINES,
            streams_unasked=True,
        ),
        Api(
            name="ollama-generate",
            path="/api/generate",
            body=lambda prompt, model: {"model": model, "prompt": prompt, "stream": True},
            caps=(("options", "num_predict"),),
            temperature=("options", "temperature"),
            accept=_JSON_LINES,
            streams_unasked=True,
        ),
        Api(
            name="bedrock-converse",
            path="/model/{model}/converse-stream",
            body=_bedrock_converse,
            caps=(("inferenceConfig", "maxTokens"),),
            temperature=("inferenceConfig", "temperature"),
            accept=_EVENT_STREAM,
            streams_unasked=True,
            signed=True,
        ),
        Api(
            name="bedrock-anthropic",
            path="/model/{model}/invoke-with-response-stream",
            body=_bedrock_anthropic,
            accept=_EVENT_STREAM,
            streams_unasked=True,
            needs_cap=1024,
            signed=True,
        ),
    )
}


@lru_cache(maxsize=1024)
def api_of_path(path: str) -> Api | None:
    """Return the kind of API that a recorded path is of; None where it tells none.

    >>> api_of_path("/model/m%3A0/converse-stream").name, api_of_path("/proxy/v1/messages?beta=true").name
    ('bedrock-converse', 'anthropic')
    """
    plain = path.partition("?")[0].rstrip("/")
    return next((api for api in APIS.values() if plain.endswith(api.path.rpartition("{model}")[2])), None)
