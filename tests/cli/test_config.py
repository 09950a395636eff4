"""`--config`: every option from TOML or from the run.json of a run to repeat; the command line wins."""

import io
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import loadgen
from typer.main import get_command

from loadgen.cli import app
from loadgen.cli.ordering import order_of
from loadgen.cli.run import options_of
from loadgen.errors import UsageError
from loadgen.report.gates import parse_goals

RUN = get_command(app).commands["run"]  # type: ignore[attr-defined]


def options(*arguments: str | Path) -> dict[str, Any]:
    """What the command makes of its arguments."""
    context = RUN.make_context("run", [*map(str, arguments)])
    return options_of({"context": context, **context.params}) | {"json": context.params["json"]}


def configured(tmp_path: Path, text: str, *arguments: str) -> dict[str, Any]:
    path = tmp_path / "run.toml"
    path.write_text(text)
    return options("--config", path, *arguments)


def refusal_of(tmp_path: Path, text: str) -> tuple[str, str]:
    """The fact and the hint with which a configuration is refused."""
    with pytest.raises(UsageError) as refusal:
        configured(tmp_path, text)
    fact, hint = str(refusal.value).split("\nhint: ")
    return fact, hint


# Each option of `loadgen run`: in TOML, the same on the command line, and another value there.
EVERY: dict[str, tuple[str, list[str], list[str]]] = {
    "target": ('"http://a:1"', ["http://a:1"], ["http://b:2"]),
    "recording": ('"a.jsonl"', ["--recording", "a.jsonl"], ["--recording", "-"]),
    "prompts": ('"a.txt"', ["--prompts", "a.txt"], ["--prompts", "b.txt"]),
    "prompt": ('"why?"', ["--prompt", "why?"], ["--prompt", "how?"]),
    "model": ('"m"', ["--model", "m"], ["--model", "n"]),
    "api": ('"openai-completions"', ["--api", "openai-completions"], ["--api", "openai-chat"]),
    "max_tokens": ("5", ["--max-tokens", "5"], ["--max-tokens", "6"]),
    "set": ("""['a="b"', 'c=1']""", ["--set", 'a="b"', "--set", "c=1"], ["--set", "d=2"]),
    "usage": ("false", ["--no-usage"], ["--usage"]),
    "input_tokens": ('"100..400"', ["--input-tokens", "100..400"], ["--input-tokens", "200"]),
    "output_tokens": ('"50"', ["--output-tokens", "50"], ["--output-tokens", "60"]),
    "prefix_share": ("0.5", ["--prefix-share", "0.5"], ["--prefix-share", "0.25"]),
    "unique_prefix": ("true", ["--unique-prefix"], ["--unique-prefix"]),
    "tokenizer": ('"t.json"', ["--tokenizer", "t.json"], ["--tokenizer", "u.json"]),
    "fix_lengths": ("true", ["--fix-lengths"], ["--fix-lengths"]),
    "rate": ("2.5", ["--rate", "2.5"], ["--rate", "3"]),
    "arrivals": ('"poisson"', ["--arrivals", "poisson"], ["--arrivals", "gamma"]),
    "burstiness": ("0.5", ["--burstiness", "0.5"], ["--burstiness", "2"]),
    "stages": ('["5@30s", "5..50@60s"]', ["--stages", "5@30s,5..50@60s"], ["--stages", "1@1s"]),
    "recorded": ("true", ["--recorded"], ["--recorded"]),
    "speed": ("2", ["--speed", "2"], ["--speed", "3"]),
    "schedule": ('"s.csv"', ["--schedule", "s.csv"], ["--schedule", "t.csv"]),
    "concurrency": ("4", ["--concurrency", "4"], ["--concurrency", "5"]),
    "requests": ("10", ["--requests", "10"], ["--requests", "11"]),
    "duration": ('"30s"', ["--duration", "30s"], ["--duration", "2m"]),
    "seed": ("7", ["--seed", "7"], ["--seed", "0"]),
    "warmup": ('"2s"', ["--warmup", "2s"], ["--warmup", "0s"]),
    "drain": ('"5s"', ["--drain", "5s"], ["--drain", "6s"]),
    "max_concurrency": ("64", ["--max-concurrency", "64"], ["--max-concurrency", "65"]),
    "keep_sessions": ("true", ["--keep-sessions"], ["--keep-sessions"]),
    "deadline": ('"60s"', ["--deadline", "60s"], ["--deadline", "61s"]),
    "deadline_from": ('"due"', ["--deadline-from", "due"], ["--deadline-from", "sent"]),
    "connect_timeout": ('"1s"', ["--connect-timeout", "1s"], ["--connect-timeout", "2s"]),
    "retries": ("3", ["--retries", "3"], ["--retries", "0"]),
    "retry_cap": ('"9s"', ["--retry-cap", "9s"], ["--retry-cap", "8s"]),
    "header": ('["X-A: 1", "X-B: 2"]', ["--header", "X-A: 1", "--header", "X-B: 2"], ["--header", "X-C: 3"]),
    "api_key_env": ('"MY_KEY"', ["--api-key-env", "MY_KEY"], ["--api-key-env", "YOUR_KEY"]),
    "request_id": ("false", ["--no-request-id"], ["--request-id"]),
    "cacert": ('"ca.pem"', ["--cacert", "ca.pem"], ["--cacert", "cb.pem"]),
    "cert": ('"c.pem"', ["--cert", "c.pem"], ["--cert", "d.pem"]),
    "key": ('"k.pem"', ["--key", "k.pem"], ["--key", "l.pem"]),
    "insecure": ("true", ["--insecure"], ["--insecure"]),
    "http2": ("true", ["--http2"], ["--http2"]),
    "proxy": ('"http://p:1"', ["--proxy", "http://p:1"], ["--proxy", "http://q:1"]),
    "slo": ('["ttft<500ms", "itl<30ms"]', ["--slo", "ttft<500ms", "--slo", "itl<30ms"], ["--slo", "e2e<9s"]),
    "finish": ('["stop", "tool_calls"]', ["--finish", "stop,tool_calls"], ["--finish", "stop"]),
    "reject_status": ("[429, 503, 529]", ["--reject-status", "429,503,529"], ["--reject-status", "429"]),
    "accept_missing_end_marker": ("true", ["--accept-missing-end-marker"], ["--accept-missing-end-marker"]),
    "check": ('["json", "min-chars=3"]', ["--check", "json", "--check", "min-chars=3"], ["--check", "json"]),
    "flag_change": ("15.0", ["--flag-change", "15"], ["--flag-change", "20"]),
    "fail_if": ('["llm.ttft-p95 > 8"]', ["--fail-if", "llm.ttft-p95 > 8"], ["--fail-if", "run.offered < 1"]),
    "require_valid": ("false", ["--allow-invalid"], ["--require-valid"]),
    "junit": ('"j.xml"', ["--junit", "j.xml"], ["--junit", "i.xml"]),
    "baseline": ('"results/a"', ["--baseline", "results/a"], ["--baseline", "results/b"]),
    "out": ('"results/new"', ["--out", "results/new"], ["--out", "results/newer"]),
    "label": ('"nightly"', ["--label", "nightly"], ["--label", "daily"]),
    "cache": ('"cold"', ["--cache", "cold"], ["--cache", "warm"]),
    "server": ('["build=1", "gpu=h"]', ["--server", "build=1", "--server", "gpu=h"], ["--server", "build=2"]),
    "metrics_url": ('["http://m:1/x"]', ["--metrics-url", "http://m:1/x"], ["--metrics-url", "http://n:1/x"]),
    "metrics_every": ('"2s"', ["--metrics-every", "2s"], ["--metrics-every", "3s"]),
    "keep_bodies": ("true", ["--keep-bodies"], ["--keep-bodies"]),
    "gpus": ("8", ["--gpus", "8"], ["--gpus", "4"]),
    "json": ("true", ["--json"], ["--json"]),
}


