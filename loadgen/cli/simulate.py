"""`loadgen simulate`: the simulated model server."""

from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from loadgen.errors import UsageError

if TYPE_CHECKING:
    from loadgen.servers.simulated import Model, Simulator

_FAULTS = "Faults, in percent of requests"


def simulate(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 picks a free one.")] = 8000,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    ttft: Annotated[str, typer.Option(help="From holding a slot to the first token.")] = "200ms",
    prefill: Annotated[str, typer.Option(help="Added to it for each input token.")] = "0ms",
    itl: Annotated[str, typer.Option(help="From token to token, alone in the batch.")] = "20ms",
    slowdown: Annotated[float, typer.Option(help="itl grows by this share per other request in the batch.")] = 0.0,
    jitter: Annotated[float, typer.Option(help="Sigma of a lognormal factor on each itl.")] = 0.0,
    tokens: Annotated[int, typer.Option(help="Length of an answer that no cap cuts short.")] = 100,
    tokens_spread: Annotated[float, typer.Option(help="0 to 1: lengths vary by this share.")] = 0.0,
    reasoning: Annotated[int, typer.Option(help="Reasoning tokens that come before these.")] = 0,
    tools_pct: Annotated[
        float, typer.Option(help="Answers, in percent, that end in a tool call: its arguments are their latter half.")
    ] = 0.0,
    slots: Annotated[int, typer.Option(help="Requests served at once; 0 is no limit.")] = 16,
    queue: Annotated[int, typer.Option(help="Requests that may wait; one more gets 503.")] = 64,
    seed: Annotated[int, typer.Option(help="Seed of lengths, texts and faults.")] = 1,
    log: Annotated[
        Path | None, typer.Option(help="Add a JSON line for each request: its moments by this server's clock.")
    ] = None,
    reject_pct: Annotated[float, typer.Option(help="Answered 429 or 503.", rich_help_panel=_FAULTS)] = 0.0,
    cut_pct: Annotated[float, typer.Option(help="Cut in mid answer.", rich_help_panel=_FAULTS)] = 0.0,
    stall_pct: Annotated[float, typer.Option(help="Silent from mid answer on.", rich_help_panel=_FAULTS)] = 0.0,
    error_pct: Annotated[float, typer.Option(help="An error in the stream.", rich_help_panel=_FAULTS)] = 0.0,
) -> None:
    """Serve a simulated model: known latency, slots, queue and faults, the same in every format.

    OpenAI's at /v1/chat/completions, /v1/completions and /v1/responses; Anthropic's at /v1/messages; Ollama's at
    /api/chat and /api/generate; Bedrock's at /model/ID/converse-stream and /model/ID/invoke-with-response-stream.
    /v1/models lists its model. /feed and /feed.ndjson are streams that are no model's, of ?events=20.

    A request's header x-sim: key=value,... says what becomes of it: ttft_ms, itl_ms, tokens, reasoning, tools=1,
    fault=reject, cut, reset, stall or error. Stops at Ctrl-C, then says how evenly it kept its own time.
    """
    from loadgen.cli.values import seconds
    from loadgen.servers.simulated import Model

    def ns(option: str, text: str) -> int:
        return round(seconds(text, option=option) * 1e9)

    try:
        model = Model(
            ttft_ns=ns("--ttft", ttft),
            prefill_ns_per_token=ns("--prefill", prefill),
            itl_ns=ns("--itl", itl),
            slowdown=slowdown,
            jitter=jitter,
            tokens=tokens,
            tokens_spread=tokens_spread,
            reasoning=reasoning,
            tools_pct=tools_pct,
            slots=slots,
            queue=queue,
            seed=seed,
            reject_pct=reject_pct,
            cut_pct=cut_pct,
            stall_pct=stall_pct,
            error_pct=error_pct,
        )
    except ValueError as error:
        raise UsageError(str(error), hint="see `loadgen simulate --help`") from None
    try:
        with nullcontext() if log is None else log.open("ab", buffering=0) as file:
            _serve(model, host, port, file)
    except OSError as error:
        raise UsageError(f"{log}: {error.strerror}", hint="give a --log that can be written") from None


def _serve(model: "Model", host: str, port: int, log: BinaryIO | None) -> None:
    import signal

    import trio

    from loadgen.net.limits import raise_descriptor_limit
    from loadgen.servers.simulated import LedgerFile, serve

    raise_descriptor_limit()
    simulator: Simulator | None = None
    ledger = None if log is None else LedgerFile(log)

    async def until_stopped() -> None:
        nonlocal simulator
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as stops:
            async with trio.open_nursery() as nursery:
                simulator = await nursery.start(
                    lambda task_status: serve(model, host=host, port=port, ledger=ledger, task_status=task_status)
                )
                typer.echo(f"simulated model server at {simulator.url}  (Ctrl-C stops it)")
                await anext(aiter(stops))
                nursery.cancel_scope.cancel()

    refusal: str | None = None
    try:
        trio.run(until_stopped)
    except* OSError as group:
        refusal = getattr(group.exceptions[0], "strerror", None) or str(group.exceptions[0])
    if refusal is not None:
        raise UsageError(f"{host}:{port}: {refusal}", hint="give a free --port, or 0")
    if simulator is not None:
        typer.echo(_farewell(simulator), err=True)


def _farewell(simulator: "Simulator") -> str:
    """What it served, and how evenly: a simulated server that cannot keep its own time is no measure of anything."""
    counts = ", ".join(f"{name} {count}" for name, count in asdict(simulator.tally).items() if count)
    pacing = simulator.pacing()
    if pacing is None:
        return f"served: {counts or 'nothing'}"
    late = f"p50 {pacing.p50_ms:.3f}, p99 {pacing.p99_ms:.3f}, max {pacing.max_ms:.1f} ms late"
    return f"served: {counts}; {pacing.count} frames, {late}"
