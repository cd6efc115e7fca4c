"""What a model can do for clients: the same answers as its predictor's, whoever else asks."""

import random
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertworks.model.embedding import DenseLayer, EmbeddingRecipe
from bertworks.service.answers import MOST_WINDOWS, Answers
from bertworks.service.asked import OF_TASKS, TAKEN
from bertworks.service.failures import Failure
from bertworks.service.jobs import Item
from bertworks.service.task_answers import KINDS_OF
from bertworks.serving.model_folder import OpenModel
from bertworks.serving.predictor import Predictor

TEXTS = ["The cat sat on the mat.", "北京", "dog", "Die Katze läuft über den Hügel!", "a " * 90, ""]
LABELS = ["cat", "hill", "city"]
QUERIES = ["the cat", "北京 city"]
KEYS = ("text", "text_b", "tokens", "question", "passage", "choices", "first", "second", "aspect")
TASKS = [(ability, kind) for ability, kinds in KINDS_OF.items() for kind in kinds]


@pytest.fixture(scope="module")
def predictor(predictor_of) -> Predictor:
    return predictor_of("score", *(kind for _, kind in TASKS if kind != "score"))


@pytest.fixture(scope="module")
def encoder(draw_tasks, tokenizer, machine) -> Predictor:
    """Open a bare encoder as a folder of sentence-transformers may be: cut, prompted, projected."""
    random = torch.Generator().manual_seed(5)
    dense = DenseLayer(torch.randn(13, 21, generator=random), torch.ones(13), "tanh")
    recipe = EmbeddingRecipe(
        max_length=29,
        layers=(dense,),
        prompts={"query": "the dog ", "document": "over the hill "},
        pools_prompt=False,
    )
    return Predictor(OpenModel(draw_tasks(), tokenizer, None, recipe), machine)


def answers_of(predictor: Predictor) -> Answers:
    return Answers(predictor, queue_tokens=65536)


def in_any_batch(answers: Answers, items: list[Item], *, seed: int) -> list[Any]:
    """Compute items with neighbors drawn at random, as a batcher may put them together."""
    chance, found = random.Random(seed), [None] * len(items)
    left = list(range(len(items)))
    chance.shuffle(left)
    while left:
        key = items[left[0]].key
        mates = [place for place in left if items[place].key == key][: chance.randint(1, 7)]
        computed = answers.compute(key, [items[place].content for place in mates])
        for place, answer in zip(mates, computed, strict=True):
            found[place] = answer
        left = [place for place in left if place not in mates]
    return found


def difference(first: Any, second: Any) -> float:
    """Return how far the numbers of two answers are apart; far if they say other things."""
    if isinstance(first, np.ndarray):
        return float(np.abs(first - second).max()) if first.shape == second.shape else np.inf
    if isinstance(first, dict) and first.keys() == second.keys():
        return max((difference(first[key], second[key]) for key in first), default=0.0)
    if isinstance(first, list) and len(first) == len(second):
        return max((difference(*pair) for pair in zip(first, second, strict=True)), default=0.0)
    if isinstance(first, float):
        return abs(first - second)
    return 0.0 if first == second else np.inf


def require_same(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    assert max(map(difference, found, expected)) <= 1e-5
    # The same check on answers that are one place off sees it.
    assert max(map(difference, found, [*expected[1:], expected[0]])) > 1e-3


@pytest.mark.parametrize(("ability", "kind"), TASKS)
def test_a_task_answers_in_any_batch_as_the_predictor_does(
    ability: str, kind: str, predictor, make_samples
) -> None:
    answers, rows = answers_of(predictor), make_samples(31).rows(kind, 11, longest=150)
    items = answers.prepare(ability, rows, {"task": kind} if ability != "fill_mask" else {})
    found = in_any_batch(answers, items, seed=7)
    for answer in found:
        answer.pop("num_pieces", None)  # of what is written, which the service alone tells
    require_same(found, predictor.predict(rows, task=kind))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"normalize": False, "pooling": "max"},
        {"dims": 5, "prompt": "the dog: "},
        {"prompt_name": "query"},
    ],
)
def test_vectors_are_those_of_the_predictor(encoder, options: dict[str, Any]) -> None:
    answers = answers_of(encoder)
    items = answers.prepare("embed", TEXTS, options)
    asked = {("prompt" if name == "prompt_name" else name): v for name, v in options.items()}
    require_same(in_any_batch(answers, items, seed=3), list(encoder.embed(TEXTS, **asked)))
    assert [item.is_cut for item in items] == [False, False, False, False, True, False]


