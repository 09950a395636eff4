"""How OpenAI Responses writes the items of a response, and what it says of a response as a whole."""

from typing import Any

import msgspec

from loadgen.wire.events import OutputKind, Usage


class Form(msgspec.Struct, frozen=True):
    """How an item of one kind of output is written: the stem of its events, its field, its part's type.

    `extra` is what its events have besides, `parts` what its parts have.
    """

    type: str
    stem: str
    field: str
    part: str | None
    fields: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    parts: dict[str, Any] = {}

    def part_of(self, text: str) -> dict[str, Any]:
        """Return the part that holds `text`."""
        return {"type": self.part, self.field: text, **self.parts}


# What a response says of how it was asked for: nothing was set.
UNSET: dict[str, Any] = {
    "instructions": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "temperature": None,
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
}
ITEMS: dict[OutputKind, Form] = {
    "text": Form(
        *("message", "output_text", "text", "output_text"),
        fields={"role": "assistant"},
        extra={"logprobs": []},
        parts={"annotations": []},
    ),
    "refusal": Form("message", "refusal", "refusal", "refusal", fields={"role": "assistant"}),
    "reasoning": Form("reasoning", "reasoning_text", "text", "reasoning_text", fields={"summary": []}),
    "tool": Form("function_call", "function_call_arguments", "arguments", None),
}


def usage_object(usage: Usage) -> dict[str, Any]:
    """Return the counts as the dialect has them."""
    counted = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    said: dict[str, Any] = {name: value for name, value in counted.items() if value is not None}
    if usage.input_tokens is not None and usage.output_tokens is not None:
        said["total_tokens"] = usage.input_tokens + usage.output_tokens
    if usage.cached_tokens is not None:
        said["input_tokens_details"] = {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0}
    if usage.reasoning_tokens is not None:
        said["output_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return said
