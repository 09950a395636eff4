"""What must never be stored, told by its name: keys in headers and in query strings."""

import re
from urllib.parse import unquote

MASK = "***"
_SECRET = re.compile(r"auth|cookie|key|token|secret|signature|credential|password|(^|[-_])sig($|[-_])", re.IGNORECASE)


def names_secret(name: str) -> bool:
    """Tell whether what goes by this name must never be stored.

    >>> names_secret("X-Api-Key"), names_secret("api-version")
    (True, False)
    """
    return _SECRET.search(name) is not None


def masked_header(name: str, value: str) -> str:
    """Return the value, or a mask where the header's name says that it is a secret.

    >>> masked_header("X-Api-Key", "abc"), masked_header("accept", "text/plain")
    ('***', 'text/plain')
    """
    return MASK if names_secret(name) else value


def masked_path(path: str) -> str:
    """Return a path whose query holds no secret.

    >>> masked_path("/v1/chat?api-version=1&api-key=abc")
    '/v1/chat?api-version=1&api-key=***'
    """
    before, mark, query = path.partition("?")
    return before + mark + re.sub("[^&;]+", lambda pair: masked_pair(pair[0]), query)


def masked_pair(pair: str) -> str:
    """Return a pair of a query, its value masked where the name says that it is a secret.

    >>> masked_pair("sig=abc"), masked_pair("design=abc")
    ('sig=***', 'design=abc')
    """
    name, equals, _ = pair.partition("=")
    return f"{name}={MASK}" if equals and names_secret(unquote(name)) else pair