def test_texts_that_are_read_in_windows_have_the_vectors_of_the_predictor(predictor) -> None:
    answers = answers_of(predictor)
    items = answers.prepare("embed", TEXTS, {})
    require_same(in_any_batch(answers, items, seed=3), list(predictor.embed(TEXTS)))
    assert not any(item.is_cut for item in items)
    assert items[4].num_tokens > predictor.longest


def test_vectors_of_all_tokens_are_those_of_the_pieces_between_the_special_ones(encoder) -> None:
    answers, texts = answers_of(encoder), TEXTS[:4]
    items = answers.prepare("embed_all", texts, {})
    found = in_any_batch(answers, items, seed=3)
    assert [len(rows) for rows in found] == [item.num_tokens for item in items]
    require_same(
        [rows[1:-1] for rows in found], [own.vectors for own in encoder.embed_tokens(texts)]
    )
    (long,) = answers.prepare("embed_all", ["the cat " * 90], {})
    assert (long.num_tokens, long.is_cut) == (29, True)


@pytest.mark.parametrize("kind", ["match", "score", None])
def test_documents_are_ranked_as_the_predictor_ranks_them(
    kind: str | None, predictor_of, encoder
) -> None:
    predictor = predictor_of(kind) if kind else encoder
    answers, documents = answers_of(predictor), TEXTS[:5]
    pairs = [[query, document] for query in QUERIES for document in documents]
    found = in_any_batch(answers, answers.prepare("rerank", pairs, {}), seed=9)
    expected = predictor.fits(documents)(QUERIES)
    require_same([answer["score"] for answer in found], [*map(float, expected.ravel())])


@pytest.mark.parametrize(
    ("kinds", "options"),
    [
        (("fill_mask",), {}),
        (("match",), {"by": "entailment", "template": "about {label}"}),
        (("fill_mask",), {"by": "vectors"}),
        ((), {"template": "the {label}"}),
    ],
)
def test_labels_without_training_are_chosen_as_by_the_predictor(
    kinds: tuple[str, ...], options: dict[str, Any], predictor_of
) -> None:
    predictor = predictor_of(*kinds)
    answers, texts = answers_of(predictor), TEXTS[:5]
    items = answers.prepare("zero_shot", texts, {"labels": LABELS, **options})
    expected = predictor.classify(texts, labels=LABELS, **options)
    require_same(in_any_batch(answers, items, seed=2), expected)


def test_attention_is_that_of_the_predictor(predictor) -> None:
    answers = answers_of(predictor)
    items = answers.prepare("attention", ["the cat", ("a dog", "ran")], {})
    single, pair = in_any_batch(answers, items, seed=1)
    expected = predictor.attention("a dog", "ran")
    assert len(single["pieces"]) == items[0].num_tokens
    np.testing.assert_allclose(pair["weights"], expected.weights, atol=1e-5)
    with pytest.raises(Failure, match=r"input 2: the input has .* pieces"):
        answers.prepare("attention", ["the cat", "the cat " * 90], {})


