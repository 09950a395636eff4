"""Made-up prompts: as long as asked, sharing what the source shared and nothing else, and not held by the thousand."""

import json
import tracemalloc
from itertools import pairwise, takewhile
from random import Random
from statistics import median

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.cli.planning import What, When, plan_of
from loadgen.errors import UsageError
from loadgen.plan.recordings.apis import APIS
from loadgen.plan.recordings.distributions import DISTRIBUTIONS, parse_lengths
from loadgen.plan.recordings.edits import Edits
from loadgen.plan.recordings.nonces import NONCE_PLACE, Nonces, with_nonce_place
from loadgen.plan.recordings.ours import RecordedRequest, Synthetic
from loadgen.plan.recordings.synthetic import Making, Writer
from loadgen.plan.recordings.tokens import words_of_one_token
from loadgen.plan.recordings.words import WORDS
from loadgen.plan.render import Rendered, render

WRITER = Writer(seed=1)


def row(tokens: int, ids: list[int] | None = None, block: int | None = None, **fields: object) -> RecordedRequest:
    given_ = {"path": "/v1/chat/completions", "model": "m", "expected_output_tokens": 7} | fields
    return RecordedRequest(**given_, synthetic=Synthetic(tokens, ids, block))


def prompt(tokens: int, ids: list[int] | None = None, block: int | None = None, own: str = "0") -> list[str]:
    return WRITER.prompt(Synthetic(tokens, ids, block), own).split(" ")


