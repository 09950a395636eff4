"""The metrics of one request: names, formulas and populations of METRICS section 2, as expressions over its moments."""

from dataclasses import dataclass

import polars as pl

FINISHED = pl.col("finished").fill_null(value=False)
COMPLETED = pl.col("outcome") == "completed"
_OPEN = pl.col("due_ns").is_not_null()
_FIRST = pl.col("attempt") == 1
_NEW = pl.col("connection_reused").not_()


def _ms(start: str, end: str, where: pl.Expr | None = None) -> pl.Expr:
    span = (pl.col(end) - pl.col(start)) / 1e6
    return span if where is None else pl.when(where).then(span)


_WAIT_MS = _ms("fired_ns", "admitted_ns")
_CONNECT_MS = _ms("admitted_ns", "connected_ns", _NEW & pl.col("resent").not_())
# A resend is a dead connection's doing, so the generator's own lateness ends with the first writing.
_GENERATOR_LATENESS_MS = _ms("due_ns", "first_sent_ns") - _WAIT_MS - _CONNECT_MS.fill_null(0.0)
_ITL_MS = pl.when(FINISHED & (pl.col("output_tokens") >= 2)).then(
    (pl.col("last_output_ns") - pl.col("first_output_ns")) / 1e6 / (pl.col("output_tokens") - 1)
)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: the column it fills, null where it does not exist, and what its numbers are."""

    name: str
    expression: pl.Expr
    population: str
    unit: str = "ms"
    llm: bool = True  # what a stream shows; else how it was sent
    high_is_good: bool = False

    @property
    def column(self) -> str:
        return self.name if self.unit != "ms" else f"{self.name}_ms"


_OUTPUT, _TEXT = "streams that produced output", "streams that produced answer text"
_FINISHED, _COMPLETED, _SUBMITTED = "finished streams", "completed requests", "everything submitted"

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("ttft", _ms("sent_ns", "first_output_ns"), _OUTPUT),
        Metric("first_text", _ms("sent_ns", "first_text_ns"), _TEXT),
        Metric("e2e", _ms("sent_ns", "last_output_ns", FINISHED), _FINISHED),
        Metric("completion", _ms("sent_ns", "terminal_ns", COMPLETED), _COMPLETED),
        Metric("itl", _ITL_MS, _FINISHED),
        Metric(
            "user_tokens_per_sec",
            pl.when(_ITL_MS > 0).then(1000.0 / _ITL_MS),
            _FINISHED,
            unit="tokens/s",
            high_is_good=True,
        ),
        Metric("ttft_from_due", _ms("due_ns", "first_output_ns", _OPEN), _OUTPUT),
        Metric("first_text_from_due", _ms("due_ns", "first_text_ns", _OPEN), _TEXT),
        Metric("e2e_from_due", _ms("due_ns", "last_output_ns", _OPEN & FINISHED), _FINISHED),
        Metric("completion_from_due", _ms("due_ns", "terminal_ns", _OPEN & COMPLETED), _COMPLETED),
        Metric("lateness", _ms("due_ns", "sent_ns", _OPEN), _SUBMITTED, llm=False),
        # A retry's moment is not the schedule's: its lateness is the server's doing.
        Metric("generator_lateness", pl.when(_OPEN & _FIRST).then(_GENERATOR_LATENESS_MS), _SUBMITTED, llm=False),
        Metric("connect", _CONNECT_MS, "new connections", llm=False),
    )
}
