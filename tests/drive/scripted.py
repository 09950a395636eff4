"""A network in memory: answers by a script, on trio's clock."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec
import trio

from loadgen.drive.driver import Conduct, Driver
from loadgen.net.exchange import Exchange
from loadgen.plan.recordings.ours import RecordedRequest
from loadgen.plan.render import RenderedRequest, render
from loadgen.plan.schedule import Schedule, open_loop
from loadgen.results.journal import Journal, read_journal
from loadgen.results.record import Record, Row
from loadgen.wire.ending import COMPLETE, Ending

STREAM_HEADERS = [(b"content-type", b"text/event-stream")]
ANSWER = (
    b'data: {"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]}\n\n'
    b'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}\n\n'
    b"data: [DONE]\n\n"
)
BODY = b'{"model": "m", "messages": [], "stream": true}'

Script = Callable[["Wire", int], Awaitable[None]]


class TrioPacer:
    """The run's clock on trio's, which tests make virtual."""

    def __init__(self) -> None:
        self._start = trio.current_time()

    def now(self) -> int:
        return round((trio.current_time() - self._start) * 1e9)

    async def wait_until(self, at_ns: int) -> None:
        await trio.sleep_until(self._start + at_ns / 1e9)


class Wire:
    """One exchange, seen from the server's side."""

    def __init__(self, exchange: Exchange, pacer: TrioPacer) -> None:
        self.exchange = exchange
        self._pacer = pacer
        self.aborted = False

    def answer(
        self, body: bytes = ANSWER, *, status: int = 200, headers: list[tuple[bytes, bytes]] | None = None
    ) -> None:
        now = self._pacer.now()
        if self.exchange.sink.head is not None and self.exchange.reads == 0:
            self.exchange.sink.head(status, STREAM_HEADERS if headers is None else headers, now)
        self.exchange.reads += 1
        self.exchange.sink.body(body, now, now)

    def end(self, ending: Ending = COMPLETE) -> None:
        self.exchange.conclude(ending, self._pacer.now())

    def abort(self) -> None:
        self.aborted = True


class ScriptedNetwork:
    """Performs exchanges by running a script for each, in the order they come; remembers when each was sent."""

    def __init__(self, script: Script, pacer: TrioPacer, nursery: trio.Nursery) -> None:
        self._script = script
        self._pacer = pacer
        self._nursery = nursery
        self.sent_ns: list[int] = []
        self.open = 0
        self.most_open = 0

    async def perform(self, exchange: Exchange) -> None:
        wire = Wire(exchange, self._pacer)
        now = self._pacer.now()
        exchange.wire = wire
        exchange.connected_ns = exchange.sent_ns = exchange.first_sent_ns = now
        exchange.reused = True
        seq = len(self.sent_ns)
        self.sent_ns.append(now)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        exchange.owner.sent(exchange)
        self._nursery.start_soon(self._script, wire, seq)
        await exchange.done.wait()
        self.open -= 1


def recorded(count: int = 1, *, sessions: Sequence[str | None] = ()) -> list[RecordedRequest]:
    return [
        RecordedRequest(path="/v1/chat/completions", body=msgspec.Raw(BODY), session=session)
        for session in sessions or [None] * count
    ]


def rendered(requests: list[RecordedRequest]) -> list[RenderedRequest]:
    return [render(request, place=place, authority="test") for place, request in enumerate(requests)]


class Run:
    """A driver on a scripted network: run it inside trio, then look at its rows."""

    def __init__(
        self,
        schedule: Schedule,
        script: Script,
        folder: Path,
        *,
        sessions: Sequence[str | None] = (),
        **conduct: object,
    ) -> None:
        self.schedule = schedule
        self._requests = rendered(recorded(schedule.recorded, sessions=sessions))
        self._script = script
        self.path = folder / "records"
        self._conduct = Conduct(run="test", **conduct)  # type: ignore[arg-type]
        self.driver: Driver
        self.network: ScriptedNetwork

    async def __call__(self, alongside: Callable[["Run"], Awaitable[None]] | None = None) -> None:
        journal = Journal(self.path)
        async with trio.open_nursery() as nursery:
            pacer = TrioPacer()
            self.network = ScriptedNetwork(self._script, pacer, nursery)
            self.driver = Driver(
                self.schedule, self._requests, self.network, pacer=pacer, journal=journal, conduct=self._conduct
            )
            if alongside is not None:
                nursery.start_soon(alongside, self)
            await self.driver.run()
            nursery.cancel_scope.cancel()
        journal.close()

    @property
    def records(self) -> list[Record]:
        return list(read_journal(self.path))

    @property
    def rows(self) -> list[Row]:
        return sorted((record for record in self.records if isinstance(record, Row)), key=lambda row: row.seq)


def due_at(*seconds: float, **options: float) -> Schedule:
    return open_loop(recorded(), seconds, **options)
