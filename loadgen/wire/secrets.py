"""Which names hold secrets: of headers, and of what stands in a query string."""

import re

MASK = "***"
_SECRET = re.compile(r"auth|cookie|key|token|secret|signature|credential|password|(^|[-_])sig($|[-_])", re.IGNORECASE)


def names_secret(name: str) -> bool:
    """Tell whether what goes by this name must never be stored.

    >>> names_secret("X-Api-Key"), names_secret("api-version")
    (True, False)
    """
    return _SECRET.search(name) is not None
