"""What becomes of a request is decided by numbers alone: no socket here."""

from collections import Counter
from statistics import median
from typing import Any

import msgspec
import pytest

from loadgen.servers.simulated.apis import APIS
from loadgen.servers.simulated.asked import Asked, asked_from
from loadgen.servers.simulated.babble import Babble
from loadgen.servers.simulated.bodies import words_in
from loadgen.servers.simulated.fate import Fate, Fates
from loadgen.servers.simulated.model import Model
from loadgen.servers.simulated.pacing import Pacing, PacingRecord
from loadgen.servers.simulated.part import parts_of
from loadgen.servers.simulated.responses import RefusedError
from loadgen.servers.simulated.rhythm import Rhythm
from loadgen.servers.simulated.speech import Voices
from loadgen.servers.simulated.wish import NO_WISH, Wish, wish_from


def asked(**fields: Any) -> Asked:
    plain: dict[str, Any] = {
        "api": APIS["openai-chat"],
        "model": "sim",
        "stream": True,
        "include_usage": False,
        "cap": None,
        "ignore_eos": False,
        "input_tokens": 1,
        "wish": NO_WISH,
    }
    return Asked(**{**plain, **fields})


def fates(count: int, **settings: Any) -> list[Fate]:
    drawn = Fates(Model(**settings))
    return [drawn.draw(asked()) for _ in range(count)]


MIXED: dict[str, Any] = {"tokens_spread": 0.5, "reject_pct": 10, "cut_pct": 20, "stall_pct": 5, "error_pct": 15}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ttft_ns": -1}, "ttft_ns must not be negative"),
        ({"itl_ns": -1}, "itl_ns must not be negative"),
        ({"slots": -1}, "slots must not be negative"),
        ({"jitter": float("nan")}, "jitter must not be negative"),
        ({"tokens": 0}, "tokens must be at least 1"),
        ({"tokens_spread": 1.1}, r"tokens_spread must lie in 0\.\.1"),
        ({"cut_pct": 100.5}, r"cut_pct must lie in 0\.\.100"),
        ({"cut_pct": 60, "stall_pct": 50}, "add up to 110"),
        ({"reasoning": -1}, "reasoning must not be negative"),
        ({"tools_pct": 101}, r"tools_pct must lie in 0\.\.100"),
    ],
)
def test_a_model_no_server_can_have_is_refused_by_name(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Model(**settings)


def test_the_same_seed_gives_the_same_fates() -> None:
    assert fates(200, seed=7, **MIXED) == fates(200, seed=7, **MIXED)


def test_another_seed_gives_other_fates() -> None:
    assert fates(200, seed=7, **MIXED) != fates(200, seed=8, **MIXED)


def test_one_requests_wish_leaves_the_fates_after_it_alone() -> None:
    plain, wishing = Fates(Model(**MIXED)), Fates(Model(**MIXED))
    plain.draw(asked())
    wishing.draw(asked(wish=Wish(tokens=3, fault="cut"), cap=2))

    assert [plain.draw(asked()) for _ in range(20)] == [wishing.draw(asked()) for _ in range(20)]


def test_faults_come_in_the_shares_asked_for() -> None:
    counts = Counter(fate.fault for fate in fates(10_000, **MIXED))
    expected = {"reject": 0.10, "cut": 0.10, "reset": 0.10, "stall": 0.05, "error": 0.15, None: 0.50}

    assert expected == {fault: pytest.approx(counts[fault] / 10_000, abs=0.015) for fault in counts}


def test_half_of_the_rejections_are_429_and_half_503() -> None:
    counts = Counter(fate.reject_status for fate in fates(2_000, reject_pct=100))

    assert {429: 1000, 503: 1000} == {status: pytest.approx(count, abs=120) for status, count in counts.items()}


def test_a_fault_strikes_in_mid_answer() -> None:
    assert all(1 <= fate.spoken < fate.tokens for fate in fates(500, cut_pct=100, tokens=5))


def test_lengths_spread_around_the_models_and_reach_both_ends() -> None:
    lengths = {fate.tokens for fate in fates(2_000, tokens=10, tokens_spread=0.5)}

    assert set(range(5, 16)) == lengths


def test_without_spread_every_answer_has_the_models_length() -> None:
    assert {10} == {fate.tokens for fate in fates(100, tokens=10)}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, (10, "stop")),
        ({"cap": 10}, (10, "stop")),
        ({"cap": 4}, (4, "length")),
        ({"cap": 40}, (10, "stop")),
        ({"cap": 40, "ignore_eos": True}, (40, "length")),
        ({"ignore_eos": True}, (10, "stop")),
        ({"wish": Wish(tokens=7)}, (7, "stop")),
        ({"wish": Wish(tokens=7), "cap": 3}, (3, "length")),
        ({"wish": Wish(tokens=7, reasoning=5)}, (12, "stop")),
        ({"wish": Wish(tokens=7, reasoning=5), "cap": 11}, (11, "length")),
        ({"wish": Wish(tokens=7, reasoning=5), "cap": 20, "ignore_eos": True}, (20, "length")),
        ({"wish": Wish(tools=1)}, (10, "tool_calls")),
        ({"wish": Wish(tools=1), "cap": 9}, (9, "length")),
        ({"wish": Wish(tools=0)}, (10, "stop")),
    ],
)
def test_a_cap_cuts_the_answer_and_says_so(fields: dict[str, Any], expected: tuple[int, str]) -> None:
    fate = Fates(Model(tokens=10)).draw(asked(**fields))

    assert expected == (fate.tokens, fate.finish_reason)


