"""What must never be stored of a command line: keys in headers, logins and query strings."""

import re
from collections.abc import Callable

from loadgen.wire.secrets import MASK, masked_header, masked_path


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