def test_every_option_of_the_command_is_here():
    assert set(EVERY) == {str(parameter.name).rstrip("_") for parameter in RUN.params} - {"config"}


@pytest.mark.parametrize("name", EVERY)
def test_an_option_can_stand_in_toml_with_a_dash_or_an_underscore(tmp_path, name):
    toml, given, _ = EVERY[name]

    expected = options(*given)
    assert expected != options()
    for spelling in {name, name.replace("_", "-")}:
        assert expected == configured(tmp_path, f"{spelling} = {toml}")


@pytest.mark.parametrize("name", EVERY)
def test_the_command_line_wins_over_a_configuration(tmp_path, name):
    toml, _, other = EVERY[name]

    assert options(*other) == configured(tmp_path, f"{name} = {toml}", *other)


def test_all_options_together_are_all_taken(tmp_path):
    everything = "\n".join(f"{name} = {toml}" for name, (toml, *_) in EVERY.items())

    given = [argument for _, arguments, _ in EVERY.values() for argument in arguments]
    assert options(*given) == configured(tmp_path, everything)


def test_an_empty_configuration_changes_nothing(tmp_path):
    assert options() == configured(tmp_path, "")


def test_what_is_not_set_keeps_its_default(tmp_path):
    assert options() | {"rate": 5.0} == configured(tmp_path, "rate = 5")


