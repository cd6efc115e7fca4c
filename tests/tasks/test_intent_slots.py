"""Intent and slots: one network answers both, and both are scored."""

import json

import numpy as np
import pytest
import torch
from torch.nn import functional

from bertworks.core.batch import Target
from bertworks.core.errors import DataError
from bertworks.core.pieces import IGNORE
from bertworks.data.examples import TaggedExample
from bertworks.data.forms import places_of
from bertworks.data.packing import flatten
from bertworks.tasks.catalog import learn_task, make_task
from bertworks.tasks.intent_slots import IntentSlots, learn_intents

LABELS = ("book", "play", "O", "B-X", "I-X")


def utterance(*words: str, tags: str = "", intent: str | None = None, line=0) -> TaggedExample:
    told = tuple(tags.split()) if tags else None
    return TaggedExample(" ".join(words), places_of(words), told, intent=intent, line=line)


@pytest.fixture
def task() -> IntentSlots:
    return IntentSlots(LABELS, num_intents=2)


def test_the_intent_is_asked_for_first_and_then_each_word(task, tokenizer) -> None:
    example = utterance("the", "cat", tags="O B-X", intent="play")
    (window,) = task.features(example, tokenizer, longest=67)
    goal = window.goals["intent_slots"]
    assert goal.values.tolist() == [1, 2, 3]
    assert goal.at.tolist() == [0, 1, 2]
    assert window.tokens[0] == tokenizer.specials.first


def test_every_window_of_a_long_utterance_asks_for_the_intent(task, tokenizer) -> None:
    example = utterance(*["the", "cat"] * 20, tags=" ".join(["O", "B-X"] * 20), intent="book")
    windows = task.features(example, tokenizer, longest=12)
    assert len(windows) > 3
    goals = [window.goals["intent_slots"] for window in windows]
    assert all((goal.values[0], goal.at[0]) == (0, 0) for goal in goals)
    assert sum(len(goal.values) - 1 for goal in goals) == 40
    assert flatten(windows).targets["intent_slots"].count == pytest.approx(2 * 40)


def test_what_is_not_known_asks_without_a_target(task, tokenizer, capsys) -> None:
    for _ in range(2):
        example = utterance("the", "cat", tags="O B-Z", intent="leave")
        (window,) = task.features(example, tokenizer, longest=67)
        assert window.goals["intent_slots"].values.tolist() == [IGNORE, 2, IGNORE]
    said = capsys.readouterr().err
    assert said.count("the intent 'leave' is not in the training data") == 1
    assert said.count("the tag 'B-Z' is not in the training data") == 1
    (window,) = task.features(TaggedExample("the"), tokenizer, longest=67)
    assert window.goals["intent_slots"].values.tolist() == [IGNORE, IGNORE]


def test_the_intent_counts_as_much_as_all_words_and_each_among_its_own(task) -> None:
    logits = torch.randn(5, 5, generator=torch.Generator().manual_seed(1)).requires_grad_()
    values = torch.tensor([1, 2, 4, 0, 3])
    target = Target(values, groups=torch.tensor([0, 0, 0, 1, 1]))
    intents = functional.cross_entropy(logits[[0, 3], :2], values[[0, 3]], reduction="none")
    words = functional.cross_entropy(logits[[1, 2, 4], 2:], values[[1, 2, 4]] - 2, reduction="sum")
    loss = task.loss(logits, target)
    torch.testing.assert_close(loss, 2 * intents[0] + intents[1] + words)
    loss.backward()
    assert logits.grad.isfinite().all()
    assert not logits.grad[0, 2:].any()
    assert not logits.grad[1, :2].any()
    hidden = Target(torch.full((5,), IGNORE), groups=target.groups)
    assert task.loss(logits, hidden).item() == 0


