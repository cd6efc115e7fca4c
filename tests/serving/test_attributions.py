"""Where a score comes from: shares that sum to it, slopes that are right, and refusals."""

import json
from dataclasses import replace
from threading import Thread, get_ident

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from bertworks.core.errors import DataError, UsageError
from bertworks.serving.model_folder import OpenModel
from bertworks.serving.predictor import Predictor
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel

LABELS = ("cold", "mild", "warm")
WORDS = ["the", "cat", "sat", "on", "a", "mat", "dog", "ran", "over", "hill", "北京", "Katze"]


@pytest.fixture(scope="session")
def model(config, tokenizer, machine) -> Predictor:
    tasks = [make_task(name, LABELS) for name in ("classify", "match", "multilabel")]
    tasks += [make_task("score", mean=3.0, deviation=2.0), make_task("answer")]
    made = TaskModel(config, tasks, seed=4, deviation=0.15)
    return Predictor(OpenModel(made, tokenizer, None), machine)


def logits_of(model: Predictor, text: str, task: str = "classify") -> np.ndarray:
    (answer,) = model.predict([text], task=task)
    return np.log([answer["probabilities"][label] for label in LABELS])


@effort(max_examples=15)
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=9), st.sampled_from(LABELS))
def test_integrated_gradients_are_complete(model, words: list[str], label: str) -> None:
    found = model.attribute(" ".join(words), label=label, task="classify")
    total = sum(share.score for share in found.pieces)
    assert total == pytest.approx(found.score - found.baseline, abs=1e-3)
    assert found.gap == pytest.approx(0, abs=1e-3)
    assert sum(share.score for share in found.words) == pytest.approx(total, abs=1e-5)
    assert all(share.score == 0 for share in found.pieces if share.text is None)


def test_few_steps_leave_a_gap_and_more_close_it(model) -> None:
    text = "the cat sat on the mat and looked at the dog"
    gaps = [abs(model.attribute(text, label="warm", steps=steps).gap) for steps in (1, 32)]
    assert gaps[1] < 1e-3 < gaps[0]


def test_scores_are_those_of_the_answer_and_of_the_masked_text(model) -> None:
    found = [model.attribute("the cat sat", label=label) for label in LABELS]
    scores, bases = ([getattr(one, name) for one in found] for name in ("score", "baseline"))
    for row, text in ((scores, "the cat sat"), (bases, "[MASK] [MASK] [MASK]")):
        expected = logits_of(model, text)
        np.testing.assert_allclose(np.subtract(row, row[0]), expected - expected[0], atol=1e-4)


def test_the_likeliest_label_is_explained_unless_another_is_named(model) -> None:
    (answer,) = model.predict(["the cat sat"])
    assert model.attribute("the cat sat").label == answer["label"]
    assert model.attribute("the cat sat", label="mild").label == "mild"


def test_of_several_labels_the_likeliest_is_explained_with_what_it_is_in_general(
    config, tokenizer, machine
) -> None:
    task = make_task("multilabel", LABELS, prior=[-4.0, 0.0, 4.0])
    made = TaskModel(config, [task], seed=4, deviation=0.15)
    model = Predictor(OpenModel(made, tokenizer, None), machine)
    (answer,) = model.predict(["the cat sat"])
    assert max(answer["probabilities"], key=answer["probabilities"].get) == "warm"
    found = model.attribute("the cat sat")
    chance = answer["probabilities"]["warm"]
    assert found.label == "warm"
    assert found.score == pytest.approx(np.log(chance / (1 - chance)), abs=1e-4)


def test_gradient_times_input_is_the_slope_of_growing_vectors(model) -> None:
    text = "the dog"
    found = model.attribute(text, label="cold", method="gradient-x-input")
    assert found.baseline is None
    assert found.gap is None
    table = model.model.encoder.embeddings.pieces
    token = model.tokenizer.ids_of([text])[0][1]
    before, step = table.weight[token].clone(), 1e-3
    moved = []
    with torch.no_grad():
        for sign in (1, -1):
            table.weight[token] = before * (1 + sign * step)
            moved.append(model.attribute(text, label="cold", method="gradient-x-input").score)
            table.weight[token] = before
    assert found.pieces[2].score == pytest.approx((moved[0] - moved[1]) / (2 * step), abs=2e-3)