def test_a_configuration_comes_from_standard_input(monkeypatch):
    monkeypatch.setattr(
        "sys.stdin", io.StringIO('target = "http://a:1"\nrate = 5\n[goals]\nrunOffered = {too_low = 1}')
    )

    made = options("--config", "-")

    assert ("http://a:1", 5.0, {"runOffered": {"too_low": 1}}) == (made["target"], made["rate"], made["goals"])


def test_a_refusal_of_standard_input_names_it(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("rat = 5"))

    with pytest.raises(UsageError, match="-: there is no option 'rat'"):
        options("--config", "-")


# -- lists and tables ----------------------------------------------------------


def test_a_single_word_will_do_for_a_list(tmp_path):
    made = configured(tmp_path, 'slo = "ttft<1s"\nheader = "X-A: 1"\nreject-status = 429\nfinish = "stop"')

    assert (["ttft<1s"], ["X-A: 1"], "429", "stop") == tuple(
        made[name] for name in ("slo", "header", "reject_status", "finish")
    )


def test_facts_about_the_server_can_be_a_table(tmp_path):
    made = configured(tmp_path, '[server]\nbuild = "v1=2"\ngpus = 8\nspec-decode = true\nratio = 0.5\non = 2026-01-02')

    assert ["build=v1=2", "gpus=8", "spec-decode=true", "ratio=0.5", "on=2026-01-02"] == made["server"]


def test_headers_can_be_a_table(tmp_path):
    made = configured(tmp_path, '[header]\nX-Team = "red: 1"\nX-Count = 2')

    assert ["X-Team: red: 1", "X-Count: 2"] == made["header"]


def test_body_fields_can_be_a_table_of_any_json(tmp_path):
    made = configured(
        tmp_path, '[set]\nstop = "\\n"\ntemperature = 0\nlogprobs = true\nbias = [1, 2.5]\nformat = {type = "json"}'
    )

    fields = dict(text.split("=", 1) for text in made["set"])
    assert {"stop": "\n", "temperature": 0, "logprobs": True, "bias": [1, 2.5], "format": {"type": "json"}} == {
        name: json.loads(value) for name, value in fields.items()
    }


def test_goals_are_kept_beside_the_options(tmp_path):
    made = configured(tmp_path, 'rate = 5\n[goals]\nllmTtftP95 = {too_high = 800}\n"run.useful-pct" = {too_low = 99}')

    assert ["llm.ttft-p95 > 800", "run.useful-pct < 99"] == [str(gate) for gate in parse_goals(made["goals"])]
    assert 5.0 == made["rate"]


# -- refusals ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("rat", "rate"),
        ("max_token", "max-tokens"),
        ("max-concurency", "max-concurrency"),
        ("slos", "slo"),
        ("fail-when", "fail-if"),
        ("headers", "header"),
        ("goal", "goals"),
        ("Rate", "rate"),
        ("request", "requests"),
        ("out-dir", "out"),
    ],
)
def test_an_unknown_name_is_refused_with_near_ones(tmp_path, name, near):
    fact, hint = refusal_of(tmp_path, f"rate = 5\n{name} = 1")

    assert f"{tmp_path / 'run.toml'}: there is no option {name!r}" == fact
    assert near in hint.removeprefix("near ones: ").split(", ")


@pytest.mark.parametrize("name", ["config", "help", "context", "set_", "loadgen.goals"])
def test_what_is_no_option_of_a_run_is_refused(tmp_path, name):
    fact, _ = refusal_of(tmp_path, f'"{name}" = "x"')

    assert fact.endswith(f"there is no option {name!r}")


