"""Scores: of answers, in the middle of fine-tuning, and of the pre-training objectives."""

from typing import ClassVar

import numpy as np
import pytest
import torch
from torch.nn import functional

from bertworks.core.batch import Batch, Target
from bertworks.core.device import Machine
from bertworks.core.errors import DataError
from bertworks.core.pieces import IGNORE
from bertworks.data.examples import TaggedExample, TextExample
from bertworks.data.forms import make_example
from bertworks.data.packing import Features, Goal, flatten
from bertworks.evaluation.scoring import Judge, evaluate_objectives, evaluate_task
from bertworks.evaluation.statistics import Interval
from bertworks.tasks.answering import Answerer, windows_of
from bertworks.tasks.catalog import KINDS, learn_task, make_task
from bertworks.tasks.electra import Electra
from bertworks.tasks.task import Answer, Judged, Task, TaskModel, Verdict

LABELS = ("no", "yes")


def make_answers(*chances: float) -> list[Answer]:
    return [
        {"label": LABELS[c > 0.5], "probability": c, "probabilities": {"no": 1 - c, "yes": c}}
        for c in chances
    ]


def make_examples(*labels: str) -> list[TextExample]:
    return [TextExample("t", label=label, line=line) for line, label in enumerate(labels, 1)]


def judged(task: Task, answers: list[Answer], examples: list[TextExample]) -> Judge:
    judge = Judge(task)
    for example, answer in zip(examples, answers, strict=True):
        judge.add(example, answer)
    return judge


def test_answers_are_scored_with_an_interval() -> None:
    answers = make_answers(0.1, 0.9, 0.8, 0.3)
    judge = judged(make_task("classify", LABELS), answers, make_examples("no", "yes", "no", "no"))
    assert judge.metrics()["accuracy"] == 0.75
    found = judge.interval(judge.metrics())
    assert found is not None
    name, interval = found
    assert (name, interval.mean) == ("accuracy", 0.75)
    assert interval.low < 0.75 < interval.high


def test_a_verdict_shows_the_answer_beside_the_gold() -> None:
    judge = Judge(make_task("classify", LABELS))
    (answer,), (example,) = make_answers(0.9), make_examples("no")
    assert judge.add(example, answer) == Verdict("no", "yes", 0.0, 0.9)


def test_a_single_example_has_a_score_but_no_interval() -> None:
    judge = judged(make_task("classify", LABELS), make_answers(0.9), make_examples("yes"))
    assert judge.metrics()["accuracy"] == 1.0
    assert judge.interval(judge.metrics()) is None


def test_the_interval_is_that_of_the_metric_it_belongs_to() -> None:
    answers = make_answers(0.1, 0.9, 0.8, 0.3)
    task = make_task("relate", LABELS)
    judge = judged(task, answers, make_examples("no", "yes", "no", "no"))
    assert next(iter(judge.metrics())) == "macro_f1"
    assert judge.interval(judge.metrics())[0] == "accuracy"
    assert judge.interval({"macro_f1": 0.5}) is None


def test_a_metric_that_happens_to_have_the_same_value_gets_no_interval() -> None:
    judge = Judge(make_task("tag", ("O", "B-X")))
    for tag in ("B-X", "O"):
        example = TaggedExample("a", ((0, 1),), ("B-X",))
        judge.add(example, {"tags": [tag], "probabilities": [0.9]})
    assert judge.metrics()["recall"] == 0.5  # as is the share of texts that are right
    assert judge.interval(judge.metrics()) is None


def test_several_labels_have_the_interval_of_whole_sets() -> None:
    judge = Judge(make_task("multilabel", LABELS))
    for _ in range(2):
        answer = {"probabilities": {"no": 0.1, "yes": 0.9}}
        judge.add(TextExample("t", labels=("no",)), answer)
    assert judge.metrics()["micro_f1"] == 0.0  # as is the share of right sets
    assert judge.interval(judge.metrics()) == ("subset_accuracy", Interval(0.0, 0.0, 0.0))


