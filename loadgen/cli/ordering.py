"""From a command's options to the order of one run: everything checked, nothing sent."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from loadgen.cli.judging import Judging
from loadgen.cli.planning import What, When, plan_of
from loadgen.cli.values import header as parse_header
from loadgen.cli.values import pair, seconds
from loadgen.drive.driver import Conduct
from loadgen.drive.order import Order
from loadgen.drive.retries import Retries
from loadgen.drive.scrape import Scraping
from loadgen.errors import UsageError
from loadgen.net.route import Route
from loadgen.net.target import parse_target
from loadgen.net.tls import Trust
from loadgen.plan.recordings.apis import api_of_path
from loadgen.plan.recordings.ours import RecordedRequest
from loadgen.plan.render import Keys, Sign
from loadgen.plan.schedule import SECOND_NS
from loadgen.results.checks import parse_check
from loadgen.results.outcome import NATURAL, Rules
from loadgen.results.secrets import masked_login
from loadgen.wire.secrets import MASK, masked_header, masked_path

T = TypeVar("T")

_DEFAULT_KEY = "LLM_API_KEY"


def judging_of(options: Mapping[str, Any]) -> Judging:
    """Return what a run with these options is held against."""
    return _picked(Judging, options)


def order_of(options: Mapping[str, Any]) -> Order:
    """Return the order that a command's options make, by their names; raises UsageError."""
    if options["target"] is None:
        raise UsageError("no TARGET given", hint="as in loadgen run http://127.0.0.1:8000")
    _refuse_masked(options)
    route, headers = route_of(options), headers_of(options)
    plan = plan_of(_picked(What, options), _picked(When, options))
    requests, schedule = plan.requests, plan.schedule
    judging_of(options).check(
        {request.klass for request in requests if request.klass is not None},
        has_recorded=any(request.response is not None for request in requests),
    )
    for check in options["check"]:
        parse_check(check)
    if options["keep_sessions"] and all(request.session is None for request in requests):
        raise UsageError("--keep-sessions: no request is of a session", hint="recordings name it with `session`")
    keys, sign = keys_of(options, requests)
    folder = options["out"] or _default_folder(options["label"])
    conduct = Conduct(
        run=_slug(folder.resolve().name),
        deadline_ns=duration_ns(options, "deadline"),
        deadline_from=options["deadline_from"],
        drain_ns=None if options["drain"] is None else round(seconds(options["drain"], option="--drain") * SECOND_NS),
        max_concurrency=options["max_concurrency"],
        keep_sessions=options["keep_sessions"],
        retries=Retries(most=options["retries"], cap_s=duration_ns(options, "retry_cap") / SECOND_NS),
        seed=options["seed"],
        sends_request_id=options["request_id"],
        rules=rules_of(options),
        sign=sign,
        nonces=plan.nonces,
        keeps_answers=bool(options["check"]) or options["keep_bodies"],
        secrets=keys.secrets,
    )
    if conduct.deadline_from not in ("sent", "due"):
        raise UsageError(f"--deadline-from {conduct.deadline_from!r} is not known", hint="there are sent, due")
    return Order(
        route=route,
        requests=requests,
        schedule=schedule,
        conduct=conduct,
        out=folder,
        headers=headers,
        keys=keys,
        config=stored(options),
        label=options["label"],
        scraping=scraping_of(options),
        keeps_bodies=options["keep_bodies"],
        made_up=plan.made_up,
    )


def route_of(options: Mapping[str, Any]) -> Route:
    """Return the way to the target; raises UsageError."""
    return Route(
        target=parse_target(options["target"]),
        connect_timeout_s=duration_ns(options, "connect_timeout") / SECOND_NS,
        trust=_picked(Trust, options),
        http2=options["http2"],
        proxy=options["proxy"],
    )


