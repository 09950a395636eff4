"""One request in flight: the schedule's side and the network's side of it, and the row they make."""

import time
from email.utils import parsedate_to_datetime

from loadgen.drive.turns import Turn
from loadgen.net.exchange import Exchange
from loadgen.plan.render import RenderedRequest
from loadgen.results.outcome import Outcome, Rules, decide
from loadgen.results.reading import Reading
from loadgen.results.record import Row
from loadgen.wire.ending import Ending


class Flight:
    """A scheduled request from its release to its last row; `exchange` and `reading` are the present attempt's."""

    __slots__ = (
        "admitted_ns",
        "attempt",
        "due_ns",
        "exchange",
        "fired_ns",
        "is_warmup",
        "place",
        "reading",
        "request",
        "seq",
        "turn",
    )

    def __init__(
        self,
        *,
        seq: int,
        place: int,
        due_ns: int | None,
        is_warmup: bool,
        request: RenderedRequest,
        exchange: Exchange,
        reading: Reading,
    ) -> None:
        self.seq = seq
        self.place = place
        self.due_ns = due_ns
        self.is_warmup = is_warmup
        self.request = request
        self.exchange = exchange
        self.reading = reading
        self.attempt = 1
        self.fired_ns: int | None = None
        self.admitted_ns: int | None = None
        self.turn: Turn | None = None  # where sessions keep their order

    def again(self, exchange: Exchange, reading: Reading) -> None:
        """Begin the next attempt."""
        self.attempt += 1
        self.exchange, self.reading = exchange, reading
        self.fired_ns = self.admitted_ns = None

    def row(self, rules: Rules, *, secrets: tuple[str, ...] = ()) -> Row:
        """Return what became of it; `secrets` are blotted out where a server echoed them."""
        exchange, reading = self.exchange, self.reading
        ending = exchange.ending
        if ending is None:  # it never reached the network
            has_turn = self.turn is None or self.turn.has_come
            return self._row("unsent", Ending("abandoned", "no_slot" if has_turn else "no_turn"))
        reading.close(
            exchange.end_ns or 0,
            clean=ending.how == "complete",
            accept_missing_end_marker=rules.accept_missing_end_marker,
        )
        verdict = decide(
            reading,
            ending,
            rules=rules,
            asked_for_stream=self.request.asked_for_stream,
            fixed_length=self.request.fixed_length,
        )
        if exchange.sent_ns is None and verdict.outcome == "unfinished":
            return self._row("unsent", ending)
        return self._row(
            verdict.outcome,
            Ending(ending.how, _blotted(verdict.detail, secrets)),
            finished=verdict.finished,
            finish_reason=_blotted(verdict.finish_reason, secrets),
            secrets=secrets,
        )

    def _row(
        self,
        outcome: Outcome,
        ending: Ending,
        *,
        finished: bool | None = False,
        finish_reason: str | None = None,
        secrets: tuple[str, ...] = (),
    ) -> Row:
        exchange, reading = self.exchange, self.reading
        usage = reading.usage if reading.tokens_reported else None
        reads_tokens = reading.is_stream and reading.format != "other"
        return Row(
            seq=self.seq,
            place=self.place,
            attempt=self.attempt,
            is_warmup=self.is_warmup,
            outcome=outcome,
            detail=ending.detail,
            status=reading.status,
            format=reading.format,
            finished=finished,
            finish_reason=finish_reason,
            retry_after_s=_seconds(reading.retry_after),
            due_ns=self.due_ns,
            fired_ns=self.fired_ns,
            admitted_ns=self.admitted_ns,
            connected_ns=exchange.connected_ns,
            sent_ns=exchange.sent_ns,
            first_sent_ns=exchange.first_sent_ns,
            headers_ns=reading.headers_ns,
            first_frame_ns=reading.first_frame_ns,
            first_output_ns=reading.first_output_ns,
            first_text_ns=reading.first_text_ns,
            last_output_ns=reading.last_output_ns,
            terminal_ns=reading.terminal_ns,
            end_ns=exchange.end_ns,
            input_tokens=usage.input_tokens if usage else None,
            cached_tokens=usage.cached_tokens if usage else None,
            output_tokens=usage.output_tokens if usage else reading.output_frames if reads_tokens else None,
            reasoning_tokens=usage.reasoning_tokens if usage else None,
            tokens_approximate=reads_tokens and usage is None,
            frames=reading.frames,
            output_frames=reading.output_frames,
            output_chars=reading.output_chars,
            response_bytes=reading.response_bytes,
            reads=exchange.reads,
            stamp_uncertainty_ns=reading.uncertainty_ns if exchange.reads and exchange.stamps != "chunk" else None,
            connection_reused=exchange.reused if exchange.connected_ns is not None else None,
            resent=exchange.resent,
            stamp_source=exchange.stamps if exchange.reads else None,
            transport=exchange.transport,
            frame_at_ns=reading.frame_at_ns.tobytes(),
            frame_bytes=reading.frame_bytes.tobytes(),
            frame_kinds=bytes(reading.frame_kinds),
            answer=_blotted(reading.said("text"), secrets),
            arguments=_blotted(reading.said("tool"), secrets),
        )


def _blotted(word: str | None, secrets: tuple[str, ...]) -> str | None:
    for secret in secrets:
        word = word and word.replace(secret, "***")
    return word


def _seconds(retry_after: str | None) -> float | None:
    """Return a Retry-After in seconds from now, whether it came as seconds or as a date."""
    try:
        seconds = float(retry_after or "")
    except ValueError:
        try:
            seconds = max(parsedate_to_datetime(retry_after or "").timestamp() - time.time(), 0.0)
        except ValueError:
            return None
    return seconds if 0 <= seconds < 1e9 else None
