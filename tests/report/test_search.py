"""The search for the capacity, fed with worlds whose capacity is known."""

import io
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report.queueing import capacity, waits, waits_at_most
from rich.console import Console

from loadgen.report.capacity.binomial import at_least, at_most, bounds, requests_needed
from loadgen.report.capacity.probes import LOOKS, PROBES, Aim, Part, Probe, together
from loadgen.report.capacity.search import Answer, Ask, advance
from loadgen.report.capacity.text import write_capacity
from loadgen.report.capacity.told import as_json, in_words
from loadgen.results.slo import parse_slo

AIM = Aim(good_share=0.99, patience_s=0.1)
World = Callable[[float, int], Part | Sequence[bool]]


def search(aim: Aim, world: World) -> tuple[Answer, dict[float, Probe], list[Ask]]:
    """Make the probes that are asked for in a world, to the answer."""
    probes: dict[float, Probe] = {}
    asked = []
    while not isinstance(step := advance(aim, probes), Answer):
        asked.append(step)
        probe = probes.setdefault(step.rate, Probe(step.rate))
        requests = aim.scout(step.rate) if step.is_scout else aim.part(step.rate, probe.whole_parts)
        seen = world(step.rate, requests)
        part = seen if isinstance(seen, Part) else Part(useful=seen)
        probe.parts.append(replace(part, is_scout=step.is_scout))
    return step, probes, asked


def poisson(patience_s: float, rng: random.Random) -> World:
    """Poisson arrivals at 16 slots, each served for 200 ms."""

    def probe(rate: float, count: int) -> Part:
        waited = list(waits(rate, 16, 0.2, count, rng))
        felt = [min(max(wait, patience_s / 10), 2 * patience_s) for wait in waited]
        return Part(useful=[wait <= patience_s for wait in waited], felt=felt)

    return probe


def all_good_below(rate: float) -> World:
    """Constant arrivals: below the capacity nobody waits, above it soon everybody."""
    return lambda probed, count: [probed < rate] * count


def test_the_binomial_tails_are_exact():
    share, count = Fraction(1, 100), 300
    exact = [math.comb(count, bad) * share**bad * (1 - share) ** (count - bad) for bad in range(count + 1)]

    for most in (0, 3, 20):
        assert at_most(most, count, 0.01) == pytest.approx(float(sum(exact[: most + 1])))
        assert at_least(most, count, 0.01) == pytest.approx(float(sum(exact[most:])), abs=1e-12)


def test_the_bounds_are_those_of_clopper_and_pearson():
    assert (0.000253, 0.054459) == pytest.approx(bounds(1, 100, risk=0.025), abs=1e-6)
    assert (0.0, 1 - 0.05 ** (1 / 299)) == pytest.approx(bounds(0, 299, risk=0.05))
    assert 1.0 == bounds(7, 7, risk=0.05)[1]


@given(share=st.floats(0.5, 0.999), risk=st.floats(1e-4, 0.2))
def test_fewer_requests_than_needed_never_pass(share, risk):
    needed = requests_needed(share, risk=risk)

    assert at_most(0, needed, 1 - share) <= risk * (1 + 1e-9)
    assert at_most(0, needed - 1, 1 - share) > risk * (1 - 1e-9)


@given(useful=st.lists(st.sampled_from([True] * 99 + [False]), max_size=3000), extra=st.integers(0, 30))
def test_a_probe_passes_only_when_its_bound_holds(useful, extra):
    probe = Probe(1.0, [Part(useful=useful + [False] * extra)])
    bad, count = probe.useful.count(False), len(probe.useful)

    if probe.judgement(AIM) == "passed":
        assert at_most(bad, count, 0.01) <= AIM.risk
        assert probe.useful_bounds(AIM)[0] >= 0.99
    if probe.judgement(AIM) == "failed":
        assert at_least(bad, count, 0.01) <= AIM.risk
        assert probe.useful_bounds(AIM)[1] < 0.99


def test_a_scout_can_fail_but_not_pass():
    good, bad = (Probe(1.0, [Part(useful=[useful] * 5000, is_scout=True)]) for useful in (True, False))

    assert ("open", "failed") == (good.judgement(AIM), bad.judgement(AIM))


def test_a_growing_backlog_fails_even_when_all_are_good():
    probe = Probe(1.0, [Part(useful=[True] * 5000, backlog_grows=True)])

    assert "failed" == probe.judgement(AIM)


def test_requests_that_fail_together_tell_less_than_their_number():
    apart = [i % 100 != 0 for i in range(2000)]
    bursts = [not 400 <= i % 1000 < 410 for i in range(2000)]

    assert together(apart) < 0.1
    assert together(bursts) > 5
    assert (20, 20) == (apart.count(False), bursts.count(False))