def scraping_of(options: Mapping[str, Any]) -> Scraping:
    """Return what is to be scraped, over plain HTTP/1.1 and with the target's trust; raises UsageError."""
    every_ns = duration_ns(options, "metrics_every")
    routes = [
        Route(target=parse_target(url), trust=_picked(Trust, options)) for url in dict.fromkeys(options["metrics_url"])
    ]
    for route in routes:
        if route.target.path is None:
            raise UsageError(f"--metrics-url {route.target}: it names no page", hint=f"as in {route.target}/metrics")
    return Scraping(routes=routes, every_ns=every_ns)


def headers_of(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers to be sent beside the recorded ones; raises UsageError."""
    return dict(parse_header(text) for text in options["header"])


def rules_of(options: Mapping[str, Any]) -> Rules:
    """Return what counts as what; raises UsageError."""
    return Rules(
        natural=frozenset(options["finish"].split(",")) if options["finish"] else NATURAL,
        reject_status=_statuses(options["reject_status"]),
        accept_missing_end_marker=options["accept_missing_end_marker"],
    )


def _picked(kind: type[T], options: Mapping[str, Any]) -> T:
    """Make a dataclass of the options that its fields name."""
    return kind(**{field.name: options[field.name] for field in fields(kind)})  # type: ignore[arg-type]


def stored(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options as `run.json` keeps them and `--config` takes them again; no secrets."""
    config = {name: _plain(value) for name, value in options.items() if name not in ("out", "junit")}
    config["target"] = masked_path(options["target"])
    config["header"] = [f"{name}: {masked_header(name, value)}" for name, value in headers_of(options).items()]
    config["metrics_url"] = [masked_path(url) for url in options["metrics_url"]]
    config["server"] = dict(pair(text, option="--server") for text in options["server"])
    if options["proxy"]:
        config["proxy"] = masked_login(options["proxy"])
    return config


def _refuse_masked(options: Mapping[str, Any]) -> None:
    """A repeated run must not send a mask where the first one sent a secret."""
    for name in ("target", "proxy", "header", "metrics_url"):
        values = options[name] if isinstance(options[name], list) else [options[name]]
        if any(value is not None and MASK in value for value in values):
            # Options of the command line replace a configuration's, a list as a whole.
            again = "give every --header" if name == "header" else "give it"
            raise UsageError(
                f"{name} holds a secret that was not stored with the run", hint=f"{again} on the command line again"
            )


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else value


def duration_ns(options: Mapping[str, Any], name: str) -> int:
    """Return a duration option in ns; raises UsageError, also for 0."""
    option = f"--{name.replace('_', '-')}"
    value = seconds(options[name], option=option)
    if value <= 0:
        raise UsageError(f"{option} is 0", hint="give a time above 0")
    return round(value * SECOND_NS)


def keys_of(options: Mapping[str, Any], requests: Sequence[RecordedRequest]) -> tuple[Keys, Sign | None]:
    """Return the environment's keys, and what signs requests to Bedrock where it holds no token; raises UsageError."""
    variable = options["api_key_env"]
    api_key = _key(variable)
    if not any((api := api_of_path(request.path)) is not None and api.signed for request in requests):
        return Keys(api=api_key), None
    from loadgen.plan.signing import BEARER, signer_for

    # A key that is there for others is not shown to AWS.
    token = _key(BEARER) or (None if variable == _DEFAULT_KEY else api_key)
    signer = None if token else signer_for(parse_target(options["target"]).origin)
    return Keys(api=api_key, bedrock=token), signer.headers_for if signer else None


def _key(variable: str) -> str | None:
    """Read the key of an environment variable; raises UsageError, which does not repeat it."""
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"the key in {variable} cannot stand in a header", hint="it holds a line break or worse")
    return key or None


def _statuses(text: str) -> frozenset[int]:
    try:
        return frozenset(int(status) for status in text.split(","))
    except ValueError:
        raise UsageError(f"--reject-status {text!r} is not a list of statuses", hint="as in 429,503,529") from None


def _slug(name: str) -> str:
    """A run's name as it can stand in a header."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name) or "run"


def _default_folder(label: str | None) -> Path:
    return Path("results") / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{_slug(label or 'run')}"
