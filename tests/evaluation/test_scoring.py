"""Scores of answers, and in the middle of fine-tuning."""

import json

import pytest
import torch

from bertworks.core.device import Machine
from bertworks.core.errors import DataError
from bertworks.data.examples import SourceExample, TextExample
from bertworks.data.forms import make_example
from bertworks.evaluation.scoring import Judge, judge_task
from bertworks.evaluation.statistics import Interval
from bertworks.tasks.answering import Answerer, windows_of
from bertworks.tasks.catalog import KINDS, learn_task, make_task
from bertworks.tasks.classify import Classify
from bertworks.tasks.generate import Generate
from bertworks.tasks.task import Answer, Task, TaskModel, Verdict

LABELS = ("no", "yes")


def make_answers(*chances: float) -> list[Answer]:
    return [
        {"label": LABELS[c > 0.5], "probability": c, "probabilities": {"no": 1 - c, "yes": c}}
        for c in chances
    ]


def make_examples(*labels: str) -> list[TextExample]:
    return [TextExample(f"t{n}", label=label, line=n) for n, label in enumerate(labels, 1)]


def judged(task: Task, answers: list[Answer], examples: list[TextExample]) -> Judge:
    judge = Judge(task)
    for example, answer in zip(examples, answers, strict=True):
        judge.add(example, answer)
    return judge


def test_every_score_has_an_interval_around_it() -> None:
    answers = make_answers(0.1, 0.9, 0.8, 0.3)
    judge = judged(make_task("classify", LABELS), answers, make_examples("no", "yes", "no", "no"))
    found = judge.intervals()
    assert judge.metrics()["accuracy"] == 0.75
    assert {name: one.mean for name, one in found.items()} == judge.metrics()
    assert found["accuracy"].low < 0.75 < found["accuracy"].high


def test_a_verdict_shows_the_answer_beside_the_gold() -> None:
    judge = Judge(make_task("classify", LABELS))
    (answer,), (example,) = make_answers(0.9), make_examples("no")
    assert judge.add(example, answer) == Verdict("no", "yes", 0.0, 0.9)


def test_a_single_example_has_a_score_but_no_interval() -> None:
    judge = judged(make_task("classify", LABELS), make_answers(0.9), make_examples("yes"))
    assert judge.metrics()["accuracy"] == 1.0
    assert judge.intervals() == judge.label_intervals() == {}


def test_examples_about_one_text_are_drawn_together() -> None:
    task, answers = make_task("classify", LABELS), make_answers(0.1, 0.9, 0.8, 0.3)
    labels = ("no", "yes", "no", "yes")
    apart = judged(task, answers, make_examples(*labels)).intervals()["accuracy"]
    assert (apart.mean, apart.low, apart.high) == (0.5, 0.0, 1.0)
    pairs = [TextExample(f"t{n // 2}", label=label) for n, label in enumerate(labels)]
    together = judged(task, answers, pairs).intervals()["accuracy"]
    assert together.high - together.low == pytest.approx(1.0)  # one text is right, one is wrong
    swapped = [pairs[0], pairs[2], pairs[1], pairs[3]]
    mixed = [answers[n] for n in (0, 2, 1, 3)]
    same = judged(task, mixed, swapped).intervals()["accuracy"]
    assert (same.low, same.high) == (together.low, together.high)
    one = [TextExample("t", label=label) for label in labels]
    assert judged(task, answers, one).intervals() == {}


def test_several_labels_have_the_interval_of_whole_sets() -> None:
    judge = Judge(make_task("multilabel", LABELS))
    for text in "abcde":
        answer = {"probabilities": {"no": 0.1, "yes": 0.9}}
        judge.add(TextExample(text, labels=("no",)), answer)
    found = judge.intervals()
    assert found["subset_accuracy"] == found["micro_f1"] == Interval(0.0, 0.0, 0.0)
    assert list(judge.label_intervals()) == ["no"]  # the other does not occur


@pytest.mark.parametrize(("count", "has_range"), [(1, False), (3, False), (4, False), (5, True)])
def test_a_label_of_few_examples_has_no_range(count: int, has_range: bool) -> None:
    judge = Judge(make_task("multilabel", LABELS))
    for number in range(20):
        gold = "yes" if number < count else "no"
        answer = {"probabilities": {"no": 0.2, "yes": 0.9}}
        judge.add(TextExample(f"text {number}", labels=(gold,)), answer)
    assert ("yes" in judge.label_intervals()) == has_range
    assert (judge.label_rows()["yes"]["f1_low"] is not None) == has_range


@pytest.mark.parametrize("kind", sorted(kind for kind, row in KINDS.items() if row.learn))
def test_intervals_are_around_the_values_of_the_scores(
    kind, make_samples, config, tokenizer
) -> None:
    rows = make_samples(3).rows(kind, 7)
    examples = [make_example(row, 1, form=KINDS[kind].form) for row in rows]
    task = learn_task(kind, examples)
    machine = Machine(torch.device("cpu"), "fp32")
    answerer = Answerer(TaskModel(config, [task], seed=4), task, tokenizer, machine)
    windows = windows_of(task, examples, tokenizer, longest=67)
    judge = judged(task, answerer.answer(examples, windows), examples)
    found, metrics = judge.intervals(), judge.metrics()
    assert found
    assert found.keys() <= metrics.keys()
    for name, interval in found.items():
        assert interval.mean == pytest.approx(metrics[name])
        assert interval.low - 1e-9 <= metrics[name] <= interval.high + 1e-9


