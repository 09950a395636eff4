"""What the server speaks: one entry for each API, and the table of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from loadgen.plan.recordings.apis import APIS as ASKED
from loadgen.servers.simulated import bodies, shapes, whole
from loadgen.servers.simulated.bodies import Question
from loadgen.servers.simulated.part import Reason
from loadgen.servers.simulated.shapes import Shape
from loadgen.servers.simulated.whole import Spoken
from loadgen.wire.formats import FORMATS, Encoder, responses


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """How one API is read and answered.

    `reasons` are its words for why an answer stops, `failure` its word for an error in mid-stream. `opens` says when a
    stream's opening frames come, where it has any. An answer `thinks` and `calls` tools only where the API has a place
    for that. `counts_zero`: its usage counts what there was none of, too. `numbered`: its events are, and its encoder
    leaves the numbers out.
    """

    name: str
    read: Callable[[bytes], Question]
    encoder: Callable[[str], Encoder]
    reasons: Mapping[Reason, str]
    failure: str
    shape: Shape = shapes.openai
    opens: Literal["never", "at first token", "at once"] = "at first token"
    whole: Callable[[Spoken], dict[str, Any]] | None = None
    thinks: bool = True
    calls: bool = True
    counts_zero: bool = False
    numbered: bool = False

    @property
    def path(self) -> str:
        """Where it is asked; `{model}` stands for one segment."""
        return ASKED[self.name].path

    @property
    def content_type(self) -> str:
        """That of its streams."""
        return _CONTENT_TYPES[self.name]


_CONTENT_TYPES = {api: dialect.content_type for dialect in FORMATS.values() for api in dialect.encoders}
_ENCODERS = {api: encoder for dialect in FORMATS.values() for api, encoder in dialect.encoders.items()}
_OPENAI: Mapping[Reason, str] = {"stop": "stop", "length": "length", "tool_calls": "tool_calls"}
_RESPONSES: Mapping[Reason, str] = {"stop": "completed", "length": "max_output_tokens", "tool_calls": "completed"}
_ANTHROPIC: Mapping[Reason, str] = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
_OLLAMA: Mapping[Reason, str] = {"stop": "stop", "length": "length", "tool_calls": "stop"}
_OLLAMA_FAILURE = "the simulated model failed"

APIS: dict[str, Api] = {
    api.name: api
    for api in (
        Api(
            name="openai-chat",
            read=bodies.chat,
            encoder=_ENCODERS["openai-chat"],
            reasons=_OPENAI,
            failure="InternalServerError",
            whole=whole.chat,
        ),
        Api(
            name="openai-completions",
            read=bodies.completion,
            encoder=_ENCODERS["openai-completions"],
            reasons=_OPENAI,
            failure="InternalServerError",
            opens="never",
            whole=whole.completion,
            thinks=False,
            calls=False,
        ),
        Api(
            name="openai-responses",
            read=bodies.response,
            encoder=lambda model: responses.Encoder(model=model, numbered=False),
            reasons=_RESPONSES,
            failure="server_error",
            opens="at once",
            whole=whole.response,
            counts_zero=True,
            numbered=True,
        ),
        Api(
            name="anthropic",
            read=bodies.message,
            encoder=_ENCODERS["anthropic"],
            reasons=_ANTHROPIC,
            failure="api_error",
            shape=shapes.anthropic,
            opens="at once",
            whole=whole.message,
        ),
        Api(
            name="ollama-chat",
            read=bodies.ollama_chat,
            encoder=_ENCODERS["ollama-chat"],
            reasons=_OLLAMA,
            failure=_OLLAMA_FAILURE,
            shape=shapes.ollama,
            opens="never",
            whole=whole.ollama_chat,
        ),
        Api(
            name="ollama-generate",
            read=bodies.ollama_generate,
            encoder=_ENCODERS["ollama-generate"],
            reasons=_OLLAMA,
            failure=_OLLAMA_FAILURE,
            shape=shapes.ollama,
            opens="never",
            whole=whole.ollama_generate,
            calls=False,
        ),
        Api(
            name="bedrock-converse",
            read=bodies.converse,
            encoder=_ENCODERS["bedrock-converse"],
            reasons=_ANTHROPIC,
            failure="internalServerException",
            shape=shapes.bedrock,
        ),
        Api(
            name="bedrock-anthropic",
            read=bodies.invocation,
            encoder=_ENCODERS["bedrock-anthropic"],
            reasons=_ANTHROPIC,
            failure="internalServerException",
            shape=shapes.bedrock,
            opens="at once",
        ),
    )
}
