"""The recorder's file: no secret is ever in it, and whatever happens to the recorder it can be read."""

import json
import os

import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from net.peer import ANSWER, CHAT, DONE, HEAD, LAST, always, chunk, read_request
from recorder_client import before, body_of, get, nobody_listens, post, recording

from loadgen.errors import UsageError
from loadgen.plan.recordings.ours import RecordedRequest, parse_line, read_recording, write_recording
from loadgen.servers.recorder import open_book, parse_redactions
from loadgen.servers.recorder.message import Request
from loadgen.servers.recorder.note import Note
from loadgen.servers.recorder.transcript import Transcript
from loadgen.wire.eventstream import EventStream, encode

KEY = "sk-0123456789abcdef"
JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


def counted(body: bytes, head: bytes = JSON) -> bytes:
    return head + b"content-length: %d\r\n\r\n" % len(body) + body


async def ask(rec, request: bytes, *, until: bytes = LAST) -> RecordedRequest:
    """Ask once, on a connection of its own; return the line that it became."""
    before_ = len(rec.lines())
    async with rec.connect() as client:
        await client.send(request)
        await client.until(until)
        return (await rec.wrote(before_ + 1))[-1]


@pytest.mark.parametrize(
    "header",
    [
        f"Authorization: Bearer {KEY}",
        f"authorization: {KEY}",
        f"X-Api-Key: {KEY}",
        f"api-key: {KEY}",
        f"x-goog-api-key: {KEY}",
        f"Proxy-Authorization: Basic {KEY}",
        f"Cookie: session={KEY}; theme=dark",
        f"X-Amz-Security-Token: {KEY}",
        f"X-Tenant: {KEY}",
        f"Referer: https://example.test/?token={KEY}",
    ],
)
async def test_a_secret_header_is_in_no_line(tmp_path, header):
    async with recording(always(ANSWER), tmp_path, redact=("X-Tenant",)) as rec:
        line = await ask(rec, post(headers=f"{header}\r\nx-kept: yes\r\n"))

    assert KEY not in rec.path.read_text()
    assert "yes" == line.headers["x-kept"]


@pytest.mark.parametrize(
    "query", [f"api-key={KEY}", f"a=1&key={KEY}&b=2", f"%6Bey={KEY}", f"tenant={KEY}", f"a=1;sig={KEY}"]
)
async def test_a_secret_in_a_query_is_in_no_line_and_goes_past_all_the_same(tmp_path, query):
    seen = []

    async def handler(stream, number):
        seen.append(await read_request(stream))
        await stream.send_all(ANSWER)

    async with recording(handler, tmp_path, redact=("tenant",)) as rec:
        line = await ask(rec, post(path=f"/v1/chat?{query}"))

    assert f"/v1/chat?{query} ".encode() in seen[0]
    assert KEY not in rec.path.read_text()
    assert line.path.startswith("/v1/chat?") and "***" in line.path


async def test_a_secret_that_the_server_echoes_or_sets_is_in_no_line(tmp_path):
    error = b'{"error": {"message": "Incorrect API key provided: %b"}}' % KEY.encode()
    answer = JSON + b"set-cookie: id=%b\r\nx-echo: %b\r\n" % (KEY.encode(), KEY.encode())
    async with recording(always(counted(error, answer)), tmp_path) as rec:
        line = await ask(
            rec, post(f'{{"note": "{KEY}"}}'.encode(), headers=f"authorization: Bearer {KEY}\r\n"), until=b"}}"
        )

    assert KEY not in rec.path.read_text()
    assert b'{"error": {"message": "Incorrect API key provided: ***"}}' == body_of(line)
    assert b'{"note": "***"}' == line.payload
    assert "***" == line.response.headers["x-echo"] and "set-cookie" not in line.response.headers


async def test_an_echo_in_a_stream_is_blotted_out_of_its_frame(tmp_path):
    answer = HEAD + chunk(b"data: you are %b\n\n" % KEY.encode()) + chunk(DONE) + LAST
    async with recording(always(answer), tmp_path) as rec:
        line = await ask(rec, post(headers=f"x-api-key: {KEY}\r\n"))

    assert ["data: you are ***\n\n", DONE.decode()] == [frame.data for frame in line.response.frames]


