"""Metrics, objectives and secrets: every number of METRICS section 2 by hand, and who it is a number of."""

from array import array

import polars as pl
import pytest

from loadgen.errors import UsageError
from loadgen.results.finish import frame_gaps
from loadgen.results.metrics import METRICS
from loadgen.results.record import Planned, Row
from loadgen.results.secrets import masked_arguments
from loadgen.results.slo import parse_slo, with_good
from loadgen.results.tables import frames_table, requests_table
from loadgen.wire.events import FRAME_KINDS
from loadgen.wire.secrets import masked_header, masked_path

MS = 1_000_000

PLANNED = [
    Planned("first", "short", "s1", "POST", "/v1", "m", 17, 5),
    Planned("second", None, None, "GET", "/v2", None, 0, None),
]

# A request that went well: due at 100 ms, sent at 103 on a new connection that took 2 ms, 5 tokens by 200 ms.
GOOD = {
    "outcome": "completed",
    "status": 200,
    "format": "openai",
    "finished": True,
    "due_ns": 100 * MS,
    "fired_ns": 100 * MS + 500_000,
    "admitted_ns": 100 * MS + 500_000,
    "connected_ns": 102 * MS + 500_000,
    "sent_ns": 103 * MS,
    "first_sent_ns": 103 * MS,
    "headers_ns": 110 * MS,
    "first_frame_ns": 110 * MS,
    "first_output_ns": 120 * MS,
    "first_text_ns": 140 * MS,
    "last_output_ns": 200 * MS,
    "terminal_ns": 204 * MS,
    "end_ns": 205 * MS,
    "output_tokens": 5,
    "connection_reused": False,
}
CLOSED = {"due_ns": None}
NOTHING = {
    name: None
    for name in GOOD
    if name not in ("outcome", "due_ns", "fired_ns", "connection_reused", "format", "status", "finished")
}
ALL = [
    "ttft",
    "first_text",
    "e2e",
    "completion",
    "itl",
    "user_tokens_per_sec",
    "ttft_from_due",
    "first_text_from_due",
    "e2e_from_due",
    "completion_from_due",
    "lateness",
    "generator_lateness",
    "connect",
]


def row(**changes) -> Row:
    return Row(**({"seq": 0, "place": 0} | GOOD | changes))


def table(*rows: Row) -> pl.DataFrame:
    return requests_table(rows, PLANNED, run="r", request_ids=True)


def metrics_of(**changes) -> dict[str, float | None]:
    columns = {metric.name: metric.column for metric in METRICS.values()}
    values = table(row(**changes)).row(0, named=True)
    return {name: values[column] for name, column in columns.items()}


def test_the_metrics_are_those_of_the_definition():
    assert ALL == list(METRICS)


