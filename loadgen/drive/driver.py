"""The driver: sends each request when it is due, whatever has or has not come back."""

import random
from collections import Counter, deque
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Literal, Protocol

import trio

from loadgen.drive.deadlines import Deadlines
from loadgen.drive.flight import Flight
from loadgen.drive.pacer import Pacer
from loadgen.drive.retries import Retries
from loadgen.drive.slots import Slots
from loadgen.drive.turns import Turns
from loadgen.net.exchange import Exchange
from loadgen.plan.recordings.nonces import Nonces
from loadgen.plan.render import Rendered, RenderedRequest, Sign
from loadgen.plan.schedule import SECOND_NS, Schedule
from loadgen.results.journal import Journal
from loadgen.results.outcome import Rules
from loadgen.results.reading import Reading
from loadgen.results.record import Row, Sent
from loadgen.wire.ending import Ending

LINGER_NS = SECOND_NS  # for the end of a message after its end marker
LOOK_AHEAD_NS = SECOND_NS  # how far before they are due requests are made ready
_LOOK_AHEAD_MOST = 8192
_DEAR_NS = 100_000  # what costs more to make ready, as a long made-up prompt does, would delay the send before it
_SETTLES_NS = 2_000_000
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
    deadline_from: Literal["sent", "due"] = "sent"  # due: waiting and every attempt count (closed loop: from fired)
    drain_ns: int | None = None  # after the last submission; None: as long as deadlines let it
    max_concurrency: int | None = None
    keep_sessions: bool = False  # a request waits for the one before it in its session
    retries: Retries = field(default_factory=Retries)
    seed: int = 0  # of the jitter of retries
    sends_request_id: bool = True
    rules: Rules = field(default_factory=Rules)
    sign: Sign | None = None  # for requests that are to be signed
    nonces: Nonces | None = None  # for the prompts that have a place for one
    keeps_answers: bool = False  # in the rows, for checks or bodies
    secrets: tuple[str, ...] = ()  # never stored, even where a server echoes them


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
        self._turns = Turns() if conduct.keep_sessions else None
        self._deadlines = Deadlines(
            conduct.deadline_ns, now=pacer.now, expire=lambda flight: self._end(flight, Ending("deadline"))
        )
        self._lingering = Deadlines(
            LINGER_NS, now=pacer.now, expire=lambda flight: self._end(flight, Ending("lingered"))
        )
        self._flights: dict[Exchange, Flight] = {}
        self._all_home: trio.Event | None = None  # while draining
        self._no_more_retries = trio.Event()
        self._dice = random.Random(conduct.seed)
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
            self._admit_no_more()
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
        # What it takes to write a prompt, lately: the next send is not to wait for that.
        writes = isinstance(self._requests, Rendered) and self._requests.has_made_up
        usual_ns = 0
        for seq in range(count):
            due = due_ns[seq]
            if ready and usual_ns > _DEAR_NS:  # who was just released connects and writes first
                await wait_until(min(now() + _SETTLES_NS, due))
            while rendered < count and (
                not ready
                or (due_ns[rendered] - due < LOOK_AHEAD_NS and len(ready) < _LOOK_AHEAD_MOST and now() + usual_ns < due)
            ):
                began = now() if writes else 0
                ready.append(self._flight(rendered, due_ns[rendered], self._schedule.is_warmup(rendered)))
                rendered += 1
                if writes:
                    usual_ns += (now() - began - usual_ns) // 8
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
        reading = Reading(keeps_answer=self._conduct.keeps_answers)
        return Flight(
            seq=seq,
            place=place,
            due_ns=due_ns,
            is_warmup=is_warmup,
            request=request,
            exchange=self._exchange(request, reading, seq, f"{seq}"),
            reading=reading,
        )

    def _exchange(self, request: RenderedRequest, reading: Reading, seq: int, name: str) -> Exchange:
        if self._conduct.nonces is not None:
            request = request.with_nonce(self._conduct.nonces.of(seq))
        request_id = f"{self._conduct.run}-{name}" if self._conduct.sends_request_id else None
        sign = self._conduct.sign
        signature = sign(request) if sign is not None and request.to_sign else None
        head = request.head_for(request_id, signature)
        return Exchange(head, request.body, reading, self, is_head=request.method == "HEAD")

    # -- one request ---------------------------------------------------------

    def _release(self, flight: Flight) -> None:
        flight.fired_ns = self._pacer.now()
        self._flights[flight.exchange] = flight
        if self._turns is not None and flight.attempt == 1 and (session := flight.request.session) is not None:
            flight.turn = self._turns.next_of(session, flight.place, is_warmup=flight.is_warmup)
        if self._conduct.deadline_from == "due" and flight.attempt == 1:
            self._deadlines.add(flight, flight.fired_ns if flight.due_ns is None else flight.due_ns)

    async def _send(self, flight: Flight) -> None:
        """See a request through to its last attempt."""
        while True:
            await self._attempt(flight)
            row = flight.row(self._conduct.rules, secrets=self._conduct.secrets)
            self._journal.append(row)
            last_exchange = flight.exchange
            if not await self._backs_off(flight, row):
                break
            reading = Reading(keeps_answer=self._conduct.keeps_answers)
            name = f"{flight.seq}-{flight.attempt + 1}"
            flight.again(self._exchange(flight.request, reading, flight.seq, name), reading)
            del self._flights[last_exchange]
            self._release(flight)
        self._deadlines.drop(flight)
        del self._flights[last_exchange]
        if self._turns is not None and flight.turn is not None:
            self._turns.end(flight.turn)
        if not self._flights and self._all_home is not None:
            self._all_home.set()
        self.outcomes[row.outcome] += 1
        self.latest.append(row)

    async def _attempt(self, flight: Flight) -> None:
        exchange = flight.exchange
        has_turn, admitted_ns = True, flight.fired_ns
        if self._turns is not None and flight.turn is not None and not flight.turn.has_come:
            has_turn = await self._waits(exchange, self._turns.take(flight.turn))
            admitted_ns = self._pacer.now()
        has_slot = has_turn
        if has_turn and self._slots is not None and not self._slots.take_now():
            has_slot = await self._waits(exchange, self._slots.take())
            admitted_ns = self._pacer.now()
        if has_slot and not self._gave_up and exchange.ending is None:
            flight.admitted_ns = admitted_ns
            await self._performer.perform(exchange)
        if has_slot and self._slots is not None:
            self._slots.give()
        if self._conduct.deadline_from == "sent":
            self._deadlines.drop(flight)
        self._lingering.drop(flight)

    async def _waits(self, exchange: Exchange, to_go: Awaitable[bool]) -> bool:
        may_go = False
        with trio.CancelScope() as exchange.scope:  # cancelled by a deadline that counts from due
            may_go = await to_go
        exchange.scope = None
        return may_go

    async def _backs_off(self, flight: Flight, row: Row) -> bool:
        """Wait as the rules of retries say; False when there is no further attempt."""
        conduct = self._conduct
        wait_s = conduct.retries.wait_s(row, self._dice)
        if wait_s is None:
            return False
        if conduct.deadline_from == "due":
            since_ns = row.fired_ns if row.due_ns is None else row.due_ns
            if self._pacer.now() + wait_s * SECOND_NS >= (since_ns or 0) + conduct.deadline_ns:
                return False
        with trio.move_on_after(wait_s):
            await self._no_more_retries.wait()
        return not self._no_more_retries.is_set()

    def sent(self, exchange: Exchange) -> None:
        flight = self._flights[exchange]
        assert exchange.sent_ns is not None
        self._journal.append(Sent(flight.seq, flight.place, flight.attempt, exchange.sent_ns))
        if self._conduct.deadline_from == "sent":
            self._deadlines.add(flight, exchange.sent_ns)
        self.submitted += not exchange.resent and flight.attempt == 1

    def lingers(self, exchange: Exchange) -> None:
        flight = self._flights[exchange]
        terminal_ns = flight.reading.terminal_ns
        self._lingering.add(flight, self._pacer.now() if terminal_ns is None else terminal_ns)

    # -- ending --------------------------------------------------------------

    async def _drain(self) -> None:
        """Wait for what is in flight; by default as long as the deadline of the last one could let it."""
        drain_ns = self._conduct.drain_ns
        if self._flights:
            self._all_home = trio.Event()
            with trio.move_on_after((self._conduct.deadline_ns if drain_ns is None else drain_ns) / SECOND_NS):
                await self._all_home.wait()
        self._admit_no_more()  # who is in flight has a deadline of its own
        if drain_ns is not None:
            self._give_up("drain")

    def _give_up(self, reason: str) -> None:
        self._gave_up = True
        self._admit_no_more()
        for flight in list(self._flights.values()):
            if flight.admitted_ns is not None:
                self._end(flight, Ending("abandoned", reason))

    def _admit_no_more(self) -> None:
        """Send away who still waits: for a slot, for a turn, to be tried again."""
        self._no_more_retries.set()
        for waiting in (self._slots, self._turns):
            if waiting is not None:
                waiting.close()

    def _end(self, flight: Flight, ending: Ending) -> None:
        flight.exchange.abandon(ending, self._pacer.now())