@pytest.mark.parametrize("kind", sorted(kind for kind, row in KINDS.items() if row.learn))
def test_scores_come_again_from_the_parts_of_the_verdicts(
    kind, make_samples, config, tokenizer
) -> None:
    rows = make_samples(5).rows(kind, 7)
    examples = [make_example(row, 1, form=KINDS[kind].form) for row in rows]
    task = learn_task(kind, examples)
    machine = Machine(torch.device("cpu"), "fp32")
    answerer = Answerer(TaskModel(config, [task], seed=4), task, tokenizer, machine)
    answers = answerer.answer(examples, windows_of(task, examples, tokenizer, longest=67))
    first, again = task.scorer(), task.scorer()
    for example, answer in zip(examples, answers, strict=True):
        again.take(json.loads(json.dumps(first.add(example, answer).parts)))
    assert again.metrics() == first.metrics()
    assert {name: one.value for name, one in again.statistics().items()} == {
        name: one.value for name, one in first.statistics().items()
    }


def test_chances_are_judged_where_answers_have_some() -> None:
    answers = make_answers(*[0.1, 0.9, 0.8, 0.3] * 3)
    examples = make_examples(*["no", "yes", "no", "no"] * 3)
    judge = judged(make_task("classify", LABELS), answers, examples)
    found = judge.calibration()
    assert found is not None
    assert found.brier == pytest.approx((0.1**2 + 0.1**2 + 0.8**2 + 0.3**2) / 4)
    assert judge.lacking() == []
    assert Judge(make_task("score")).calibration() is None


@pytest.mark.parametrize("count", [1, 9])
def test_chances_of_few_answers_are_not_judged_and_that_is_said(count: int) -> None:
    examples = make_examples("yes", *["no"] * (count - 1))
    judge = judged(make_task("classify", LABELS), make_answers(*[0.9] * count), examples)
    assert judge.calibration() is judge.brier_interval() is None
    assert any("too few to tell whether chances" in sentence for sentence in judge.lacking())


def test_one_example_is_said_to_tell_the_accuracy_alone_and_no_interval() -> None:
    judge = judged(make_task("classify", LABELS), make_answers(0.9), make_examples("yes"))
    assert judge.metrics() == {"accuracy": 1.0}
    assert judge.lacking() == [
        "all examples have the same label, so accuracy alone is told",
        "all examples are about one text, so the scores have no intervals",
        "1 answer is too few to tell whether chances can be believed",
    ]


def test_each_label_is_judged_by_itself_where_there_are_labels() -> None:
    judge = judged(make_task("classify", LABELS), make_answers(0.1, 0.9), make_examples("no", "no"))
    assert list(judge.by_label()) == ["no", "yes"]
    assert judge.by_label()["no"] == {"precision": 1.0, "recall": 0.5, "f1": 2 / 3, "support": 2}
    assert Judge(make_task("score")).by_label() == {}


def test_labels_that_no_example_has_are_named() -> None:
    labels = tuple("abcdefgh")
    answer = {"label": "a", "probability": 1.0, "probabilities": dict.fromkeys(labels, 1 / 8)}
    judge = judged(make_task("classify", labels), [answer] * 2, make_examples("a", "b"))
    (said,) = judge.absent()
    assert "no example has the label c, d, e, f, g, ...; it has no scores" in said
    judge = judged(make_task("classify", LABELS), make_answers(0.1, 0.9), make_examples(*LABELS))
    assert judge.absent() == []


def test_gold_that_the_model_does_not_know_is_named() -> None:
    with pytest.raises(DataError, match="the label 'maybe' is not among"):
        judged(make_task("classify", LABELS), make_answers(0.9, 0.1), make_examples("yes", "maybe"))


def test_fine_tuning_is_judged_as_answers_are(config, tokenizer, machine) -> None:
    task = make_task("classify", LABELS)
    model = TaskModel(config, [task], seed=4, deviation=0.3).train()
    texts = ["the cat", "北京", "a dog ran", "Paris"] * 3
    examples = [TextExample(text, label=LABELS[n % 2]) for n, text in enumerate(texts)]
    windows = windows_of(task, examples, tokenizer, longest=config.max_positions)
    answerer = Answerer(model, task, tokenizer, machine)
    found = judge_task(answerer, examples, windows)
    answers = answerer.answer(examples, windows)
    assert found.metrics() == judged(task, answers, examples).metrics()
    assert found.count == 12
    assert found.num_texts == 4  # that come again
    assert model.training


def test_a_network_is_judged_by_the_threshold_that_suits_it(config, tokenizer, machine) -> None:
    task = make_task("multilabel", LABELS)
    model = TaskModel(config, [task], seed=4, deviation=0.3)
    with torch.no_grad():
        model.heads["multilabel"].output.bias.fill_(-9.0)
    examples = [TextExample(text, labels=LABELS) for text in ("the cat", "北京") * 5]
    windows = windows_of(task, examples, tokenizer, longest=config.max_positions)
    answerer = Answerer(model, task, tokenizer, machine)
    answers = answerer.answer(examples, windows)
    assert judged(task, answers, examples).metrics()["micro_f1"] == 0
    assert next(iter(judge_task(answerer, examples, windows).metrics().values())) == 1


def test_how_scores_are_to_be_read_is_no_warning() -> None:
    judge = Judge(Generate())
    for source in ("a", "b"):
        judge.add(SourceExample(source, ("one two three four",)), {"text": "one"})
    assert judge.lacking() == []
    assert judge.notes() == ["BLEU is of sacrebleu's tokenization 13a"]
    short = Judge(Generate())
    for source in ("a", "b"):
        short.add(SourceExample(source, ("one two",)), {"text": "one"})
    assert [said[:30] for said in short.lacking()] == ["no reference has four words, w"]
    assert short.notes() == []
    assert Judge(Classify(["a", "b"])).notes() == []