def test_a_steady_decline_is_not_taken_for_a_burst():
    rng = random.Random(1)

    assert together([rng.random() > i / 2000 for i in range(2000)]) < 2


def test_without_bounds_doubling_finds_them_and_bisection_the_capacity():
    answer, probes, asked = search(AIM, all_good_below(37.3))

    assert [1, 2, 4, 8, 16, 32, 64] == [ask.rate for ask in asked[:7]]
    assert all(ask.is_scout for ask in asked[:7])
    assert "precise" == answer.ended
    assert answer.passed <= 37.3 <= answer.failed <= 1.05 * answer.passed
    assert "passed" == probes[answer.passed].judgement(AIM)


@pytest.mark.parametrize("seed", range(5))
def test_a_search_always_ends_within_its_limits(seed):
    rng = random.Random(seed)

    def moody(rate: float, count: int) -> Part:
        good = rng.choice([1.0, 1.0, 0.99, 0.985, 0.5])
        return Part(useful=[rng.random() < good for _ in range(count)], valid=rng.random() < 0.9)

    _, probes, asked = search(Aim(good_share=0.99, patience_s=0.1, requests=200), moody)

    assert len(probes) <= PROBES
    assert len(asked) <= PROBES * LOOKS


def test_the_bounds_of_the_search_are_kept():
    aim = Aim(good_share=0.99, patience_s=0.1, lowest=10.0, highest=20.0)

    above, _, asked = search(aim, all_good_below(1000.0))
    below, _, _ = search(aim, all_good_below(5.0))
    within, _, _ = search(aim, all_good_below(14.0))

    assert ((20.0, None, "highest"), (None, 10.0, "lowest")) == (
        (above.passed, above.failed, above.ended),
        (below.passed, below.failed, below.ended),
    )
    assert [10.0, 20.0] == [ask.rate for ask in asked]
    assert within.passed <= 14.0 <= within.failed


def test_an_invalid_probe_is_no_evidence_against_the_server():
    def generator_fails_at_forty(rate: float, count: int) -> Part:
        return Part(useful=[rate < 40] * count, valid=rate < 40)

    answer, probes, _ = search(AIM, generator_fails_at_forty)

    assert (None, "generator") == (answer.failed, answer.ended)
    assert 40 / 1.05 <= answer.passed < 40
    assert "the generator was the limit, not the server" in in_words(AIM, answer)
    assert {"invalid"} == {probe.judgement(AIM) for probe in probes.values() if probe.rate > 40}


def test_a_generator_that_is_the_limit_everywhere_finds_no_capacity_and_blames_no_server():
    for lowest in (None, 10.0):
        aim = Aim(good_share=0.99, patience_s=0.1, lowest=lowest)
        answer, _, _ = search(aim, lambda _, count: Part(useful=[False] * count, valid=False))

        assert (None, None, "generator") == (answer.passed, answer.failed, answer.ended)
        assert "no rate passed: the generator was the limit" in in_words(aim, answer)


def test_the_table_tells_every_probe_and_which_are_no_evidence():
    def generator_fails_at_forty(rate: float, count: int) -> Part:
        return Part(useful=[True] * count, valid=rate < 40, notes=[] if rate < 40 else ["client_limit: no descriptors"])

    answer, probes, _ = search(AIM, generator_fails_at_forty)
    told = as_json(AIM, probes, answer, slos=["ttft<100ms"])
    written = io.StringIO()
    write_capacity(told, arrivals="poisson", console=Console(file=written, width=120))

    lines = written.getvalue().splitlines()
    assert "open loop, poisson arrivals; good: completed with ttft<100ms" == lines[0]
    assert f"{answer.passed:g} " in "".join(line for line in lines if "passed" in line)
    assert "64/s is INVALID, and no evidence: client_limit: no descriptors" in lines
    assert told["words"] in lines
    assert told["limit"] is None


def test_what_cannot_be_told_is_called_undecided_and_never_passed():
    rng = random.Random(3)

    def just_at_the_target(rate: float, count: int) -> list[bool]:
        return [rng.random() < (1.0 if rate < 20 else 0.99 if rate < 30 else 0.5) for _ in range(count)]

    answer, probes, _ = search(AIM, just_at_the_target)

    assert "undecided" == answer.ended
    assert answer.passed < 20.0 and 30.0 <= answer.failed
    assert all(20.0 <= rate < 30.0 for rate in answer.undecided)
    told = as_json(AIM, probes, answer, slos=["ttft<100ms"])
    assert "could not be told from the target" in told["words"]
    assert {"undecided"} == {
        probe["judgement"] for probe in told["probes"] if probe["rate"] in told["undecided_per_sec"]
    }


