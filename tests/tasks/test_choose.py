"""Choices: texts that are weighed against each other, windows that stay aligned, answers."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.pieces import IGNORE
from bertworks.data.examples import ChoiceExample
from bertworks.data.packing import flatten, flatten_parts
from bertworks.tasks.answering import Answerer, windows_of
from bertworks.tasks.catalog import learn_task
from bertworks.tasks.choose import Choose, learn_choices
from bertworks.tasks.task import Answer, TaskModel

WORDS = ["cat", "dog", "北京", "mat", "xyz", "!", "läuft"]


def sentences(most: int) -> st.SearchStrategy[str]:
    """Draw a text of up to so many words."""
    return st.lists(st.sampled_from(WORDS), min_size=1, max_size=most).map(" ".join)


choices = st.lists(sentences(20), min_size=2, max_size=5).map(tuple)


@given(sentences(60), choices, st.none() | sentences(90), st.integers(14, 67))
def test_windows_are_the_same_beside_every_choice(
    tokenizer, question: str, choices: tuple[str, ...], passage: str | None, longest: int
) -> None:
    example = ChoiceExample(question, choices, passage, label=1, line=7)
    windows = Choose().features(example, tokenizer, longest=longest)
    num_windows = len(windows) // len(choices)
    (long,) = tokenizer.ids_of([question if passage is None else passage])
    seen = set()
    for number in range(num_windows):
        own = windows[number * len(choices) :][: len(choices)]
        parts = {tuple(w.tokens[w.segments == 0][1:-1].tolist()) for w in own}
        (part,) = parts
        assert list(part) == long[own[0].note.start :][: len(part)]
        seen.update(range(own[0].note.start, own[0].note.start + len(part)))
        goals = [w.goals["choose"] for w in own]
        assert [goal.values for goal in goals] == [(int(n == 1),) for n in range(len(choices))]
        assert {goal.group for goal in goals} == {number}
    assert seen == set(range(len(long)))
    assert all(len(window.tokens) <= longest for window in windows)
    total = sum(window.goals["choose"].weight for window in windows) / len(choices)
    assert math.isclose(total, 1.0)


@given(sentences(60), choices, st.none() | sentences(90), st.integers(14, 67))
def test_a_choice_stands_in_its_windows_to_its_end(
    tokenizer, question: str, choices: tuple[str, ...], passage: str | None, longest: int
) -> None:
    example = ChoiceExample(question, choices, passage)
    windows = Choose().features(example, tokenizer, longest=longest)
    texts = [choice if passage is None else f"{question} {choice}" for choice in choices]
    for number, window in enumerate(windows):
        (whole,) = tokenizer.ids_of([texts[number % len(choices)]])
        shown = window.tokens[window.segments == 1][:-1].tolist()
        assert shown == whole[len(whole) - len(shown) :]
        assert len(shown) == len(whole) or window.note.losses


def test_question_and_choice_follow_the_passage(tokenizer) -> None:
    example = ChoiceExample("where?", ("the mat", "a hill"), "the cat sat", label=0)
    first, second = Choose().features(example, tokenizer, longest=67)
    specials = tokenizer.specials
    for window, choice in ((first, "the mat"), (second, "a hill")):
        passage, behind = tokenizer.ids_of(["the cat sat", f"where? {choice}"])
        expected = [specials.first, *passage, specials.separator, *behind, specials.separator]
        assert window.tokens.tolist() == expected


def test_a_question_without_gold_asks_without_a_target(tokenizer) -> None:
    windows = Choose().features(ChoiceExample("q", ("cat", "dog")), tokenizer, longest=67)
    assert [window.goals["choose"].values for window in windows] == [(IGNORE,)] * 2
    target = flatten(windows).targets["choose"]
    assert target.count == 0
    assert Choose().loss(torch.randn(2, 1), target) == 0


def test_the_loss_is_the_cross_entropy_among_the_choices_of_each_window(tokenizer) -> None:
    task = Choose(name="exam")
    asked = [
        ChoiceExample("where is it?", ("cat", "dog sat", "mat"), "the cat " * 60, 2, line=1),
        ChoiceExample("who?", ("cat", "a dog on the hill"), label=0, line=2),
    ]
    bundles = [task.features(example, tokenizer, longest=33) for example in asked]
    assert len(bundles[0]) > 6
    (batch,) = flatten_parts(bundles, count=1)  # sorted by length, so that groups are mixed
    target = batch.targets["exam"]
    assert target.count == pytest.approx(2)
    logits = torch.randn(len(target.values), 1, generator=torch.Generator().manual_seed(4))
    expected = torch.zeros(())
    for group in range(int(target.groups.max()) + 1):
        rows = target.groups == group
        expected -= (
            logits[rows, 0].log_softmax(0)[target.values[rows].argmax()] * target.weights[rows][0]
        )
    torch.testing.assert_close(task.loss(logits, target), expected)


def test_the_answer_averages_what_the_windows_say(tokenizer) -> None:
    example = ChoiceExample("q", ("cat", "dog", "mat"))
    rows = [[2.0], [0.0], [-1.0], [-3.0], [1.0], [0.5]]
    found = Choose().decode(example, [], [np.array([row]) for row in rows], tokenizer)
    mean = torch.tensor(rows).view(2, 3).mean(0).softmax(0).tolist()
    assert found["probabilities"] == pytest.approx(mean)
    assert (found["choice"], found["text"]) == (1, "dog")
    assert found["probability"] == max(found["probabilities"])


def test_right_choices_are_counted(score) -> None:
    asked = [ChoiceExample("q", ("a", "b"), label=label) for label in (0, 1, 1)]
    answers = [{"choice": 1, "text": "b", "probability": 0.7, "probabilities": [0.3, 0.7]}] * 3
    assert score(Choose(), answers, asked) == {"accuracy": pytest.approx(2 / 3)}
    verdict = Choose().scorer().add(asked[0], answers[0])
    assert (verdict.gold, verdict.given, verdict.score) == ("a", "b", 0.0)


def test_of_two_choices_that_are_the_same_both_are_right(score) -> None:
    asked = [ChoiceExample("q", ("a", "a", "b"), label=label) for label in (0, 1, 2)]
    chances = {"probability": 0.4, "probabilities": [0.4, 0.3, 0.3]}
    answers = [{"choice": 0, "text": "a", **chances}] * 3
    assert score(Choose(), answers, asked) == {"accuracy": pytest.approx(2 / 3)}


def test_two_choices_that_are_the_same_learn_as_one_does(tokenizer) -> None:
    example = ChoiceExample("q", ("cat", "cat", "dog"), label=1)
    target = flatten(Choose().features(example, tokenizer, longest=67)).targets["choose"]
    cat, dog = (torch.tensor(value, requires_grad=True) for value in (0.5, 1.25))
    loss = Choose().loss(torch.stack([cat, cat, dog])[:, None], target)
    loss.backward()
    share = torch.tensor([0.5, 0.5, 1.25]).softmax(0)[:2].sum()  # of both together
    assert loss.item() == pytest.approx(math.log(2) - share.log().item())
    assert cat.grad.item() == pytest.approx(share.item() - 1)
    assert dog.grad.item() == pytest.approx(1 - share.item())


def test_the_head_is_made_by_the_options_of_the_task(config) -> None:
    head = Choose(pooling="mean", dropout=0.25, stride=5).head(config)
    assert (head.pooling, head.dropout.p, head.output.out_features) == ("mean", 0.25, 1)
    assert Choose().head(config).dropout.p == config.dropout
    assert learn_choices([]) == {}
    assert learn_task("choose", [], stride=5).options["stride"] == 5


def test_an_answer_never_depends_on_its_neighbours(config, tokenizer, machine, texts) -> None:
    task = Choose()
    model = TaskModel(config, [task], seed=23, deviation=0.3).eval()
    asked = [
        ChoiceExample(texts[-n], tuple(texts[n : n + 2 + n % 3]), (None, text)[n % 2], line=n)
        for n, text in enumerate(texts[:30], 5)
    ]
    answerer = Answerer(model, task, tokenizer, machine)

    def ask(some: list[ChoiceExample]) -> list[Answer]:
        return answerer.answer(some, windows_of(task, some, tokenizer, longest=67))

    together, alone = ask(asked), [ask([example])[0] for example in asked]
    for first, second in zip(together, alone, strict=True):
        assert first["probabilities"] == pytest.approx(second["probabilities"], abs=1e-5)
    assert len({len(answer["probabilities"]) for answer in together}) == 3
    assert len({answer["choice"] for answer in together}) > 1
    # Answers that are one place off are seen.
    moved = [
        abs(a["probability"] - b["probability"])
        for a, b in zip(together, alone[1:] + alone[:1], strict=True)
    ]
    assert max(moved) > 1e-3