@pytest.mark.parametrize(
    ("path", "body", "kept"),
    [
        ("$.user.email", {"user": {"email": KEY, "name": "x"}}, {"user": {"email": "***", "name": "x"}}),
        ("$.user", {"user": {"email": KEY}, "a": 1}, {"user": "***", "a": 1}),
        ("$.m[*].c", {"m": [{"c": KEY}, {"c": KEY}, {"d": 1}]}, {"m": [{"c": "***"}, {"c": "***"}, {"d": 1}]}),
        ("$.m[1]", {"m": [1, KEY]}, {"m": [1, "***"]}),
        ("$['a b'].*", {"a b": {"x": KEY, "y": KEY}}, {"a b": {"x": "***", "y": "***"}}),
        ("$..email", {"email": KEY, "x": [{"y": {"email": KEY}}]}, {"email": "***", "x": [{"y": {"email": "***"}}]}),
    ],
)
async def test_a_place_in_a_body_is_masked_in_requests_and_answers(tmp_path, path, body, kept):
    data = json.dumps(body).encode()
    async with recording(always(counted(data)), tmp_path, redact=(f"body:{path}",)) as rec:
        line = await ask(rec, post(data), until=data)

    assert KEY not in rec.path.read_text()
    assert kept == json.loads(line.payload) == json.loads(body_of(line))


def transcript(kind: str, pieces: list[bytes], *redact: str, headers=(), body=b"", clean=True) -> RecordedRequest:
    """The line of an exchange whose answer came in these pieces."""
    request = Request(
        method="POST",
        path=b"/",
        version="1.1",
        headers=list(headers),
        body=body,
        keep_alive=True,
        arrived_ns=0,
        whole_ns=0,
    )
    note = Note(request)
    note.head(200, [(b"Content-Type", kind.encode())])
    for at, piece in enumerate(pieces, 1):
        note.body(piece, at * 1_000_000)
    note.clean = clean
    made = Transcript(note, parse_redactions(redact), prefix=b"")
    for _ in made.work():
        pass
    return made.recorded(id="x", at_s=0.0)[0]


def test_a_place_is_masked_in_the_frames_of_each_framing():
    said = b'{"user": {"email": "%b"}}' % KEY.encode()
    masked = '{"user":{"email":"***"}}'
    message = encode({":event-type": "a"}, said)

    events = transcript("text/event-stream", [b"event: e\ndata: " + said + b"\n\n" + DONE], "body:$.user.email")
    lines = transcript("application/x-ndjson", [said + b"\n", b"{}\n"], "body:$.user.email")
    binary = transcript("application/vnd.amazon.eventstream", [message], "body:$.user.email")

    assert [f"event: e\ndata: {masked}\n\n", DONE.decode()] == [frame.data for frame in events.response.frames]
    assert [masked + "\n", "{}\n"] == [frame.data for frame in lines.response.frames]
    (frame,) = EventStream().feed(body_of(binary))
    assert (b"a", masked.encode()) == (frame.event, frame.data)


@pytest.mark.parametrize(
    ("kind", "pieces"),
    [
        ("text/event-stream", [b'data: {"user": {"email": "%b"' % KEY.encode()]),
        ("text/event-stream", [b'data: {"user": {"email":\ndata: "%b",,}}\n\n' % KEY.encode()]),
        ("application/json", [b'{"user": {"email": "%b"' % KEY.encode()]),
        ("text/plain", [b'{"user": {', b'"email": "%b"}}' % KEY.encode()]),
    ],
)
def test_what_cannot_be_looked_into_is_left_out_where_places_are_to_be_masked(kind, pieces):
    line = transcript(kind, pieces, "body:$.user.email", clean=False)

    assert KEY.encode() not in msgspec.json.encode(line)


def test_a_compressed_body_is_left_out_where_places_are_to_be_masked():
    line = transcript("text/x", [], "body:$.a", headers=[(b"Content-Encoding", b"gzip")], body=b"\x1f\x8b{")

    assert b'"***"' == line.payload


@pytest.mark.parametrize("text", ["body:user.email", "body:$", "body:$.a[", "a b", "", "body:$.a]b"])
def test_a_redaction_that_is_none_is_refused(text):
    with pytest.raises(UsageError, match="--redact"):
        parse_redactions([text])


def test_a_secret_in_an_echoed_event_stream_leaves_its_checksums_whole():
    message = encode({":event-type": "a"}, b'{"k": "%b"}' % KEY.encode())
    line = transcript("application/vnd.amazon.eventstream", [message], headers=[(b"x-api-key", KEY.encode())])

    assert [b'{"k": "***"}'] == [frame.data for frame in EventStream().feed(body_of(line))]


