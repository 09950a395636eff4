"""JSON as servers really send it: read where it can be, refused with one word where it cannot."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.wire.events import Malformed
from loadgen.wire.jsontext import count, parse, word

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(JSON, st.booleans())
def test_what_is_json_is_read(value, is_ascii):
    assert value == parse(json.dumps(value, ensure_ascii=is_ascii).encode())


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'"\xff"', "\ufffd"),
        (b'"\xe2\x80"', "\ufffd"),
        (b'"\\ud83d"', "\ud83d"),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        ('"\u2028\u0085"'.encode(), "\u2028\u0085"),
        (b' {"a": [1]}\r\n', {"a": [1]}),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b"-Infinity", float("-inf")),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
    ],
)
def test_what_is_nearly_json_is_read(data, value):
    assert value == parse(data)


@pytest.mark.parametrize("data", [b"", b" ", b"{", b"[1,]", b"hello", b"{'a': 1}", b'"\n"', b"[DONE]", b"1 2", b"\xff"])
def test_what_is_no_json_is_malformed(data):
    with pytest.raises(Malformed, match=r"^json$"):
        parse(data)


@pytest.mark.parametrize("data", [b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000, b"9" * 100_000])
def test_what_goes_too_deep_or_too_far_is_malformed_and_nothing_else(data):
    with pytest.raises(Malformed, match=r"^json$"):
        parse(data)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (12, 12),
        ("12", 12),
        ("0", 0),
        (7.0, 7),
        (2**63 - 1, 2**63 - 1),
        (2**63, None),
        (str(2**63), None),
        (-1, None),
        ("-1", None),
        (7.5, None),
        ("7.0", None),
        ("", None),
        (" 7", None),
        ("²", None),
        ("٣", None),
        (float("nan"), None),
        (float("inf"), None),
        (1e300, None),
        (True, None),
        (False, None),
        (None, None),
        ([1], None),
        ({}, None),
    ],
)
def test_a_count_is_an_int_whatever_carried_it_or_none(value, expected):
    found = count(value)

    assert (expected, type(expected)) == (found, type(found))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("rate_limit", "rate_limit"),
        ("rate limit\n reached ", "rate_limit_reached"),
        (429, "429"),
        (0, "0"),
        ("", "error"),
        (" \n", "error"),
        (True, "error"),
        (None, "error"),
        (1.5, "error"),
        (["a"], "error"),
        ({"a": 1}, "error"),
        ("x" * 81, "x" * 80),
    ],
)
def test_a_word_is_short_and_has_no_spaces(value, expected):
    assert expected == word(value, otherwise="error")


@given(st.text() | st.integers())
def test_any_word_is_one_word(value):
    found = word(value, otherwise="error")

    assert [found] == found.split() and len(found) <= 80
