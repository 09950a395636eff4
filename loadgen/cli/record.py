"""`loadgen record`: a recording reverse proxy."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loadgen.cli import options as o
from loadgen.errors import EXIT_SIGINT, EXIT_SIGTERM, LoadgenError, UsageError

if TYPE_CHECKING:
    from loadgen.servers.recorder import Book, Habits, Recorder, Spread

_KEEP = "What is recorded"


def record(
    upstream: Annotated[
        str, typer.Option(help="Where requests go on to: an origin, and perhaps a path before theirs.")
    ],
    out: Annotated[Path, typer.Option(help="Recording file to write.", rich_help_panel=_KEEP)],
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address to listen on; port 0 picks one.")] = (
        "127.0.0.1:9000"
    ),
    append: Annotated[bool, typer.Option("--append", help="Add to a recording.", rich_help_panel=_KEEP)] = False,
    sample: Annotated[float, typer.Option(min=0, max=1, help="Share of requests.", rich_help_panel=_KEEP)] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the sample's draw.", rich_help_panel=_KEEP)] = 0,
    max_requests: Annotated[int | None, typer.Option(min=1, help="Then only pass on.", rich_help_panel=_KEEP)] = None,
    redact: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A header or query parameter to leave out, or body:$.user.email to mask; repeatable.",
            rich_help_panel=_KEEP,
        ),
    ] = None,
    connect_timeout: o.ConnectTimeout = "10s",
    cacert: o.CaCert = None,
    cert: o.Cert = None,
    key: o.Key = None,
    insecure: o.Insecure = False,
    http2: o.Http2 = False,
    proxy: o.Proxy = None,
) -> None:
    """Pass requests on to an upstream, and record them and each frame of their answers with its time.

    Keys and cookies are never written. Ctrl-C stops listening and waits for what is open, a second one cuts it off.
    """
    options = locals() | {"target": upstream}
    from loadgen.cli.ordering import route_of
    from loadgen.servers.recorder import Habits, open_book, parse_redactions

    host, port = _address(listen)
    redaction = parse_redactions(redact or [])
    habits = Habits(sample=sample, seed=seed, max_requests=max_requests, redaction=redaction)
    route = route_of(options)
    if "?" in (route.target.path or ""):
        raise UsageError("--upstream has a query", hint="give an origin, and perhaps a path")
    book = open_book(out, append=append)
    try:
        raise typer.Exit(_record(route, book, habits, host, port))
    finally:
        book.close()
        if not (book.lines or append):  # nothing was recorded, and the next try is not to find it in its way
            out.unlink(missing_ok=True)


def _record(route: Any, book: "Book", habits: "Habits", host: str, port: int) -> int:
    import gc
    import signal

    import trio

    from loadgen.net.limits import raise_descriptor_limit
    from loadgen.net.network import make_ready
    from loadgen.net.reach import reach
    from loadgen.servers import recorder

    raise_descriptor_limit()
    make_ready(route)
    running: Recorder | None = None
    codes: list[int] = []

    async def until_stopped() -> None:
        nonlocal running
        address = await reach(route)
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with trio.open_nursery() as nursery:
                running = await nursery.start(
                    lambda task_status: _until_over(
                        recorder.record(
                            route, address, book, habits, host=host, port=port, say=_say, task_status=task_status
                        ),
                        nursery,
                    )
                )
                _greet(running, route, book, host)
                gc.freeze()
                async for number in signals:
                    if not codes:
                        _say("stopped listening; open exchanges are waited for, a second signal cuts them off")
                        running.stop()
                    else:
                        running.cut()
                    codes.append(EXIT_SIGINT if number == signal.SIGINT else EXIT_SIGTERM)

    refusal: str | None = None
    try:
        trio.run(until_stopped)
    except* OSError as group:
        refusal = getattr(group.exceptions[0], "strerror", None) or str(group.exceptions[0])
    if refusal is not None:
        raise UsageError(f"{host}:{port}: {refusal}", hint="give a free --listen HOST:PORT, or port 0")
    if running is not None:
        typer.echo("\n".join(_farewell(running, book)), err=True)
    if book.failure is not None:
        raise LoadgenError(f"{book.path}: {book.failure}", hint="what was recorded before that is in the file")
    return codes[0] if codes else 0


async def _until_over(recording: Any, nursery: Any) -> None:
    await recording
    nursery.cancel_scope.cancel()


def _say(words: str) -> None:
    typer.echo(f"note: {words}", err=True)


def _greet(recorder: "Recorder", route: Any, book: "Book", host: str) -> None:
    typer.echo(f"recording at {recorder.url} -> {route.target} into {book.path}  (Ctrl-C stops it)")
    if book.torn_bytes:
        _say(f"{book.path}: its last line was torn by a crash: {book.torn_bytes} bytes were cut off")
    if book.lines:
        _say(f"{book.path}: added to its {book.lines} requests; times go on after their last at {book.until_s:g} s")
    if not _is_loopback(host):
        _say("other machines can reach it, and whoever does uses the upstream as its own clients do")


def _is_loopback(host: str) -> bool:
    return host == "localhost" or host == "::1" or host.startswith("127.")


def _address(text: str) -> tuple[str, int]:
    """Read --listen; an address without a host is loopback. Raises UsageError.

    >>> _address("0.0.0.0:9000"), _address(":9000"), _address("[::1]:0")
    (('0.0.0.0', 9000), ('127.0.0.1', 9000), ('::1', 0))
    """
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]:|([^:\[\]/\s]*):)?(\d{1,5})", text.strip())
    if found is None or int(found[3]) > 65535:
        raise UsageError(f"--listen {text!r} is not HOST:PORT", hint="as in --listen 127.0.0.1:9000")
    return found[1] or found[2] or "127.0.0.1", int(found[3])


def _farewell(recorder: "Recorder", book: "Book") -> list[str]:
    """What was recorded, what was not and why, and what the recorder itself cost."""
    tally = recorder.tally
    formats = ", ".join(f"{name} {count}" for name, count in tally.formats.most_common())
    lines = [f"{tally.requests} requests passed on, {tally.recorded} recorded in {book.path}"]
    if formats:
        lines.append(f"formats  {formats}")
    told = {
        "cut by the client": tally.cut_by_client,
        "cut by the upstream": tally.cut_by_upstream,
        "cut at the end": tally.cut_by_us,
        "without an upstream": tally.unreachable,
        "refused": tally.refused,
        "left out by --sample": tally.left_out,
        "after --max-requests": tally.beyond,
        "too long to be recorded": tally.too_long,
        "reads that waited for their client": tally.waited,
    }
    counts = ", ".join(f"{words} {count}" for words, count in told.items() if count)
    if counts:
        lines.append(f"of them  {counts}")
    lines.append(f"bytes    {tally.bytes_up:,} up, {tally.bytes_down:,} down")
    lines += [
        f"added    {_spread(spread)} to {what}"
        for spread, what in (
            (recorder.delays(), "each read of an answer"),
            (recorder.request_delays(), "each request on an open connection"),
        )
        if spread is not None
    ]
    return lines


def _spread(spread: "Spread") -> str:
    return f"p50 {spread.p50_ms:.3f}, p99 {spread.p99_ms:.3f}, max {spread.max_ms:.3f} ms"