@pytest.mark.parametrize("kind", ["answer", "choose", "intent_slots", "relate", "multilabel"])
def test_the_interval_is_around_the_value_of_its_metric(
    kind, make_samples, config, tokenizer
) -> None:
    rows = make_samples(3).rows(kind, 7)
    examples = [make_example(row, 1, form=KINDS[kind].form) for row in rows]
    task = learn_task(kind, examples)
    machine = Machine(torch.device("cpu"), "fp32")
    answerer = Answerer(TaskModel(config, [task], seed=4), task, tokenizer, machine)
    windows = windows_of(task, examples, tokenizer, longest=67)
    judge = judged(task, answerer.answer(examples, windows), examples)
    name, interval = judge.interval(judge.metrics())
    assert judge.metrics()[name] == pytest.approx(interval.mean)


def test_each_label_is_judged_by_itself_where_there_are_labels() -> None:
    judge = judged(make_task("classify", LABELS), make_answers(0.1, 0.9), make_examples("no", "no"))
    assert list(judge.by_label()) == ["no", "yes"]
    assert judge.by_label()["no"] == {"precision": 1.0, "recall": 0.5, "f1": 2 / 3, "support": 2}
    assert Judge(make_task("score")).by_label() == {}


def test_gold_that_the_model_does_not_know_is_named() -> None:
    with pytest.raises(DataError, match="the label 'maybe' is not among"):
        judged(make_task("classify", LABELS), make_answers(0.9, 0.1), make_examples("yes", "maybe"))


def test_fine_tuning_is_judged_by_the_first_metric(config, tokenizer, machine) -> None:
    task = make_task("classify", LABELS)
    model = TaskModel(config, [task], seed=4, deviation=0.3).train()
    texts = ["the cat", "北京", "a dog ran", "Paris"] * 3
    examples = [TextExample(text, label=LABELS[n % 2]) for n, text in enumerate(texts)]
    windows = windows_of(task, examples, tokenizer, longest=config.max_positions)
    answerer = Answerer(model, task, tokenizer, machine)
    found = evaluate_task(answerer, examples, windows)
    answers = answerer.answer(examples, windows)
    assert found.metrics == judged(task, answers, examples).metrics()
    assert found.score == found.metrics["accuracy"]
    assert model.training


def test_a_network_is_judged_by_the_threshold_that_suits_it(config, tokenizer, machine) -> None:
    task = make_task("multilabel", LABELS)
    model = TaskModel(config, [task], seed=4, deviation=0.3)
    with torch.no_grad():
        model.heads["multilabel"].output.bias.fill_(-9.0)
    examples = [TextExample(text, labels=LABELS) for text in ("the cat", "北京", "a dog ran")]
    windows = windows_of(task, examples, tokenizer, longest=config.max_positions)
    answerer = Answerer(model, task, tokenizer, machine)
    answers = answerer.answer(examples, windows)
    assert judged(task, answers, examples).metrics()["micro_f1"] == 0
    assert evaluate_task(answerer, examples, windows).score == 1


@pytest.fixture
def model(config) -> TaskModel:
    tasks = [make_task("fill_mask"), make_task("next_sentence")]
    return TaskModel(config, tasks, seed=3, deviation=0.3)


