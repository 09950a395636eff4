"""AIPerf's `inputs.json`: `data`, an array of sessions with the bodies of their turns; no arrivals, no answers."""

from collections.abc import Iterator
from typing import Any

import msgspec

from loadgen.plan.recordings.apis import APIS
from loadgen.plan.recordings.importers.content import Content
from loadgen.plan.recordings.importers.fields import listed, record, text
from loadgen.plan.recordings.importers.found import HALF_A_PAIR, Asked, Found, Refused
from loadgen.plan.recordings.importers.jsontexts import JsonText
from loadgen.plan.recordings.importers.sample import Sample
from loadgen.plan.recordings.ours import RecordedRequest

# The API that a body is of, where nobody asks for another.
_SIGNS = {"messages": "openai-chat", "prompt": "openai-completions", "input": "openai-responses"}


def tells(sample: Sample) -> bool:
    return "data/*/payloads" in sample.paths


def read(content: Content, asked: Asked) -> Iterator[Found | Refused]:
    """Yield each turn's body."""
    for row, session in enumerate(JsonText(content).items("data"), 1):
        payloads = [payload for payload in listed(record(session).get("payloads")) if isinstance(payload, dict)]
        for payload in payloads:
            try:
                yield Found(request=_request(payload, text(session.get("session_id")), asked), row=row)
            except UnicodeError:
                yield Refused(row, HALF_A_PAIR)
        if not payloads:
            yield Refused(row, "a session without payloads")


def _request(payload: dict[str, Any], session: str | None, asked: Asked) -> RecordedRequest:
    model = text(payload.get("model")) or asked.model
    api = asked.api
    if api == "openai-chat":
        api = next((name for sign, name in _SIGNS.items() if sign in payload), api)
    return RecordedRequest(
        path=APIS[api].path_for(model or ""),
        body=msgspec.Raw(msgspec.json.encode(payload)),
        session=session,
        model=model,
        source="aiperf-inputs",
    )
