"""What one generation request asks for."""

import msgspec

from loadgen.servers.simulated.apis import Api
from loadgen.servers.simulated.wish import Wish


class Asked(msgspec.Struct, frozen=True):
    """One request as the model sees it; `cap` is the most tokens it may answer."""

    api: Api
    model: str
    stream: bool
    include_usage: bool
    cap: int | None
    ignore_eos: bool
    input_tokens: int
    wish: Wish


def asked_from(body: bytes, *, api: Api, otherwise: str, wish: Wish) -> Asked:
    """Read a request's body, for the model `otherwise` where it names none; raises RefusedError (400)."""
    said = api.read(body)
    return Asked(
        api=api,
        model=otherwise if said.model is None else said.model,
        stream=said.stream,
        include_usage=said.include_usage,
        cap=said.cap,
        ignore_eos=said.ignore_eos,
        input_tokens=max(1, said.input_tokens),
        wish=wish,
    )
