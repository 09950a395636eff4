"""AIPerf's `profile_export.jsonl`: a line a request, lengths only, with the gaps between its chunks."""

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import msgspec

from loadgen.plan.recordings.importers.content import Content
from loadgen.plan.recordings.importers.fields import listed, number, record, text
from loadgen.plan.recordings.importers.found import Asked, Found, Refused, each
from loadgen.plan.recordings.importers.jsontexts import objects
from loadgen.plan.recordings.importers.lengths import length_only
from loadgen.plan.recordings.importers.sample import Sample
from loadgen.plan.recordings.importers.times import number_ns
from loadgen.plan.recordings.ours import RecordedFrame, RecordedResponse
from loadgen.wire.jsontext import count


def tells(sample: Sample) -> bool:
    return sample.has("metadata", "metrics") and "metadata/request_start_ns" in sample.paths


def read(content: Content, asked: Asked) -> Iterator[Found | Refused]:
    """Yield each record's request; failed ones are refused: their answers have no length."""
    return each(objects(content), lambda row, of: _found(row, of, asked))


def _found(row: int, of: dict[str, Any], asked: Asked) -> Found:
    metadata, metrics = record(of.get("metadata")), record(of.get("metrics"))
    if of.get("error") is not None:
        raise ValueError("the request failed, or was given up, at its source")
    started = metadata.get("request_start_ns")
    inputs = count(_value(metrics, "input_sequence_length"))
    outputs = count(_value(metrics, "output_sequence_length"))
    return Found(
        request=length_only(
            asked,
            "aiperf",
            input_tokens=inputs,
            output_tokens=outputs,
            id=text(metadata.get("x_request_id")),
            session=text(metadata.get("x_correlation_id")) or text(metadata.get("conversation_id")),
            response=RecordedResponse(
                status=200,
                end="clean",
                frames=_frames(metrics),
                usage=msgspec.Raw(msgspec.json.encode({"prompt_tokens": inputs, "completion_tokens": outputs})),
            ),
        ),
        row=row,
        at_ns=number_ns(started, unit_ns=1) if isinstance(started, int) else None,
        zone="UTC" if isinstance(started, int) else None,
    )


def _frames(metrics: dict[str, Any]) -> list[RecordedFrame] | None:
    """The chunks' times: the first's, and each gap after it; None where a first is not known."""
    first = number(_value(metrics, "time_to_first_token"))
    if first is None:
        return None
    gaps = [number(gap) or 0.0 for gap in listed(_value(metrics, "inter_chunk_latency"))]
    return [RecordedFrame(ms=round(ms, 3)) for ms in accumulate(gaps, initial=first)]


def _value(metrics: dict[str, Any], name: str) -> Any:
    return record(metrics.get(name)).get("value")
