"""Schedules: the window, the hash, the file, and what the options make of them."""

from array import array
from hashlib import sha256
from pathlib import Path
from struct import pack

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.cli.planning import What, When, requests_of, schedule_of
from loadgen.drive.order import most_at_once
from loadgen.errors import UsageError
from loadgen.plan.recordings.ours import RecordedRequest
from loadgen.plan.schedule import SECOND_NS, closed_loop, load_csv, open_loop, recorded_times, save_csv


def recorded(*at_s: float | None) -> list[RecordedRequest]:
    """One request for each offset, told apart by its path."""
    return [RecordedRequest(path=f"/{place}", at_s=at) for place, at in enumerate(at_s)]


THREE = recorded(None, None, None)


def when(**given_) -> When:
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
        "seed": 1,
        "warmup": "0s",
    }
    return When(**(defaults | given_))


def what(**given_) -> What:
    defaults = {
        "recording": None,
        "prompts": None,
        "prompt": None,
        "model": None,
        "api": "openai-chat",
        "max_tokens": None,
        "set": [],
        "usage": None,
    }
    return What(**(defaults | given_))


def due_s(schedule) -> list[float]:
    return [at / SECOND_NS for at in schedule.due_ns]


# The window (METRICS section 4).


@pytest.mark.parametrize(
    ("due", "given_", "window_s", "measured"),
    [
        # Without a length: the last offset plus the mean gap.
        ([0, 1, 2], {}, (0, 3), 3),
        ([0, 1, 3], {}, (0, 4.5), 3),
        ([2, 3, 4], {}, (0, 5), 3),
        ([0, 0, 0], {}, (0, 0), 3),
        ([7], {}, (0, 8), 1),
        # With one: that, unless it would leave the last due out.
        ([0, 1, 2], {"length_s": 10}, (0, 10), 3),
        ([0, 1, 2], {"length_s": 2}, (0, 2), 3),
        ([0, 1, 5], {"length_s": 2}, (0, 5), 3),
        # Warm-up precedes the window and is no part of its length.
        ([0, 1, 2, 3], {"warmup_s": 2}, (2, 2), 2),
        ([0, 2, 3, 7], {"warmup_s": 2}, (2, 7.5), 3),
        ([0, 1, 2], {"warmup_s": 1, "length_s": 4}, (1, 4), 2),
        ([0, 4], {"warmup_s": 2}, (2, 3), 1),
    ],
)
def test_the_window_holds_first_and_last_due(due, given_, window_s, measured):
    schedule = open_loop(THREE, due, **given_)

    assert window_s == (schedule.warmup_ns / SECOND_NS, schedule.length_ns / SECOND_NS)
    assert measured == schedule.measured
    inside = [at for seq, at in enumerate(schedule.due_ns) if not schedule.is_warmup(seq)]
    assert measured == len(inside)
    assert schedule.warmup_ns <= min(inside) and max(inside) <= schedule.warmup_ns + schedule.length_ns


def test_a_request_due_as_the_warmup_ends_is_measured():
    schedule = open_loop(THREE, [0.999999999, 1.0], warmup_s=1.0)

    assert [True, False] == [schedule.is_warmup(seq) for seq in range(2)]


@pytest.mark.parametrize(
    ("due", "warmup_s", "words"), [([], 0, "no request in it"), ([0, 1], 2, "the whole schedule is warm-up")]
)
def test_a_schedule_that_measures_nothing_is_refused(due, warmup_s, words):
    with pytest.raises(UsageError, match=f"{words}\nhint: "):
        open_loop(THREE, due, warmup_s=warmup_s)


def test_requests_are_sent_in_recorded_order_and_start_over():
    schedule = open_loop(THREE, range(7))

    assert [0, 1, 2, 0, 1, 2, 0] == [schedule.request_at(seq) for seq in range(7)]
    assert schedule.repeats
    assert not open_loop(THREE, range(3)).repeats


def test_a_closed_loop_takes_requests_in_order_and_has_no_times():
    schedule = closed_loop(THREE, callers=2, count=5)

    assert [0, 1, 2, 0, 1] == [schedule.request_at(seq) for seq in range(5)]
    assert (True, None, 2, 5, 5) == (
        schedule.is_closed,
        schedule.due_ns,
        schedule.callers,
        schedule.count,
        schedule.measured,
    )


def test_the_warmup_of_a_closed_loop_does_not_count_towards_its_requests():
    schedule = closed_loop(THREE, callers=2, count=5, warmup_s=1.5)

    # How many are sent before 1.5 s nobody knows: the total is open, the measured count is not.
    assert (None, 5, 1_500_000_000) == (schedule.count, schedule.measured, schedule.warmup_ns)


