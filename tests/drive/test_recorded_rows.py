"""Recorded answers as rows: the replay's own rules, the recording's moments, and nothing that it did not know."""

import json

import msgspec
import pytest

from loadgen.drive.recorded import recorded_row
from loadgen.plan.recordings.ours import RecordedFrame, RecordedRequest, RecordedResponse
from loadgen.plan.render import render
from loadgen.results.outcome import Rules

STREAM = {"content-type": "text/event-stream"}
ASKED = msgspec.Raw(b'{"model": "m", "messages": [], "stream": true}')
MS = 1_000_000


def chunk(text: str, finish: str | None = None) -> str:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return f"data: {json.dumps({'choices': [choice]})}\n\n"


ANSWER = [chunk("a"), chunk("b"), chunk("", "stop"), "data: [DONE]\n\n"]


def frames(*times: float | None, of: list[str] = ANSWER) -> list[RecordedFrame]:
    return [RecordedFrame(ms=ms, data=data) for ms, data in zip(times, of, strict=True)]


def recorded(at_s: float | None = 2.0, **response: object) -> RecordedRequest:
    given = {"status": 200, "headers": STREAM, "end": "clean"} | response
    return RecordedRequest(
        path="/v1/chat/completions", at_s=at_s, body=ASKED, response=RecordedResponse(**given)
    )  # fmt: skip


def row_of(request: RecordedRequest, **rules):
    rendered = render(request, place=3, authority="test")
    return recorded_row(request, rendered, place=3, rules=Rules(**rules))


def after(row, *moments: str) -> list[float | None]:
    values = [getattr(row, f"{moment}_ns") for moment in moments]
    return [None if value is None else (value - row.sent_ns) / MS for value in values]


def test_a_timed_answer_has_its_moments_and_its_outcome():
    row = row_of(recorded(frames=frames(100.0, 120.5, 130.0, 131.0)))

    assert ("completed", "stop", True, "openai", 3) == (
        row.outcome,
        row.finish_reason,
        row.finished,
        row.format,
        row.place,
    )
    assert (2_000 * MS, 2_000 * MS) == (row.sent_ns, row.fired_ns)
    assert [100.0, 100.0, 100.0, 120.5, 131.0, 131.0] == after(
        row, "first_frame", "first_output", "first_text", "last_output", "terminal", "end"
    )
    assert (2, 2, True) == (row.output_frames, row.output_tokens, row.tokens_approximate)


def test_without_frame_times_no_moment_is_invented_and_the_outcome_stands():
    row = row_of(recorded(frames=frames(None, None, None, None)))

    assert ("completed", True, 2) == (row.outcome, row.finished, row.output_frames)
    assert [None] * 5 == after(row, "first_frame", "first_output", "last_output", "terminal", "end")
    assert b"" == row.frame_at_ns == row.frame_kinds


def test_one_frame_without_a_time_leaves_all_without():
    row = row_of(recorded(frames=frames(100.0, None, 130.0, 131.0)))

    assert [None] * 2 == after(row, "first_output", "last_output")


def test_a_recording_without_arrivals_has_durations_and_no_place_in_time():
    row = row_of(recorded(at_s=None, frames=frames(100.0, 120.0, 130.0, 131.0)))

    assert row.fired_ns is None
    assert [100.0, 120.0] == after(row, "first_output", "last_output")


@pytest.mark.parametrize(
    ("response", "rules", "outcome", "detail"),
    [
        ({"end": "cut", "frames": frames(1.0, 2.0, of=ANSWER[:2])}, {}, "interrupted", "recorded"),
        ({"end": "clean", "frames": frames(1.0, 2.0, of=ANSWER[:2])}, {}, "interrupted", "no_end_marker"),
        ({"end": "cut", "status": None, "headers": None, "frames": None}, {}, "interrupted", "recorded"),
        ({"status": 503, "headers": {}, "frames": frames(1.0, of=["busy"])}, {}, "rejected", None),
        ({"status": 529, "headers": {}, "frames": []}, {"reject_status": frozenset({529})}, "rejected", None),
        ({"status": 500, "headers": {}, "frames": frames(1.0, of=["{}"])}, {}, "http_error", None),
        (
            {"headers": {"content-type": "text/html"}, "frames": frames(1.0, of=["<html>"])},
            {},
            "protocol_error",
            "not_a_stream:text/html",
        ),
        ({"frames": frames(1.0, of=['data: {"error": {"type": "overloaded"}}\n\n'])}, {}, "api_error", "overloaded"),
    ],
)
def test_an_answer_that_failed_then_is_judged_as_it_would_be_now(response, rules, outcome, detail):
    row = row_of(recorded(**response), **rules)

    assert (outcome, detail) == (row.outcome, row.detail)


def test_a_report_that_the_recorder_kept_counts_where_the_frames_have_none():
    usage = msgspec.Raw(b'{"input_tokens": 7, "output_tokens": 5}')
    row = row_of(recorded(frames=frames(1.0, 2.0, 3.0, 4.0), usage=usage))

    assert (7, 5, False) == (row.input_tokens, row.output_tokens, row.tokens_approximate)


def test_moments_without_text_are_the_first_and_the_last_output_and_no_frames():
    usage = msgspec.Raw(b'{"prompt_tokens": 7, "completion_tokens": 3}')
    told = [RecordedFrame(ms=50.0), RecordedFrame(ms=60.0), RecordedFrame(ms=70.0)]
    row = row_of(recorded(headers=None, frames=told, usage=usage))

    assert ("completed", "told_by_its_source", True) == (row.outcome, row.detail, row.finished)
    assert [50.0, 70.0, None, None] == after(row, "first_output", "last_output", "first_text", "terminal")
    assert (7, 3, 0, b"") == (row.input_tokens, row.output_tokens, row.frames, row.frame_at_ns)


def test_an_answer_in_one_piece_has_no_first_output():
    whole = recorded(headers=None, frames=[RecordedFrame(ms=50.0)])
    row = row_of(msgspec.structs.replace(whole, body=msgspec.Raw(b'{"model": "m", "messages": []}')))

    assert [None, 50.0] == after(row, "first_output", "last_output")


@pytest.mark.parametrize("usage", [b"null", b"[]", b'"many"', b'{"output_tokens": "x"}', b"{}"])
def test_a_report_in_other_words_is_none(usage):
    row = row_of(recorded(frames=frames(1.0, 2.0, 3.0, 4.0), usage=msgspec.Raw(usage)))

    assert (2, True) == (row.output_tokens, row.tokens_approximate)


@pytest.mark.parametrize("response", [None, RecordedResponse(status=200, headers=STREAM)])
def test_an_answer_whose_end_is_not_known_makes_no_row(response):
    request = msgspec.structs.replace(recorded(), response=response)

    assert row_of(request) is None