def test_every_metric_of_a_request_that_went_well():
    assert {
        "ttft": 17.0,
        "first_text": 37.0,
        "e2e": 97.0,
        "completion": 101.0,
        "itl": 20.0,  # (97 - 17) / 4
        "user_tokens_per_sec": 50.0,
        "ttft_from_due": 20.0,
        "first_text_from_due": 40.0,
        "e2e_from_due": 100.0,
        "completion_from_due": 104.0,
        "lateness": 3.0,
        "generator_lateness": 1.0,  # 3 - 2 of connecting
        "connect": 2.0,
    } == pytest.approx(metrics_of())


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({}, set()),
        # A stream that was cut still has its beginning.
        (
            {"outcome": "interrupted", "finished": False, "terminal_ns": None},
            {"e2e", "completion", "itl", "user_tokens_per_sec", "e2e_from_due", "completion_from_due"},
        ),
        (
            {"outcome": "timeout", "finished": False, "terminal_ns": None, "first_text_ns": None},
            {"first_text", "e2e", "completion", "itl", "user_tokens_per_sec"}
            | {"first_text_from_due", "e2e_from_due", "completion_from_due"},
        ),
        # The connection broke after the end marker: completed, but not finished.
        ({"finished": False}, {"e2e", "itl", "user_tokens_per_sec", "e2e_from_due"}),
        # Finished, but not completed.
        ({"outcome": "truncated"}, {"completion", "completion_from_due"}),
        ({"outcome": "noneligible_finish"}, {"completion", "completion_from_due"}),
        # Other feeds are timed by no metric of a stream.
        (
            {
                "outcome": "responded",
                "format": "other",
                "finished": None,
                "first_output_ns": None,
                "first_text_ns": None,
                "last_output_ns": None,
                "terminal_ns": None,
                "output_tokens": None,
            },
            set(ALL) - {"lateness", "generator_lateness", "connect"},
        ),
        # Tool arguments are output and no answer text.
        ({"first_text_ns": None}, {"first_text", "first_text_from_due"}),
        # Tokens: none below two, none unknown.
        ({"output_tokens": 1}, {"itl", "user_tokens_per_sec"}),
        ({"output_tokens": 0}, {"itl", "user_tokens_per_sec"}),
        ({"output_tokens": None}, {"itl", "user_tokens_per_sec"}),
        # All at once: an itl of zero is one, a rate of infinity is none.
        ({"first_output_ns": 200 * MS}, {"user_tokens_per_sec"}),
        # Connecting happens on new connections only.
        ({"connection_reused": True}, {"connect"}),
        ({"connection_reused": True, "connected_ns": 100 * MS + 500_000}, {"connect"}),
        # A closed loop has no due.
        (
            CLOSED,
            {"ttft_from_due", "first_text_from_due", "e2e_from_due", "completion_from_due"}
            | {"lateness", "generator_lateness"},
        ),
        # Nothing was sent, or nothing came back.
        ({"outcome": "unsent", "finished": False} | NOTHING | {"fired_ns": None, "connection_reused": None}, set(ALL)),
        (
            {"outcome": "connect_error", "finished": False, "admitted_ns": 101 * MS}
            | NOTHING
            | {"connection_reused": None},
            set(ALL),
        ),
        (
            {"outcome": "rejected", "finished": False, "format": None, "status": 429}
            | dict.fromkeys(
                ("first_frame_ns", "first_output_ns", "first_text_ns", "last_output_ns", "terminal_ns", "output_tokens")
            ),
            set(ALL) - {"lateness", "generator_lateness", "connect"},
        ),
    ],
)
def test_a_metric_is_null_outside_its_population(changes, missing):
    assert missing == {name for name, value in metrics_of(**changes).items() if value is None}


def test_tokens_that_come_all_at_once_have_an_itl_of_zero():
    assert 0.0 == metrics_of(first_output_ns=200 * MS)["itl"]


def test_two_tokens_have_one_gap():
    found = metrics_of(output_tokens=2)

    assert (80.0, 12.5) == (found["itl"], found["user_tokens_per_sec"])


@pytest.mark.parametrize(
    ("changes", "lateness", "generator_lateness"),
    [
        # The cap's wait is not the generator's doing,
        ({"admitted_ns": 101 * MS, "connected_ns": 102 * MS}, 3.0, 1.5),
        ({"admitted_ns": 102 * MS + 500_000}, 3.0, 1.0),
        # nor is connecting a new connection;
        ({"connected_ns": 103 * MS}, 3.0, 0.5),
        # checking out an idle one is.
        ({"connection_reused": True}, 3.0, 3.0),
        # Fired late: all of it counts.
        ({"fired_ns": 102 * MS, "admitted_ns": 102 * MS, "connected_ns": 102 * MS}, 3.0, 3.0),
        # A resend is a dead connection's doing: only up to the first writing.
        (
            {"resent": True, "connection_reused": False, "connected_ns": 119 * MS, "sent_ns": 120 * MS}
            | {"first_sent_ns": 101 * MS},
            20.0,
            1.0,
        ),
    ],
)
def test_the_generators_lateness_is_without_waits_that_are_not_its_own(changes, lateness, generator_lateness):
    found = metrics_of(**changes)

    assert (lateness, generator_lateness) == (
        pytest.approx(found["lateness"]),
        pytest.approx(found["generator_lateness"]),
    )