def shared(one: list, other: list) -> int:
    """How many items two lists begin with in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


# -- lengths and prefixes ----------------------------------------------------------------------------------------------


@given(st.integers(1, 40_000), st.none() | st.lists(st.integers(0, 2**63), max_size=30), st.integers(1, 600))
def test_a_prompt_has_as_many_words_as_tokens_are_asked(tokens, ids, block):
    words = prompt(tokens, ids, block)

    assert tokens == len(words)
    assert set(words) <= set(WORDS)


@given(st.lists(st.integers(0, 2**40), max_size=5), st.lists(st.integers(0, 2**40), max_size=5), st.integers(9, 100))
def test_prompts_share_the_blocks_whose_ids_they_share_and_no_more(one, other, block):
    same = shared(one, other)
    length = (max(len(one), len(other)) + 1) * block

    found = shared(prompt(length, one, block, "a"), prompt(length, other, block, "b"))

    assert same * block <= found < same * block + 8


def test_a_block_that_is_cut_off_is_the_beginning_of_the_whole():
    whole, cut = prompt(1024, [4, 5], 512), prompt(612, [4, 5], 512)

    assert whole[:612] == cut


def test_ids_beyond_the_length_are_left_out_and_a_length_beyond_the_ids_is_the_rows_own():
    assert prompt(512, [1], 512) == prompt(512, [1, 2, 3], 512)
    assert 512 == len(prompt(512, [1, 2, 3], 512))
    assert shared(prompt(900, [1], 512, "a"), prompt(900, [1], 512, "b")) < 520


def test_a_hundred_thousand_keys_make_different_texts_within_their_first_words():
    assert 100_000 == len({WRITER.text(str(key), 8) for key in range(100_000)})


def test_texts_are_of_their_seed():
    assert Writer(seed=1).text("a", 100) == WRITER.text("a", 100) != Writer(seed=2).text("a", 100)


# -- requests ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", APIS.values(), ids=APIS.keys())
def test_a_row_is_asked_over_each_api_with_its_output_length_as_the_cap(api):
    made = Making(writer=WRITER, edits=Edits(usage=True)).request(row(30, path=api.path_for("m")), 0)

    body = json.loads(made.payload)
    cap = body
    for key in api.caps[0]:
        cap = cap[key]
    assert 7 == cap
    assert WRITER.prompt(Synthetic(30), "0") in made.payload.decode()
    assert api.asks_usage == ("stream_options" in body)
    assert render(made, place=0, authority="h").asked_for_stream
    assert (made.payload, "POST") == (made.payload, made.verb)


def test_options_say_model_cap_and_fields_and_the_rows_own_cap_stands():
    making = Making(writer=WRITER, model="other", max_tokens=99, edits=Edits(fields={"temperature": 0}))

    capped = json.loads(making.request(row(5), 0).payload)
    uncapped = json.loads(making.request(row(5, expected_output_tokens=None), 0).payload)

    assert ("other", 7, 0, 99) == (capped["model"], capped["max_tokens"], capped["temperature"], uncapped["max_tokens"])
    assert "stream_options" not in capped


def test_another_model_is_asked_at_its_own_path():
    made = Making(writer=WRITER, model="b:0").request(row(5, path="/model/a/converse-stream", model="a"), 0)

    assert ("/model/b%3A0/converse-stream", "b:0") == (made.path, made.model)


def test_lengths_are_fixed_only_when_asked_and_where_servers_can():
    plain = Making(writer=WRITER).request(row(5), 0)
    fixed = Making(writer=WRITER, fix_lengths=True).request(row(5), 0)

    assert "ignore_eos" not in json.loads(plain.payload)
    assert json.loads(fixed.payload)["ignore_eos"] is True
    assert (None, True) == (plain.fixed_length, fixed.fixed_length)
    with pytest.raises(UsageError, match="--fix-lengths: anthropic has no way to ask for it"):
        Making(writer=WRITER, fix_lengths=True).request(row(5, path="/v1/messages"), 0)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model": None}, "rows of lengths alone name no model"),
        ({"tokens": None}, "request 3: it has no input_tokens"),
        ({"path": "/elsewhere"}, "request 3: no API is known at /elsewhere"),
        ({"path": "/elsewhere", "id": "x"}, "request x: no API is known at /elsewhere"),
    ],
)
def test_a_row_that_says_too_little_is_an_error_that_names_it(fields, words):
    with pytest.raises(UsageError, match=rf"{words}\nhint: "):
        Making(writer=WRITER).request(row(**({"tokens": 5} | fields)), 2)


def test_prompts_are_not_held_but_written_each_time_alike():
    making = Making(writer=WRITER)
    tracemalloc.start()
    requests = [making.request(row(1000), place) for place in range(3000)]
    rendered = Rendered(requests, authority="h")
    sizes = sum(len(request.body) for request in rendered)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert sizes > 15_000_000
    assert peak < sizes / 5
    assert rendered[5] == rendered[5] == rendered[-2995]
    assert [rendered[1], rendered[2]] == rendered[1:3]
    assert 3000 == len(rendered) and held < sizes / 5


# -- plans -------------------------------------------------------------------------------------------------------------


def plan(when: dict[str, object] | None = None, **what_: object):
    defaults = {"recording": None, "prompts": None, "prompt": None, "model": "m", "api": "openai-chat"}
    made_up = {"input_tokens": "100..200", "output_tokens": "5", "max_tokens": None, "set": [], "usage": None}
    drawn = {
        "rate": 10.0, "arrivals": "poisson", "burstiness": 1.0, "stages": None, "recorded": False, "speed": 1.0,
        "schedule": None, "concurrency": None, "requests": None, "duration": "5s", "seed": 1, "warmup": "0s",
    }  # fmt: skip
    return plan_of(What(**(defaults | made_up | what_)), When(**(drawn | (when or {}))))


def test_every_send_has_a_prompt_of_its_own_warm_up_included():
    made = plan({"rate": None, "stages": "10@5s", "warmup": "2s"})

    bodies = {made.requests[place].payload for place in made.schedule.which}
    assert len(made.schedule.due_ns) == len(bodies) == len(made.requests)


def test_the_same_seed_makes_the_same_plan_and_another_seed_another():
    one, again, other = plan(seed=1), plan(seed=1), plan(seed=2)

    assert one.schedule.sha256 == again.schedule.sha256 != other.schedule.sha256
    assert list(one.schedule.due_ns) == list(other.schedule.due_ns)


def test_lengths_are_drawn_and_a_share_of_each_prompt_is_common():
    made = plan(prefix_share=0.5, input_tokens="100..200")
    prompts = [json.loads(request.payload)["messages"][0]["content"].split() for request in made.requests]
    lengths = [len(words) for words in prompts]

    assert 100 <= min(lengths) < max(lengths) <= 200
    assert lengths == [request.synthetic.input_tokens for request in made.requests]
    for one, other in pairwise(prompts):
        common = round(min(len(one), len(other)) / 2)
        assert common <= shared(one, other) < common + 8


def test_a_closed_loop_makes_as_many_as_it_sends_or_a_pool():
    counted = plan({"rate": None, "concurrency": 2, "requests": 30, "duration": None})
    timed = plan({"rate": None, "concurrency": 2})

    assert 30 == len(counted.requests)
    assert 10_000 == len(timed.requests) > len({request.payload for request in timed.requests[:100]}) == 100
    assert timed.made_up == {"requests": 10_000, "tokens_per_word": 1, "is_exact": False}


@pytest.mark.parametrize(
    ("what_", "words"),
    [
        ({"output_tokens": None}, "--input-tokens and --output-tokens go together"),
        ({"input_tokens": None, "prompt": "x"}, "--input-tokens and --output-tokens go together"),
        ({"prompt": "x"}, "--prompt and --input-tokens given to send"),
        ({"input_tokens": None, "output_tokens": None}, "nothing given to send"),
        ({"model": None}, "prompts need a model"),
        ({"prefix_share": 1.0}, "--prefix-share 1: not a share"),
        ({"prefix_share": -0.1}, "--prefix-share -0.1: not a share"),
        ({"input_tokens": None, "output_tokens": None, "prompt": "x", "prefix_share": 0.5}, "--prefix-share 0.5: not"),
        ({"api": "telepathy"}, "--api 'telepathy' is not known"),
    ],
)
def test_what_cannot_be_made_up_is_an_error_of_the_user(what_, words):
    with pytest.raises(UsageError, match=words):
        plan(**what_)


# -- distributions -----------------------------------------------------------------------------------------------------


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers())
def test_a_range_gives_only_lengths_within_it(least, more, seed):
    drawn = parse_lengths(f"{least}..{least + more}", option="--input-tokens")(Random(seed))

    assert least <= drawn <= least + more


@given(st.integers(1, 10**6), st.floats(0, 5).map(lambda sigma: round(sigma, 3)), st.integers())
def test_a_lognormal_gives_whole_lengths_of_one_or_more(at, sigma, seed):
    assert 1 <= parse_lengths(f"lognormal:{at},{sigma:f}", option="--input-tokens")(Random(seed))


def test_each_distribution_has_the_middle_that_it_says():
    rng = Random(1)
    texts = {"200": 200, "100..300": 200, "lognormal:200,0.5": 200}

    assert len(DISTRIBUTIONS) == len(texts)
    for text, middle in texts.items():
        draw = parse_lengths(text, option="--input-tokens")
        assert pytest.approx(middle, rel=0.03) == median(draw(rng) for _ in range(5000))


@pytest.mark.parametrize(
    "text",
    ["", "0", "-5", "1.5", "x", "5..", "..5", "9..5", "0..5", "5...6", "lognormal:0,1", "lognormal:5", "lognormal:5,9",
     "lognormal:5,x", "normal:5,1", "99999999", "٣"],
)  # fmt: skip
def test_what_is_no_length_is_named_with_its_option(text):
    with pytest.raises(UsageError, match=r"--output-tokens .* is not a length in tokens\nhint: as in"):
        parse_lengths(text, option="--output-tokens")


# -- nonces ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "first"),
    [
        ({"messages": [{"role": "user", "content": "x"}]}, ("messages", 0, "content")),
        ({"messages": [{"role": "system", "content": [{"text": "x"}]}]}, ("messages", 0, "content", 0, "text")),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}, {"type": "text", "text": "x"}]}]},
         ("messages", 0, "content", 1, "text")),
        ({"messages": [{"role": "user", "content": "x"}], "system": "s"}, ("system",)),
        ({"messages": [{"content": [{"text": "x"}]}], "system": [{"text": "s"}]}, ("system", 0, "text")),
        ({"prompt": "x", "model": "m"}, ("prompt",)),
        ({"prompt": ["x", "y"]}, ("prompt", 0)),
        ({"input": "x", "instructions": "s"}, ("instructions",)),
        ({"input": [{"role": "user", "content": "x"}]}, ("input", 0, "content")),
    ],
)  # fmt: skip
def test_a_nonce_stands_where_the_model_begins_to_read(body, first):
    request = RecordedRequest(path="/v1/x", body=msgspec.Raw(json.dumps(body).encode()))

    marked = json.loads(with_nonce_place(request).payload)

    text = marked
    for key in first:
        text = text[key]
    assert text.startswith(f"{NONCE_PLACE} ")
    assert 1 == json.dumps(marked).count(NONCE_PLACE)


@pytest.mark.parametrize("body", [b"null", b"[]", b'{"prompt": [1, 2]}', b'{"messages": []}', b'{"a": 1}'])
def test_a_body_without_a_prompt_has_no_place_for_a_nonce(body):
    with pytest.raises(UsageError, match="no prompt is found in its body"):
        with_nonce_place(RecordedRequest(path="/v1/x", body=msgspec.Raw(body)))


def test_each_send_has_its_own_nonce_and_equal_length():
    made = plan({"duration": "1s"}, unique_prefix=True, input_tokens="20")
    request = Rendered(made.requests, authority="h")[0]

    sent = [request.with_nonce(made.nonces.of(seq)) for seq in range(1000)]

    assert 1000 == len({of.body for of in sent})
    assert {len(request.body)} == {len(of.body) for of in sent}
    words = [json.loads(of.body)["messages"][0]["content"].split(" ") for of in sent]
    assert {20} == {len(of) for of in words}
    assert set(WORDS) >= {word for of in words for word in of}
    assert NONCE_PLACE.encode() in request.body and all(NONCE_PLACE.encode() not in of.body for of in sent)


def test_runs_have_different_nonces_and_a_request_without_a_place_none():
    request = render(RecordedRequest(path="/v1/models"), place=0, authority="h")

    assert plan(unique_prefix=True).nonces.of(0) != plan(unique_prefix=True).nonces.of(0)
    assert None is plan().nonces
    assert request is request.with_nonce(Nonces("a").of(0))


# -- tokenizers --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """A byte-level BPE that knows most of our words and splits others: what a real model's looks like."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    known = WORDS[20:]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=3000, initial_alphabet=alphabet, show_progress=False)
    bpe.train_from_iterator([*known, " ".join(known)] * 3, trainer)
    path = tmp_path_factory.mktemp("model") / "tokenizer.json"
    bpe.save(str(path))
    return path, bpe


