"""Merges left out by chance: other pieces, the same text, and nothing that a seed does not tell."""

import json
import random
import tracemalloc
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Engine

from bertworks.core.errors import UsageError
from bertworks.tokenizer.engines import byte_bpe_engine
from bertworks.tokenizer.extend import extend
from bertworks.tokenizer.learn import learn_byte_bpe
from bertworks.tokenizer.piece_dropout import WAYS, PieceDropout
from bertworks.tokenizer.special_pieces import ROBERTA
from bertworks.tokenizer.tokenizer import Tokenizer

TEXTS = (
    "The cat sat on the mat, and the dog looked over the hill!",
    "  Die Katze läuft  über den Hügel;\n\tfünf Größenmaße: 3,14 ",
    "我们今天在北京学习中文。北京是中国的首都",
    "a 😀👩‍👩‍👧 b\u0301 \u200d\ufeff",
    "the <mask> sat</s><pad> <unk>",
    "the covid-19 dogma 在首都机场",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "",
)
Make = Callable[..., PieceDropout]


@pytest.fixture
def make(kinds: dict[str, Tokenizer]) -> Make:
    """Leave out merges of the small vocabulary of bytes."""

    def make(*, rate: float = 0.3, seed: int = 3) -> PieceDropout:
        return PieceDropout(kinds["byte-bpe"], rate=rate, seed=seed)

    return make


@given(st.text(st.characters(codec="utf-8"), max_size=40))
def test_without_dropout_pieces_are_the_tokenizers_own(make: Make, text: str) -> None:
    made = make(rate=0.0)
    assert made.at(0, 5).ids_of([text]) == made.tokenizer.ids_of([text])


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", ["cased", "uncased", "extended", "with a space before"])
def test_without_dropout_every_language_and_kind_is_cut_plainly(
    kind: str, text: str, kinds: dict[str, Tokenizer]
) -> None:
    tokenizer = kinds["byte-bpe"]
    if kind == "uncased":
        tokenizer = learn_byte_bpe(lambda: TEXTS * 3, size=400, cased=False)
    if kind == "extended":
        tokenizer = extend(tokenizer, ["首都机场", "dogma", "covid-19"]).tokenizer
    if kind == "with a space before":
        told = json.loads(tokenizer.engine.to_str())
        told["pre_tokenizer"]["add_prefix_space"] = True
        tokenizer = tokenizer.with_engine(Engine.from_str(json.dumps(told)))
    plain = tokenizer.ids_of([text])
    assert PieceDropout(tokenizer, rate=0.0, seed=3).at(1, 2).ids_of([text]) == plain
    torn = PieceDropout(tokenizer, rate=0.7, seed=3).cut(text, 1, 2)
    assert tokenizer.text_of(torn) == tokenizer.text_of(plain[0])
    whole = {*tokenizer.engine.get_added_tokens_decoder()}
    assert [i for i in torn if i in whole] == [i for i in plain[0] if i in whole]


def test_the_more_is_left_out_the_more_pieces_there_are(make: Make) -> None:
    text = " ".join(TEXTS[:3])
    counts = [len(make(rate=rate).cut(text, 0, 0)) for rate in (0.0, 0.2, 0.6, 1 - 1e-12)]
    assert counts == sorted(set(counts))
    assert counts[-1] == len(text.encode())


def test_a_cut_follows_from_seed_place_and_text_alone(make: Make) -> None:
    texts = [*TEXTS[:3], TEXTS[0]]
    first = {place: make().at(*place).ids_of(texts) for place in ((0, 0), (0, 1), (1, 0))}
    used = make()
    for place in ((1, 0), (0, 0), (0, 1)):
        assert used.at(*place).ids_of(texts[::-1]) == first[place][::-1]
    others = [*first.values(), make(seed=4).at(0, 0).ids_of(texts)]
    assert len({str(own) for own in others}) == len(others)


def test_what_is_forgotten_is_cut_again_as_it_was(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, remembering = list(TEXTS), make()
    monkeypatch.setattr("bertworks.tokenizer.piece_dropout.REMEMBERED", 3)
    monkeypatch.setattr("bertworks.tokenizer.piece_dropout.MOST_KEPT", 15)
    forgetful = make()
    for epoch in range(3):
        assert forgetful.at(epoch, 0).ids_of(texts) == remembering.at(epoch, 0).ids_of(texts)


def test_texts_without_spaces_take_no_more_memory_than_others(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertworks.tokenizer.piece_dropout.MOST_KEPT", 5000)
    chance, made = random.Random(3), make()
    texts = ["".join(chance.choices("thecaonsd", k=500)) for _ in range(200)]
    tracemalloc.start()
    for epoch in range(3):
        made.at(epoch, 0).ids_of(texts)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 500_000


def test_a_word_has_no_more_than_its_ways_and_takes_them_all_alike(make: Make) -> None:
    cut = partial(make(rate=0.5).cut, "looked")
    seen = [tuple(cut(place)) for place in range(40 * WAYS)]
    assert 1 < len(set(seen)) <= WAYS
    assert seen.count(max(set(seen), key=seen.count)) < len(seen) / 2


@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_a_merge_is_left_out_as_often_as_is_asked_for(rate: float) -> None:
    names = [*ROBERTA.names(), "a", "b", "c", "ab", "abc"]
    engine = byte_bpe_engine({n: i for i, n in enumerate(names)}, [("a", "b"), ("ab", "c")])
    tokenizer, count = Tokenizer(engine, ROBERTA), 3000
    cuts = [PieceDropout(tokenizer, rate=rate, seed=seed).cut("abc", 0) for seed in range(count)]
    shown = [" ".join(map(tokenizer.piece, own)) for own in cuts]
    # The first merge is tried once, the second after it, and only then.
    assert shown.count("a b c") / count == pytest.approx(rate, abs=0.03)
    assert shown.count("ab c") / count == pytest.approx((1 - rate) * rate, abs=0.03)
    assert shown.count("abc") / count == pytest.approx((1 - rate) ** 2, abs=0.03)


@pytest.mark.parametrize(("kind", "name"), [("wordpiece", "WordPiece"), ("unigram", "Unigram")])
def test_pieces_that_no_merges_make_are_refused(
    kind: str, name: str, kinds: dict[str, Tokenizer]
) -> None:
    with pytest.raises(UsageError, match=f"but the tokenizer is {name}; leave it out, or learn"):
        PieceDropout(kinds[kind], rate=0.1, seed=3)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"model": {"ignore_merges": True}}, "is BPE with ignore_merges"),
        ({"model": {"end_of_word_suffix": "</w>"}}, "is BPE with end_of_word_suffix"),
        ({"decoder": {"type": "BPEDecoder", "suffix": ""}}, "is no byte-level BPE"),
    ],
)
def test_bpe_that_does_more_than_merge_is_refused(
    changed: dict[str, dict[str, object]], said: str, kinds: dict[str, Tokenizer]
) -> None:
    told = json.loads(kinds["byte-bpe"].engine.to_str())
    told["model"] |= changed.get("model", {})
    told["decoder"] = changed.get("decoder", told["decoder"])
    tokenizer = kinds["byte-bpe"].with_engine(Engine.from_str(json.dumps(told)))
    with pytest.raises(UsageError, match=said):
        PieceDropout(tokenizer, rate=0.1, seed=3)
