"""Who writes: takes the notes of exchanges that have ended, and makes a line of each between other work."""

from collections.abc import Callable

import trio

from loadgen.plan.recordings.ours import encode_line
from loadgen.servers.recorder.book import Book
from loadgen.servers.recorder.note import Note
from loadgen.servers.recorder.redaction import Redaction
from loadgen.servers.recorder.tally import Tally
from loadgen.servers.recorder.transcript import Transcript

# While answers go past, a rest is taken after each bite of work; unless so many notes wait that memory is at stake.
_REST_S = 0.001
_BACKLOG = 1_000


class Clerk:
    """Writes notes to the book in the order in which they are given.

    `say` hears why it no longer can; `passed` tells how many reads went past so far, by which it knows a quiet moment.
    """

    def __init__(
        self,
        book: Book,
        redaction: Redaction,
        tally: Tally,
        *,
        prefix: str,
        say: Callable[[str], None],
        passed: Callable[[], int],
    ) -> None:
        self._book = book
        self._redaction = redaction
        self._tally = tally
        self._prefix = prefix.encode()
        self._say = say
        self._passed = passed
        self._passed_before = 0
        self._before_s = book.until_s
        self._first_ns: int | None = None
        self._give, self._take = trio.open_memory_channel[Note](float("inf"))

    def begins(self, at_ns: int) -> None:
        """Take when a request arrived that is to be recorded: the first one's is the recording's beginning."""
        if self._first_ns is None:
            self._first_ns = at_ns

    def give(self, note: Note) -> None:
        """Take the note of an exchange that has ended."""
        if note.is_too_long:
            self._tally.too_long += 1
        else:
            self._give.send_nowait(note)

    def close(self) -> None:
        """Let `run` return once all that was given is written."""
        self._give.close()

    async def run(self) -> None:
        """Write until closed. Between bites of it others have their turn: they have clients to serve."""
        async for note in self._take:
            transcript = self._transcript(note)
            for _ in transcript.work():
                await self._give_way()
            self._write(note, transcript)
            await self._give_way()

    async def _give_way(self) -> None:
        passed = self._passed()
        is_quiet, self._passed_before = passed == self._passed_before, passed
        if is_quiet or self._take.statistics().current_buffer_used > _BACKLOG:
            await trio.lowlevel.checkpoint()
        else:
            await trio.sleep(_REST_S)

    def catch_up(self) -> None:
        """Write now all that is left, when nobody runs any more."""
        while True:
            try:
                note = self._take.receive_nowait()
            except (trio.WouldBlock, trio.EndOfChannel):
                return
            transcript = self._transcript(note)
            for _ in transcript.work():
                pass
            self._write(note, transcript)

    def _transcript(self, note: Note) -> Transcript:
        return Transcript(note, self._redaction, prefix=self._prefix)

    def _write(self, note: Note, transcript: Transcript) -> None:
        book, tally = self._book, self._tally
        if book.failure is not None:
            return
        # A request may be read a moment after one that arrived later: none arrived before the first.
        since_s = max(note.request.arrived_ns - (self._first_ns or 0), 0) / 1e9
        request, format = transcript.recorded(id=f"rec-{book.lines + 1}", at_s=round(self._before_s + since_s, 6))
        if book.write(encode_line(request)):
            tally.recorded += 1
            tally.formats[format] += 1
        else:
            self._say(f"{book.path}: {book.failure}: nothing more is recorded, and the proxying goes on")