def test_a_table_has_one_row_a_record_and_the_plan_beside_it():
    requests = table(row(seq=7, place=0), row(seq=8, place=1, is_warmup=True, due_ns=None, outcome="http_error"))

    columns = ["run", "seq", "id", "attempt", "final", "request_id", "class", "session", "phase", "method", "path"]
    assert [
        ("r", 7, "first", 1, True, "r-7", "short", "s1", "measure", "POST", "/v1"),
        ("r", 8, "second", 1, True, "r-8", None, None, "warmup", "GET", "/v2"),
    ] == requests.select(columns).rows()
    assert [(17, 5, "m"), (0, None, None)] == requests.select("request_bytes", "expected_output_tokens", "model").rows()


SECTION_7 = """run seq id attempt final request_id class session phase worker method path model
    outcome detail status format finished finish_reason retry_after_s
    due_ns fired_ns admitted_ns connected_ns sent_ns headers_ns first_frame_ns first_output_ns first_text_ns
    last_output_ns terminal_ns end_ns
    ttft_ms first_text_ms e2e_ms completion_ms itl_ms user_tokens_per_sec lateness_ms generator_lateness_ms
    ttft_from_due_ms first_text_from_due_ms e2e_from_due_ms completion_from_due_ms connect_ms
    input_tokens cached_tokens output_tokens reasoning_tokens tokens_approximate frames output_frames output_chars
    request_bytes response_bytes reads stamp_uncertainty_ms
    connection_reused resent first_sent_ns stamp_source transport"""


def test_a_table_has_the_columns_of_the_definition_with_the_types_it_says():
    schema = table(row()).schema

    assert set() == set(SECTION_7.split()) - set(schema)
    types = {"_ns": pl.Int64, "_ms": pl.Float64}
    assert [] == [name for name in schema if name[-3:] in types and schema[name] != types[name[-3:]]]


def test_a_table_of_no_rows_has_the_same_columns():
    assert table(row()).schema == table().schema
    assert frames_table([row()]).schema == frames_table([]).schema


def test_a_table_of_nulls_has_the_same_types_as_one_of_values():
    assert table(row()).schema == table(row(**NOTHING | CLOSED | {"connection_reused": None})).schema


@pytest.mark.parametrize(("request_ids", "expected"), [(True, "r-0"), (False, None)])
def test_a_request_id_stands_where_one_was_sent(request_ids, expected):
    assert [expected] == requests_table([row()], PLANNED, run="r", request_ids=request_ids)["request_id"].to_list()


def test_the_stamps_uncertainty_is_in_milliseconds():
    assert [0.25, None] == table(row(stamp_uncertainty_ns=250_000), row(seq=1))["stamp_uncertainty_ms"].to_list()


def streamed(seq: int, *frames: tuple[float, str], **changes) -> Row:
    """A row whose frames came at these moments (ms after it was sent) and were of these kinds."""
    sent_ns = 103 * MS
    return row(
        seq=seq,
        frames=len(frames),
        frame_at_ns=array("q", [sent_ns + round(at * MS) for at, _ in frames]).tobytes(),
        frame_bytes=array("I", [10 + place for place in range(len(frames))]).tobytes(),
        frame_kinds=bytes(FRAME_KINDS.index(kind) for _, kind in frames),
        **changes,
    )


ROLE_AND_THREE = ((1, "role"), (10, "text"), (30, "reasoning"), (35, "text"), (36, "usage"), (37, "done"))


def test_frames_are_lists_counted_from_when_the_request_was_sent():
    frames = frames_table([streamed(4, (1, "role"), (2.5, "text")), row(seq=5), streamed(6, (0, "other"))])

    assert [
        {"seq": 4, "attempt": 1, "at_ns": [1 * MS, 2_500_000], "bytes": [10, 11], "kind": ["role", "text"]},
        {"seq": 6, "attempt": 1, "at_ns": [0], "bytes": [10], "kind": ["other"]},
    ] == frames.to_dicts()