def test_numbers_are_explained_on_their_own_scale(model) -> None:
    found = model.attribute("the cat sat", task="score")
    (answer,) = model.predict(["the cat sat"], task="score")
    assert found.label is None
    assert found.score == pytest.approx(answer["score"], abs=1e-5)
    assert found.gap == pytest.approx(0, abs=1e-3)


def test_words_of_pairs_stand_where_they_stood(model) -> None:
    found = model.attribute(("The cat looked", "a dog!"), task="match")
    texts = ("The cat looked", "a dog!")
    assert [(word.piece, word.text) for word in found.words] == [
        *[(word, 0) for word in ("The", "cat", "looked")],
        *[(word, 1) for word in ("a", "dog", "!")],
    ]
    assert all(texts[word.text][word.start : word.end] == word.piece for word in found.words)
    assert json.loads(json.dumps(found.as_json()))["words"][1]["piece"] == "cat"


def test_explaining_changes_no_later_answer_and_leaves_no_gradient(model) -> None:
    before = model.predict(["the cat", "a dog"])
    model.attribute("the cat")
    assert model.predict(["the cat", "a dog"]) == before
    assert all(parameter.grad is None for parameter in model.model.parameters())


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"label": "hot"}, "no label 'hot' to explain; the labels are: cold, mild, warm"),
        ({"method": "lime"}, "method 'lime' is not known; use gradient-x-input or integrated"),
        ({"steps": 0}, "steps is 0; it is a whole number, and the least is 1"),
        ({"steps": 2.5}, "steps is 2.5; it is a whole number"),
        ({"steps": "2"}, "steps is '2'; it is a whole number"),
        ({"task": "mood"}, "this model has no task 'mood'"),
    ],
)
def test_what_cannot_be_explained_is_refused(model, asked: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        model.attribute("the cat", **asked)


def test_other_tasks_and_long_texts_are_refused(model) -> None:
    with pytest.raises(UsageError, match="the answers of answer are not explained; those of"):
        model.attribute({"question": "who?", "passage": "the cat"}, task="answer")
    with pytest.raises(DataError, match="only inputs of one window can be explained"):
        model.attribute("the cat " * 50)


def test_one_window_is_what_the_task_answers_from(make_model, tokenizer, machine) -> None:
    short = Predictor(OpenModel(make_model("classify"), tokenizer, None, longest=11), machine)
    assert len(short.attribute("the cat " * 4).pieces) == 10
    said = (
        "the input has 12 pieces, but only inputs of one window .* which has room for 11; shorten"
    )
    with pytest.raises(DataError, match=said):
        short.attribute("the cat " * 5)


def test_every_family_can_be_explained(draw_model, machine) -> None:
    for family in ("albert", "roberta", "modernbert", "mpnet"):
        drawn, tokenizer = draw_model(family, make_task("classify", LABELS))
        model = Predictor(OpenModel(drawn, tokenizer, None), machine)
        found = model.attribute("the cat sat", steps=48)
        assert found.gap == pytest.approx(0, abs=1e-2 * max(1, abs(found.score - found.baseline)))
        assert replace(found, pieces=()).gap == pytest.approx(found.score - found.baseline)


def test_a_model_that_was_left_in_training_is_explained_without_dropout(
    draw_model, machine
) -> None:
    drawn, tokenizer = draw_model("bert", make_task("classify", LABELS))
    model = Predictor(OpenModel(drawn, tokenizer, None), machine)
    quiet = model.attribute("the cat sat").as_json()
    for part in model.model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.5
    model.model.train()
    assert model.attribute("the cat sat").as_json() == quiet
    assert model.model.training


def test_what_other_threads_read_meanwhile_is_not_touched(model) -> None:
    own, text, found = get_ident(), "the cat sat on a mat", list[np.ndarray]()
    expected = model.embed([text])

    def ask_beside(*_: object) -> None:
        if get_ident() == own:
            other = Thread(target=lambda: found.append(model.embed([text])))
            other.start()
            other.join()

    hook = model.model.encoder.embeddings.register_forward_hook(ask_beside)
    try:
        model.attribute("a dog ran over a hill", label="cold")
    finally:
        hook.remove()
    assert found
    for vectors in found:
        np.testing.assert_allclose(vectors, expected, atol=1e-6)
