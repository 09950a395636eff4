"""The contract that every importer keeps, over the table of them; and what each makes of its own source."""

import gzip
import io
import json
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sources import CHAT, MADE, SECRET, TIMED_EVENTS, har, har_entry, langfuse, lines, litellm, rrpair_json, vllm

from loadgen.errors import UsageError
from loadgen.plan.recordings.importers import SOURCES, recognise
from loadgen.plan.recordings.importers.content import opened
from loadgen.plan.recordings.importers.found import Asked, Found, Refused
from loadgen.plan.recordings.importers.sample import sample_of
from loadgen.plan.recordings.importing import Changes, import_recording
from loadgen.plan.recordings.ours import RecordedRequest, read_recording

ASKED = Asked()
every_source = pytest.mark.parametrize("name", SOURCES)


def found_in(path: Path, asked: Asked = ASKED) -> list[Found | Refused]:
    with opened(path) as content:
        return list(recognise(content).read(content, asked))


def requests_in(path: Path, asked: Asked = ASKED) -> list[RecordedRequest]:
    return [item.request for item in found_in(path, asked) if isinstance(item, Found)]


def put(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "source"
    path.write_bytes(data)
    return path


@pytest.fixture
def made(name, tmp_path):
    of = MADE[name]()
    return of, of.put(tmp_path / "anything")


@every_source
def test_a_source_is_told_by_its_content_and_by_one_kind_alone(name, made):
    with opened(made[1]) as content:
        sample = sample_of(content)

        assert [name] == [source.name for source in SOURCES.values() if source.tells(sample)]


@every_source
def test_an_import_counts_what_is_there_and_what_is_refused(name, made, tmp_path):
    of, path = made

    report = import_recording(path, tmp_path / "out.jsonl", asked=Asked(), changes=Changes())

    assert (name, of.rows, of.refused) == (report["kind"], report["rows"], report["refused"]["rows"])
    assert of.rows - of.timed == report["lacks"].get("arrivals", 0)
    assert of.rows - of.frames_timed == report["lacks"].get("frame timing", 0)
    assert of.zone == report["zone"]


@every_source
def test_what_is_written_is_a_recording_without_secrets(name, made, tmp_path):
    of, path = made

    import_recording(path, tmp_path / "out.jsonl", asked=Asked(model="m"), changes=Changes())

    recorded = read_recording(tmp_path / "out.jsonl")
    assert of.rows == len(recorded)
    assert SECRET not in (tmp_path / "out.jsonl").read_text()
    assert all(request.payload or request.synthetic or request.verb == "GET" for request in recorded)


@every_source
def test_unknown_times_are_null(name, made, tmp_path):
    of, path = made

    import_recording(path, tmp_path / "out.jsonl", asked=Asked(), changes=Changes())

    recorded = read_recording(tmp_path / "out.jsonl")
    frames = [request.response.frames or [] if request.response else [] for request in recorded]
    assert of.timed == sum(request.at_s is not None for request in recorded)
    assert of.frames_timed == sum(any(frame.ms is not None for frame in of) for of in frames)
    assert not of.timed or 0 == min(request.at_s for request in recorded if request.at_s is not None)


@every_source
def test_the_same_bytes_are_read_alike_gzipped_and_from_standard_input(name, made, tmp_path, monkeypatch):
    of, path = made
    if not isinstance(of.data, bytes):
        pytest.skip("a folder is neither")
    plain = found_in(path)

    zipped = found_in(put(tmp_path, gzip.compress(of.data)))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(_Pipe(of.data))))

    assert plain == zipped == found_in(Path("-"))