@pytest.mark.parametrize("kind", FRAME_KINDS)
def test_every_kind_of_frame_is_kept_by_its_name(kind):
    assert [[kind]] == frames_table([streamed(0, (1, kind))])["kind"].to_list()


def test_frame_gaps_are_between_output_frames_of_finished_streams():
    rows = [
        streamed(0, *ROLE_AND_THREE),
        streamed(1, (5, "tool"), (9, "finish"), (12, "refusal")),
        streamed(2, (1, "text"), (2, "text"), finished=False, outcome="interrupted"),
        streamed(3, (1, "text"), (2, "done")),
        streamed(4, (1, "other"), (2, "other"), finished=None, outcome="responded", format="other"),
    ]

    gaps = frame_gaps(table(*rows), frames_table(rows))

    assert [(0, 20 * MS), (0, 5 * MS), (1, 7 * MS)] == gaps.sort("seq").select("seq", "gap_ns").rows()


def test_frames_of_different_attempts_have_no_gap_between_them():
    rows = [streamed(0, (1, "text"), attempt=1), streamed(0, (9, "text"), attempt=2)]

    assert [] == frame_gaps(table(*rows), frames_table(rows)).rows()


def test_frames_that_share_a_stamp_have_a_gap_of_zero():
    rows = [streamed(0, (1, "text"), (1, "text"))]

    assert [0] == frame_gaps(table(*rows), frames_table(rows))["gap_ns"].to_list()


# Objectives.


@pytest.mark.parametrize(
    ("text", "shown", "bound"),
    [
        ("ttft<500ms", "ttft<500ms", 500.0),
        ("ttft < 0.5s", "ttft<500ms", 500.0),
        ("llm.ttft<=500us", "ttft<=0.5ms", 0.5),
        ("run.lateness<2ms", "lateness<2ms", 2.0),
        ("ttft-from-due<1m", "ttft_from_due<60000ms", 60000.0),
        ("llm.user-tokens-per-sec>=20", "user_tokens_per_sec>=20", 20.0),
        ("USER_TOKENS_PER_SEC>2.5", "user_tokens_per_sec>2.5", 2.5),
    ],
)
def test_an_objective_is_read_as_a_person_writes_it(text, shown, bound):
    slo = parse_slo(text)

    assert (shown, pytest.approx(bound)) == (str(slo), slo.bound)
    assert slo == parse_slo(str(slo))


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_can_be_an_objective(name):
    unit = "ms" if METRICS[name].unit == "ms" else ""

    assert f"{name}<1{unit}" == str(parse_slo(f"{name}<1{unit}"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not METRIC<BOUND"),
        ("ttft", "is not METRIC<BOUND"),
        ("ttft<", "is not METRIC<BOUND"),
        ("ttft=5ms", "is not METRIC<BOUND"),
        ("ttft<5 hours", "is not METRIC<BOUND"),
        ("ttft<-5ms", "is not METRIC<BOUND"),
        ("ttft<1.2.3ms", "ttft<1.2.3ms"),
        ("ttft<.ms", "ttft<.ms"),
        ("ttft<500", "ttft takes a unit"),
        ("user_tokens_per_sec>20ms", "user_tokens_per_sec takes no unit"),
        ("tttf<5ms", "no metric 'tttf'"),
        ("zzz<5ms", "no metric 'zzz'"),
    ],
)
def test_a_wrong_objective_is_named_with_a_hint(text, words):
    with pytest.raises(UsageError) as raised:
        parse_slo(text)

    fact, hint = str(raised.value).splitlines()
    assert words in fact
    assert hint.startswith("hint: ")


