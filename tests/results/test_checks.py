"""Checks: what passes, what does not and why, and what cannot be checked at all."""

import json
import os
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.errors import UsageError
from loadgen.results.checked import Checker
from loadgen.results.checks import CHECKS, parse_check
from loadgen.results.record import Row

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
MINE = """
def passes(row, text):
    return True

def says_why(row, text):
    return f"{row['status']} and {len(text)}"

def says_no(row, text):
    return None

def raises(row, text):
    raise KeyError("secret words of the answer")

NO_FUNCTION = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "wrong.json").write_text('{"type": "no such type"}')
    (tmp_path / "my_own_checks.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("check", "text", "why"),
    [
        ("json", "[1]", None),
        ("json", "", "no JSON at character 0"),
        ("json", "[1", "no JSON at character 2"),
        ("json", "[" * 100_000, "JSON nested too deep"),
        ("json-fields=a,b.c", '{"a": null, "b": {"c": 1}}', None),
        ("json-fields=a,b.c", '{"a": 1, "b": {}}', "no field b.c"),
        ("json-fields=a", "[]", "no field a"),
        ("json-fields=a", "nothing", "no JSON at character 0"),
        ("json-schema=schema.json", '{"n": 1}', None),
        ("json-schema=schema.json", '{"n": "one"}', "data.n breaks the rule type"),
        ("json-schema=schema.json", "{}", "data breaks the rule required"),
        ("regex=[0-9]+", "it is 42", None),
        ("regex=a=b", "a=b", None),
        ("regex=[0-9]+", "it is not", "the pattern is not in it"),
        ("not-regex=sorry", "here you are", None),
        ("not-regex=(?i)sorry", "Sorry!", "the pattern is in it"),
        ("min-chars=3", "abc", None),
        ("min-chars=3", "ab", "it has 2 characters"),
        ("python=my_own_checks:passes", "", None),
        ("python=my_own_checks:says_why", "abc", "200 and 3"),
        ("python=my_own_checks:says_no", "abc", "it said no"),
        ("python=my_own_checks:raises", "abc", "it raised KeyError"),
    ],
)
def test_a_check_passes_or_says_why_not(folder, check, text, why):
    assert why == parse_check(check).why_not({"status": 200}, text)


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ("yaml", "there is no check 'yaml'"),
        ("json=x", "json takes no argument"),
        ("regex", "regex takes an argument"),
        ("regex=(", "no regular expression"),
        ("not-regex=[", "no regular expression"),
        ("min-chars=many", "not a number"),
        ("min-chars=-1", "not a number"),
        ("json-fields=a,,b", "a field has no name"),
        ("json-fields=a.", "a field has no name"),
        ("json-schema=nowhere.json", "No such file"),
        ("json-schema=broken.json", "is no JSON schema"),
        ("json-schema=wrong.json", "is no JSON schema"),
        ("python=my_own_checks", "not MODULE:FUNCTION"),
        ("python=no_such_module:f", "ModuleNotFoundError"),
        ("python=my_own_checks:nothing", "AttributeError"),
        ("python=my_own_checks:NO_FUNCTION", "is no function"),
    ],
)
def test_what_cannot_be_checked_is_a_usage_error(folder, check, words):
    with pytest.raises(UsageError, match=r"^--check ") as raised:
        parse_check(check)

    assert words in str(raised.value)


@pytest.mark.parametrize("name", [name for name in CHECKS if name not in ("python", "json-schema")])
@given(text=st.text(max_size=50))
def test_no_answer_makes_a_check_fail_to_decide(name, text):
    argument = {"json": "", "min-chars": "=3"}.get(name, "=a")

    assert isinstance(parse_check(name + argument).why_not({}, text), str | None)


def row(outcome: str = "completed", **changes: object) -> Row:
    return Row(seq=0, place=0, outcome=outcome, **changes)  # type: ignore[arg-type]


def checked(rows: list[Row], *checks: str) -> tuple[list[object], list[object]]:
    flags, whys = Checker([parse_check(check) for check in checks]).columns(rows)
    return flags.to_list(), whys.to_list()


def test_only_completed_requests_are_checked():
    flags, _ = checked([row(answer="[]"), row("truncated", answer="[]"), row("rejected")], "json")

    assert [{"json": True}, None, None] == flags


def test_each_check_has_its_flag_and_its_reason():
    flags, whys = checked([row(answer="ab")], "json", "min-chars=2")

    assert [{"json": False, "min-chars=2": True}] == flags
    assert [{"json": "no JSON at character 0", "min-chars=2": None}] == whys


def test_the_arguments_are_looked_at_where_there_is_no_text():
    flags, _ = checked([row(answer="", arguments="{}"), row(answer="x", arguments="{}")], "json")

    assert [{"json": True}, {"json": False}] == flags


def test_without_checks_there_are_no_columns():
    assert [] == Checker([]).columns([row(answer="[]")])


def test_ctrl_c_ends_a_check_that_does_not_end_and_leaves_out_what_follows(folder):
    (folder / "endless.py").write_text("import time\ndef check(row, text):\n    time.sleep(60)\n")
    rows = [row(answer="a"), row(answer="b")]
    stop = threading.Timer(0.3, os.kill, (os.getpid(), 2))
    began = time.monotonic()
    stop.start()
    flags, _ = checked(rows, "python=endless:check")

    assert [None, None] == flags
    assert time.monotonic() - began < 30
