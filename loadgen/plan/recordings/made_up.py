"""Requests made up without a recording: lengths drawn from distributions, a part of each prompt common to all."""

from random import Random

from loadgen.plan.recordings.apis import APIS
from loadgen.plan.recordings.distributions import Draw
from loadgen.plan.recordings.ours import RecordedRequest, Synthetic
from loadgen.plan.recordings.synthetic import Making


def make_up(
    count: int, *, making: Making, api: str, input_tokens: Draw, output_tokens: Draw, prefix_share: float, seed: int
) -> list[RecordedRequest]:
    """Return requests to `making.model` over `api`, no two alike; the same for the same seed."""
    rng = Random(f"lengths/{seed}")
    path = APIS[api].path_for(making.model or "")
    requests: list[RecordedRequest] = []
    for place in range(count):
        asked, answered = input_tokens(rng), output_tokens(rng)
        common = round(prefix_share * asked)
        row = RecordedRequest(
            path=path,
            expected_output_tokens=answered,
            source="synthetic",
            synthetic=Synthetic(asked, [0], common) if common else Synthetic(asked),
        )
        requests.append(making.request(row, place))
    return requests
