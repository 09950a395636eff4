"""The dialects of model streams: one file each, and the table of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from loadgen.wire.events import Event, Told
from loadgen.wire.formats import anthropic, bedrock, invoke, ollama, openai, responses
from loadgen.wire.frame import Frame

Decode: TypeAlias = Callable[[Frame], tuple[Event, ...]]


class Encoder(Protocol):
    """What writes one stream."""

    def encode(self, event: Told) -> bytes:
        """Return the frames that say `event`; b"" where frames to come will say it, or the dialect cannot.

        After a Failure, End gives what the dialect still sends then.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How one dialect is told from others, read and written."""

    name: str  # the row's `format`
    content_type: str
    tells: Callable[[Frame, object], bool]
    decoder: Callable[[], Decode]  # a fresh one per stream: some dialects need what came before
    encoders: Mapping[str, Callable[[str], Encoder]]  # by API: what writes a stream of a model
    natural: tuple[str, ...]  # its words for an end that the model chose
    cap: tuple[str, ...]  # its words for an end that a limit made; the first is that of a request's own limit
    trails: bool = False  # a usage report may follow the end marker, and still counts


FORMATS: dict[str, Dialect] = {
    "openai": Dialect(
        name="openai",
        content_type="text/event-stream",
        tells=openai.tells,
        decoder=lambda: openai.decode,
        encoders={
            "openai-chat": lambda model: openai.Encoder(model=model, id="chatcmpl-sim", created=0),
            "openai-completions": lambda model: openai.Encoder(model=model, id="cmpl-sim", created=0, chat=False),
        },
        natural=(
            *("stop", "tool_calls", "function_call"),
            *("eos", "eos_token", "stop_sequence", "end_turn", "tool_use", "STOP", "end", "complete"),  # servers' own
        ),
        cap=("length", "max_tokens", "model_length", "MAX_TOKENS"),
    ),
    "openai-responses": Dialect(
        name="openai-responses",
        content_type="text/event-stream",
        tells=responses.tells,
        decoder=lambda: responses.Decoder().decode,
        encoders={"openai-responses": lambda model: responses.Encoder(model=model)},
        natural=("completed",),
        cap=("max_output_tokens",),
    ),
    "anthropic": Dialect(
        name="anthropic",
        content_type="text/event-stream",
        tells=anthropic.tells,
        decoder=lambda: anthropic.Decoder().decode,
        encoders={"anthropic": lambda model: anthropic.Encoder(model=model)},
        natural=("end_turn", "stop_sequence", "tool_use"),
        cap=("max_tokens", "model_context_window_exceeded"),
    ),
    "ollama": Dialect(
        name="ollama",
        content_type="application/x-ndjson",
        tells=ollama.tells,
        decoder=lambda: ollama.decode,
        encoders={
            "ollama-chat": lambda model: ollama.Encoder(model=model),
            "ollama-generate": lambda model: ollama.Encoder(model=model, chat=False),
        },
        natural=("stop",),
        cap=("length",),
    ),
    "bedrock": Dialect(
        name="bedrock",
        content_type="application/vnd.amazon.eventstream",
        tells=bedrock.tells,
        decoder=lambda: bedrock.Decoder().decode,
        encoders={
            "bedrock-converse": lambda _model: bedrock.Encoder(),
            "bedrock-anthropic": lambda model: invoke.Encoder(model=model),
        },
        # Those of Converse and Anthropic, then what other vendors' models say by InvokeModel.
        natural=("end_turn", "stop_sequence", "tool_use", "stop", "FINISH", "FINISHED", "COMPLETE"),
        cap=("max_tokens", "model_context_window_exceeded", "length", "LENGTH", "MAX_TOKENS"),
        trails=True,
    ),
}