def test_with_a_tokenizer_lengths_are_exact(tokenizer):
    path, bpe = tokenizer
    made = plan(tokenizer=path, input_tokens="1..500", prefix_share=0.3)

    counted = [
        len(bpe.encode(json.loads(request.payload)["messages"][0]["content"], add_special_tokens=False).ids)
        for request in made.requests
    ]

    assert [request.synthetic.input_tokens for request in made.requests] == counted
    assert made.made_up["is_exact"]


def test_with_a_tokenizer_nonces_are_counted_too(tokenizer):
    path, bpe = tokenizer
    made = plan(tokenizer=path, input_tokens="50", unique_prefix=True)
    rendered = Rendered(made.requests, authority="h")

    for seq in range(20):
        body = rendered[seq].with_nonce(made.nonces.of(seq)).body
        text = json.loads(body)["messages"][0]["content"]
        assert 50 == len(bpe.encode(text, add_special_tokens=False).ids)


def test_words_that_a_tokenizer_splits_are_not_used(tokenizer):
    path, _ = tokenizer
    words = words_of_one_token(path)

    assert 16 <= len(words) < len(WORDS)
    assert set(words) <= set(WORDS)


def test_a_tokenizer_with_too_few_words_and_no_tokenizer_are_errors(tmp_path, tokenizer):
    from tokenizers import Tokenizer, models, pre_tokenizers

    letters = Tokenizer(models.WordLevel({letter: n for n, letter in enumerate("abc")} | {"?": 3}, unk_token="?"))
    letters.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    letters.save(str(tmp_path / "letters.json"))
    (tmp_path / "other.json").write_text("{}")

    with pytest.raises(UsageError, match="0 of 256 common words are one token each"):
        words_of_one_token(tmp_path / "letters.json")
    with pytest.raises(UsageError, match=r"other\.json: no tokenizer"):
        words_of_one_token(tmp_path / "other.json")
    with pytest.raises(UsageError, match="No such file"):
        words_of_one_token(tmp_path / "nowhere")
    for option in ({"tokenizer": tokenizer[0]}, {"fix_lengths": True}):
        with pytest.raises(UsageError, match="is for prompts made up to a length"):
            plan(input_tokens=None, output_tokens=None, prompt="x", **option)
