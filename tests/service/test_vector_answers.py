"""Vectors and what is compared by them: counted once, computed once, told apart by their keys."""

from collections.abc import Sequence

import numpy as np
import pytest

from bertworks.model.embedding import EmbeddingRecipe
from bertworks.service.asked import Asked
from bertworks.service.failures import Failure
from bertworks.service.lengths import Lengths
from bertworks.service.vector_answers import VectorAnswers
from bertworks.serving.model_folder import OpenModel
from bertworks.serving.predictor import Predictor
from bertworks.serving.vectors import Embedder, VectorForm
from bertworks.tasks.vector_texts import ReadText

TEXTS = ["the cat sat", "北京", "a dog ran over the hill"]


def answers_of(predictor: Predictor, together: int = 1 << 16) -> VectorAnswers:
    return VectorAnswers(predictor, Lengths(predictor.tokenizer, 500, together))


@pytest.fixture(scope="module")
def prompted(draw_tasks, tokenizer, machine) -> VectorAnswers:
    recipe = EmbeddingRecipe(prompts={"short": "the ", "long": "the dog ran "}, pools_prompt=False)
    model = OpenModel(draw_tasks(), tokenizer, None, recipe)
    return answers_of(Predictor(model, machine))


@pytest.fixture(scope="module")
def vectors(predictor_of) -> VectorAnswers:
    return answers_of(predictor_of())


def test_texts_of_other_forms_are_not_computed_together(prompted) -> None:
    forms = [Asked(), Asked(normalize=False), Asked(dims=3), Asked(pooling="max")]
    keys = [prompted.embed(TEXTS, asked)[0].key for asked in forms]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_texts_behind_other_prompts_are_computed_together(prompted, pooling: str) -> None:
    named = [Asked(pooling=pooling, prompt_name=name) for name in (None, "short", "long")]
    plain, short, long = (prompted.embed(TEXTS, asked)[0] for asked in named)
    assert plain.key == short.key == long.key
    assert plain.num_tokens < short.num_tokens < long.num_tokens
    together = prompted.compute(plain.key, [item.content for item in (plain, short, long)])
    for item, found in zip((plain, short, long), together, strict=True):
        np.testing.assert_allclose(found, *prompted.compute(item.key, [item.content]), atol=1e-5)


def test_a_prompt_is_named_or_given(prompted) -> None:
    for wrong in (Asked(prompt_name="other"), Asked(prompt_name="short", prompt="a: ")):
        with pytest.raises(Failure, match=r"give one of this model's prompts \(short, long\)"):
            prompted.embed(TEXTS, wrong)


def test_what_several_are_compared_with_is_counted_and_computed_once(vectors) -> None:
    (alone,) = vectors.rerank([["the cat", TEXTS[0]]])
    items = vectors.rerank([["the cat", text] for text in TEXTS])
    assert items[0].num_tokens == alone.num_tokens
    assert [item.num_tokens for item in items[1:]] == [
        item.num_tokens for item in vectors.embed(TEXTS[1:], Asked())
    ]
    assert len({item.content.others for item in items}) == 1
    together = vectors.compute(items[0].key, [item.content for item in items])
    apart = [vectors.compute(item.key, [item.content])[0] for item in items]
    for one, other in zip(together, apart, strict=True):
        assert one["score"] == pytest.approx(other["score"], abs=1e-5)


def test_shorter_vectors_are_the_beginnings_of_longer_ones_and_as_long_as_one(vectors) -> None:
    (whole,) = vectors.embed(TEXTS[:1], Asked(normalize=False))
    (short,) = vectors.embed(TEXTS[:1], Asked(dims=4))
    (long,) = vectors.compute(whole.key, [whole.content])
    (cut,) = vectors.compute(short.key, [short.content])
    np.testing.assert_allclose(cut, long[:4] / np.linalg.norm(long[:4]), atol=1e-5)
    assert long.shape == (vectors.dims,)


def test_equal_queries_of_a_request_are_read_once(vectors) -> None:
    pairs = [["the cat", "a"], ["a dog", "b"], ["the cat", "c"]]
    first, second, third = vectors.rerank(pairs)
    assert first.content.others == third.content.others != second.content.others


def test_texts_are_cut_only_until_they_are_too_many(
    predictor_of, monkeypatch: pytest.MonkeyPatch
) -> None:
    num_cut, read = [], Embedder.read

    def counted(self: Embedder, texts: Sequence[str], form: VectorForm) -> list[ReadText]:
        num_cut.append(len(texts))
        return read(self, texts, form)

    monkeypatch.setattr(Embedder, "read", counted)
    with pytest.raises(Failure, match="more than 90 tokens, which is the most; send") as failed:
        answers_of(predictor_of(), 90).embed(["the cat"] * 500, Asked())
    assert failed.value.code == "too_large"
    assert sum(num_cut) < 99
