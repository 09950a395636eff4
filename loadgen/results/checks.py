"""Checks of an answer, `--check NAME[=ARG]`: whether it is useful, told after the load by its text.

    json                the answer parses
    json-fields=a,b.c   it is an object that has these fields, at any depth
    json-schema=FILE    it is valid by this schema
    regex=PATTERN       the pattern is found in it; not-regex=PATTERN: it is not
    min-chars=N         it is at least so long
    python=MODULE:FUNCTION   called with the request's row (a dict) and the text; truth passes, a string says why not

What is looked at is the first choice's answer text; the arguments of its tool calls where there is no text.
"""

import importlib
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import fastjsonschema

from loadgen.errors import UsageError

# Returns why an answer does not pass, without a word of it; None where it does.
Look: TypeAlias = Callable[[Mapping[str, Any], str], str | None]
_HINT = "as in --check json, --check 'regex=[0-9]+' or --check python=my_checks:is_sound"
_MOST_WORDS = 120


@dataclass(frozen=True, slots=True)
class Check:
    """One check; its name is what was asked for."""

    name: str
    look: Look

    def why_not(self, row: Mapping[str, Any], text: str) -> str | None:
        """Return why an answer does not pass; None where it does. What a user's check raises is a reason, too."""
        try:
            return self.look(row, text)
        except Exception as error:
            return f"it raised {type(error).__name__}"


def parse_check(text: str) -> Check:
    """Read one check; raises UsageError for what cannot be checked."""
    name, equals, argument = text.partition("=")
    make = CHECKS.get(name)
    if make is None:
        raise UsageError(f"--check {text!r}: there is no check {name!r}", hint=f"there are {', '.join(CHECKS)}")
    if bool(equals) != (name != "json"):
        raise UsageError(f"--check {text!r}: {name} takes {'no' if equals else 'an'} argument", hint=_HINT)
    try:
        return Check(text, make(argument))
    except _WrongError as error:
        raise UsageError(f"--check {text!r}: {error}", hint=_HINT) from None


class _WrongError(Exception):
    """An argument that will not do."""


def _json(_argument: str) -> Look:
    return lambda row, text: _parsed(text)[1]


def _parsed(text: str) -> tuple[Any, str | None]:
    try:
        return json.loads(text), None
    except json.JSONDecodeError as error:
        return None, f"no JSON at character {error.pos}"
    except RecursionError:
        return None, "JSON nested too deep"


def _json_fields(argument: str) -> Look:
    paths = [path.split(".") for path in argument.split(",")]
    if not all(map(all, paths)):
        raise _WrongError("a field has no name")

    def look(_row: Mapping[str, Any], text: str) -> str | None:
        value, why = _parsed(text)
        return why or next((f"no field {'.'.join(path)}" for path in paths if not _has(value, path)), None)

    return look


def _has(value: Any, path: Sequence[str]) -> bool:
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    return True


def _json_schema(argument: str) -> Look:
    try:
        schema = json.loads(Path(argument).read_bytes())
        validate = fastjsonschema.compile(schema)
    except OSError as error:
        raise _WrongError(f"{argument}: {error.strerror}") from None
    except (ValueError, fastjsonschema.JsonSchemaDefinitionException) as error:
        raise _WrongError(f"{argument} is no JSON schema: {error}") from None

    def look(_row: Mapping[str, Any], text: str) -> str | None:
        value, why = _parsed(text)
        if why is not None:
            return why
        try:
            validate(value)
        except fastjsonschema.JsonSchemaValueException as error:
            return f"{error.name} breaks the rule {error.rule}"
        return None

    return look


def _regex(argument: str) -> Look:
    found = _pattern(argument)
    return lambda row, text: None if found(text) else "the pattern is not in it"


def _not_regex(argument: str) -> Look:
    found = _pattern(argument)
    return lambda row, text: "the pattern is in it" if found(text) else None


def _pattern(argument: str) -> Callable[[str], object]:
    try:
        return re.compile(argument).search
    except (re.error, RecursionError) as error:
        raise _WrongError(f"no regular expression: {error}") from None


def _min_chars(argument: str) -> Look:
    if not (argument.isascii() and argument.isdigit()):
        raise _WrongError("not a number of characters")
    least = int(argument)
    return lambda row, text: None if len(text) >= least else f"it has {len(text)} characters"


def _python(argument: str) -> Look:
    module, _, function = argument.partition(":")
    if not (module and function.isidentifier()):
        raise _WrongError("not MODULE:FUNCTION")
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)  # a command has its own folder there, and not the user's
    try:
        call = getattr(importlib.import_module(module), function)
    except Exception as error:  # whatever the user's module does when it is imported
        raise _WrongError(f"{type(error).__name__}: {error}") from None
    if not callable(call):
        raise _WrongError(f"{function} is no function")

    def look(row: Mapping[str, Any], text: str) -> str | None:
        said = call(row, text)
        if isinstance(said, str):
            return said[:_MOST_WORDS] or "it said no"
        return None if said else "it said no"

    return look


CHECKS: dict[str, Callable[[str], Look]] = {
    "json": _json,
    "json-fields": _json_fields,
    "json-schema": _json_schema,
    "regex": _regex,
    "not-regex": _not_regex,
    "min-chars": _min_chars,
    "python": _python,
}