@pytest.fixture
def batches() -> list[Batch]:
    """Make two batches with different numbers of hidden pieces and of pairs."""
    random = np.random.default_rng(8)

    def text(length: int, label: int) -> Features:
        at = np.sort(random.permutation(length)[: length // 2])
        goals = {
            "fill_mask": Goal(random.integers(50, size=len(at)), at),
            "next_sentence": Goal((label,)),
        }
        return Features(random.integers(50, size=length), np.arange(length) // 5 % 2, goals)

    return [
        flatten([text(5, 0), text(11, 1), text(3, IGNORE)]),
        flatten([text(31, 1), text(7, IGNORE)]),
    ]


def test_objectives_are_means_over_all_targets_of_all_batches(model, batches, machine) -> None:
    found = evaluate_objectives(model, batches, machine=machine)
    model.eval()
    with torch.no_grad():
        for name in model.tasks:
            logits = torch.cat([model.logits(batch, name) for batch in batches])
            values = torch.cat([batch.targets[name].values for batch in batches])
            expected = functional.cross_entropy(logits, values, ignore_index=IGNORE)
            assert found.metrics[f"{name}_loss"] == pytest.approx(float(expected), abs=1e-5)
            kept = values != IGNORE
            hits = (logits.argmax(1) == values)[kept].float().mean()
            assert found.metrics[f"{name}_accuracy"] == pytest.approx(float(hits))
    total = found.metrics["fill_mask_loss"] + found.metrics["next_sentence_loss"]
    assert found.metrics["loss"] == pytest.approx(total)
    assert found.score == -found.metrics["loss"]
    weights = {"next_sentence": 0.0}
    other = evaluate_objectives(model, batches, machine=machine, weights=weights)
    assert other.metrics == found.metrics
    assert other.score == -found.metrics["fill_mask_loss"]


def test_finding_what_was_replaced_is_scored_by_what_is_found(config, machine) -> None:
    class Told:
        """Answers that are given, to be judged by what was replaced."""

        tasks: ClassVar = {"replaced_token": make_task("replaced_token")}
        training = False

        def train(self, mode: bool) -> None:
            pass

        def judged(self, batch: Batch) -> Judged:
            logits = torch.tensor([[2.0], [-1.0], [0.5], [-2.0], [3.0], [-3.0]])
            return {"replaced_token": (logits, Target(torch.tensor([1, 1, 0, 0, IGNORE, 0])))}

    batch = flatten([Features(np.arange(6), np.zeros(6, np.int64))])
    found = evaluate_objectives(Told(), [batch, batch], machine=machine)
    expected = {"accuracy": 3 / 5, "share": 2 / 5, "precision": 1 / 2, "recall": 1 / 2, "f1": 1 / 2}
    for name, value in expected.items():
        assert found.metrics[f"replaced_token_{name}"] == pytest.approx(value)
    assert found.score is None


def test_what_a_generator_draws_is_the_same_at_each_evaluation(config, machine) -> None:
    generator = TaskModel(config, [make_task("fill_mask")], seed=2)
    learner = Electra(generator, TaskModel(config, [make_task("replaced_token")], seed=3))
    goals = {
        "fill_mask": Goal((7, 9, 11), (1, 3, 5)),
        "replaced_token": Goal(np.zeros(9, np.int64), np.arange(9)),
    }
    batch = flatten([Features(np.arange(9), np.zeros(9, np.int64), goals)])
    torch.manual_seed(5)
    first = evaluate_objectives(learner, [batch], machine=machine)
    torch.manual_seed(6)
    assert evaluate_objectives(learner, [batch], machine=machine) == first
    assert learner.training


def test_objectives_do_not_depend_on_how_texts_are_batched(model, batches, machine) -> None:
    straight = evaluate_objectives(model, batches, machine=machine)
    doubled = evaluate_objectives(model, [*batches, *batches[::-1]], machine=machine)
    assert doubled.metrics == pytest.approx(straight.metrics, abs=1e-5)
    one = evaluate_objectives(model, batches[:1], machine=machine)
    assert one.metrics["loss"] != pytest.approx(straight.metrics["loss"], abs=1e-3)


def test_an_objective_without_targets_has_no_score_that_could_be_taken_for_one(
    model, machine
) -> None:
    goals = {"fill_mask": Goal((3,), (1,)), "next_sentence": Goal((IGNORE,))}
    texts = [Features(np.arange(5), np.zeros(5, np.int64), goals)]
    found = evaluate_objectives(model, [flatten(texts)], machine=machine)
    assert set(found.metrics) == {"loss", "fill_mask_loss", "fill_mask_accuracy"}
    assert found.score == -found.metrics["fill_mask_loss"]


@pytest.mark.parametrize("is_training", [True, False])
def test_scoring_leaves_the_model_as_it_was(model, batches, machine, is_training: bool) -> None:
    model.train(is_training)
    first = evaluate_objectives(model, batches, machine=machine)
    assert model.training is is_training
    assert evaluate_objectives(model, batches, machine=machine) == first  # without dropout
