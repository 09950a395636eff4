"""How each family of APIs words an error that comes instead of an answer."""

from collections.abc import Callable
from typing import TypeAlias

# From a status and a message to a body and its headers.
Shape: TypeAlias = Callable[[int, str], tuple[object, dict[str, str]]]

_BAD = "invalid_request_error"
_TYPES = {404: "not_found_error", 429: "rate_limit_error", 500: "internal_server_error", 503: "overloaded_error"}
_ANTHROPIC_TYPES = {**_TYPES, 413: "request_too_large", 500: "api_error"}
_AMAZON_NAMES = {
    404: "UnknownOperationException",
    405: "UnknownOperationException",
    429: "ThrottlingException",
    500: "InternalServerException",
    503: "ServiceUnavailableException",
}


def openai(status: int, message: str) -> tuple[object, dict[str, str]]:
    """OpenAI's, and what every path of no other family's gives."""
    return {"error": {"message": message, "type": _TYPES.get(status, _BAD), "param": None, "code": status}}, {}


def anthropic(status: int, message: str) -> tuple[object, dict[str, str]]:
    error = {"type": _ANTHROPIC_TYPES.get(status, _BAD), "message": message}
    return {"type": "error", "error": error, "request_id": "req_sim"}, {"request_id": "req_sim"}


def ollama(status: int, message: str) -> tuple[object, dict[str, str]]:
    return {"error": message}, {}


def bedrock(status: int, message: str) -> tuple[object, dict[str, str]]:
    return {"message": message}, {"x_amzn_errortype": _AMAZON_NAMES.get(status, "ValidationException")}


# By what a path begins with, where no API stands at it.
FAMILIES: dict[str, Shape] = {"/v1/messages": anthropic, "/api/": ollama, "/model/": bedrock}


def shape_of(path: str) -> Shape:
    """Return the shape of errors at a path that is no API's.

    >>> shape_of("/api/show").__name__, shape_of("/v1/embeddings").__name__
    ('ollama', 'openai')
    """
    return next((shape for start, shape in FAMILIES.items() if path.startswith(start)), openai)
