"""vLLM `bench serve --save-detailed`: one object of columns, lengths only, with the gaps between chunks.

Its columns are read whole: it is a result of one benchmark, not a trace of days.
"""

import json
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import msgspec

from loadgen.plan.recordings.importers.content import Content
from loadgen.plan.recordings.importers.fields import listed, number, text
from loadgen.plan.recordings.importers.found import Asked, Found, Refused, each
from loadgen.plan.recordings.importers.jsontexts import JsonText
from loadgen.plan.recordings.importers.lengths import length_only
from loadgen.plan.recordings.importers.sample import Sample
from loadgen.plan.recordings.importers.times import perhaps_ns
from loadgen.plan.recordings.ours import RecordedFrame, RecordedResponse

_COLUMNS = ("output_lens", "ttfts", "itls", "start_times", "errors")


def tells(sample: Sample) -> bool:
    return sample.has("input_lens") and not sample.is_list


def read(content: Content, asked: Asked) -> Iterator[Found | Refused]:
    """Yield each benchmarked request; failed ones are refused: their answers have no length."""
    document = next(JsonText(content).values())
    inputs = listed(document.get("input_lens"))
    columns = {name: listed(document.get(name)) for name in _COLUMNS}
    if uneven := [name for name, column in columns.items() if column and len(column) != len(inputs)]:
        raise content.broken(1, f"{uneven[0]} is not as long as input_lens")
    model = text(document.get("model_id"))

    def found(row: int, input_tokens: Any) -> Found:
        of = {name: column[row - 1] if column else None for name, column in columns.items()}
        if of["errors"]:
            raise ValueError("the request failed, or was given up, at its source")
        return Found(
            request=length_only(
                asked,
                "vllm",
                input_tokens=input_tokens,
                output_tokens=of["output_lens"],
                model=model,
                response=RecordedResponse(
                    status=200,
                    end="clean",
                    frames=_frames(of["ttfts"], of["itls"]),
                    usage=msgspec.Raw(
                        json.dumps({"prompt_tokens": input_tokens, "completion_tokens": of["output_lens"]}).encode()
                    ),
                ),
            ),
            row=row,
            at_ns=perhaps_ns(of["start_times"]),
        )

    yield from each(enumerate(inputs, 1), found)


def _frames(ttft_s: object, gaps_s: object) -> list[RecordedFrame] | None:
    """The chunks' times: the first's, and each gap after it."""
    first = number(ttft_s)
    if not first:
        return None
    gaps = (number(gap) or 0.0 for gap in listed(gaps_s))
    return [RecordedFrame(ms=round(seconds * 1e3, 3)) for seconds in accumulate(gaps, initial=first)]
