"""The recipe of a text's vector: its prompts, its dense layers, what is left out."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.batch import Layout
from bertworks.core.errors import UsageError
from bertworks.model.embedding import (
    BENDS,
    DenseLayer,
    EmbeddingRecipe,
    pool_vectors,
    without_first_tokens,
)

PROMPTED = EmbeddingRecipe(
    prompts={"query": "question: ", "document": ""}, default_prompt="query", normalize=False
)


def test_what_is_given_replaces_what_the_recipe_says_and_none_does_not() -> None:
    recipe = EmbeddingRecipe(pooling="first", normalize=True, max_length=31)
    changed = recipe.changed(pooling=None, normalize=False, max_length=None)
    assert changed == EmbeddingRecipe(pooling="first", normalize=False, max_length=31)
    assert recipe.normalize
    assert recipe.changed(pooling="max").pooling == "max"


@pytest.mark.parametrize("pooling", ["cls", "", "Mean", "lasttoken"])
def test_a_pooling_that_is_not_known_is_refused(pooling: str) -> None:
    with pytest.raises(UsageError, match=r"is not known; use mean, first, .* last or sqrt"):
        EmbeddingRecipe().changed(pooling=pooling)


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        (None, "question: "),
        ("query", "question: "),
        ("document", ""),
        ("", ""),
        ("query: ", "query: "),
        ("为这个句子生成表示：", "为这个句子生成表示："),
    ],
)
def test_a_prompt_is_a_name_of_the_model_or_else_a_text(prompt: str | None, text: str) -> None:
    assert PROMPTED.prompt_text(prompt) == text


def test_without_a_default_prompt_there_is_none() -> None:
    assert EmbeddingRecipe().prompt_text(None) == ""
    assert EmbeddingRecipe(prompts={"query": "q: "}).prompt_text(None) == ""


@pytest.mark.parametrize(
    ("recipe", "known"), [(PROMPTED, "query, document"), (EmbeddingRecipe(), "none")]
)
def test_a_bare_word_that_is_no_prompt_is_a_mistake_and_not_a_text(recipe, known: str) -> None:
    with pytest.raises(UsageError, match=f"no prompt 'qurey'; the prompts .* are: {known} "):
        recipe.prompt_text("qurey")


def test_dense_layers_follow_each_other_and_then_the_vectors_are_normalized() -> None:
    random = torch.Generator().manual_seed(5)
    pooled = torch.randn(4, 7, generator=random)
    first, bias, second = (torch.randn(s, generator=random) for s in ((5, 7), (5,), (3, 5)))
    layers = (DenseLayer(first, bias, "tanh"), DenseLayer(second, None, "relu"))
    expected = torch.relu(torch.tanh(pooled @ first.T + bias) @ second.T).numpy()
    plain = EmbeddingRecipe(layers=layers, normalize=False).finish(pooled.numpy())
    np.testing.assert_allclose(plain, expected, atol=1e-6)
    unit = EmbeddingRecipe(layers=layers).finish(pooled.numpy())
    lengths = np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(unit, expected / np.maximum(lengths, 1e-12), atol=1e-6)
    assert unit.dtype == np.float32


def test_a_vector_of_nothing_but_zeros_stays_finite() -> None:
    assert not EmbeddingRecipe().finish(np.zeros((2, 3), np.float32)).any()


def test_every_bend_leaves_the_shape() -> None:
    for bend in BENDS:
        layer = DenseLayer(torch.ones(2, 3), None, bend)
        assert layer.apply(torch.ones(4, 3)).shape == (4, 2)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(0, 7))
def test_leaving_out_first_tokens_keeps_the_rest_and_at_least_the_last(lengths, count) -> None:
    hidden = torch.arange(sum(lengths)).unsqueeze(1)
    kept, layout = without_first_tokens(hidden, Layout.of(tuple(lengths)), count)
    for before, after in zip(hidden.split(lengths), kept.split(layout.lengths), strict=True):
        assert after.tolist() == (before[count:] if count < len(before) else before[-1:]).tolist()


def test_each_text_may_leave_out_as_many_first_tokens_as_it_has_of_a_prompt() -> None:
    hidden, layout = torch.arange(9.0).unsqueeze(1), Layout.of((4, 3, 2))
    found = pool_vectors(hidden, layout, "mean", skipped=[2, 0, 5])
    assert found.flatten().tolist() == [2.5, 5.0, 8.0]


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(0, 3), st.integers(0, 2**31)
)
def test_every_pooling_follows_its_formula(lengths: list[int], skipped: int, seed: int) -> None:
    hidden = torch.randn(sum(lengths), 5, generator=torch.Generator().manual_seed(seed))
    layout = Layout.of(tuple(lengths))
    places = [torch.arange(min(skipped, n - 1), n) for n in lengths]
    parts = [part[own] for part, own in zip(hidden.split(lengths), places, strict=True)]
    plain = {
        "mean": lambda part, at: part.mean(0),
        "first": lambda part, at: part[0],
        "max": lambda part, at: part.amax(0),
        "last": lambda part, at: part[-1],
        "sqrt": lambda part, at: part.sum(0) / len(part) ** 0.5,
        "weighted": lambda part, at: ((at + 1.0) @ part) / (at + 1.0).sum(),
    }
    for pooling, formula in plain.items():
        expected = torch.stack([formula(*both) for both in zip(parts, places, strict=True)])
        found = pool_vectors(hidden, layout, pooling, skipped=skipped)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_vectors_are_cut_before_they_are_normalized() -> None:
    pooled = np.array([[3.0, 4.0, 12.0]], np.float32)
    np.testing.assert_allclose(EmbeddingRecipe().finish(pooled, 2), [[0.6, 0.8]], atol=1e-6)
    np.testing.assert_array_equal(EmbeddingRecipe(normalize=False).finish(pooled, 2), [[3, 4]])
    for dims in (0, 4, -1, 1.5):
        with pytest.raises(UsageError, match=f"dims is {dims}; the vectors have 3 numbers"):
            EmbeddingRecipe().finish(pooled, dims)


def test_a_prompt_that_is_no_unicode_is_refused() -> None:
    with pytest.raises(UsageError, match=r"the prompt 'a\\udcff: ' holds half of a surrogate pair"):
        EmbeddingRecipe().prompt_text("a\udcff: ")