def test_each_input_token_adds_its_prefill_to_the_first_tokens_time() -> None:
    model = Model(ttft_ns=1000, prefill_ns_per_token=10)

    assert 1500 == Fates(model).draw(asked(input_tokens=50)).first_ns


def test_a_wished_ttft_stands_as_it_is() -> None:
    model = Model(ttft_ns=1000, prefill_ns_per_token=10)

    assert 7 == Fates(model).draw(asked(input_tokens=50, wish=Wish(ttft_ns=7))).first_ns


@pytest.mark.parametrize(("active", "expected"), [(1, 1000), (2, 1500), (5, 3000)])
def test_each_other_request_in_the_batch_lengthens_the_gap(active: int, expected: int) -> None:
    assert expected == Rhythm(1000, model=Model(slowdown=0.5), seed=1).gap_ns(active)


def test_without_jitter_gaps_are_even() -> None:
    rhythm = Rhythm(1000, model=Model(), seed=1)

    assert {1000} == {rhythm.gap_ns(1) for _ in range(50)}


def test_jitter_spreads_gaps_around_their_median_the_same_way_for_the_same_seed() -> None:
    def gaps(seed: int) -> list[int]:
        rhythm = Rhythm(1_000_000, model=Model(jitter=0.5), seed=seed)
        return [rhythm.gap_ns(1) for _ in range(2000)]

    assert gaps(1) == gaps(1)
    assert gaps(1) != gaps(2)
    assert pytest.approx(1_000_000, rel=0.05) == median(gaps(1))
    assert max(gaps(1)) > 3_000_000 > 300_000 > min(gaps(1))


def kinds(fate: Fate) -> list[tuple[str, int]]:
    return [(part.kind, part.stop - part.start) for part in fate.parts]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, [("text", 10)]),
        ({"wish": Wish(reasoning=3)}, [("reasoning", 3), ("text", 10)]),
        ({"wish": Wish(tools=1)}, [("text", 5), ("tool", 5)]),
        ({"wish": Wish(tokens=7, tools=1)}, [("text", 3), ("tool", 4)]),
        ({"wish": Wish(tokens=1, reasoning=2, tools=1)}, [("reasoning", 2), ("tool", 1)]),
        ({"wish": Wish(reasoning=3, tools=1), "cap": 10}, [("reasoning", 3), ("text", 5), ("tool", 2)]),
        ({"wish": Wish(reasoning=3), "cap": 3}, [("reasoning", 3)]),
        ({"wish": Wish(reasoning=3), "cap": 2, "ignore_eos": True}, [("reasoning", 2)]),
        ({"wish": Wish(reasoning=3), "cap": 30, "ignore_eos": True}, [("reasoning", 3), ("text", 27)]),
        ({"wish": Wish(reasoning=3, tools=1), "api": APIS["openai-completions"]}, [("text", 10)]),
        ({"wish": Wish(reasoning=3, tools=1), "api": APIS["ollama-generate"]}, [("reasoning", 3), ("text", 10)]),
    ],
)
def test_an_answer_has_its_reasoning_then_its_text_then_its_call(
    fields: dict[str, Any], expected: list[tuple[str, int]]
) -> None:
    fate = Fates(Model(tokens=10)).draw(asked(**fields))

    assert expected == kinds(fate)
    assert fate.tokens == sum(tokens for _, tokens in kinds(fate))


def test_the_model_reasons_and_calls_unless_a_request_wishes_otherwise() -> None:
    model = Model(tokens=4, reasoning=3, tools_pct=100)
    wish = Wish(reasoning=0, tools=0)

    assert [("reasoning", 3), ("text", 2), ("tool", 2)] == kinds(Fates(model).draw(asked()))
    assert [("text", 4)] == kinds(Fates(model).draw(asked(wish=wish)))


