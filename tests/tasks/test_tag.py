"""Tagging: what is asked of each word, what is learned, what is answered."""

import json

import numpy as np
import pytest
import torch
from torch.nn import functional

from bertworks.core.batch import Target
from bertworks.core.pieces import IGNORE
from bertworks.data.examples import Span, TaggedExample
from bertworks.data.forms import places_of
from bertworks.data.packing import flatten
from bertworks.model.chain import chain_loss
from bertworks.tasks.answering import Answerer, windows_of
from bertworks.tasks.catalog import learn_task
from bertworks.tasks.tag import Tag, learn_tags
from bertworks.tasks.task import TaskModel

TAGS = ("O", "B-X", "I-X", "B-Y", "I-Y")


def of_words(*words: str, tags: str | None = None, line: int = 0) -> TaggedExample:
    told = tuple(tags.split()) if tags else None
    return TaggedExample(" ".join(words), places_of(words), told, line=line)


@pytest.fixture(params=[False, True], ids=["alone", "crf"])
def task(request: pytest.FixtureRequest) -> Tag:
    return Tag(TAGS, crf=request.param)


def test_each_word_is_asked_for_at_its_first_piece(task, tokenizer) -> None:
    example = of_words("the", "cats", "sat", tags="O B-X I-X", line=7)
    (window,) = task.features(example, tokenizer, longest=67)
    goal = window.goals["tag"]
    assert goal.values.tolist() == [0, 1, 2]
    pieces = [tokenizer.ids_of([word])[0] for word in ("the", "cats", "sat")]
    assert window.tokens[goal.at].tolist() == [own[0] for own in pieces]
    assert len(pieces[1]) > 1
    assert window.note.tolist() == [0, 1, 2]
    assert flatten([window]).ids == (7,)


def test_words_count_alike_however_they_are_cut(task, tokenizer) -> None:
    example = of_words(*["the", "cat"] * 30, tags=" ".join(["O", "B-X"] * 30))
    for longest in (67, 12):
        windows = task.features(example, tokenizer, longest=longest)
        assert len(windows) == (1 if longest == 67 else 8)
        assert flatten(windows).targets["tag"].count == pytest.approx(60)


def test_a_text_without_a_word_is_answered_with_nothing(task, config, tokenizer, machine) -> None:
    examples = [TaggedExample("\x01"), TaggedExample("the cat")]
    model = TaskModel(config, [task], seed=3)
    windows = windows_of(task, examples, tokenizer, longest=67)
    nothing, something = Answerer(model, task, tokenizer, machine).answer(examples, windows)
    assert nothing == {"tags": [], "tokens": [], "probabilities": [], "spans": []}
    assert len(something["tags"]) == 2
    assert model(flatten(windows[0]))["tag"].item() == 0


def test_tags_that_are_not_known_ask_without_a_target(task, tokenizer) -> None:
    example = of_words("the", "cat", tags="O B-Z")
    (window,) = task.features(example, tokenizer, longest=67)
    assert window.goals["tag"].values.tolist() == [0, IGNORE]
    (window,) = task.features(TaggedExample("the cat"), tokenizer, longest=67)
    assert window.goals["tag"].values.tolist() == [IGNORE, IGNORE]


def test_the_loss_is_the_cross_entropy_of_the_words_that_are_known() -> None:
    logits = torch.randn(4, 5, generator=torch.Generator().manual_seed(1))
    values = torch.tensor([0, 4, IGNORE, 2])
    kept = values != IGNORE
    expected = functional.cross_entropy(logits[kept], values[kept], reduction="sum")
    torch.testing.assert_close(Tag(TAGS).loss(logits, Target(values)), expected)


def test_with_a_random_field_the_loss_is_that_of_the_chain() -> None:
    rows = torch.randn(4, 25, generator=torch.Generator().manual_seed(1))
    target = Target(torch.tensor([0, 4, 1, 2]), groups=torch.tensor([0, 0, 1, 1]))
    torch.testing.assert_close(Tag(TAGS, crf=True).loss(rows, target), chain_loss(rows, target))


def answer(task: Tag, example: TaggedExample, rows: list[list[float]], tokenizer) -> dict:
    windows = task.features(example, tokenizer, longest=67)
    return task.decode(example, windows, [np.array(rows, np.float32)], tokenizer)


def test_the_answer_has_tags_words_and_spans_with_their_places(tokenizer) -> None:
    example = TaggedExample("In New York, yes")
    rows = np.full((5, 5), -20.0, np.float32)
    rows[range(5), [0, 3, 4, 0, 0]] = 0
    found = answer(Tag(TAGS), example, rows.tolist(), tokenizer)
    assert found["tokens"] == ["In", "New", "York", ",", "yes"]
    assert found["tags"] == ["O", "B-Y", "I-Y", "O", "O"]
    (span,) = found["spans"]
    assert span.pop("probability") == pytest.approx(1)
    assert span == {"start": 3, "end": 11, "label": "Y", "text": "New York"}
    assert json.loads(json.dumps(found)) == found


