"""From examples to answers: one each, in order, whatever else is in the batch."""

import numpy as np
import pytest
import torch

from bertworks.core.errors import DataError, TrainingError
from bertworks.data.examples import TextExample
from bertworks.tasks.answering import BATCH_TOKENS, Answerer, windows_of
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import Answer, Task, TaskModel

LABELS = ("cold", "mild", "warm")
ASKED = ("classify", "match", "fill_mask", "next_sentence")


@pytest.fixture(scope="module")
def model(config) -> TaskModel:
    tasks = [make_task(name, LABELS) for name in ASKED]
    model = TaskModel(config, tasks, seed=23, deviation=0.3)
    with torch.no_grad():
        for name in ("classify", "match", "next_sentence"):
            model.heads[name].output.weight.mul_(3.0)
    return model.eval()


@pytest.fixture(scope="module")
def examples(texts) -> dict[str, list[TextExample]]:
    singles = [TextExample(text, line=line) for line, text in enumerate(texts, 1)]
    pairs = [TextExample(a, b) for a, b in zip(texts, reversed(texts), strict=True)]
    masked = [TextExample(f"{text} [MASK] {text} [MASK]") for text in texts]
    return {"classify": singles, "match": pairs, "fill_mask": masked, "next_sentence": pairs}


@pytest.fixture(scope="module")
def ask(model, tokenizer, machine):
    """Return a way to answer examples."""

    def answers(name: str, examples: list[TextExample]) -> list[Answer]:
        task: Task = model.tasks[name]
        windows = windows_of(task, examples, tokenizer, longest=model.config.max_positions)
        return Answerer(model, task, tokenizer, machine).answer(examples, windows)

    return answers


def difference(first: Answer, second: Answer) -> float:
    """Return how far the probabilities of two answers are apart; far if they name others."""
    if "masks" in first:
        rows = zip(first["masks"], second["masks"], strict=True)
        found = [pair for row in rows for pair in zip(*row, strict=True)]
        if any(a["token"] != b["token"] for a, b in found):
            return np.inf
        return max(abs(a["probability"] - b["probability"]) for a, b in found)
    if first["label"] != second["label"]:
        return np.inf
    return max(
        abs(first["probabilities"][label] - second["probabilities"][label])
        for label in first["probabilities"]
    )


@pytest.mark.parametrize("name", ASKED)
def test_an_answer_is_the_same_alone_and_in_a_batch(name: str, ask, examples) -> None:
    asked = examples[name]
    together = ask(name, asked)
    alone = [ask(name, [example])[0] for example in asked]
    gaps = [difference(a, b) for a, b in zip(together, alone, strict=True)]
    assert max(gaps) <= 1e-5
    # The same check on answers that are one place off sees it.
    assert (
        max(difference(a, b) for a, b in zip(together, [*alone[1:], alone[0]], strict=True)) > 1e-3
    )


@pytest.mark.parametrize("name", ASKED)
def test_answers_come_in_the_order_of_the_examples(name: str, ask, examples) -> None:
    asked = examples[name]
    order = np.random.default_rng(3).permutation(len(asked))
    straight, mixed = ask(name, asked), ask(name, [asked[i] for i in order])
    assert max(difference(mixed[place], straight[i]) for place, i in enumerate(order)) <= 1e-5


def test_the_texts_of_these_tests_need_several_batches_and_windows(
    model, tokenizer, examples
) -> None:
    windows = windows_of(model.tasks["classify"], examples["classify"], tokenizer, longest=67)
    assert max(map(len, windows)) > 3
    assert sum(len(window.tokens) for own in windows for window in own) > BATCH_TOKENS


def test_labels_that_are_chosen_vary(ask, examples) -> None:
    assert len({answer["label"] for answer in ask("classify", examples["classify"])}) > 1


def test_each_mask_gets_its_own_candidates_in_every_text(ask, examples) -> None:
    assert {len(answer["masks"]) for answer in ask("fill_mask", examples["fill_mask"])} == {2}


def test_nothing_asked_is_nothing_answered(ask) -> None:
    assert ask("classify", []) == []


@pytest.mark.parametrize("is_training", [True, False])
def test_answering_leaves_the_model_as_it_was(model, ask, examples, is_training: bool) -> None:
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    model.train(is_training)
    first = ask("classify", examples["classify"][:5])
    assert model.training is is_training
    assert all(torch.equal(before[name], p) for name, p in model.named_parameters())
    model.eval()
    assert first == ask("classify", examples["classify"][:5])


def test_an_example_that_a_task_cannot_read_is_named_by_its_line(tokenizer) -> None:
    examples = [
        TextExample("the cat", label="warm", line=16),
        TextExample("a dog", label="hot", line=17),
    ]
    with pytest.raises(DataError, match=r"^dev\.csv line 17: the label 'hot'"):
        windows_of(
            make_task("classify", LABELS), examples, tokenizer, longest=67, where="dev.csv line"
        )


def test_broken_weights_give_no_answer(config, tokenizer, machine) -> None:
    task = make_task("classify", LABELS)
    model = TaskModel(config, [task], seed=3, deviation=0.3)
    examples = [TextExample("the cat")]
    windows = windows_of(task, examples, tokenizer, longest=67)
    answerer = Answerer(model, task, tokenizer, machine)
    assert len(answerer.answer(examples, windows)) == 1
    with torch.no_grad():
        model.encoder.embeddings.pieces.weight[:, 3] = float("inf")
    with pytest.raises(TrainingError, match=r"no finite numbers.*train it again"):
        answerer.answer(examples, windows)