# The hash.


def hash_of(*, due=(0, 1), which=None, **fields) -> str:
    given_ = {"path": "/a", "body": msgspec.Raw(b"{}")} | fields
    return open_loop([RecordedRequest(**given_), RecordedRequest(path="/b")], due, which=which).sha256


@pytest.mark.parametrize(
    "change",
    [
        {"due": (0, 1.000000001)},
        {"due": (0, 1, 2)},
        {"which": (1, 0)},
        {"path": "/a?x"},
        {"body": msgspec.Raw(b"{ }")},
        {"body": msgspec.Raw(b"null")},
    ],
)
def test_the_hash_covers_due_times_order_paths_and_bodies(change):
    assert hash_of() != hash_of(**change)


@pytest.mark.parametrize(
    "change",
    [
        {"headers": {"authorization": "secret"}},
        {"id": "x"},
        {"klass": "long"},
        {"at_s": 3.0},
        {"which": (0, 1)},
        {"body": msgspec.Raw(b"null"), "body_b64": "e30="},
    ],
)
def test_the_hash_does_not_cover_headers_or_names(change):
    assert hash_of() == hash_of(**change)


def test_the_hash_is_the_same_wherever_it_is_computed():
    first, second = sha256(b"/a\0{}").digest(), sha256(b"/b\0").digest()

    assert sha256(pack("<2q", 0, SECOND_NS) + first + second).hexdigest() == hash_of()


def test_a_path_and_a_body_are_told_apart():
    one = RecordedRequest(path="/a", body=msgspec.Raw(b"1"))
    other = RecordedRequest(path="/a1")

    assert open_loop([one], [0]).sha256 != open_loop([other], [0]).sha256


# The file.


@given(st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2)), min_size=1, max_size=9), st.booleans())
def test_a_saved_schedule_loads_the_same(tmp_path_factory, rows, with_places):
    path = tmp_path_factory.mktemp("schedule") / "schedule.csv"
    due_ns = sorted(at for at, _ in rows)
    places = [place for _, place in rows]

    save_csv(path, open_loop(THREE, [at / SECOND_NS for at in due_ns], which=places), with_places=with_places)

    assert (due_ns, places if with_places else None) == load_csv(path)


def test_a_schedule_file_is_a_plain_csv(tmp_path):
    path = tmp_path / "schedule.csv"
    schedule = open_loop(THREE, [0, 0.5], which=[2, 0])

    save_csv(path, schedule, with_places=True)
    assert "due_ns,request\n0,2\n500000000,0\n" == path.read_text()

    save_csv(path, schedule, with_places=False)
    assert "due_ns\n0\n500000000\n" == path.read_text()


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("", "", "empty"),
        ("due_ns\n", "", "no request in it"),
        ("due_s\n0\n", ":1", "the header is neither"),
        ("0\n1\n", ":1", "the header is neither"),
        ("due_ns,request,more\n", ":1", "the header is neither"),
        ("due_ns\n0\nsoon\n", ":3", "'soon' is not a row of counts"),
        ("due_ns\n0\n1.5\n", ":3", "'1.5' is not a row of counts"),
        ("due_ns\n-1\n", ":2", "'-1' is not a row of counts"),
        ("due_ns\n0\n\n1\n", ":3", "'' is not a row of counts"),
        ("due_ns\n1\n²\n", ":3", "'²' is not a row of counts"),
        ("due_ns\n0,1\n", ":2", "'0,1' is not a row of counts"),
        ("due_ns,request\n0,1\n1\n", ":3", "'1' is not a row of counts"),
        ("due_ns,request\n0,\n", ":2", "'0,' is not a row of counts"),
        ("due_ns\n0\n5\n4\n", ":4", "4 comes after 5"),
    ],
)
def test_a_wrong_schedule_file_is_named_by_its_line(tmp_path, text, where, words):
    path = tmp_path / "schedule.csv"
    path.write_text(text)

    with pytest.raises(UsageError) as raised:
        load_csv(path)

    fact, hint = str(raised.value).splitlines()
    assert fact.startswith(f"{path}{where}: {words}")
    assert hint.startswith("hint: ")


def test_a_schedule_file_that_cannot_be_read_says_why(tmp_path):
    binary = tmp_path / "schedule.parquet"
    binary.write_bytes(b"PAR1\xff\xfe")

    for path, words in ((tmp_path / "none.csv", "No such file or directory"), (binary, "not a text file")):
        with pytest.raises(UsageError, match=words):
            load_csv(path)


