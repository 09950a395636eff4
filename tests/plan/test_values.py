"""Option values: read as a person writes them, refused with a hint and without what may be a secret."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.cli.values import header, pair, seconds
from loadgen.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500ms", 0.5),
        ("30s", 30.0),
        ("2m", 120.0),
        ("1.5h", 5400.0),
        ("250us", 0.00025),
        ("0s", 0.0),
        (" 5s ", 5.0),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text, expected):
    assert expected == pytest.approx(seconds(text))


@pytest.mark.parametrize(
    "text", ["", "5", "s", "5 s", "-5s", "+5s", "5S", "5sec", ".5s", "5.s", "1e3s", "infs", "1m30s", "٣s", "5s\n5s"]
)
def test_what_is_no_duration_is_named_with_a_hint(text):
    with pytest.raises(UsageError) as raised:
        seconds(text, option="--warmup")

    fact, hint = str(raised.value).splitlines()
    assert fact == f"--warmup {text!r} is not a duration"
    assert hint.startswith("hint: ")


@given(st.integers(0, 10**6), st.sampled_from(["us", "ms", "s", "m", "h"]))
def test_every_whole_number_of_a_unit_is_its_multiple(number, unit):
    assert number * seconds(f"1{unit}") == pytest.approx(seconds(f"{number}{unit}"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("X-Team: red", ("X-Team", "red")),
        ("X-Team:red", ("X-Team", "red")),
        ("X-Team:  red : blue ", ("X-Team", "red : blue")),
        ("X-Team:", ("X-Team", "")),
        ("x!#$%&'*+.^_`|~1-:\t1", ("x!#$%&'*+.^_`|~1-", "1")),
    ],
)
def test_a_header_is_a_name_and_a_value(text, expected):
    assert expected == header(text)


@pytest.mark.parametrize("name", ["", "a b", " a", "a ", "é", "a\n", "\0"])
def test_a_wrong_header_name_is_refused_and_the_value_not_repeated(name):
    with pytest.raises(UsageError) as raised:
        header(f"{name}: hunter2")

    assert str(raised.value).splitlines()[-1].startswith("hint: ")
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("value", ["hunter2\r\nb: c", "hunter2\n", "\rhunter2", "hunter2\0"])
def test_a_header_value_that_would_break_the_head_is_refused_and_not_repeated(value):
    with pytest.raises(UsageError) as raised:
        header(f"a: {value}")

    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("text", ["", "no colon"])
def test_what_has_no_colon_is_no_header(text):
    with pytest.raises(UsageError, match=r"is not 'Name: value'\nhint: "):
        header(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("a=b", ("a", "b")), ("a=", ("a", "")), ("a=b=c", ("a", "b=c")), ("a b= c", ("a b", " c"))]
)
def test_a_pair_is_cut_at_its_first_equals_sign(text, expected):
    assert expected == pair(text, option="--set")


@pytest.mark.parametrize("text", ["", "a", "=b", "="])
def test_what_is_no_pair_is_named_by_its_option(text):
    with pytest.raises(UsageError, match=r"^--server .* is not KEY=VALUE\nhint: .*--server key=value"):
        pair(text, option="--server")
