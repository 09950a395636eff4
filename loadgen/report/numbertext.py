"""A number as tables show it."""


def number(value: float) -> str:
    """Return it to about three digits.

    >>> number(1234.56), number(12.345), number(1.2345), number(0.12345)
    ('1,234.6', '12.3', '1.23', '0.123')
    """
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"
