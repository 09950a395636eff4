"""Distributions of lengths, as options say them."""

import re
from collections.abc import Callable
from math import log
from random import Random
from typing import TypeAlias

from loadgen.errors import UsageError

# Draws one length in tokens, 1 or more.
Draw: TypeAlias = Callable[[Random], int]

_MOST_TOKENS = 10_000_000


def fixed(tokens: str) -> Draw:
    """Always the same."""
    known = _tokens(tokens)
    return lambda rng: known


def uniform(least: str, most: str) -> Draw:
    """Any from the least to the most, both included."""
    low, high = _tokens(least), _tokens(most)
    if low > high:
        raise ValueError(f"{low} is more than {high}")
    return lambda rng: rng.randint(low, high)


def lognormal(median: str, sigma: str) -> Draw:
    """Skewed as people's prompts are: half are longer than the median; sigma is of the logarithm."""
    mu, spread = log(_tokens(median)), float(sigma)
    if spread > 5:
        raise ValueError(f"a sigma of {spread} is no distribution of lengths")
    return lambda rng: min(max(1, round(rng.lognormvariate(mu, spread))), _MOST_TOKENS)


def parse_lengths(text: str, *, option: str) -> Draw:
    """Read `200`, `100..400` or `lognormal:200,0.5`; raises UsageError.

    >>> parse_lengths("200", option="--input-tokens")(Random(0))
    200
    """
    for pattern, of in DISTRIBUTIONS.items():
        if found := re.fullmatch(pattern, text.strip(), re.ASCII):
            try:
                return of(*found.groups())
            except ValueError:
                break
    raise UsageError(
        f"{option} {text!r} is not a length in tokens", hint=f"as in {option} 200, 100..400 or lognormal:200,0.5"
    )


def _tokens(text: str) -> int:
    tokens = int(text)
    if not 1 <= tokens <= _MOST_TOKENS:
        raise ValueError(f"{tokens} is no length")
    return tokens


DISTRIBUTIONS: dict[str, Callable[..., Draw]] = {
    r"(\d{1,9})": fixed,
    r"(\d{1,9})\.\.(\d{1,9})": uniform,
    r"lognormal:(\d{1,9}),(\d{1,9}(?:\.\d{1,9})?)": lognormal,
}