# Recorded times.


@pytest.mark.parametrize(
    ("at_s", "given_", "expected"),
    [
        ([0, 1, 3], {}, ([0, 1, 3], [0, 1, 2])),
        ([10, 11, 13], {}, ([0, 1, 3], [0, 1, 2])),
        ([3, 0, 1], {}, ([0, 1, 3], [1, 2, 0])),
        ([0, 0, 1], {}, ([0, 0, 1], [0, 1, 2])),
        ([0, 1, 3], {"speed": 2.0}, ([0, 0.5, 1.5], [0, 1, 2])),
        ([0, 1, 3], {"speed": 0.5}, ([0, 2, 6], [0, 1, 2])),
        ([0, 1, 3], {"limit": 2}, ([0, 1], [0, 1])),
        ([0, 1, 3], {"until_s": 3.0}, ([0, 1], [0, 1])),
        # Over again, a mean gap (1.5 s) after the last.
        ([0, 1, 3], {"limit": 5}, ([0, 1, 3, 4.5, 5.5], [0, 1, 2, 0, 1])),
        ([0, 1, 3], {"until_s": 7.6}, ([0, 1, 3, 4.5, 5.5, 7.5], [0, 1, 2, 0, 1, 2])),
        ([13, 10, 11], {"limit": 4, "speed": 2.0}, ([0, 0.5, 1.5, 2.25], [1, 2, 0, 1])),
        ([5], {"limit": 3}, ([0, 1, 2], [0, 0, 0])),
        # All at once cannot be spread over time: once is all there is.
        ([4, 4], {"until_s": 10.0}, ([0, 0], [0, 1])),
    ],
)
def test_recorded_offsets_become_due_times(at_s, given_, expected):
    times, places = recorded_times(recorded(*at_s), **given_)

    assert (pytest.approx(expected[0]), expected[1]) == (times, places)


def test_a_recording_without_times_has_none_to_replay():
    with pytest.raises(UsageError, match=r"request 2 of the recording has no at_s\nhint: .*--rate"):
        recorded_times(recorded(0.0, None, 1.0))


# From options.


@pytest.mark.parametrize(
    ("given_", "expected_due", "window_s"),
    [
        ({"rate": 4.0, "requests": 4}, [0, 0.25, 0.5, 0.75], (0, 1)),
        ({"rate": 4.0, "duration": "1s"}, [0, 0.25, 0.5, 0.75], (0, 1)),
        ({"rate": 4.0, "duration": "10s", "requests": 2}, [0, 0.25], (0, 10)),
        ({"rate": 4.0, "duration": "500ms", "requests": 9}, [0, 0.25], (0, 0.5)),
        ({"rate": 4.0}, [0, 0.25, 0.5], (0, 0.75)),
        # Warm-up precedes and adds; --requests counts measured ones.
        ({"rate": 2.0, "requests": 2, "warmup": "1s"}, [0, 0.5, 1, 1.5], (1, 1)),
        ({"rate": 2.0, "duration": "1s", "warmup": "1s"}, [0, 0.5, 1, 1.5], (1, 1)),
        ({"stages": "2@1s,4@1s"}, [0, 0.5, 1, 1.25, 1.5, 1.75], (0, 2)),
        ({"stages": "2@1s,4@1s", "requests": 3}, [0, 0.5, 1], (0, 2)),
        ({"stages": "2@1s,4@1s", "warmup": "1s"}, [0, 0.5, 1, 1.5, 2, 2.25, 2.5, 2.75], (1, 2)),
        ({"stages": "2@1s,4@1s", "duration": "1s"}, [0, 0.5], (0, 1)),
    ],
)
def test_options_make_an_open_loop(given_, expected_due, window_s):
    schedule = schedule_of(when(**given_), THREE, ends=True)

    assert pytest.approx(expected_due) == due_s(schedule)
    assert window_s == (schedule.warmup_ns / SECOND_NS, schedule.length_ns / SECOND_NS)


@pytest.mark.parametrize(
    ("given_", "nominal"),
    [
        ({"rate": 4.0, "requests": 4}, 4.0),
        ({"stages": "2@1s,4@3s"}, 3.5),
        ({"stages": "0..10@2s"}, 5.0),
        ({"stages": "2@1s,4@1s", "duration": "1s"}, 2.0),
        ({"recorded": True}, None),
        ({"concurrency": 2}, None),
    ],
)
def test_a_schedule_keeps_the_rate_that_was_asked_for(given_, nominal):
    assert nominal == schedule_of(when(**given_), recorded(0, 1, 2), ends=True).nominal_rate