@pytest.mark.parametrize(
    ("ability", "asked"),
    [
        ("embed", ["the {} sat"]),
        ("embed_all", ["the {} sat"]),
        ("classify", ["the {} sat"]),
        ("rerank", [["the dog", "the {} sat"]]),
        ("zero_shot", ["the {} sat"]),
    ],
)
def test_an_input_that_breaks_the_numbers_fails_alone(
    ability: str, asked: list[Any], predictor_of
) -> None:
    predictor = predictor_of("classify", seed=29)
    (poison,), *_ = predictor.tokenizer.ids_of(["14"])
    with torch.no_grad():
        predictor.model.encoder.embeddings.pieces.weight[poison] = float("nan")
    answers, options = answers_of(predictor), {"labels": LABELS} if ability == "zero_shot" else {}
    words = ("cat", "14", "hill")
    inputs = [_filled(item, word) for item in asked for word in words]
    items = answers.prepare(ability, inputs, options)
    first, broken, last = answers.compute(items[0].key, [item.content for item in items])
    assert isinstance(broken, Failure)
    assert broken.code == "not_finite"
    alone = [answers.compute(items[n].key, [items[n].content])[0] for n in (0, 2)]
    assert max(map(difference, [first, last], alone)) <= 1e-5


def _filled(item: Any, word: str) -> Any:
    if isinstance(item, list):
        return [_filled(part, word) for part in item]
    return item.format(word)


def test_a_model_can_do_what_its_heads_can_and_every_encoder_can(predictor_of) -> None:
    every = {"embed", "embed_all", "rerank", "zero_shot", "attention"}
    assert answers_of(predictor_of()).abilities == every
    assert answers_of(predictor_of("multilabel")).abilities == every | {"classify"}
    assert answers_of(predictor_of("tag", "answer")).abilities == every | {"tag", "answer"}
    with pytest.raises(Failure, match=r"^this model cannot tag; it can attention, embed") as failed:
        answers_of(predictor_of()).prepare("tag", ["a"], {})
    assert failed.value.code == "cannot_do"


