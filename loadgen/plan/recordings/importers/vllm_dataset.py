"""vLLM's custom dataset: JSON lines of `prompt` and perhaps `output_tokens`; no arrivals. Our own prompt files too."""

from collections.abc import Iterator
from typing import Any

from loadgen.plan.recordings.apis import APIS
from loadgen.plan.recordings.importers.bodies import asking
from loadgen.plan.recordings.importers.content import Content
from loadgen.plan.recordings.importers.fields import first_of, text
from loadgen.plan.recordings.importers.found import Asked, Found, Refused, each
from loadgen.plan.recordings.importers.jsontexts import objects
from loadgen.plan.recordings.importers.sample import Sample
from loadgen.wire.jsontext import count

# Of rows that are more than a prompt and what is said beside it.
_OTHERS = {"path", "url", "body", "type", "startTime", "start_time", "conversations"}


def tells(sample: Sample) -> bool:
    return sample.has("prompt") and not sample.keys & _OTHERS and not sample.is_list


def read(content: Content, asked: Asked) -> Iterator[Found | Refused]:
    """Yield each prompt's request."""
    return each(objects(content), lambda row, of: _found(row, of, asked))


def _found(row: int, of: dict[str, Any], asked: Asked) -> Found:
    prompt = text(of.get("prompt"))
    if prompt is None:
        raise ValueError("its prompt is no text")
    cap = count(first_of(of, "output_tokens", "max_tokens")) or None
    # A cap may stand deeper than at the body's top; such APIs are capped when the recording is played.
    place = APIS[asked.api].caps[0]
    parameters = {place[0]: cap} if cap and len(place) == 1 else None
    request = asking(
        asked,
        [{"role": "user", "content": prompt}],
        model=None,
        parameters=parameters,
        expected_output_tokens=cap,
        klass=text(of.get("class")),
        id=text(of.get("id")),
        source="vllm-dataset",
    )
    return Found(request=request, row=row)
