"""How an exchange over the network came to its end: the vocabulary of the sockets and of the outcome table."""

from typing import Literal, TypeAlias

import msgspec

How: TypeAlias = Literal[
    "complete",  # the message ended as its protocol says
    "cut",  # closed or reset before that
    "malformed",  # bytes that are no HTTP
    "stopped",  # the reader wanted no more: a broken frame
    "lingered",  # the end marker came, the end of the message did not within its second
    "deadline",  # the whole-request deadline passed
    "abandoned",  # the drain ended, or a second signal came
    "connect",  # no connection
    "limit",  # our own limit: descriptors, ports, memory
]


class Ending(msgspec.Struct, frozen=True, gc=False):
    """The one end of an exchange; `detail` is a short machine-readable reason."""

    how: How
    detail: str | None = None


COMPLETE = Ending("complete")