def test_a_poisson_rate_is_drawn_with_its_seed():
    def draw(seed: int):
        return schedule_of(when(rate=9.0, arrivals="poisson", requests=50, seed=seed), THREE, ends=True)

    assert draw(1).sha256 == draw(1).sha256
    assert draw(1).sha256 != draw(2).sha256


@pytest.mark.parametrize(
    ("given_", "expected_due", "places", "window_s"),
    [
        ({}, [0, 1, 3], [1, 0, 2], (0, 4.5)),
        ({"speed": 2.0}, [0, 0.5, 1.5], [1, 0, 2], (0, 2.25)),
        ({"requests": 4}, [0, 1, 3, 4.5], [1, 0, 2, 1], (0, 6)),
        ({"duration": "2s"}, [0, 1], [1, 0], (0, 2)),
        ({"warmup": "2s"}, [0, 1, 2, 3, 5], [1, 0, 1, 0, 2], (2, 4.5)),
    ],
)
def test_options_replay_a_recording(given_, expected_due, places, window_s):
    schedule = schedule_of(when(recorded=True, **given_), recorded(11, 10, 13), ends=True)

    assert pytest.approx(expected_due) == due_s(schedule)
    assert places == list(schedule.which)
    assert window_s == (schedule.warmup_ns / SECOND_NS, schedule.length_ns / SECOND_NS)


@pytest.mark.parametrize(
    ("text", "given_", "expected_due", "places"),
    [
        ("due_ns\n0\n1000000000\n1000000000\n2500000000\n", {}, [0, 1, 1, 2.5], [0, 1, 2, 0]),
        ("due_ns,request\n0,2\n1000000000,0\n", {}, [0, 1], [2, 0]),
        ("due_ns,request\n0,2\n1000000000,4\n", {}, [0, 1], [2, 1]),
        ("due_ns\n0\n1000000000\n2000000000\n", {"requests": 2}, [0, 1], [0, 1]),
        ("due_ns\n0\n1000000000\n2000000000\n", {"duration": "2s"}, [0, 1], [0, 1]),
        ("due_ns,request\n0,2\n1000000000,0\n", {"warmup": "1s"}, [0, 1, 2], [2, 2, 0]),
    ],
)
def test_options_send_a_schedule_file(tmp_path, text, given_, expected_due, places):
    path = tmp_path / "schedule.csv"
    path.write_text(text)

    schedule = schedule_of(when(schedule=path, **given_), THREE, ends=True)

    assert (expected_due, places) == (due_s(schedule), list(schedule.which))


@given(st.lists(st.integers(0, 10**13), min_size=1, max_size=20))
def test_a_schedule_file_is_sent_to_the_nanosecond(tmp_path_factory, due_ns):
    path = tmp_path_factory.mktemp("schedule") / "schedule.csv"
    path.write_text("due_ns\n" + "".join(f"{at}\n" for at in sorted(due_ns)))

    assert sorted(due_ns) == list(schedule_of(when(schedule=path), THREE, ends=True).due_ns)


