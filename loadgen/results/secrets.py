"""What must never be stored: keys in headers and in query strings."""

import re
from collections.abc import Callable

from loadgen.wire.secrets import MASK, names_secret


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
    return before + mark + "&".join(map(_masked_pair, query.split("&")))


def _masked_pair(pair: str) -> str:
    name, equals, _ = pair.partition("=")
    return f"{name}={MASK}" if equals and names_secret(name) else pair


def masked_login(url: str) -> str:
    """Return a URL without the name and password in it.

    >>> masked_login("http://me:abc@proxy:3128")
    'http://***@proxy:3128'
    """
    return re.sub(r"(^|//)[^@/]*@", rf"\1{MASK}@", url)


def masked_arguments(arguments: list[str]) -> list[str]:
    """Return a command line without the secrets of its --header and --proxy options and URLs."""
    masked = []
    before = ""
    for argument in arguments:
        option, equals, value = argument.partition("=")
        if before in _HIDES:
            masked.append(_HIDES[before](argument))
        elif option in _HIDES and equals:
            masked.append(f"{option}={_HIDES[option](value)}")
        elif "?" in argument and not argument.startswith("-"):
            masked.append(masked_path(argument))
        else:
            masked.append(argument)
        before = argument
    return masked


def _masked_header_line(line: str) -> str:
    name, colon, content = line.partition(":")
    return f"{name}{colon} {masked_header(name, content.strip())}" if colon else line


# Options whose value may hold a secret, and what hides it.
_HIDES: dict[str, Callable[[str], str]] = {"--header": _masked_header_line, "--proxy": masked_login}
