"""`loadgen probe`: one request, one JSON object."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from loadgen.cli import options as o

if TYPE_CHECKING:
    from loadgen.drive.single import Observation

_QUESTION = "In two or three sentences: why do people queue?"
_TOKENS = 128


def probe(
    target: Annotated[str, typer.Argument(help="An origin, or a full endpoint URL.", metavar="TARGET")],
    model: Annotated[str, typer.Argument(help="Model name.", metavar="MODEL")],
    prompt: o.PromptText = _QUESTION,
    api: o.Api = "openai-chat",
    max_tokens: o.MaxTokens = _TOKENS,
    set_: o.Set = None,
    deadline: o.Deadline = "60s",
    connect_timeout: o.ConnectTimeout = "10s",
    header: o.Header = None,
    api_key_env: o.ApiKeyEnv = "LLM_API_KEY",
    cacert: o.CaCert = None,
    cert: o.Cert = None,
    key: o.Key = None,
    insecure: o.Insecure = False,
    http2: o.Http2 = False,
    proxy: o.Proxy = None,
    finish: o.Finish = None,
    reject_status: o.RejectStatus = "429,503",
    accept_missing_end_marker: o.AcceptMissingEndMarker = False,
) -> None:
    """Ask one short question, at temperature 0, and print what became of it as JSON; exit 0 whatever that was.

    Seconds count from the submission, before connecting. The answer's text is not kept.
    """
    options = {name.rstrip("_"): value for name, value in locals().items()}
    import msgspec
    import trio

    from loadgen.cli.ordering import duration_ns, headers_of, keys_of, route_of, rules_of
    from loadgen.cli.planning import What, requests_of
    from loadgen.drive.single import observe
    from loadgen.plan.recordings.edits import Edits
    from loadgen.plan.render import render

    options |= {"recording": None, "prompts": None, "usage": True, "header": header or [], "set": set_ or []}
    route = route_of(options)
    what = What(**{name: options[name] for name in What.__dataclass_fields__ if name in options})
    asked = Edits(temperature=0).apply(requests_of(what)[0])
    keys, sign = keys_of(options, [asked])
    request = render(
        asked,
        place=0,
        authority=route.target.authority,
        path=route.target.path,
        headers=headers_of(options),
        keys=keys,
    )
    seen = trio.run(
        lambda: observe(
            route,
            request,
            deadline_ns=duration_ns(options, "deadline"),
            rules=rules_of(options),
            sign=sign,
            secrets=keys.secrets,
        )
    )
    typer.echo(msgspec.json.format(msgspec.json.encode(_told(seen)), indent=2).decode())


def _told(seen: "Observation") -> dict[str, Any]:
    from loadgen.results.answer import answer_texts

    row = seen.row
    texts = answer_texts(seen.content_type, seen.body)

    def since(moment_ns: int | None) -> float | None:
        return None if moment_ns is None or row.fired_ns is None else (moment_ns - row.fired_ns) / 1e9

    return {
        "outcome": row.outcome,
        "finish_reason": row.finish_reason,
        "first_text_seconds": since(row.first_text_ns),
        "completion_seconds": since(row.terminal_ns) if row.outcome == "completed" else None,
        "observation_seconds": since(row.terminal_ns or row.end_ns),
        "text_events": len(texts),
        "output_characters": sum(map(len, texts)),
        "format": row.format,
        "ttft_seconds": since(row.first_output_ns),
        "detail": row.detail,
        "status": row.status,
    }