@pytest.mark.parametrize(
    ("text", "near"), [("tttf<5ms", "ttft"), ("firsttext<5ms", "first_text"), ("itk<5ms", "itl"), ("zzz<5ms", "e2e")]
)
def test_an_unknown_metric_is_answered_with_near_ones(text, near):
    with pytest.raises(UsageError) as raised:
        parse_slo(text)

    assert near in str(raised.value).splitlines()[1]


@pytest.mark.parametrize(
    ("changes", "slos", "good"),
    [
        ({}, [], True),
        ({"outcome": "truncated"}, [], False),
        ({"outcome": "responded"}, [], False),
        ({}, ["ttft<18ms"], True),
        ({}, ["ttft<17ms"], False),
        ({}, ["ttft<=17ms"], True),
        ({}, ["ttft>17ms"], False),
        ({}, ["ttft>=17ms"], True),
        ({}, ["ttft<18ms", "itl<19ms"], False),
        ({}, ["ttft<18ms", "itl<21ms", "user-tokens-per-sec>49"], True),
        ({"outcome": "truncated"}, ["ttft<18ms"], False),
        # What does not exist is not good.
        ({"output_tokens": 1}, ["itl<1s"], False),
        ({"output_tokens": 1}, ["ttft<1s"], True),
        ({"connection_reused": True}, ["connect<1s"], False),
        (CLOSED, ["ttft-from-due<1s"], False),
    ],
)
def test_good_is_completed_with_every_objective_met(changes, slos, good):
    judged = with_good(table(row(**changes)), [parse_slo(text) for text in slos])

    assert [(good, good)] == judged.select("good", "useful").rows()


# Secrets.


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "proxy-authorization",
        "Cookie",
        "Set-Cookie",
        "api-key",
        "X-Api-Key",
        "x-goog-api-key",
        "Ocp-Apim-Subscription-Key",
        "X-Auth-Token",
        "X-Amz-Security-Token",
        "client_secret",
        "X-Amz-Signature",
        "sig",
        "x-sig",
        "password",
        "X-Credential",
    ],
)
def test_a_secret_header_or_query_is_masked(name):
    assert "***" == masked_header(name, "hunter2")
    assert f"/v1?a=1&{name}=***&b=2" == masked_path(f"/v1?a=1&{name}=hunter2&b=2")


@pytest.mark.parametrize("name", ["accept", "content-type", "user-agent", "x-team", "design", "signal"])
def test_what_is_no_secret_is_kept(name):
    assert "value" == masked_header(name, "value")
    assert f"/v1?{name}=value" == masked_path(f"/v1?{name}=value")


@pytest.mark.parametrize("path", ["/", "/v1/chat", "/v1?", "/v1?key", "/v1?a=1&&b=2", "/v1?a=b=c"])
def test_a_path_without_secrets_stays_as_it_was(path):
    assert path == masked_path(path)


@pytest.mark.parametrize(
    ("query", "masked"),
    [("token=a=b", "token=***"), ("key=", "key=***"), ("api%2Dkey=hunter2", "api%2Dkey=***")],
)
def test_the_whole_value_of_a_secret_is_masked(query, masked):
    assert f"/v1?{masked}" == masked_path(f"/v1?{query}")


@pytest.mark.parametrize(
    ("arguments", "masked"),
    [
        (["run", "--rate", "5"], ["run", "--rate", "5"]),
        (["--header", "Authorization: Bearer hunter2"], ["--header", "Authorization: ***"]),
        (["--header", "authorization:hunter2"], ["--header", "authorization: ***"]),
        (["--header=x-api-key: hunter2"], ["--header=x-api-key: ***"]),
        (["--header", "x-team: red"], ["--header", "x-team: red"]),
        (["--header", "no colon", "--rate", "5"], ["--header", "no colon", "--rate", "5"]),
        (["http://host/v1?api-key=hunter2&v=1"], ["http://host/v1?api-key=***&v=1"]),
        (["host:1/v1?api-key=hunter2"], ["host:1/v1?api-key=***"]),
    ],
)
def test_a_stored_command_line_holds_no_secret(arguments, masked):
    assert masked == masked_arguments(arguments)
