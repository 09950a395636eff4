"""What must never be stored: keys in headers and in query strings."""

import re

MASK = "***"
_SECRET = re.compile(r"auth|cookie|key|token|secret|signature|credential|password|(^|[-_])sig($|[-_])", re.IGNORECASE)


def masked_header(name: str, value: str) -> str:
    """Return the value, or a mask where the header's name says that it is a secret.

    >>> masked_header("X-Api-Key", "abc"), masked_header("accept", "text/plain")
    ('***', 'text/plain')
    """
    return MASK if _SECRET.search(name) else value


def masked_path(path: str) -> str:
    """Return a path whose query holds no secret.

    >>> masked_path("/v1/chat?api-version=1&api-key=abc")
    '/v1/chat?api-version=1&api-key=***'
    """
    before, mark, query = path.partition("?")
    return before + mark + "&".join(map(_masked_pair, query.split("&")))


def _masked_pair(pair: str) -> str:
    name, equals, _ = pair.partition("=")
    return f"{name}={MASK}" if equals and _SECRET.search(name) else pair


def masked_arguments(arguments: list[str]) -> list[str]:
    """Return a command line without the secrets of its --header options and URLs."""
    masked = []
    after_header = False
    for argument in arguments:
        option, equals, value = argument.partition("=")
        if after_header or (option == "--header" and equals):
            text = argument if after_header else value
            name, colon, content = text.partition(":")
            text = f"{name}{colon} {masked_header(name, content.strip())}" if colon else text
            masked.append(text if after_header else f"--header={text}")
        elif "?" in argument and not argument.startswith("-"):
            masked.append(masked_path(argument))
        else:
            masked.append(argument)
        after_header = argument == "--header"
    return masked