def test_a_table_that_is_no_option_is_refused(tmp_path):
    fact, _ = refusal_of(tmp_path, "[run]\nrate = 5")

    assert fact.endswith("there is no option 'run'")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('rate = "fast"', "rate: "),
        ("rate = [1, 2]", "rate: "),
        ("rate = true", "rate = True is not a value"),
        ("rate = {a = 1}", "rate = {'a': 1} is not a value"),
        ("requests = 5.5", "requests: "),
        ("requests = 0", "requests: "),
        ("requests = inf", "requests: "),
        ("seed = 1.9", "seed: "),
        ("max-concurrency = -1", "max-concurrency: "),
        ("recorded = 1", "recorded = 1 is not true or false"),
        ('insecure = "true"', "insecure = 'true' is not true or false"),
        ("usage = []", "usage = [] is not true or false"),
        ("json = {a = 1}", "json = {'a': 1} is not true or false"),
        ("label = {a = 1}", "label = {'a': 1} is not a value"),
        ("label = true", "label = True is not a value"),
        ("slo = [['a']]", "slo = [['a']] is not a value"),
        ("slo = [{a = 1}]", "slo = [{'a': 1}] is not a value"),
        ("slo = {a = 1}", "slo = {'a': 1} is not a value"),
        ("finish = [['a']]", "finish = [['a']] is not a value"),
        ("server = {a = {b = 1}}", "server = {'a': {'b': 1}} is not a value"),
        ("header = {a = [1]}", "header = {'a': [1]} is not a value"),
        ("goals = 5", "goals is no table"),
        ("goals = []", "goals is no table"),
        ("max-tokens = 4\nmax_tokens = 5", "max_tokens is given twice"),
        ("rate = ", "Invalid value"),
        ("rate 5", "after a key"),
        ('{"config": ', "truncated"),
    ],
)
def test_a_wrong_value_is_refused_with_the_files_name_and_its_own(tmp_path, line, words):
    fact, hint = refusal_of(tmp_path, line)

    assert fact.startswith(f"{tmp_path / 'run.toml'}: ")
    assert words in fact and hint


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "No such file or directory"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "can't decode"),
        (lambda path: path.write_text("[1, 2]"), "Expected"),
        (lambda path: path.write_text('{"rate": "quick"}'), "rate: "),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(tmp_path, make, words):
    path = tmp_path / "run.toml"
    make(path)

    with pytest.raises(UsageError) as refusal:
        options("--config", path)

    assert str(refusal.value).startswith(f"{path}: ") and words in str(refusal.value)
    assert "\nhint: " in str(refusal.value)


def test_a_goal_that_cannot_be_is_refused_before_anything_is_sent(tmp_path):
    base = 'target = "127.0.0.1:1"\nprompt = "hi"\nmodel = "m"\nrate = 5\nrequests = 1\n[goals]\n'
    for line, words in (
        ("llmTtfP95 = {too_high = 1}", "near ones: llm.ttft-p"),
        ("llmTtftP95 = {too_high = '1'}", "is no bound"),
        ("llmTtftP95 = 800", "is no bound"),
        ("llm.ttft-p95 = {too_high = 1}", "a name with a dot stands in quotes"),
        ("'llmTtftP95[long]' = {too_high = 1}", "there are no classes; and completed, offered"),
    ):
        with pytest.raises(UsageError) as refusal:
            order_of(configured(tmp_path, base + line))
        assert words in str(refusal.value), line


def test_without_a_target_there_is_no_run(tmp_path):
    made = configured(tmp_path, 'prompt = "hi"\nmodel = "m"\nrate = 5\nrequests = 1\n')

    with pytest.raises(UsageError, match=r"no TARGET given\nhint: as in loadgen run http://127\.0\.0\.1:8000"):
        order_of(made)


# -- real runs -----------------------------------------------------------------


def manifest_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "run.json").read_text())


def summary_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "summary.json").read_text())


