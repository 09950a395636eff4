"""What a reader of other people's recordings yields: a request it found, or a row it refuses."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import msgspec

from loadgen.plan.recordings.importers.content import Content
from loadgen.plan.recordings.ours import RecordedRequest

T = TypeVar("T")

HALF_A_PAIR = "not Unicode: half a surrogate pair"


class Found(msgspec.Struct, frozen=True, gc=False):
    """One request, and what the source says of it beside.

    `row` is its line, item or file in the source, from 1. `at_ns` is on the source's own clock, null when it has none;
    the request's own `at_s` is still to be filled in. `zone` is the time zone that the source states.
    """

    request: RecordedRequest
    row: int
    at_ns: int | None = None
    zone: str | None = None


class Refused(msgspec.Struct, frozen=True, gc=False):
    """A row that makes no request; equal reasons are counted together."""

    row: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How to ask where the source does not say: over which API (a key of APIS), and which model."""

    api: str = "openai-chat"
    model: str | None = None


# Streams a source's requests in its order; raises UsageError when the whole of it cannot be read.
Reader: TypeAlias = Callable[[Content, Asked], Iterator[Found | Refused]]


def each(rows: Iterable[tuple[int, T] | Refused], make: Callable[[int, T], Found]) -> Iterator[Found | Refused]:
    """Yield what `make` finds in each row and its number; a ValueError of its is the reason to refuse it."""
    for row in rows:
        if isinstance(row, Refused):
            yield row
            continue
        try:
            yield make(*row)
        except UnicodeError:
            yield Refused(row[0], HALF_A_PAIR)
        except ValueError as error:
            yield Refused(row[0], str(error))
