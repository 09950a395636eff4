"""One request, one JSON object."""

import json
import socket

import pytest
from conftest import loadgen

FIELDS = {"outcome", "finish_reason", "first_text_seconds", "completion_seconds", "observation_seconds", "text_events"}
FIELDS |= {"output_characters", "format", "ttft_seconds", "detail", "status"}


def probed(url: str, *options: str, wish: str = "", code: int = 0, **more) -> dict:
    header = ("--header", f"x-sim: {wish}") if wish else ()
    done = loadgen("probe", url, "sim", *header, *options, **more)
    assert code == done.returncode, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def one(simulate) -> str:
    return simulate("--ttft", "100ms", "--itl", "10ms", "--tokens", "20", "--slots", "0")


def test_a_probe_prints_one_object_of_the_agreed_fields(one):
    told = probed(one)

    assert FIELDS == told.keys()
    assert ("completed", "stop", "openai", 200) == (
        told["outcome"],
        told["finish_reason"],
        told["format"],
        told["status"],
    )


def test_its_seconds_count_from_the_submission(one):
    told = probed(one)

    assert 0.1 <= told["ttft_seconds"] == told["first_text_seconds"] < 0.4
    assert 0.28 <= told["completion_seconds"] == told["observation_seconds"] < 0.8


def test_it_counts_the_answers_text_and_keeps_none_of_it(one):
    told = probed(one)

    assert 20 == told["text_events"]
    assert told["output_characters"] > 40


def test_it_asks_for_no_more_than_its_cap(one):
    told = probed(one, "--max-tokens", "5")

    assert ("truncated", "length", 5) == (told["outcome"], told["finish_reason"], told["text_events"])
    assert told["completion_seconds"] is None
    assert told["observation_seconds"] >= told["first_text_seconds"] > 0


@pytest.mark.parametrize(
    ("wish", "outcome"),
    [
        ("fault=reject", "rejected"),
        ("fault=cut", "interrupted"),
        ("fault=reset", "interrupted"),
        ("fault=error", "api_error"),
    ],
)
def test_whatever_the_server_does_is_an_outcome_and_exit_0(one, wish, outcome):
    told = probed(one, wish=wish)

    assert (outcome, None) == (told["outcome"], told["completion_seconds"])


def test_a_rejection_has_no_text(one):
    told = probed(one, wish="fault=reject")

    assert (0, 0, None, None) == tuple(
        told[name] for name in ("text_events", "output_characters", "first_text_seconds", "ttft_seconds")
    )


def test_a_stalled_answer_ends_with_the_deadline(one):
    told = probed(one, "--deadline", "600ms", wish="fault=stall")

    assert "timeout" == told["outcome"]
    assert 0.6 <= told["observation_seconds"] < 2


def test_what_cannot_be_reached_is_exit_4():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"

        refused = loadgen("probe", url, "sim")

    assert (4, "") == (refused.returncode, refused.stdout)
    assert "refused" in refused.stderr


def test_a_prompt_and_an_api_of_ones_own(one):
    told = probed(one, "--prompt", "say something", "--api", "openai-completions")

    assert "completed" == told["outcome"]


@pytest.mark.parametrize("options", [("--api", "telepathy"), ("--deadline", "soon"), ("--set", "x=y")])
def test_bad_options_are_refused(one, options):
    assert 2 == loadgen("probe", one, "sim", *options).returncode


def test_a_key_is_sent_and_never_told(one):
    told = loadgen("probe", one, "sim", env={"LLM_API_KEY": "hush"})

    assert 0 == told.returncode
    assert "hush" not in told.stdout + told.stderr
