"""A column's distribution in the statistics that other tools' formats hold."""

from collections.abc import Mapping

import polars as pl


def spread(values: pl.Series, percentiles: Mapping[str, float], *, scale: float = 1.0) -> dict[str, float]:
    """Return mean, min, max, std (of the population) and the percentiles, each times `scale`; {} without values.

    Percentiles are exact: linear interpolation, as numpy.
    """
    values = values.drop_nulls()
    if not len(values):
        return {}
    numbers = {
        "mean": values.mean(),
        "min": values.min(),
        "max": values.max(),
        "std": values.std(ddof=0),
        **{name: values.quantile(percentile / 100, "linear") for name, percentile in percentiles.items()},
    }
    return {name: float(number) * scale for name, number in numbers.items() if isinstance(number, int | float)}