def test_plain_tags_have_no_spans(tokenizer) -> None:
    task = Tag(("NOUN", "VERB"))
    found = answer(task, of_words("cats", "run"), [[1.0, 0.0], [0.0, 3.0]], tokenizer)
    assert found["tags"] == ["NOUN", "VERB"]
    assert "spans" not in found
    expected = torch.tensor([[1.0, 0.0], [0.0, 3.0]]).softmax(1).max(1).values.tolist()
    assert found["probabilities"] == pytest.approx(expected)


def test_spans_are_scored_first_and_tags_beside_them(score) -> None:
    gold = [of_words("a", "b", "c", tags="B-X I-X O"), of_words("a", tags="B-Q")]
    answers = [
        {"tags": ["B-X", "I-X", "B-Y"], "probabilities": [0.9, 0.8, 0.5]},
        {"tags": ["O"], "probabilities": [0.7]},
    ]
    found = score(Tag(TAGS), answers, gold)
    assert next(iter(found)) == "f1"
    assert found == pytest.approx({"f1": 0.5, "precision": 0.5, "recall": 0.5, "accuracy": 0.5})


def test_spans_of_a_text_are_scored_by_its_own_words(score) -> None:
    whole = TaggedExample("New York", spans=(Span(0, 8, "X"),))
    answers = [{"tags": ["B-X", "I-X"], "probabilities": [0.9, 0.8]}]
    assert score(Tag(TAGS), answers, [whole])["f1"] == 1
    part = TaggedExample("NewYork Times", spans=(Span(0, 3, "X"),))
    scorer = Tag(TAGS).scorer()
    verdict = scorer.add(part, {"tags": ["O", "O"], "probabilities": [0.9, 0.8]})
    assert (verdict.score, scorer.metrics()["recall"]) == (0.0, 0.0)
    assert "1 of 1 spans of gold begin or end inside a word" in scorer.note


def test_gold_tells_nothing_of_where_words_end_when_it_is_asked_for(
    task, config, tokenizer, machine
) -> None:
    text = "the catsat mat"
    gold = TaggedExample(text, spans=(Span(4, 7, "X"),))
    model = TaskModel(config, [task], seed=3, deviation=0.3)
    answerer = Answerer(model, task, tokenizer, machine)
    (asked,), (bare,) = (
        [answer for chunk in answerer.chunks([one], longest=64) for _, answer in chunk.pairs]
        for one in (gold, TaggedExample(text))
    )
    assert asked == bare
    assert asked["tokens"] == ["the", "catsat", "mat"]
    assert len(windows_of(task, [gold], tokenizer, longest=64)[0][0].note) == 4  # to learn from


def test_of_plain_tags_accuracy_comes_first(score) -> None:
    gold = [of_words("a", "b", "c", tags="N V N")]
    answers = [{"tags": ["N", "N", "N"], "probabilities": [0.9, 0.8, 0.7]}]
    found = score(Tag(("N", "V")), answers, gold)
    assert next(iter(found)) == "accuracy"
    assert found == pytest.approx({"accuracy": 2 / 3, "macro_f1": (4 / 5 + 0) / 2})


def test_a_verdict_is_right_only_when_all_tags_are() -> None:
    scorer = Tag(TAGS).scorer()
    told = {"tags": ["B-X", "O"], "probabilities": [0.9, 0.6]}
    right = scorer.add(of_words("a", "b", tags="B-X O"), told)
    assert (right.score, right.certainty) == (1.0, 0.6)
    assert scorer.add(of_words("a", "b", tags="B-X B-X"), told).score == 0.0
    assert scorer.by_label()["X"]["support"] == 3


def test_the_head_has_one_logit_per_tag_or_per_two(config) -> None:
    assert Tag(TAGS).head(config).output.out_features == 5
    head = Tag(TAGS, crf=True, dropout=0.25).head(config)
    assert (head.output.out_features, head.transitions.numel(), head.dropout.p) == (5, 25, 0.25)


def test_examples_tell_the_tags_and_a_flag_the_rest() -> None:
    examples = [of_words("a", "b", tags="B-X I-X"), of_words("a", tags="O")]
    expected = {"scheme": "bio", "crf": False, "words": "characters"}
    assert learn_tags(examples) == {"labels": ["O", "B-X", "I-X"], **expected}
    task = learn_task("tag", examples, crf=True)
    assert task.options == {**expected, "crf": True, "dropout": None}
    assert learn_tags([of_words("Ada", "b", tags="B-X I-X")])["words"] == "text"


def test_an_answer_does_not_depend_on_its_neighbours(
    task, config, tokenizer, machine, texts
) -> None:
    examples = [TaggedExample(text, line=number) for number, text in enumerate(texts[:30])]
    model = TaskModel(config, [task], seed=3, deviation=0.3)
    answerer = Answerer(model, task, tokenizer, machine)
    windows = windows_of(task, examples, tokenizer, longest=67)
    together = answerer.answer(examples, windows)
    for example, own, found in zip(examples, windows, together, strict=True):
        (alone,) = answerer.answer([example], [own])
        assert alone["tags"] == found["tags"]
        assert alone["probabilities"] == pytest.approx(found["probabilities"], abs=1e-4)