@pytest.mark.parametrize(
    ("ability", "inputs", "options", "message"),
    [
        ("embed", ["a", 5], {}, "input 2 is 5; only texts"),
        ("embed", ["half \ud83d"], {}, "input 1 is"),
        (
            "embed",
            ["a"],
            {"dims": 22},
            "22 dimensions are asked for, but the vectors of this model have 21",
        ),
        ("embed", ["a"], {"pooling": "best"}, "pooling 'best' is not known"),
        ("embed", ["a"], {"prompt_name": "x"}, "it has none"),
        ("classify", ["a", " "], {}, "input 2: 'text' is empty"),
        ("classify", ["a"], {"task": "mood"}, "task is 'mood'; to classify there is classify"),
        ("match", ["a"], {}, "input 1: the task match needs a second text"),
        ("fill_mask", ["[MASK]", "no mask"], {}, "input 2: the text has no"),
        ("rerank", [["a", "b"], "c"], {}, "input 2 is 'c'; give a query and a document"),
        ("rerank", [["a", 4]], {}, "input 1 is .*both must be texts"),
        ("zero_shot", ["a"], {}, "zero-shot needs two labels or more; got 0"),
        ("zero_shot", ["a"], {"labels": ["b", "b"]}, "the label 'b'"),
        ("attention", [["a", "b", "c"]], {}, "input 1 is .*give a text or a pair"),
    ],
)
def test_what_makes_no_sense_is_said(
    predictor, ability: str, inputs: list[Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(Failure, match=message) as failed:
        answers_of(predictor).prepare(ability, inputs, options)
    assert failed.value.code == "bad_value"


def test_a_text_that_is_too_long_is_cut_or_refused(encoder, predictor) -> None:
    long = "the cat " * 90
    (item,) = answers_of(encoder).prepare("embed", [long], {})
    assert (item.num_tokens, item.is_cut) == (29, True)
    with pytest.raises(Failure, match=r"input 2 is longer than .* 29 tokens; shorten it") as failed:
        answers_of(encoder).prepare("embed", ["a", long], {"truncate": False})
    assert failed.value.code == "too_large"
    (item,) = answers_of(predictor).prepare("classify", [long], {"truncate": False})
    assert not item.is_cut


def test_a_huge_text_costs_no_more_than_what_is_read_of_it(predictor) -> None:
    answers = answers_of(predictor)
    most = MOST_WINDOWS * predictor.longest
    assert answers.most_pieces == most
    huge = "the cat " * 300_000
    for ability, item in {
        "embed": huge,
        "classify": huge,
        "tag": huge,
        "answer": ("the cat?", huge),
        "zero_shot": huge,
    }.items():
        options = {"labels": LABELS} if ability == "zero_shot" else {}
        (short,) = answers.prepare(ability, [item], options)
        assert short.is_cut
        assert most < short.num_tokens < 6 * most
    with pytest.raises(Failure, match=r"what may not be cut of it .*; shorten it") as failed:
        answers.prepare("tag", [{"tokens": ["the"] * 90_000}], {})
    assert failed.value.code == "too_large"


def test_pieces_are_told_behind_the_prompt(encoder) -> None:
    answers = answers_of(encoder)
    (pieces,) = answers.tokenize(["the cat"], prompt="query")
    assert [piece.text for piece in pieces] == ["[CLS]", "the", "dog", "the", "cat", "[SEP]"]
    (bare,) = answers.tokenize(["the cat"], special=False)
    assert [(piece.start, piece.stop) for piece in bare] == [(0, 3), (4, 7)]
    for wrong in (5, "half \ud83d"):
        with pytest.raises(Failure, match="only texts can be cut into pieces"):
            answers.tokenize([wrong])


@pytest.mark.parametrize("name", ["other", "an-other", "query: ", ""])
def test_pieces_are_told_behind_the_prompts_of_the_model_alone(encoder, name: str) -> None:
    answers = answers_of(encoder)
    with pytest.raises(Failure, match=r"give one of this model's prompts \(query, doc") as failed:
        answers.prepare("embed", ["the cat"], {"prompt_name": name})
    with pytest.raises(Failure) as of_pieces:
        answers.tokenize(["the cat"], prompt=name)
    assert str(of_pieces.value) == str(failed.value)


@pytest.mark.parametrize("name", [None, "plain", "odd-name"])
def test_as_many_pieces_are_told_as_a_vector_is_made_of(
    draw_tasks, tokenizer, machine, name: str | None
) -> None:
    prompts = {"plain": "", "query": "the dog ", "odd-name": "over the hill "}
    recipe = EmbeddingRecipe(prompts=prompts, default_prompt="query")
    answers = answers_of(Predictor(OpenModel(draw_tasks(), tokenizer, None, recipe), machine))
    (pieces,) = answers.tokenize(["the cat"], prompt=name)
    (item,) = answers.prepare("embed", ["the cat"], {"prompt_name": name})
    assert len(pieces) == item.num_tokens


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.just("cat"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=6,
)


@given(st.lists(JSON, min_size=1, max_size=3))
def test_whatever_is_sent_is_answered_or_refused(predictor, inputs: list[Any]) -> None:
    answers = answers_of(predictor)
    for ability in sorted(answers.abilities):
        options = {"labels": LABELS} if ability == "zero_shot" else {}
        items: list[Item] = []
        with suppress(Failure):
            items = answers.prepare(ability, inputs, options)
        for item in items:
            (answer,) = answers.compute(item.key, [item.content])
            assert not isinstance(answer, Failure)


@given(st.sampled_from(sorted(set().union(*TAKEN.values(), OF_TASKS))), JSON)
def test_whatever_is_asked_beside_is_taken_or_refused(predictor, name: str, value: Any) -> None:
    answers = answers_of(predictor)
    for ability in sorted(answers.abilities):
        options = {"labels": LABELS} if ability == "zero_shot" else {}
        pair = {"rerank": ("a", "b"), "fill_mask": "a [MASK]"}
        with suppress(Failure):
            answers.prepare(ability, [pair.get(ability, "a")], {**options, name: value})


def test_pieces_are_told_of_so_many_texts_and_no_more(predictor) -> None:
    answers = Answers(predictor, queue_tokens=90)
    assert len(answers.tokenize(["the cat"] * 9)) == 9
    with pytest.raises(Failure, match="more than 90 tokens") as failed:
        answers.tokenize(["the cat"] * 900)
    assert failed.value.code == "too_large"
