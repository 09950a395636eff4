"""Langfuse exports: observations as JSON lines, an array or CSV, in the spelling of its API or of its tables.

Only generations are requests; spans, events and scores are refused.
"""

import csv
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from loadgen.plan.recordings.importers.bodies import Message, asking
from loadgen.plan.recordings.importers.content import Content
from loadgen.plan.recordings.importers.fields import first_of, record, text
from loadgen.plan.recordings.importers.found import Asked, Found, Refused, each
from loadgen.plan.recordings.importers.jsontexts import Item, objects
from loadgen.plan.recordings.importers.lengths import length_only
from loadgen.plan.recordings.importers.moments import answered
from loadgen.plan.recordings.importers.sample import Sample
from loadgen.plan.recordings.importers.times import any_ns
from loadgen.wire.jsontext import count

_PARAMETERS = (
    "temperature",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "n",
)


def tells(sample: Sample) -> bool:
    names = sample.keys | set(sample.columns)
    return bool(names & {"startTime", "start_time"} and names & {"traceId", "trace_id"}) and "type" in names


def read(content: Content, asked: Asked) -> Iterator[Found | Refused]:
    """Yield each generation."""
    is_json = content.head.lstrip()[:1] in (b"{", b"[")
    return each(objects(content) if is_json else _of_csv(content), lambda row, of: _found(row, of, asked))


def _of_csv(content: Content) -> Iterator[Item | Refused]:
    csv.field_size_limit(sys.maxsize)  # a prompt may be longer than the 128 KiB that are its default
    line = 0

    def texts() -> Iterator[str]:
        nonlocal line
        for line, data in content.lines(keep_blank=True):
            try:
                yield data.decode("utf-8") + "\n"
            except UnicodeDecodeError:
                raise content.not_utf8(line) from None

    for row, of in enumerate(csv.DictReader(texts()), 1):
        yield row, {name: _parsed(value) for name, value in of.items() if name is not None}


def _found(row: int, of: dict[str, Any], asked: Asked) -> Found:
    kind = text(of.get("type")) or "GENERATION"
    if kind != "GENERATION":
        raise ValueError(f"{kind[:20]}: not a generation")
    at_ns, zone = any_ns(first_of(of, "startTime", "start_time"))
    first = first_of(of, "completionStartTime", "completion_start_time")
    usage = {**record(_parsed(of.get("usage"))), **record(_parsed(first_of(of, "usageDetails", "usage_details")))}
    inputs = count(first_of(usage, "input", "prompt_tokens") or first_of(of, "promptTokens", "inputUsage"))
    outputs = count(first_of(usage, "output", "completion_tokens") or first_of(of, "completionTokens", "outputUsage"))
    response = answered(
        at_ns,
        first=first,
        last=first_of(of, "endTime", "end_time"),
        failed=of.get("level") == "ERROR",
        usage={"prompt_tokens": inputs, "completion_tokens": outputs} if inputs and outputs else None,
    )
    model = text(first_of(of, "providedModelName", "provided_model_name", "model"))
    fields: dict[str, Any] = {"id": text(of.get("id")), "session": text(first_of(of, "sessionId", "session_id"))}
    messages, tools = _messages(_parsed(of.get("input")))
    if messages is None:
        request = length_only(
            asked, "langfuse", input_tokens=inputs, output_tokens=outputs, model=model, response=response, **fields
        )
    else:
        said = record(_parsed(first_of(of, "modelParameters", "model_parameters")))
        request = asking(
            asked,
            messages,
            model=model,
            parameters={name: _parsed(said[name]) for name in _PARAMETERS if said.get(name) is not None} | tools,
            expected_output_tokens=outputs or None,
            source="langfuse",
            response=response,
            **fields,
        )
    return Found(request, row, at_ns, zone if at_ns is None else zone or "UTC")


def _messages(kept: object) -> tuple[list[Message] | None, dict[str, Any]]:
    """The messages that were asked, None where none were kept, and the tools that were offered."""
    tools = {}
    if isinstance(kept, dict):
        tools = {"tools": kept["tools"]} if isinstance(kept.get("tools"), list) and kept["tools"] else {}
        kept = kept.get("messages") or kept.get("prompt") or ([kept] if "role" in kept else None)
    if isinstance(kept, str) and kept:
        kept = [{"role": "user", "content": kept}]
    if not isinstance(kept, list) or not kept or not all(isinstance(of, dict) and "role" in of for of in kept):
        return None, {}
    return kept, tools


def _parsed(value: object) -> object:
    """A value that an export holds as JSON text."""
    if isinstance(value, str) and value[:1] in ("{", "[", '"', *"-0123456789"):
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            return value
    return value
