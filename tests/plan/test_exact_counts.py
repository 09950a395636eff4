"""How many requests a schedule holds, to the last one: decimal rates and times have no floating point in them."""

from fractions import Fraction
from math import ceil

import pytest

from loadgen.cli.planning import When, schedule_of
from loadgen.errors import UsageError
from loadgen.plan.arrivals import Stage, requests_by
from loadgen.plan.recordings.ours import RecordedRequest
from loadgen.plan.schedule import SECOND_NS, Schedule, load_csv, open_loop

ONE = [RecordedRequest(path="/")]
RATES = [f"{tenths / 10:g}" for tenths in range(1, 100)]
TIMES = ["1s", "3s", "7s", "10s", "30s", "1m", "700ms"]
EXACT_S = {"1s": 1, "3s": 3, "7s": 7, "10s": 10, "30s": 30, "1m": 60, "700ms": Fraction(7, 10)}


def scheduled(**given: object) -> Schedule:
    """Draw a schedule from these options and the defaults of the others."""
    defaults = {
        "rate": None,
        "arrivals": "constant",
        "burstiness": 1.0,
        "stages": None,
        "recorded": False,
        "speed": 1.0,
        "schedule": None,
        "concurrency": None,
        "requests": None,
        "duration": None,
        "seed": 0,
        "warmup": "0s",
    }
    return schedule_of(When(**(defaults | given)), ONE, ends=False)


def by_rate(rate: str, **given: object) -> Schedule:
    return scheduled(rate=float(rate), **given)


def evenly_spaced_before(rate: str, time: str) -> int:
    """How many of 0, 1/rate, 2/rate … are before `time`."""
    return ceil(Fraction(rate) * EXACT_S[time])


def test_a_duration_holds_the_requests_due_before_its_end():
    expected = {(rate, time): evenly_spaced_before(rate, time) for rate in RATES for time in TIMES}

    assert expected == {(rate, time): by_rate(rate, duration=time).measured for rate, time in expected}


def test_a_stage_holds_the_requests_due_before_its_end():
    expected = {f"{rate}@{time}": evenly_spaced_before(rate, time) for rate in RATES for time in TIMES}

    assert expected == {stages: scheduled(stages=stages).measured for stages in expected}


def test_as_many_requests_are_measured_as_were_asked_for_whatever_the_warmup():
    asked = {(rate, time): 5 for rate in RATES for time in TIMES}

    assert asked == {(rate, time): by_rate(rate, requests=5, warmup=time).measured for rate, time in asked}


def test_a_warmup_holds_the_requests_due_before_its_end():
    expected = {(rate, time): evenly_spaced_before(rate, time) for rate in RATES for time in TIMES}
    schedules = {key: by_rate(key[0], requests=1, warmup=key[1]) for key in expected}

    assert expected == {
        key: sum(schedule.is_warmup(seq) for seq in range(schedule.count)) for key, schedule in schedules.items()
    }


@pytest.mark.parametrize("arrivals", ["poisson", "gamma"])
def test_a_drawn_schedule_measures_as_many_as_were_asked_for(arrivals):
    measured = [by_rate("9.7", arrivals=arrivals, seed=seed, requests=50, warmup="3s").measured for seed in range(30)]

    assert [50] * 30 == measured


@pytest.mark.parametrize("arrivals", ["poisson", "gamma"])
def test_no_drawn_request_is_due_outside_the_duration(arrivals):
    for seed in range(30):
        schedule = by_rate("9.7", arrivals=arrivals, seed=seed, duration="3s", warmup="2s")

        assert (2 * SECOND_NS, 3 * SECOND_NS) == (schedule.warmup_ns, schedule.length_ns)
        assert 0 <= min(schedule.due_ns) and max(schedule.due_ns) < 5 * SECOND_NS


@pytest.mark.parametrize("cell", ["9223372036854775808", "10000000000000000000", "9" * 5_000, "9" * 200_000])
def test_a_due_time_beyond_all_clocks_is_a_wrong_row(tmp_path, cell):
    path = tmp_path / "schedule.csv"
    path.write_text(f"due_ns\n0\n{cell}\n")

    with pytest.raises(UsageError) as raised:
        load_csv(path)

    assert str(raised.value).startswith(f"{path}:3: ")


def test_the_latest_due_time_of_a_clock_can_be_scheduled():
    latest_s = 2**62 / SECOND_NS  # 146 years

    assert [2**62] == list(open_loop(ONE, [latest_s]).due_ns)


STAGES = [Stage(2, 2, 2), Stage(4, 0, 1), Stage(0, 6, 3)]


@pytest.mark.parametrize(
    ("at_s", "requests"), [(0, 0), (0.5, 1), (2, 4), (2.5, 5.5), (3, 6), (4.5, 8.25), (6, 15), (7, 15), (1e9, 15)]
)
def test_the_requests_of_stages_by_a_moment_are_the_integral_of_their_rates(at_s, requests):
    assert requests == pytest.approx(requests_by(STAGES, at_s))


@pytest.mark.parametrize(
    ("given", "nominal"),
    [
        ({}, 15 / 6),
        ({"duration": "1s"}, 2),
        ({"duration": "2500ms"}, 5.5 / 2.5),
        ({"duration": "12s"}, 15 / 12),
        ({"requests": 3}, None),
    ],
)
def test_the_rate_that_stages_ask_for_is_that_of_the_window(given, nominal):
    schedule = scheduled(stages="2@2s,4..0@1s,0..6@3s", **given)

    assert nominal == (schedule.nominal_rate and pytest.approx(schedule.nominal_rate))


@pytest.mark.parametrize(("place", "sent"), [(0, 0), (1, 0), (2, 0), (10**17, 0)])
def test_a_place_beyond_the_recording_starts_over(tmp_path, place, sent):
    path = tmp_path / "schedule.csv"
    path.write_text(f"due_ns,request\n0,{place}\n")

    assert [sent] == list(scheduled(schedule=path).which)