@pytest.mark.parametrize(
    ("given_", "ends", "expected"),
    [
        ({"concurrency": 2, "requests": 5}, False, (2, 5, 5, None)),
        ({"concurrency": 2, "duration": "3s"}, False, (2, None, None, 3 * SECOND_NS)),
        ({"concurrency": 2}, True, (2, 3, 3, None)),
        ({"concurrency": 2, "requests": 5, "duration": "3s"}, False, (2, 5, 5, 3 * SECOND_NS)),
        ({"concurrency": 2, "requests": 5, "warmup": "1s"}, False, (2, None, 5, None)),
    ],
)
def test_options_make_a_closed_loop(given_, ends, expected):
    schedule = schedule_of(when(**given_), THREE, ends=ends)

    assert expected == (schedule.callers, schedule.count, schedule.measured, schedule.length_ns)
    assert schedule.is_closed


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ({}, "no schedule given"),
        ({"rate": 1.0, "stages": "1@1s"}, "--rate and --stages given"),
        ({"rate": 1.0, "concurrency": 2}, "--rate and --concurrency given"),
        ({"recorded": True, "schedule": Path("x.csv")}, "--recorded and --schedule given"),
        ({"rate": 1.0, "arrivals": "uniform"}, "--arrivals 'uniform' is not known"),
        ({"rate": 0.0}, "--rate 0 is not above 0"),
        ({"rate": -1.0}, "--rate -1 is not above 0"),
        ({"rate": float("nan")}, "--rate nan is not above 0"),
        ({"rate": float("inf")}, "--rate inf is not above 0"),
        ({"rate": 1.0, "burstiness": 0.0}, "--burstiness 0 is not above 0"),
        ({"recorded": True, "speed": 0.0}, "--speed 0 is not above 0"),
        ({"rate": 1.0, "duration": "0s"}, "--duration is 0"),
        ({"rate": 1.0, "duration": "5"}, "--duration '5' is not a duration"),
        ({"rate": 1.0, "warmup": "soon", "requests": 1}, "--warmup 'soon' is not a duration"),
        ({"rate": 1.0}, "the run has no end"),
        ({"concurrency": 1}, "the run has no end"),
        ({"stages": "1@1s", "warmup": "1m", "requests": 0}, "the schedule has no request in it"),
        ({"stages": "fast@1s"}, "stage 'fast@1s'"),
        ({"recorded": True}, "has no at_s"),
        ({"schedule": Path("/none/x.csv")}, "/none/x.csv: No such file"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused_with_a_hint(given_, words):
    with pytest.raises(UsageError) as raised:
        schedule_of(when(**given_), THREE, ends=False)

    fact, hint = str(raised.value).splitlines()
    assert words in fact
    assert hint.startswith("hint: ")


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ({}, "nothing given to send"),
        ({"prompt": "hi", "prompts": Path("x")}, "--prompts and --prompt given to send"),
        ({"recording": Path("x"), "prompt": "hi"}, "--recording and --prompt given to send"),
        ({"prompt": "hi"}, "prompts need a model"),
        ({"prompt": "hi", "model": "m", "api": "gopher"}, "--api 'gopher' is not known"),
        ({"prompt": "hi", "model": "m", "set": ["n"]}, "--set 'n' is not KEY=VALUE"),
        ({"prompt": "hi", "model": "m", "set": ["n=one"]}, "--set n: 'one' is not JSON"),
    ],
)
def test_requests_that_cannot_be_are_refused_with_a_hint(given_, words):
    with pytest.raises(UsageError) as raised:
        requests_of(what(**given_))

    fact, hint = str(raised.value).splitlines()
    assert words in fact
    assert hint.startswith("hint: ")


def bodies_of(**given_) -> list[object]:
    return [msgspec.json.decode(request.payload) for request in requests_of(what(**given_))]


def test_a_prompt_asks_for_usage_unless_told_not_to():
    asked = {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert [asked] == bodies_of(prompt="hi", model="m")
    assert [{key: value for key, value in asked.items() if key != "stream_options"}] == bodies_of(
        prompt="hi", model="m", usage=False
    )


def test_a_prompts_own_cap_stands_before_the_option(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "a", "max_tokens": 3}\nb\n')

    caps = [body["max_tokens"] for body in bodies_of(prompts=path, model="m", max_tokens=9, set=["seed=1"])]

    assert [3, 9] == caps


def test_a_recording_is_sent_as_it_was_unless_something_is_asked(tmp_path):
    path = tmp_path / "recording.jsonl"
    path.write_bytes(b'{"path": "/v1", "body": { "model":"old","stream": true }}\n')

    assert b'{ "model":"old","stream": true }' == requests_of(what(recording=path))[0].payload
    assert [{"model": "new", "stream": True, "n": 2}] == bodies_of(recording=path, model="new", set=["n=2"])
    assert [{"model": "old", "stream": True, "stream_options": {"include_usage": True}}] == bodies_of(
        recording=path, usage=True
    )


# What a machine must have room for.


@pytest.mark.parametrize(
    ("due", "deadline_s", "most"),
    [
        ([0], 1, 1),
        ([0, 1, 2, 3], 1, 1),  # one ends as the next is due
        ([0, 1, 2, 3], 1.5, 2),
        ([0, 1, 2, 3], 100, 4),
        ([0, 0, 0, 5], 1, 3),
        ([0, 5, 5.1, 5.2, 9], 1, 3),
    ],
)
def test_the_most_at_once_is_if_each_took_its_deadline(due, deadline_s, most):
    assert most == most_at_once(open_loop(THREE, due), round(deadline_s * SECOND_NS))


def test_the_most_at_once_of_a_closed_loop_are_its_callers():
    assert 7 == most_at_once(closed_loop(THREE, callers=7, count=100), SECOND_NS)


def test_a_schedule_is_kept_as_packed_integers():
    schedule = open_loop(THREE, [0, 1])

    assert (array("q", [0, SECOND_NS]), array("q", [0, 1])) == (schedule.due_ns, schedule.which)
