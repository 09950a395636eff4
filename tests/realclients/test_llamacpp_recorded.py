"""Official clients before a recorder before a real llama.cpp: what they read is what came, and what was recorded."""

import base64
from pathlib import Path

import pytest
from conftest import Recorder
from environments import CannotInstall
from realclients.asking import ask_clients
from realservers.llamacpp.server import start

from loadgen.plan.recordings.ours import RecordedRequest, read_recording
from loadgen.results.answer import answer_texts
from loadgen.wire.framing import content_type

pytestmark = [pytest.mark.clients, pytest.mark.llamacpp]

CACHE = Path(__file__).parents[2] / ".venv" / "real-servers"
CLIENTS = ("openai-chat", "openai-completions", "anthropic")


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """What each client read, what a plain one did, and the recording."""
    out = tmp_path_factory.mktemp("recorded") / "rec.jsonl"
    try:
        with start(CACHE) as url:
            recorder = Recorder(url, out)
            try:
                told = ask_clients(recorder.url, [{"client": client, "wish": "", "cap": 12} for client in CLIENTS])
                raw = recorder.ask()
            finally:
                recorder.end()
    except CannotInstall as reason:
        pytest.skip(str(reason))
    return told, raw, read_recording(out)


def body_of(line: RecordedRequest) -> bytes:
    assert line.response is not None
    frames = line.response.frames or []
    return b"".join(base64.b64decode(frame.b64) if frame.b64 else (frame.data or "").encode() for frame in frames)


def text_of(line: RecordedRequest) -> str:
    assert line.response is not None
    headers = {name.lower(): value for name, value in (line.response.headers or {}).items()}
    return "".join(answer_texts(content_type(headers["content-type"]), body_of(line)))


def test_official_clients_read_what_was_recorded(story):
    told, _, lines = story

    assert [None] * len(CLIENTS) == [one["error"] for one in told]
    assert [one["text"] for one in told] == [text_of(line) for line in lines[: len(CLIENTS)]]
    assert any(one["text"] for one in told)


def test_the_recording_put_together_is_what_a_plain_client_got_byte_for_byte(story):
    _, raw, lines = story

    assert raw == body_of(lines[-1])
    assert raw.endswith(b"data: [DONE]\n\n")
