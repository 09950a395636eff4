"""Error objects in the shapes that servers give them, inside a stream or as a body of their own."""

from loadgen.wire.events import Failure, Malformed
from loadgen.wire.jsontext import parse, word


def error_word(value: object) -> str | None:
    """Return the type or code of the error that a JSON value is, None when it is none.

    >>> error_word({"error": {"type": "busy"}}), error_word({"detail": "gone"}), error_word({"error": None})
    ('busy', 'error', None)
    """
    if not isinstance(value, dict):
        return None
    error = value.get("error")
    if isinstance(error, dict) and error:
        return _name(error)
    bare = value.get("message") and value.get("code")
    if error or value.get("object") == "error" or value.get("detail") or bare:
        return _name(value)
    return None


def _name(error: dict[str, object]) -> str:
    kind = error.get("type")
    if not kind or kind == "error":  # it says nothing: what else is there?
        kind = error.get("code") or error.get("status")
    return word(kind, otherwise="error")


def failure_in(data: bytes) -> tuple[Failure]:
    """Return what the data of an event named `error` says, whatever it is."""
    try:
        value = parse(data)
    except Malformed:
        value = None
    said = error_word(value)
    if said is None and isinstance(value, dict):
        said = _name(value)
    return (Failure(said or "error"),)