class _Pipe(io.RawIOBase):
    """What cannot go back, and gives a few bytes at a time."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        return self._data.readinto(memoryview(buffer)[:1000])


@every_source
def test_a_byte_order_mark_changes_nothing(name, made, tmp_path):
    of, path = made
    if not isinstance(of.data, bytes) or name == "mitmproxy":
        pytest.skip("no text")

    assert found_in(path) == found_in(put(tmp_path, b"\xef\xbb\xbf" + of.data))


@every_source
def test_text_in_another_encoding_is_refused_with_what_to_do(name, made, tmp_path):
    of, _ = made
    if not isinstance(of.data, bytes) or name == "mitmproxy":
        pytest.skip("no text")

    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        with pytest.raises(UsageError, match=r"source:1: is not UTF-8\nhint: .*iconv -f UTF-16"):
            found_in(put(tmp_path, of.data.decode().encode(encoding)))


@every_source
def test_a_gzipped_source_that_is_cut_off_is_an_error(name, made, tmp_path):
    of, _ = made
    if not isinstance(of.data, bytes):
        pytest.skip("a folder is not gzip'd")
    whole = gzip.compress(of.data)

    with pytest.raises(UsageError, match=r"source:\d+: the gzip'd data is broken here"):
        found_in(put(tmp_path, whole[: len(whole) // 2]))


@every_source
def test_every_cut_of_a_source_is_read_refused_or_an_error_of_the_user(name, made, tmp_path):
    of, _ = made
    if not isinstance(of.data, bytes):
        pytest.skip("a folder is not cut")
    for cut in range(0, len(of.data), 7):
        rows, words = _rows_or_error(put(tmp_path, of.data[:cut]))

        assert rows <= of.rows
        assert (rows == 0) == ("hint: " in words)


def _rows_or_error(path: Path) -> tuple[int, str]:
    """How many rows an import has, or 0 and the words of its error."""
    out = path.with_name("written")
    out.unlink(missing_ok=True)
    try:
        rows = import_recording(path, out, asked=ASKED, changes=Changes())["rows"]
    except UsageError as error:
        return 0, str(error)
    assert rows == len(read_recording(out))
    return rows, ""


odd = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


@every_source
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_odd_values_in_known_fields_are_refused_and_never_a_fault(name, tmp_path, data):
    of = MADE[name]()
    if not isinstance(of.data, bytes) or of.data[:1] not in (b"{", b"["):
        return
    first = json.loads(of.data.splitlines()[0]) if name not in ("sharegpt",) else json.loads(of.data)
    changed = json.dumps(_with_an_odd_value(first, data)).encode()

    rows, words = _rows_or_error(put(tmp_path, changed))

    assert (rows == 0) == ("hint: " in words)


def _with_an_odd_value(value: object, data: st.DataObject) -> object:
    """The value with an odd one in place of one inside it."""
    inside = value
    while True:
        place = data.draw(st.sampled_from(sorted(inside) if isinstance(inside, dict) else range(len(inside))))
        if not isinstance(inside[place], dict | list) or not inside[place] or data.draw(st.integers(0, 3)) == 0:
            inside[place] = data.draw(odd)
            return value
        inside = inside[place]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no request in it"),
        (b" \n\n", "no request in it"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "no recording or trace that is known"),
        (b"hello\nworld\n", "no recording or trace that is known"),
        (b'{"some": "thing"}\n', "no recording or trace that is known"),
        (b"[1, 2, 3]", "no recording or trace that is known"),
        (b"a,b\n1,2\n", "no recording or trace that is known"),
        (b"PK\x03\x04abc", "no recording or trace that is known"),
    ],
)
def test_what_is_not_known_is_an_error_that_says_what_is(tmp_path, data, words):
    with pytest.raises(UsageError, match=words) as raised:
        found_in(put(tmp_path, data))

    assert "hint: " in str(raised.value)


def test_a_missing_source_and_an_empty_folder_are_errors_of_the_user(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        found_in(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="an empty folder"):
        found_in(tmp_path)


def test_when_no_row_is_left_the_first_reason_and_its_row_are_told(tmp_path):
    path = put(tmp_path, lines(*[{"timestamp": 0, "input_length": 0, "output_length": 1, "hash_ids": []}] * 3))

    with pytest.raises(UsageError, match=r"source:1: input tokens 0: .*; none of its 3 rows makes a request\nhint: "):
        import_recording(path, None, asked=Asked(), changes=Changes())


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (har(har_entry())[:-2], None),  # nothing of the entries is lost
        (har(har_entry(), har_entry())[:-9], r"source:1: (ends within an array|is no whole JSON)"),
        (b'{"log": {"entries": [{"a": 1} {"b": 2}]}}', "source:1: is no JSON from here on"),
        (b'{"log": {"entries": [\n{"a": 1},\n{"b" 2}]}}', "source:3: is no whole JSON from here on: Expecting ':'"),
        (b'{"log": {"version": "1", "entries": {}}}', r"source:1: has no '\['"),
        (b'{"log": {"entries": [{"a": "\xe4"}]}}', r"is not UTF-8\nhint: .*iconv -f LATIN1"),
        (b'{"log": {"entries": [' + b"[" * 100_000, "is nested too deep|is no whole JSON"),
    ],
)
def test_a_document_that_is_no_whole_json_is_an_error_with_its_line(tmp_path, data, words):
    path = put(tmp_path, data)
    if words is None:
        assert 1 == len(found_in(path))
        return
    with pytest.raises(UsageError, match=words):
        found_in(path)


def test_items_are_read_across_any_chunks(tmp_path, monkeypatch):
    data = json.dumps({"log": {"pages": [1.5, "é]"], "entries": [har_entry(x='é\\"' * n) for n in range(20)]}}).encode()
    path = put(tmp_path, data)
    whole = found_in(path)

    for size in (1, 7, 1000):
        monkeypatch.setattr("loadgen.plan.recordings.importers.content._CHUNK_BYTES", size)

        assert whole == found_in(path)
    assert 20 == len(whole)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"timestamp": 1, "input_length": 2, "output_l', "cut off: its JSON has no end"),
        (b"{'timestamp': 1}", "not JSON"),
        (b'{"timestamp": 1, "input_length": 2}', "Object missing required field `output_length`"),
        (b'{"timestamp": "1", "input_length": 2, "output_length": 3}', "Expected `int | float`, got `str`"),
        (b'{"timestamp": 1e300, "input_length": 2, "output_length": 3}', "its time is no number of seconds"),
        (b'{"timestamp": 1, "input_length": -2, "output_length": 3}', "input tokens -2: not a prompt's length"),
        (b'{"timestamp": 1, "input_length": 2, "output_length": 0}', "output tokens 0: the request failed"),
    ],
)  # fmt: skip
def test_a_row_that_makes_no_request_is_counted_with_its_reason_and_line(tmp_path, line, reason):
    good = {"timestamp": 0, "input_length": 2, "output_length": 3, "hash_ids": []}
    path = put(tmp_path, lines(good, b"", line, good))

    report = import_recording(path, None, asked=Asked(), changes=Changes())

    (refused,) = report["refused"]["reasons"]
    assert 2 == report["rows"]
    assert refused["reason"].startswith(reason)
    assert (1, 3) == (refused["rows"], refused["first_row"])


def test_a_row_that_is_not_utf8_is_refused(tmp_path):
    path = put(tmp_path, lines({"prompt": "one"}, b'{"prompt": "\xff"}', b'{"prompt": "\\ud800 and more"}'))

    reasons = [item.reason for item in found_in(path) if isinstance(item, Refused)]

    assert ["not UTF-8", "not Unicode: half a surrogate pair"] == reasons


# -- what each makes of its own ----------------------------------------------------------------------------------------


def test_a_batchs_body_is_kept_byte_for_byte(tmp_path):
    body = b'{ "model":"m-1" ,"n": 1.0,\t"x": "\\u00e9"}'
    path = put(
        tmp_path, b'{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": ' + body + b"}\n"
    )

    (request,) = requests_in(path)

    assert (body, "m-1", "a", "POST") == (request.payload, request.model, request.id, request.method)


def test_a_call_without_a_time_keeps_none(tmp_path):
    (found,) = found_in(put(tmp_path, lines(litellm(startTime=None))))

    assert (None, None) == (found.at_ns, found.request.response.frames)


def test_each_turn_of_a_person_asks_with_what_was_said_before(tmp_path):
    path = MADE["sharegpt"]().put(tmp_path / "x")

    requests = requests_in(path, Asked(model="m"))

    asked = [json.loads(request.payload)["messages"] for request in requests]
    assert [["one"], ["one", "1", "two"], ["three"]] == [[of["content"] for of in messages] for messages in asked]
    assert ["x", "x", "z"] == [request.session for request in requests]
    assert {"/v1/chat/completions"} == {request.path for request in requests}


SYSTEM, USER = {"role": "system", "content": "s"}, {"role": "user", "content": "u"}


@pytest.mark.parametrize(
    ("api", "path", "body"),
    [
        ("openai-completions", "/v1/completions", {"prompt": "s\n\nu"}),
        ("openai-responses", "/v1/responses", {"input": [SYSTEM, USER]}),
        ("anthropic", "/v1/messages", {"system": "s", "messages": [USER], "max_tokens": 1024}),
        ("ollama-chat", "/api/chat", {"messages": [SYSTEM, USER]}),
        ("bedrock-converse", "/model/m%3A0/converse-stream",
         {"system": [{"text": "s"}], "messages": [{"role": "user", "content": [{"text": "u"}]}]}),
    ],
)  # fmt: skip
def test_messages_are_asked_as_the_api_wants_them(tmp_path, api, path, body):
    turns = [{"from": "system", "value": "s"}, {"from": "human", "value": "u"}]
    source = put(tmp_path, json.dumps([{"id": "x", "conversations": turns}]).encode())

    (request,) = requests_in(source, Asked(api=api, model="m:0"))

    asked = json.loads(request.payload)
    assert path == request.path
    assert body == {key: asked.get(key) for key in body}


def test_chromes_frame_times_count_from_the_request(tmp_path):
    path = put(tmp_path, har(har_entry(_eventSourceMessages=TIMED_EVENTS)))

    (request,) = requests_in(path)

    assert [250.0, 750.0] == [frame.ms for frame in request.response.frames]
    assert ['data: {"a":1}\n\n', "event: end\nid: 7\ndata: x\ndata: y\n\n"] == [
        frame.data for frame in request.response.frames
    ]


def test_frames_without_times_make_up_the_body_again(tmp_path):
    (request,) = requests_in(put(tmp_path, har(har_entry())))

    assert ['data: {"a":1}\n\n', "data: [DONE]\n\n"] == [frame.data for frame in request.response.frames]
    assert [None, None] == [frame.ms for frame in request.response.frames]


def test_a_hars_request_keeps_its_bytes_and_not_its_connection(tmp_path):
    (request,) = requests_in(put(tmp_path, har(har_entry())))

    assert json.dumps(CHAT, separators=(", ", ":")).encode() == request.payload
    assert "/v1/chat/completions?api-version=1" == request.path
    assert {"content-type": "application/json"} == request.headers
    assert {"server": "x"} == request.response.headers


def test_what_a_page_is_made_of_is_no_request_of_an_api(tmp_path):
    def got(mime: str, **more: object) -> dict[str, object]:
        return har_entry(
            request={"method": "GET", "url": "https://h/x"},
            response={"status": 200, "content": {"mimeType": mime}},
            **more,
        )

    data = har(got("text/html"), got("image/png"), got("application/json"), got("application/json", _fromCache="disk"))
    found = found_in(put(tmp_path, data))

    assert [False, False, True, False] == [isinstance(item, Found) for item in found]


def test_a_markdown_pairs_shown_body_is_read_back_without_spaces_and_headers_unescaped(tmp_path):
    requests = requests_in(MADE["rrpair"]().put(tmp_path / "x"))

    assert b'{"model":"m-1"}' == requests[0].payload
    assert "text/event-stream, text/plain, */*" == requests[0].headers["accept"]
    assert "/v1/chat/completions" == requests[0].path
    assert ["data: 1\n\n", "data: [DONE]\n"] == [frame.data for frame in requests[0].response.frames]


def test_a_json_pairs_body_keeps_its_bytes(tmp_path):
    (request,) = requests_in(put(tmp_path, json.dumps(rrpair_json()).encode()))

    assert json.dumps(CHAT, indent=2).encode() == request.payload
    assert {"x-two": "a, b"} == request.headers


def test_a_litellm_call_keeps_its_parameters_and_the_moments_that_are_known(tmp_path):
    streamed, whole = requests_in(MADE["litellm"]().put(tmp_path / "x"))

    body = json.loads(streamed.payload)
    assert ("m-1", 64, 0, True) == (body["model"], body["max_tokens"], body["temperature"], body["stream"])
    assert {"model", "messages", "max_tokens", "temperature", "stream"} == body.keys()
    assert [(250.0, None), (1000.0, None)] == [(frame.ms, frame.data) for frame in streamed.response.frames]
    assert [(1000.0, '{"choices":[]}')] == [(frame.ms, frame.data) for frame in whole.response.frames]
    assert 12 == streamed.expected_output_tokens


def test_redacted_messages_leave_the_lengths(tmp_path):
    hidden = litellm(messages=[{"role": "user", "content": "redacted-by-litellm"}])
    (request,) = requests_in(put(tmp_path, lines(hidden)))

    assert (b"", 9, 12) == (request.payload, request.synthetic.input_tokens, request.expected_output_tokens)


def test_a_litellm_call_is_found_where_callbacks_wrap_it(tmp_path):
    path = put(tmp_path, json.dumps({"model": "x", "standard_logging_object": litellm()}, indent=4).encode())

    assert ["m-1"] == [request.model for request in requests_in(path)]


def test_langfuse_rows_are_read_in_both_spellings_and_as_csv(tmp_path):
    snake = {
        "id": "o-1",
        "trace_id": "t-1",
        "type": "GENERATION",
        "start_time": "2026-03-01 10:00:00.250000",
        "completion_start_time": "2026-03-01 10:00:00.500000",
        "end_time": "2026-03-01 10:00:01.250000",
        "provided_model_name": "m-1",
        "model_parameters": '{"temperature": 0, "max_tokens": 64}',
        "input": json.dumps(langfuse()["input"]),
        "usage_details": {"input": 9, "output": 12},
    }
    quoted = {name: '"' + json.dumps(value).replace('"', '""') + '"' for name, value in langfuse().items()}
    quoted |= {name: langfuse()[name] for name in ("id", "traceId", "type", "startTime", "model")}
    table = ",".join(quoted) + "\n" + ",".join(map(str, quoted.values())) + "\n"

    camel_row, snake_row, csv_row = (
        found_in(put(tmp_path, data)) for data in (lines(langfuse()), lines(snake), table.encode())
    )

    assert camel_row == snake_row == csv_row
    body = json.loads(camel_row[0].request.payload)
    assert (64, "be brief") == (body["max_tokens"], body["messages"][0]["content"])
    assert [250.0, 1000.0] == [frame.ms for frame in camel_row[0].request.response.frames]


def test_gaps_between_chunks_become_frame_times(tmp_path):
    (aiperf,) = requests_in(MADE["aiperf"]().put(tmp_path / "a"))
    first, second = requests_in(MADE["vllm"]().put(tmp_path / "v"))

    assert [100.5, 110.5, 130.75] == [frame.ms for frame in aiperf.response.frames]
    assert [100.0, 110.0, 130.0] == [frame.ms for frame in first.response.frames]
    assert [200.0] == [frame.ms for frame in second.response.frames]
    assert (550, 3, "r-1", "c-1") == (
        aiperf.synthetic.input_tokens, aiperf.expected_output_tokens, aiperf.id, aiperf.session
    )  # fmt: skip


def test_columns_of_uneven_length_are_an_error(tmp_path):
    path = put(tmp_path, json.dumps(vllm(output_lens=[1])).encode())

    with pytest.raises(UsageError, match="output_lens is not as long as input_lens"):
        found_in(path)


def test_inputs_are_asked_over_the_api_that_their_bodies_are_of(tmp_path):
    bodies = [CHAT, {"model": "m", "prompt": "x"}, {"model": "m", "input": "x"}]
    path = put(tmp_path, json.dumps({"data": [{"session_id": "s", "payloads": bodies}]}).encode())

    assert ["/v1/chat/completions", "/v1/completions", "/v1/responses"] == [
        request.path for request in requests_in(path)
    ]
    assert bodies == [json.loads(request.payload) for request in requests_in(path)]


def test_a_flow_keeps_its_bytes_and_says_when_it_was_cut(tmp_path):
    from sources import flow, tnetstring

    whole, cut = requests_in(put(tmp_path, tnetstring(flow()) + tnetstring(flow(error={"msg": "gone"}))))

    assert json.dumps(CHAT).encode() == whole.payload
    assert {"content-type": "application/json"} == whole.headers
    assert ("clean", "cut") == (whole.response.end, cut.response.end)
    assert ["data: 1\n\n", "data: [DONE]\n\n"] == [frame.data for frame in whole.response.frames]


def test_a_flow_that_is_no_tnetstring_inside_is_an_error(tmp_path):
    from sources import flow, tnetstring

    broken = tnetstring(flow()).replace(b"4:type", b"9:type")

    with pytest.raises(UsageError, match="source:1: flow 1 is no tnetstring"):
        found_in(put(tmp_path, broken))


def test_chats_that_follow_one_another_are_a_session(tmp_path):
    requests = requests_in(MADE["bailian"]().put(tmp_path / "x"))

    assert ["3", "3", "3"] == [request.session for request in requests]
    assert {"text"} == {request.klass for request in requests}
    assert {16} == {request.synthetic.block_tokens for request in requests}


def test_seven_fractional_digits_and_zones_are_read_exactly(tmp_path):
    path = put(
        tmp_path,
        b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,1,1\n2023-11-16 18:17:03.9799601,1,1\n",
    )

    first, second = found_in(path)

    assert 100 == second.at_ns - first.at_ns
    assert None is first.zone


def test_both_versions_of_burstgpt_are_read(tmp_path):
    old = (
        b"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,GPT-4,906,446,1352,Conversation log\n"
    )

    (before,) = found_in(put(tmp_path, old))
    after = requests_in(MADE["burstgpt"]().put(tmp_path / "x"))

    assert (5_000_000_000, "GPT-4", "conversation", None) == (
        before.at_ns, before.request.model, before.request.klass, before.request.session
    )  # fmt: skip
    assert ["s-1", "s-1"] == [request.session for request in after]
    assert ["conversation", "api"] == [request.klass for request in after]