def test_the_answer_averages_the_intent_and_joins_the_slots(task, tokenizer) -> None:
    example = utterance(*["the", "cat"] * 5)
    windows = task.features(example, tokenizer, longest=9)
    assert len(windows) == 2
    rows = []
    for number, window in enumerate(windows):
        own = np.full((len(window.note) + 1, 5), -9.0, np.float32)
        own[0] = [3.0, 0.0, 99.0, 99.0, 99.0] if number else [0.0, 1.0, 99.0, 99.0, 99.0]
        own[1:, :2] = 99.0
        own[1:, 2] = 0.0
        rows.append(own)
    rows[0][1:3, 2:] = [[-9, 9, -9], [-9, -9, 9]]
    found = task.decode(example, windows, rows, tokenizer)
    assert found["intent"] == "book"
    mean = torch.tensor([1.5, 0.5]).softmax(0)[0].item()
    assert found["probability"] == pytest.approx(mean)
    assert found["tags"] == ["B-X", "I-X", *["O"] * 8]
    assert found["tokens"] == ["the", "cat"] * 5
    (slot,) = found["slots"]
    assert (slot["start"], slot["end"], slot["label"], slot["text"]) == (0, 7, "X", "the cat")
    assert json.loads(json.dumps(found)) == found


def test_whole_utterances_are_scored_first(task, score) -> None:
    gold = [
        utterance("a", "b", tags="B-X O", intent="play"),
        utterance("a", "b", tags="B-X O", intent="play"),
        utterance("a", "b", tags="O O", intent="play"),
        utterance("a", "b", tags="O O", intent="leave"),
    ]
    told = [("play", "B-X O"), ("book", "B-X O"), ("play", "B-X O"), ("play", "O O")]
    answers = [{"intent": i, "tags": t.split(), "probability": 0.5} for i, t in told]
    found = score(task, answers, gold)
    assert next(iter(found)) == "whole_accuracy"
    assert found == pytest.approx(
        {
            "whole_accuracy": 0.25,
            "intent_accuracy": 0.5,
            "slot_f1": 0.8,
            "slot_precision": 2 / 3,
            "slot_recall": 1.0,
            "slot_accuracy": 7 / 8,
        }
    )
    verdict = task.scorer().add(gold[1], answers[1])
    assert (verdict.gold, verdict.given, verdict.score) == ("play B-X O", "book B-X O", 0.0)


def test_without_a_scheme_every_run_of_equal_tags_is_a_slot(tokenizer, score) -> None:
    task = IntentSlots(("book", "play", "O", "city", "date"), num_intents=2)
    example = utterance("new", "york", "may", "now", tags="city city date O", intent="book")
    windows = task.features(example, tokenizer, longest=67)
    rows = np.full((5, 5), -9.0, np.float32)
    rows[np.arange(5), [0, 3, 3, 4, 2]] = 9.0
    answer = task.decode(example, windows, [rows], tokenizer)
    assert [(slot["text"], slot["label"]) for slot in answer["slots"]] == [
        ("new york", "city"),
        ("may", "date"),
    ]
    half = answer | {"tags": ["city", "O", "date", "O"]}
    found = score(task, [answer, half], [example, example])
    assert found["slot_f1"] == pytest.approx(0.75)
    assert found["slot_accuracy"] == pytest.approx(7 / 8)


def test_examples_tell_intents_and_tags() -> None:
    examples = [
        utterance("a", tags="B-X", intent="play"),
        utterance("a", tags="O", intent="book"),
    ]
    options = {"num_intents": 2, "scheme": "bio", "words": "text"}
    assert learn_intents(examples) == {"labels": ["book", "play", "O", "B-X"], **options}
    task = learn_task("intent_slots", examples)
    again = make_task("intent_slots", task.labels, **json.loads(json.dumps(task.options)))
    assert isinstance(again, IntentSlots)
    assert again.intents == ("book", "play")
    assert again.tag_set.tags == ("O", "B-X")


def test_one_intent_alone_is_nothing_to_tell_apart() -> None:
    with pytest.raises(DataError, match=r"one intent only \(play\).*--task tag"):
        learn_intents([utterance("a", tags="B-X", intent="play")])
