"""The driver: sends each request when it is due, whatever has or has not come back."""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

import trio

from loadgen.drive.deadlines import Deadlines
from loadgen.drive.flight import Flight
from loadgen.drive.pacer import Pacer
from loadgen.drive.slots import Slots
from loadgen.net.exchange import Exchange
from loadgen.plan.render import RenderedRequest
from loadgen.plan.schedule import SECOND_NS, Schedule
from loadgen.results.journal import Journal
from loadgen.results.outcome import Rules
from loadgen.results.reading import Reading
from loadgen.results.record import Row, Sent
from loadgen.wire.ending import Ending

LINGER_NS = SECOND_NS  # for the end of a message after its end marker
LOOK_AHEAD_NS = SECOND_NS  # how far before they are due requests are made ready
_LOOK_AHEAD_MOST = 8192
# Releases in one go before those released get their turn to write.
_RELEASES = 16


class Performer(Protocol):
    """What carries out an exchange: the connections of a target, or a script in a test."""

    async def perform(self, exchange: Exchange) -> None:
        """Send the request, return when the exchange has ended; raises nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """How a run is driven."""

    run: str
    deadline_ns: int = 600 * SECOND_NS
    drain_ns: int | None = None  # after the last submission; None: as long as deadlines let it
    max_concurrency: int | None = None
    sends_request_id: bool = True
    rules: Rules = field(default_factory=Rules)
    secret: str | None = None  # never stored, even where a server echoes it


class Driver:
    """Drives one schedule through a performer, journalling a row for whatever became of each request it released."""

    def __init__(
        self,
        schedule: Schedule,
        requests: Sequence[RenderedRequest],
        performer: Performer,
        *,
        pacer: Pacer,
        journal: Journal,
        conduct: Conduct,
    ) -> None:
        self._schedule = schedule
        self._requests = requests
        self._performer = performer
        self._pacer = pacer
        self._journal = journal
        self._conduct = conduct
        self._slots = Slots(conduct.max_concurrency) if conduct.max_concurrency else None
        self._deadlines = Deadlines(
            conduct.deadline_ns, now=pacer.now, expire=lambda exchange: self._abandon(exchange, Ending("deadline"))
        )
        self._lingering = Deadlines(
            LINGER_NS, now=pacer.now, expire=lambda exchange: self._abandon(exchange, Ending("lingered"))
        )
        self._flights: dict[Exchange, Flight] = {}
        self._all_home: trio.Event | None = None  # while draining
        self._submitting = trio.CancelScope()
        self._is_stopped = False
        self._gave_up = False
        self._taken = 0  # by the callers of a closed loop
        self._measured = 0
        self.submitted = 0
        self.outcomes: Counter[str] = Counter()
        self.latest: deque[Row] = deque(maxlen=256)  # for the live view

    def now(self) -> int:
        """Return ns since the run's start."""
        return self._pacer.now()

    @property
    def in_flight(self) -> int:
        """Requests released and not ended, those that wait for a slot included."""
        return len(self._flights)

    async def run(self) -> None:
        """Submit the schedule, wait for what is in flight, give up what the drain does not bring home."""
        async with trio.open_nursery() as watchers:
            watchers.start_soon(self._deadlines.run)
            watchers.start_soon(self._lingering.run)
            async with trio.open_nursery() as senders:
                senders.start_soon(self._submit_and_drain, senders)
            watchers.cancel_scope.cancel()

    def stop(self, reason: str) -> None:
        """Submit nothing more and drain; called again, cut what is in flight."""
        if not self._is_stopped:
            self._is_stopped = True
            self._submitting.cancel()
            if self._slots is not None:
                self._slots.close()
        else:
            self._give_up(reason)

    # -- submitting ----------------------------------------------------------

    async def _submit_and_drain(self, senders: trio.Nursery) -> None:
        with self._submitting:
            if self._schedule.due_ns is not None:
                await self._submit(senders, self._schedule.due_ns)
            else:
                await self._call(senders)
        await self._drain()

    async def _submit(self, senders: trio.Nursery, due_ns: Sequence[int]) -> None:
        """The open loop: waits for nothing but the clock."""
        now, wait_until = self._pacer.now, self._pacer.wait_until
        count = len(due_ns)
        ready: deque[Flight] = deque()
        rendered = 0
        for seq in range(count):
            due = due_ns[seq]
            while rendered < count and (
                not ready or (due_ns[rendered] - due < LOOK_AHEAD_NS and len(ready) < _LOOK_AHEAD_MOST and now() < due)
            ):
                ready.append(self._flight(rendered, due_ns[rendered], self._schedule.is_warmup(rendered)))
                rendered += 1
            if now() < due:
                await wait_until(due)
            elif seq % _RELEASES == 0:
                await trio.lowlevel.checkpoint()
            flight = ready.popleft()
            self._release(flight)
            senders.start_soon(self._send, flight)

    async def _call(self, senders: trio.Nursery) -> None:
        """The closed loop: returns when no caller will send any more, whatever is still in flight."""
        schedule = self._schedule
        await self._pacer.wait_until(0)
        over = trio.Event()
        for _ in range(schedule.callers or 1):
            senders.start_soon(self._caller, over)
        lasts_s = inf if schedule.length_ns is None else (schedule.warmup_ns + schedule.length_ns) / SECOND_NS
        with trio.move_on_after(lasts_s):
            await over.wait()

    async def _caller(self, over: trio.Event) -> None:
        """Send the next request when the answer to the last has ended."""
        schedule = self._schedule
        while not self._is_stopped:
            now = self._pacer.now()
            is_warmup = now < schedule.warmup_ns
            is_late = schedule.length_ns is not None and now >= schedule.warmup_ns + schedule.length_ns
            if is_late or (schedule.measured is not None and self._measured >= schedule.measured):
                break
            self._measured += not is_warmup
            flight = self._flight(self._taken, None, is_warmup)
            self._taken += 1
            self._release(flight)
            await self._send(flight)
        over.set()

    def _flight(self, seq: int, due_ns: int | None, is_warmup: bool) -> Flight:
        place = self._schedule.request_at(seq)
        request = self._requests[place]
        request_id = f"{self._conduct.run}-{seq}" if self._conduct.sends_request_id else None
        reading = Reading()
        return Flight(
            seq=seq,
            place=place,
            due_ns=due_ns,
            is_warmup=is_warmup,
            request=request,
            exchange=Exchange(
                request.head_for(request_id), request.body, reading, self, is_head=request.method == "HEAD"
            ),
            reading=reading,
        )

    # -- one request ---------------------------------------------------------

    def _release(self, flight: Flight) -> None:
        flight.fired_ns = self._pacer.now()
        self._flights[flight.exchange] = flight

    async def _send(self, flight: Flight) -> None:
        exchange = flight.exchange
        has_slot = self._slots is None or await self._slots.take()
        if has_slot and not self._gave_up:
            flight.admitted_ns = flight.fired_ns if self._slots is None else self._pacer.now()
            await self._performer.perform(exchange)
        if has_slot and self._slots is not None:
            self._slots.give()
        self._deadlines.drop(exchange)
        self._lingering.drop(exchange)
        del self._flights[exchange]
        if not self._flights and self._all_home is not None:
            self._all_home.set()
        row = flight.row(self._conduct.rules, secret=self._conduct.secret)
        self._journal.append(row)
        self.outcomes[row.outcome] += 1
        self.latest.append(row)

    def sent(self, exchange: Exchange) -> None:
        flight = self._flights[exchange]
        assert exchange.sent_ns is not None
        self._journal.append(Sent(flight.seq, flight.place, 1, exchange.sent_ns))
        self._deadlines.add(exchange, exchange.sent_ns)
        self.submitted += not exchange.resent

    def lingers(self, exchange: Exchange) -> None:
        terminal_ns = self._flights[exchange].reading.terminal_ns
        self._lingering.add(exchange, self._pacer.now() if terminal_ns is None else terminal_ns)

    # -- ending --------------------------------------------------------------

    async def _drain(self) -> None:
        """Wait for what is in flight; by default as long as the deadline of the last one could let it."""
        drain_ns = self._conduct.drain_ns
        if self._flights:
            self._all_home = trio.Event()
            with trio.move_on_after((self._conduct.deadline_ns if drain_ns is None else drain_ns) / SECOND_NS):
                await self._all_home.wait()
        if drain_ns is not None:
            self._give_up("drain")
        elif self._slots is not None:  # who still waits is sent away; who is in flight has a deadline of its own
            self._slots.close()

    def _give_up(self, reason: str) -> None:
        self._gave_up = True
        if self._slots is not None:
            self._slots.close()
        for exchange in list(self._flights):
            self._abandon(exchange, Ending("abandoned", reason))

    def _abandon(self, exchange: Exchange, ending: Ending) -> None:
        flight = self._flights.get(exchange)
        if flight is not None and flight.admitted_ns is not None:
            exchange.abandon(ending, self._pacer.now())