@given(
    st.binary(max_size=40)
    | st.sampled_from(
        [b"null", b" {}", b"{}\n", b'{"a":\n1}', b'"\\ud800"', b"[1e999]", b"{} {}", b"NaN", b"\xff", b"1"]
    )
    | st.recursive(st.none() | st.integers() | st.text(max_size=5), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_every_request_body_is_read_back_byte_for_byte(body):
    line = transcript("text/x", [], body=body)

    assert body == parse_line(msgspec.json.encode(line)).payload


@given(
    kind=st.sampled_from(["text/event-stream", "application/x-ndjson", "text/x", "application/json", ""]),
    pieces=st.lists(
        st.binary(min_size=1, max_size=20) | st.sampled_from([CHAT, b"\n", b'{"a": 1}\n', "é".encode()[:1]])
    ),
)
def test_every_answer_is_read_back_byte_for_byte(kind, pieces):
    line = parse_line(msgspec.json.encode(transcript(kind, pieces)))

    assert b"".join(pieces) == body_of(line)


def test_a_stream_is_timed_by_its_reads_and_an_object_is_one_frame_of_its_last_byte():
    stream = transcript("text/event-stream", [CHAT[:5], CHAT[5:], CHAT + DONE])
    whole = transcript("application/json", [b'{"a"', b": 1}"])
    other = transcript("text/plain", [b"a", b"b"])

    assert [(2.0, CHAT.decode()), (3.0, CHAT.decode()), (3.0, DONE.decode())] == [
        (frame.ms, frame.data) for frame in stream.response.frames
    ]
    assert [(2.0, '{"a": 1}')] == [(frame.ms, frame.data) for frame in whole.response.frames]
    assert [(1.0, "a"), (2.0, "b")] == [(frame.ms, frame.data) for frame in other.response.frames]


def test_usage_is_the_servers_own_count_in_one_set_of_words():
    usage = b'data: {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}\n\n'
    stream = transcript("text/event-stream", [CHAT, *[CHAT] * 50, usage, DONE])
    whole = transcript("application/json", [b'{"usage": {"input_tokens": 7, "output_tokens": 2}}'])
    ollama = transcript(
        "application/x-ndjson", [b'{"response": "", "done": true, "eval_count": 2, "prompt_eval_count": 7}\n']
    )
    none = transcript("text/event-stream", [CHAT, DONE])

    for line in (stream, whole, ollama):
        assert {"input_tokens": 7, "output_tokens": 2} == json.loads(bytes(line.response.usage))
    assert b"null" == bytes(none.response.usage)


def test_a_path_that_a_recording_cannot_hold_is_written_in_percent():
    assert "/caf%C3%A9" == parse_redactions([]).path("/café".encode(), ())


def test_a_secret_that_two_reads_share_is_blotted_out():
    line = transcript(
        "text/plain", [b"x " + KEY[:9].encode(), KEY[9:].encode() + b" y"], headers=[(b"key", KEY.encode())]
    )

    assert ["x *** y"] == [frame.data for frame in line.response.frames]


async def test_the_model_is_the_bodys_or_that_of_the_path(tmp_path):
    async with recording(always(ANSWER), tmp_path) as rec:
        named = await ask(rec, post(b'{"model": "m1"}'))
        placed = await ask(rec, post(path="/model/m%3A2/converse-stream"))

    assert ("m1", "m:2") == (named.model, placed.model)


async def test_arrivals_count_from_the_first_request_that_is_recorded(tmp_path):
    async with recording(always(ANSWER), tmp_path) as rec:
        await ask(rec, get())
        await trio.sleep(0.1)
        line = await ask(rec, get())

    assert 0.09 < line.at_s < 5
    assert ["rec-1", "rec-2"] == [line.id for line in rec.lines()]


async def test_a_sample_is_the_same_for_the_same_seed(tmp_path):
    picked = []
    for n in range(3):
        folder = tmp_path / str(n)
        folder.mkdir()
        async with recording(always(ANSWER), folder, sample=0.3, seed=min(n, 1)) as rec, rec.connect() as client:
            for at in range(60):
                await client.send(get(f"/{at}"))
                await client.until(LAST)
        picked.append([line.path for line in rec.lines()])
        assert 60 == rec.recorder.tally.left_out + rec.recorder.tally.recorded

    assert picked[1] == picked[2] != picked[0]
    assert all(5 < len(paths) < 35 for paths in picked)


async def test_after_the_last_request_to_be_recorded_the_proxying_goes_on(tmp_path):
    async with recording(always(ANSWER), tmp_path, max_requests=2) as rec, rec.connect() as client:
        for at in range(5):
            await client.send(get(f"/{at}"))
            await client.until(LAST)

    assert ["/0", "/1"] == [line.path for line in rec.lines()]
    assert (5, 3) == (rec.recorder.tally.requests, rec.recorder.tally.beyond)
    assert ["request 2 of 2 to be recorded: what follows is only passed on"] == rec.said


async def test_a_full_disk_ends_the_recording_and_not_the_proxying(tmp_path, monkeypatch):
    async with recording(always(ANSWER), tmp_path) as rec, rec.connect() as client:
        await client.send(get("/0"))
        await client.until(LAST)
        await rec.wrote(1)
        limit = rec.path.stat().st_size + 50
        write = os.write

        def full(fd: int, data: bytes) -> int:  # as a disk with 50 bytes left: there is none to be had for a test
            room = limit - os.fstat(fd).st_size
            if room <= 0:
                raise OSError(28, "No space left on device")
            return write(fd, data[:room])

        monkeypatch.setattr("loadgen.servers.recorder.book.os.write", full)
        for at in (1, 2):
            await client.send(get(f"/{at}"))
            await client.until(LAST)
        await trio.sleep(0.05)
        monkeypatch.undo()

    assert ["/0"] == [line.path for line in rec.lines()]
    assert [f"{rec.path}: No space left on device: nothing more is recorded, and the proxying goes on"] == rec.said


def test_a_file_that_is_there_is_not_written_over(tmp_path):
    path = tmp_path / "rec.jsonl"
    path.write_text("")

    with pytest.raises(UsageError, match="exists"):
        open_book(path, append=False)


def test_a_recording_is_readable_by_its_owner_alone(tmp_path):
    open_book(tmp_path / "rec.jsonl", append=False).close()

    assert 0o600 == (tmp_path / "rec.jsonl").stat().st_mode & 0o777


async def test_an_appended_recording_goes_on_where_it_was(tmp_path):
    path = tmp_path / "rec.jsonl"
    write_recording(path, [RecordedRequest(path="/a", at_s=7.0), RecordedRequest(path="/b", at_s=3.0)])
    async with recording(always(ANSWER), tmp_path, append=True) as rec:
        await ask(rec, get("/c"))

    assert [("/a", 7.0, None), ("/b", 3.0, None), ("/c", 7.0, "rec-3")] == [
        (line.path, line.at_s, line.id) for line in rec.lines()
    ]


def test_a_torn_last_line_is_left_out_by_who_reads_and_cut_off_by_who_appends(tmp_path):
    path = tmp_path / "rec.jsonl"
    write_recording(path, [RecordedRequest(path="/a"), RecordedRequest(path="/b")])
    whole = path.read_bytes()
    for cut in range(whole.index(b"\n") + 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        assert ["/a"] == [line.path for line in read_recording(path)]
        book = open_book(path, append=True)
        book.close()
        assert (1, cut - whole.index(b"\n") - 1) == (book.lines, book.torn_bytes)
        assert ["/a"] == [line.path for line in read_recording(path)]


def test_a_last_line_that_only_lacks_its_end_is_kept(tmp_path):
    path = tmp_path / "rec.jsonl"
    path.write_bytes(b'{"path": "/a"}')
    book = open_book(path, append=True)
    book.write(b'{"path": "/b"}\n')
    book.close()

    assert ["/a", "/b"] == [line.path for line in read_recording(path)]


def test_a_file_that_is_no_recording_is_not_appended_to(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("milk\neggs\n")

    with pytest.raises(UsageError, match=r"notes.txt:1"):
        open_book(path, append=True)
    assert "milk\neggs\n" == path.read_text()


def test_two_recorders_do_not_write_one_file(tmp_path):
    book = open_book(tmp_path / "rec.jsonl", append=False)
    with pytest.raises(UsageError, match="another recorder"):
        open_book(tmp_path / "rec.jsonl", append=True)
    book.close()


async def test_an_answer_that_is_the_recorders_own_says_so_in_the_file(tmp_path):
    async with before(nobody_listens(), tmp_path) as rec:
        line = await ask(rec, post(headers=f"authorization: {KEY}\r\n"), until=b"}}")

    assert "upstream_unreachable" == line.response.headers["x-recorder-error"]
    assert KEY not in rec.path.read_text()
