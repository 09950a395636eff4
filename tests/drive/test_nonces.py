"""What differs per send is put in on the look-ahead: the nonce of each request, the same at each of its attempts."""

import json
from pathlib import Path

import msgspec
import pytest
import trio
from scripted import ANSWER, ScriptedNetwork, TrioPacer, Wire
from trio.testing import MockClock

from loadgen.drive.driver import Conduct, Driver
from loadgen.drive.retries import Retries
from loadgen.plan.recordings.nonces import NONCE_PLACE, Nonces, with_nonce_place
from loadgen.plan.recordings.ours import RecordedRequest
from loadgen.plan.render import Rendered, RenderedRequest
from loadgen.plan.schedule import closed_loop, open_loop
from loadgen.results.journal import Journal

BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
REQUEST = with_nonce_place(
    RecordedRequest(path="/v1/chat/completions", body=msgspec.Raw(json.dumps(BODY).encode()), id="same")
)


def bodies_sent(schedule, folder: Path, *, request: RecordedRequest = REQUEST, **conduct: object) -> list[bytes]:
    """The bodies that reach a server which turns every first attempt away."""
    sent: list[bytes] = []

    async def answers(wire: Wire, seq: int) -> None:
        is_first = wire.exchange.body not in sent
        sent.append(wire.exchange.body)
        wire.answer(ANSWER, status=503 if is_first else 200)
        wire.end()

    async def main() -> None:
        journal = Journal(folder / "records")
        async with trio.open_nursery() as nursery:
            pacer = TrioPacer()
            network = ScriptedNetwork(answers, pacer, nursery)
            rendered = Rendered([request], authority="h")
            driver = Driver(
                schedule,
                rendered,
                network,
                pacer=pacer,
                journal=journal,
                conduct=Conduct(run="r", retries=Retries(most=1), **conduct),
            )
            await driver.run()
            nursery.cancel_scope.cancel()
        journal.close()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    return sent


@pytest.mark.parametrize(
    "schedule",
    [open_loop([REQUEST], [0.0, 1.0, 2.0]), closed_loop([REQUEST], callers=1, count=3)],
    ids=["open", "closed"],
)
def test_each_request_of_one_recorded_prompt_has_a_nonce_of_its_own_at_every_attempt(schedule, tmp_path):
    sent = bodies_sent(schedule, tmp_path, nonces=Nonces("salt"))

    assert 6 == len(sent)
    assert 3 == len(set(sent))
    assert {len(REQUEST.payload)} == {len(body) for body in sent}
    assert all(NONCE_PLACE.encode() not in body for body in sent)
    assert all(json.loads(body)["messages"][0]["content"].endswith(" hi") for body in sent)


def test_what_is_signed_is_what_is_sent(tmp_path):
    body = {"messages": [{"role": "user", "content": [{"text": "hi"}]}]}
    request = RecordedRequest(path="/model/m/converse-stream", body=msgspec.Raw(json.dumps(body).encode()))
    signed: list[bytes] = []

    def sign(request: RenderedRequest) -> dict[str, str]:
        signed.append(request.body)
        return {}

    sent = bodies_sent(
        open_loop([request], [0.0, 1.0]), tmp_path, request=with_nonce_place(request), nonces=Nonces("s"), sign=sign
    )

    assert 4 == len(sent)
    assert sorted(signed) == sorted(sent)


def test_without_nonces_bodies_are_sent_as_they_were_planned(tmp_path):
    assert {REQUEST.payload} == set(bodies_sent(open_loop([REQUEST], [0.0, 1.0]), tmp_path))
