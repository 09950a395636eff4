"""Arrival processes: the gaps have the distribution that was asked for, the ramps the integral, the seed the draw."""

from itertools import pairwise
from math import ceil, sqrt
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.cli.values import seconds
from loadgen.errors import UsageError
from loadgen.plan.arrivals import PROCESSES, Stage, draw, parse_stages

COUNT = 20_000

rates = st.floats(0.01, 1e4)
stages = st.builds(Stage, st.just(0.0) | rates, st.just(0.0) | rates, st.floats(0.01, 1e4)).filter(
    lambda stage: stage.requests > 0
)


def forever(rate: float) -> list[Stage]:
    return [Stage(rate, rate, float("inf"))]


def expected_by(stage: Stage, at_s: float) -> float:
    """The integral of the stage's rate up to a moment: the area of a trapezium."""
    rate = stage.start_rate + (stage.end_rate - stage.start_rate) * at_s / stage.duration_s
    return (stage.start_rate + rate) / 2 * at_s


def gaps(arrivals: str, *, seed: int, burstiness: float = 1.0, rate: float = 50.0) -> list[float]:
    due = draw(forever(rate), arrivals=arrivals, seed=seed, burstiness=burstiness, limit=COUNT)
    return [after - before for before, after in pairwise([0.0, *due])]


def test_constant_arrivals_are_evenly_spaced_from_the_start():
    due = list(draw(forever(8.0), arrivals="constant", seed=1, limit=100))

    assert [place / 8 for place in range(100)] == due


def test_constant_arrivals_do_not_drift_in_a_long_run():
    *_, last = draw(forever(1000.0), arrivals="constant", seed=1, limit=100_001)

    assert 100.0 == last


@pytest.mark.parametrize(
    ("arrivals", "burstiness"), [("poisson", 1.0), ("gamma", 1.0), ("gamma", 0.25), ("gamma", 4.0), ("gamma", 16.0)]
)
def test_gaps_have_the_mean_and_the_spread_that_were_asked_for(arrivals, burstiness):
    drawn = gaps(arrivals, seed=7, burstiness=burstiness)

    cv = 1 / sqrt(burstiness)
    # Five standard errors: of the mean CV/sqrt(n); of the CV, for gamma gaps, CV*sqrt((1 + CV²)/2n).
    assert 1 / 50 == pytest.approx(fmean(drawn), rel=5 * cv / sqrt(COUNT))
    assert cv == pytest.approx(pstdev(drawn) / fmean(drawn), rel=5 * sqrt((1 + cv**2) / (2 * COUNT)))


def test_poisson_gaps_are_exponential():
    drawn = sorted(gaps("poisson", seed=11, rate=1.0))

    # Kolmogorov's distance to 1 - exp(-x), below its bound for 1 in a thousand.
    distance = max(
        max(abs((place + 1) / COUNT - cdf), abs(place / COUNT - cdf))
        for place, cdf in ((place, 1 - 2.718281828459045**-gap) for place, gap in enumerate(drawn))
    )
    assert distance < 1.95 / sqrt(COUNT)


def test_poisson_gaps_are_independent_of_the_ones_before():
    drawn = gaps("poisson", seed=13)
    mean = fmean(drawn)

    covariance = fmean((before - mean) * (after - mean) for before, after in pairwise(drawn))

    assert abs(covariance / pstdev(drawn) ** 2) < 5 / sqrt(COUNT)


def test_the_burstiness_changes_nothing_but_gamma():
    for arrivals in ("constant", "poisson"):
        assert gaps(arrivals, seed=3, burstiness=0.5) == gaps(arrivals, seed=3, burstiness=2.0)


@given(st.integers(1, 300), st.tuples(st.integers(0, 40), st.integers(0, 40)).filter(any))
def test_a_constant_ramp_holds_as_many_requests_as_its_integral(tenths, ramp):
    stage = Stage(float(ramp[0]), float(ramp[1]), tenths / 10)

    due = list(draw([stage], arrivals="constant", seed=0))

    assert ceil(stage.requests) == len(due)
    assert list(range(len(due))) == pytest.approx([expected_by(stage, at) for at in due], abs=1e-6)


