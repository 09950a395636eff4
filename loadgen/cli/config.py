"""`--config FILE`: every option of a command from TOML, or from the run.json of a run that is to be repeated."""

import sys
import tomllib
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec
import typer

from loadgen.errors import UsageError

# Where a context keeps a configuration's goals: they are no option, having no spelling on the command line.
GOALS = "loadgen.goals"
# What a configuration cannot say.
_NOT_HERE = ("config", "help")
# Options of KEY=VALUE that may be tables here.
_JOINED = {"server": "{}={}", "header": "{}: {}"}


def load_config(context: typer.Context, path: Path | None) -> Path | None:
    """Give the command's options the values of a file; what the command line says wins. Raises UsageError."""
    if path is None:
        return None
    values = _read(path)
    context.meta[GOALS] = _goals(path, values.pop("goals", None))
    parameters = {_key(parameter): parameter for parameter in context.command.params}
    defaults: dict[str, Any] = {}
    for name, value in values.items():
        key = name.replace("-", "_")
        if key not in parameters or key in _NOT_HERE:
            known = sorted(parameters.keys() - set(_NOT_HERE))
            near = get_close_matches(key, known, n=3) or known[:3]
            raise UsageError(f"{path}: there is no option {name!r}", hint=f"near ones: {_shown(near)}, goals")
        if value is not None:
            parameter = parameters[key]
            if parameter.name in defaults:
                raise UsageError(f"{path}: {name} is given twice", hint="- and _ are alike: keep one of them")
            defaults[parameter.name] = _checked(context, parameter, value, path, name)
    context.default_map = defaults
    return path


def _read(path: Path) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text()
        if text.lstrip().startswith("{"):
            values = msgspec.json.decode(text, type=dict[str, Any])
            return values["config"] if isinstance(values.get("config"), dict) else values
        return tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="name a TOML file, or a run's run.json") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.DecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"{path}: {error}", hint="a configuration is TOML, or a run's run.json") from None


def _goals(path: Path, goals: object) -> dict[str, Any]:
    if goals is None:
        return {}
    if not isinstance(goals, dict):
        raise UsageError(f"{path}: goals is no table", hint="as in [goals] and llmTtftP95 = {too_high = 800}")
    return goals


def _key(parameter: Any) -> str:
    """A parameter's name as its option spells it: `set`, not `set_`."""
    return str(parameter.name).rstrip("_")


def _shown(keys: Iterable[str]) -> str:
    return ", ".join(key.replace("_", "-") for key in keys)


def _checked(context: typer.Context, parameter: Any, value: Any, path: Path, name: str) -> Any:
    """Return what an option's value would be on the command line; raises UsageError that names the file."""
    is_flag = getattr(parameter, "is_flag", False)
    try:
        plain = _plain(_key(parameter), parameter, value)
    except ValueError:
        plain = None
    if plain is None or is_flag != isinstance(plain, bool):
        wanted = "true or false" if is_flag else "a value"
        raise UsageError(f"{path}: {name} = {value!r} is not {wanted}", hint="see `loadgen run --help`")
    try:
        parameter.process_value(context, plain)
    except typer.BadParameter as error:
        raise UsageError(f"{path}: {name}: {error.message}", hint="see `loadgen run --help`") from None
    return plain


def _plain(key: str, parameter: Any, value: Any) -> Any:
    """Turn what TOML can say into what the command line could; raises ValueError where there is no such thing."""
    if isinstance(value, dict) and key == "set":
        return [f"{name}={msgspec.json.encode(of).decode()}" for name, of in value.items()]
    if isinstance(value, dict) and key in _JOINED:
        return [_JOINED[key].format(name, _word(of)) for name, of in value.items()]
    if parameter.multiple:
        return [_word(of) for of in (value if isinstance(value, list) else [value])]
    if isinstance(value, list):
        return ",".join(map(_word, value))
    return value if isinstance(value, bool | int | float) else _word(value)


def _word(value: Any) -> str:
    """Write a value of TOML as a person writes an option's."""
    if isinstance(value, dict | list):
        raise ValueError(value)  # noqa: TRY004 - it is the value that is wrong, not the call
    return str(value).lower() if isinstance(value, bool) else str(value)