def test_a_server_too_slow_to_be_judged_is_said_to_be():
    aim = Aim(good_share=0.99, patience_s=0.1, longest_s=60.0)
    answer, _, asked = search(aim, all_good_below(0.3))

    assert (None, "too long") == (answer.passed, answer.ended)
    assert all(sum(aim.part(ask.rate, place) for place in range(3)) >= aim.needed for ask in asked if not ask.is_scout)


@pytest.mark.parametrize("rate", [0.1, 5.0, 400.0])
def test_no_run_of_a_probe_is_longer_than_allowed(rate):
    aim = Aim(good_share=0.99, patience_s=30.0, longest_s=60.0)

    assert all(
        1 <= requests <= max(60 * rate, 1) for requests in (aim.scout(rate), *(aim.part(rate, n) for n in range(3)))
    )


def test_a_stopped_search_goes_on_where_it_was():
    _, probes, asked = search(AIM, all_good_below(37.3))
    first = {rate: probe for rate, probe in probes.items() if rate in {ask.rate for ask in asked[:5]}}

    assert asked[5] == advance(AIM, first)


def test_the_answer_holds_the_capacity_at_the_stated_confidence():
    """The share of good requests falls slowly through 99 % at 37.3/s, so that probes near it can go wrong."""
    held = 0
    for seed in range(25):
        rng = random.Random(seed)

        def slope(rate: float, count: int, rng: random.Random = rng) -> list[bool]:
            good = 1 - 0.02 / (1 + math.exp((37.3 - rate) / 0.8))
            return [rng.random() < (good if rate < 45 else 0.5) for _ in range(count)]

        answer, _, _ = search(AIM, slope)
        held += answer.passed is not None and answer.passed <= 37.3 <= (answer.failed or math.inf)

    assert held >= 24


def test_the_theory_of_poisson_arrivals_is_what_a_long_simulation_shows():
    waited = list(waits(46.0, 16, 0.2, 150_000, random.Random(1)))

    assert sum(wait <= 0.03 for wait in waited) / len(waited) == pytest.approx(
        waits_at_most(0.03, 46.0, 16, 0.2), abs=0.0015
    )


@pytest.mark.parametrize(
    ("share", "patience_s", "theory"), [(0.9, 0.1, 71.15), (0.95, 0.1, 68.61), (0.99, 0.03, 47.66)]
)
def test_the_answer_holds_the_capacity_of_sixteen_slots_under_poisson_arrivals(share, patience_s, theory):
    """M/D/16, 200 ms of service: waits come in bursts, requests fail together, and a short probe may see none."""
    aim = Aim(good_share=share, patience_s=patience_s + 0.05, lowest=20.0)
    answers = [search(aim, poisson(patience_s, random.Random(seed)))[0] for seed in range(3)]

    assert theory == pytest.approx(capacity(share, patience_s, 16, 0.2), abs=0.02)
    assert all(answer.passed <= theory <= answer.failed for answer in answers)


def test_times_that_rise_and_fall_together_are_seen_before_a_request_has_failed():
    """At 76/s, with 95 % of the slots taken, seconds may pass before one waits too long: no evidence that none will."""
    lucky = 0
    for seed in range(40):
        part = poisson(0.19, random.Random(seed))(76.0, 200)
        if all(part.useful):
            lucky += 1
            assert "passed" != Probe(76.0, [part]).judgement(Aim(good_share=0.9, patience_s=0.24))

    assert lucky > 5


def test_more_requests_bring_the_answer_nearer_to_the_theory():
    answer, _, _ = search(
        Aim(good_share=0.9, patience_s=0.15, lowest=40.0, requests=4000), poisson(0.1, random.Random(2))
    )

    assert answer.passed <= 71.15 <= answer.failed
    assert math.sqrt(answer.passed * answer.failed) == pytest.approx(71.15, rel=0.05)


@pytest.mark.parametrize(
    ("slos", "patience_s"),
    [
        (["ttft<500ms", "e2e<3s"], 0.5),
        (["completion_from_due<=2s", "itl<20ms"], 2.0),
        (["itl<20ms", "user_tokens_per_sec>30"], 0.0),
    ],
)
def test_the_tightest_objective_that_feels_a_wait_sets_how_long_a_probe_is(slos, patience_s):
    from loadgen.report.capacity.reading import patience_s as patience

    found = patience([parse_slo(text) for text in slos])

    assert patience_s == found
    assert Aim(good_share=0.9, patience_s=found).part(100.0, 0) >= 100.0 * 2 * patience_s / 0.05