def test_a_poisson_ramp_is_poisson_at_the_rate_of_the_moment():
    stage = Stage(10.0, 90.0, 400.0)
    due = list(draw([stage], arrivals="poisson", seed=5))

    halves = [sum(at < 200 for at in due), sum(at >= 200 for at in due)]

    for count, mean in zip(halves, (30 * 200, 70 * 200), strict=True):
        assert abs(count - mean) < 5 * sqrt(mean)
    unit = [expected_by(stage, at) for at in due]
    stretched = [after - before for before, after in pairwise(unit)]
    assert 1 == pytest.approx(pstdev(stretched) / fmean(stretched), rel=5 / sqrt(len(stretched)))


def test_stages_follow_each_other_each_at_its_own_rate():
    due = list(draw([Stage(2, 2, 2), Stage(4, 4, 1), Stage(0, 2, 2)], arrivals="constant", seed=0))

    assert [0, 0.5, 1, 1.5, 2, 2.25, 2.5, 2.75, 3, 3 + sqrt(2)] == pytest.approx(due)


def test_a_part_of_a_request_is_carried_over_into_the_next_stage():
    # Half a request of the first stage: the second needs the other half only.
    due = list(draw([Stage(1, 1, 1.5), Stage(2, 2, 2)], arrivals="constant", seed=0))

    assert [0, 1, 1.75, 2.25, 2.75, 3.25] == pytest.approx(due)


@given(stages, st.floats(0, 1))
def test_when_inverts_the_integral_of_the_rate(stage, share):
    at_s = stage.when(share * stage.requests)

    assert 0 <= at_s <= stage.duration_s * (1 + 1e-6)
    assert share * stage.requests == pytest.approx(expected_by(stage, at_s), rel=1e-6, abs=1e-6 * stage.requests)


@given(stages)
def test_a_stage_begins_at_its_start(stage):
    assert 0.0 == stage.when(0.0)


@pytest.mark.parametrize("arrivals", PROCESSES)
def test_due_times_ascend_and_lie_within_the_stages(arrivals):
    due = list(draw([Stage(0, 50, 3), Stage(50, 50, 2), Stage(50, 0, 3)], arrivals=arrivals, seed=2, burstiness=0.5))

    assert sorted(due) == due
    assert 0 <= due[0] and due[-1] <= 8


@pytest.mark.parametrize("arrivals", PROCESSES)
def test_the_same_seed_draws_the_same(arrivals):
    assert gaps(arrivals, seed=42) == gaps(arrivals, seed=42)


@pytest.mark.parametrize("arrivals", ["poisson", "gamma"])
def test_another_seed_draws_another(arrivals):
    assert gaps(arrivals, seed=42)[:5] != gaps(arrivals, seed=43)[:5]


@pytest.mark.parametrize("arrivals", PROCESSES)
def test_a_longer_draw_begins_with_the_shorter_one(arrivals):
    short = list(draw(forever(5), arrivals=arrivals, seed=1, limit=10))
    long = list(draw(forever(5), arrivals=arrivals, seed=1, limit=20))

    assert (10, 20) == (len(short), len(long))
    assert short == long[:10]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5@30s", [Stage(5, 5, 30)]),
        ("5@30s,5..50@1m", [Stage(5, 5, 30), Stage(5, 50, 60)]),
        (" 0..2.5@500ms , 2.5..0@1h ", [Stage(0, 2.5, 0.5), Stage(2.5, 0, 3600)]),
    ],
)
def test_stages_are_read_as_a_person_writes_them(text, expected):
    assert expected == parse_stages(text, seconds)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "''"),
        ("5", "'5'"),
        ("@5s", "'@5s'"),
        ("five@5s", "'five@5s'"),
        ("5..@5s..", "5s.."),
        ("..5@5s", "'..5@5s'"),
        ("5@0s", "'5@0s'"),
        ("0@5s", "'0@5s'"),
        ("-1@5s", "'-1@5s'"),
        ("5..-1@5s", "'5..-1@5s'"),
        ("nan@5s", "'nan@5s'"),
        ("inf@5s", "'inf@5s'"),
        ("5@30s,", "''"),
        ("5@30s,6@", "''"),
        ("5@30", "'30'"),
        ("5@-1s", "'-1s'"),
    ],
)
def test_a_wrong_stage_is_named_with_a_hint(text, named):
    with pytest.raises(UsageError) as raised:
        parse_stages(text, seconds)

    fact, hint = str(raised.value).splitlines()
    assert named in fact
    assert hint.startswith("hint: ")