def repeated(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return loadgen("run", "--config", folder / "run.json", *arguments)


SECRET_AGAIN = ("--header", "X-Team: red", "--header", "X-Api-Key: sk-secret")


@pytest.fixture(scope="module")
def first(simulator, tmp_path_factory):
    """A run with an option of each kind, by a configuration and the command line; a secret in a header of it."""
    folder = tmp_path_factory.mktemp("config")
    rows = [
        {"id": klass, "class": klass, "path": "/v1/chat/completions",
         "body": {"model": "x", "messages": [{"role": "user", "content": klass}], "stream": True}}
        for klass in ("short", "long")
    ]  # fmt: skip
    (folder / "rec.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "run.toml").write_text(f"""
        target = "{simulator}"
        recording = "{folder / "rec.jsonl"}"
        model = "sim"
        max-tokens = 4
        finish = ["stop", "length"]
        stages = "20..60@500ms"
        arrivals = "poisson"
        seed = 4
        usage = true
        warmup = "100ms"
        header = {{X-Team = "red", X-Api-Key = "sk-secret"}}
        slo = ["ttft<10s"]
        label = "mine"
        cache = "cold"
        require-valid = false
        fail-if = "run.useful-pct < 1"
        request-id = false
        [server]
        build = "v1"
        [set]
        temperature = 0.5
        [goals]
        "llm.ttft-p95[long]" = {{too_high = 10000}}
    """)
    done = loadgen("run", "--config", folder / "run.toml", "--seed", "5", "--out", folder / "a")
    assert done.returncode == 0, done.stderr + done.stdout
    return folder / "a"


def test_a_run_by_its_configuration_is_the_run_that_was_asked_for(first):
    manifest, summary = manifest_of(first), summary_of(first)

    assert {
        "seed": 5,
        "label": "mine",
        "cache": "cold",
        "server": {"build": "v1"},
        "header": ["X-Team: red", "X-Api-Key: ***"],
    } == {name: manifest["config"][name] for name in ("seed", "label", "cache", "server", "header")}
    assert ["run.useful-pct < 1", "llm.ttft-p95[long] > 10000"] == [gate["gate"] for gate in summary["gates"]]
    assert {"completed": summary["offered"]} == summary["outcomes"]  # `length` is a natural finish here
    assert 4 == summary["llm"]["output_tokens"] / summary["offered"]


def test_a_runs_own_config_repeats_it_when_its_secrets_are_given_again(first, tmp_path):
    refused = repeated(first, "--out", tmp_path / "b")
    done = repeated(first, *SECRET_AGAIN, "--out", tmp_path / "b")

    assert "sk-secret" not in "".join(path.read_text(errors="replace") for path in first.iterdir())
    assert 2 == refused.returncode
    assert "hint: give every --header on the command line again" in refused.stderr
    assert 0 == done.returncode, done.stderr
    one, two = manifest_of(first), manifest_of(tmp_path / "b")
    assert one["schedule"] == two["schedule"] and 64 == len(one["schedule"]["sha256"])
    assert one["config"] == two["config"]
    assert summary_of(first)["offered"] == summary_of(tmp_path / "b")["offered"]
    assert [gate["gate"] for gate in summary_of(first)["gates"]] == [
        gate["gate"] for gate in summary_of(tmp_path / "b")["gates"]
    ]


def test_a_repeated_run_can_be_changed_on_the_command_line(first):
    asked = options("--config", first / "run.json", *SECRET_AGAIN, "--seed", "6", "--label", "other")
    del asked["json"]  # it is of the call, not of the run
    order = order_of(asked)

    one = manifest_of(first)
    assert one["schedule"]["sha256"] != order.schedule.sha256
    assert one["config"] | {"seed": 6, "label": "other"} == order.config


@pytest.mark.parametrize(
    ("changes", "name", "again"),
    [
        ({"header": ["X-Team: red", "X-Api-Key: ***"]}, "header", ["--header", "X-Api-Key: s"]),
        (
            {"header": [], "target": "http://127.0.0.1:1/v1/chat?api-key=***"},
            "target",
            ["http://127.0.0.1:1/v1/chat?api-key=s"],
        ),
        ({"header": [], "proxy": "http://***@127.0.0.1:3128"}, "proxy", ["--proxy", "http://me:s@127.0.0.1:3128"]),
    ],
)
def test_a_masked_secret_is_refused_until_it_is_given_again(first, tmp_path, changes, name, again):
    manifest = manifest_of(first)
    manifest["config"] |= changes
    path = tmp_path / "run.json"
    path.write_text(json.dumps(manifest))

    with pytest.raises(UsageError, match=f"{name} holds a secret that was not stored with the run\nhint: give "):
        order_of(options("--config", path))
    order = order_of(options("--config", path, *again))

    assert manifest_of(first)["schedule"]["sha256"] == order.schedule.sha256
    assert "***" not in json.dumps([order.headers, str(order.route.target), order.route.proxy])
