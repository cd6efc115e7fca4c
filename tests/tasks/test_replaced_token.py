"""Replaced-token detection: every piece is asked for once, and gets a probability."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from bertworks.core.batch import Target
from bertworks.core.errors import DataError
from bertworks.core.pieces import IGNORE
from bertworks.data.examples import TextExample
from bertworks.data.windows import cut_spans
from bertworks.tasks.replaced_token import ReplacedToken

words = st.lists(st.sampled_from(["cat", "dog", "北京", "läuft", "xyz"]), min_size=1, max_size=150)


@pytest.fixture
def task() -> ReplacedToken:
    return ReplacedToken()


@given(words, st.integers(5, 67))
def test_every_piece_is_asked_for_exactly_once_and_in_order(
    task, tokenizer, words: list[str], longest: int
) -> None:
    text = " ".join(words)
    pieces = tokenizer.ids_of([text])[0]
    windows = task.features(TextExample(text), tokenizer, longest=longest)
    spans = cut_spans(len(pieces), room=longest - 2)
    asked = [
        (int(place) - 1 + start, int(window.tokens[place]))
        for window, (start, _) in zip(windows, spans, strict=True)
        for place in window.goals["replaced_token"].at
    ]
    assert asked == list(enumerate(pieces))
    assert max(len(window.tokens) for window in windows) <= longest


def test_examples_do_not_say_what_was_replaced(task, tokenizer) -> None:
    (window,) = task.features(TextExample("the cat", label="a"), tokenizer, longest=67)
    goal = window.goals["replaced_token"]
    assert set(np.asarray(goal.values).tolist()) == {IGNORE}
    with pytest.raises(DataError, match=r"cannot be scored on examples.*use predict"):
        task.scorer()


def test_a_pair_is_refused_rather_than_half_read(task, tokenizer) -> None:
    with pytest.raises(DataError, match="one text, not a pair"):
        task.features(TextExample("the cat", "a dog"), tokenizer, longest=67)


def test_the_loss_is_the_summed_binary_cross_entropy(task) -> None:
    logits = torch.randn(5, 1, generator=torch.Generator().manual_seed(1))
    values = torch.tensor([0, 1, IGNORE, 1, 0])
    kept = values != IGNORE
    expected = functional.binary_cross_entropy_with_logits(
        logits[kept, 0], values[kept].float(), reduction="sum"
    )
    torch.testing.assert_close(task.loss(logits, Target(values)), expected)
    nothing = torch.full((5,), IGNORE)
    assert float(task.loss(logits, Target(nothing))) == 0.0


def test_probabilities_are_those_of_the_logits_however_large(task, tokenizer) -> None:
    logits = np.array([[0.0], [3.0], [-3.0], [1e4], [-1e4]], np.float32)
    found = task.decode(TextExample("t"), [], [logits], tokenizer)["replaced"]
    expected = torch.tensor(logits[:, 0]).double().sigmoid().tolist()
    assert found == pytest.approx(expected)
    assert {type(probability) for probability in found} == {float}


def test_the_head_gives_one_logit_for_each_piece(task, config) -> None:
    head = task.head(config)
    assert head.output.out_features == 1
    assert task.options == {}
    assert task.labels == ()