def test_calls_come_in_the_share_asked_for_and_change_nothing_else() -> None:
    plain, calling = fates(5_000, **MIXED), fates(5_000, tools_pct=30, **MIXED)

    assert 0.3 == pytest.approx(sum(fate.finish_reason == "tool_calls" for fate in calling) / 5_000, abs=0.02)
    assert [(fate.tokens, fate.spoken, fate.fault, fate.text_start) for fate in plain] == [
        (fate.tokens, fate.spoken, fate.fault, fate.text_start) for fate in calling
    ]


@pytest.mark.parametrize("tokens", range(1, 7))
def test_the_pieces_of_a_calls_arguments_are_one_object(tokens: int) -> None:
    babble, (part,) = Babble(1), parts_of(reasoning=0, text=0, arguments=tokens, most=tokens)
    pieces = [babble.piece(part, place, place + 1, start=9) for place in range(tokens)]

    assert all(pieces)
    assert babble.piece(part, 0, tokens, start=9) == "".join(pieces)
    assert max(0, tokens - 2) == len(msgspec.json.decode("".join(pieces))["text"].split())


def test_a_call_that_is_cut_never_closes() -> None:
    babble, (part,) = Babble(1), parts_of(reasoning=0, text=0, arguments=5, most=4)

    assert not babble.piece(part, 0, 4, start=9).endswith("}")


def test_model_names_do_not_pile_up() -> None:
    voices, api = Voices(Babble(1)), APIS["openai-chat"]
    for number in range(300):
        voices.chunks(api, f"m{number}", ("text",))

    assert len(voices._kept) < 200
    assert b'"model":"m3"' in voices.chunks(api, "m3", ("text",)).run(0, 1, 0)


@pytest.mark.parametrize(
    "header",
    [
        *("reasoning=-1", "reasoning=x", "reasoning=1.5", "tools=2", "tools=yes", "tools=", "tokens=٣"),
        *("tokens=9999999999", "reasoning=9999999999"),
    ],
)
def test_a_count_that_means_nothing_is_refused(header: str) -> None:
    with pytest.raises(RefusedError, match="x-sim"):
        wish_from(header)


@pytest.mark.parametrize(
    "header", ["tokens=0", "tokens=x", "ttft_ms=-1", "ttft_ms=nan", "itl_ms=", "fault=fire", "colour=red", "tokens"]
)
def test_a_wish_that_means_nothing_is_refused(header: str) -> None:
    with pytest.raises(RefusedError, match="x-sim"):
        wish_from(header)


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [("a b  c", 3), ("", 1), (["a b", "c"], 3), ([11, 12, 13], 3), ([[11, 12], [13]], 3)],
)
def test_prompts_are_counted_in_words_or_ids_but_never_none(prompt: object, expected: int) -> None:
    said = asked_from(
        msgspec.json.encode({"prompt": prompt}), api=APIS["openai-completions"], otherwise="sim", wish=NO_WISH
    )

    assert expected == said.input_tokens


def test_messages_are_counted_together_text_parts_included() -> None:
    payload = (
        b'{"messages": [{"role": "system", "content": "be brief"}, {"role": "assistant", "content": null},'
        b' {"role": "user", "content": [{"type": "text", "text": "what is this"}, {"type": "image_url"}]}]}'
    )

    assert 5 == asked_from(payload, api=APIS["openai-chat"], otherwise="sim", wish=NO_WISH).input_tokens


@pytest.mark.parametrize("gap", ["", " ", "   "])
def test_words_are_counted_right_where_a_long_text_is_sliced(gap: str) -> None:
    long = "a" * ((1 << 20) - 1)

    for tail in ("b c", gap + "b c", "b" + gap + "c"):
        assert len((long + gap + tail).split()) == words_in(long + gap + tail)


def test_json_nested_beyond_reason_is_refused() -> None:
    with pytest.raises(RefusedError, match="no such request"):
        asked_from(b'{"prompt": ' + b"[" * 100_000, api=APIS["openai-completions"], otherwise="sim", wish=NO_WISH)


def test_the_text_comes_round_and_every_word_has_its_leading_space() -> None:
    said = Babble(1).text(4090, 20)

    assert (20, " ") == (len(said.split()), said[0])


def test_pacing_without_a_frame_has_no_figures() -> None:
    assert PacingRecord().pacing() is None


def test_pacing_counts_in_milliseconds() -> None:
    record = PacingRecord()
    record.note([1_000_000] * 98)
    record.note([2_000_000, 5_000_000, 9_000_000])

    assert Pacing(count=101, p50_ms=1.0, p99_ms=5.0, max_ms=9.0) == record.pacing()
