"""Scores on dev: of one task as they are, of several under their names and with their mean."""

import pytest

from bertworks.core.errors import UsageError
from bertworks.data.examples import TextExample
from bertworks.evaluation.dev_scores import DevScores, DevSet
from bertworks.tasks.answering import windows_of
from bertworks.tasks.catalog import make_task
from bertworks.tasks.classify import Classify
from bertworks.tasks.task import TaskModel

TEXTS = ("the cat sat", "a dog ran over the hill", "Paris is the capital", "北京", "3, 14 and 159")


class Shifting(Classify):
    """A task whose labels are put right by dev, as thresholds are."""

    def tuned(self, examples, answers):
        assert len(examples) == len(answers)
        return Classify(("tuned", *self.labels[1:]), name=self.name)


@pytest.fixture
def make_scores(config, tokenizer, machine):
    """Make the scores of tasks with drawn weights."""

    def make(*tasks: Classify, choose_by: str | None = None) -> DevScores:
        model = TaskModel(config, tasks, seed=3, deviation=0.3)
        sets = {}
        for task in tasks:
            labels = task.labels * 3
            examples = [TextExample(t, label=labels[n], line=n) for n, t in enumerate(TEXTS)]
            sets[task.name] = DevSet(examples, windows_of(task, examples, tokenizer, longest=67))
        return DevScores(model, tokenizer, sets, machine=machine, choose_by=choose_by)

    return make


def named(name: str, *labels: str) -> Classify:
    return make_task("classify", labels, name=name)


def test_one_task_is_scored_by_its_own_metrics(make_scores) -> None:
    found = make_scores(named("mood", "bad", "good")).score()
    assert next(iter(found.metrics)) == "accuracy"
    assert found.score == found.metrics["accuracy"]


def test_several_tasks_bear_their_names_and_the_mean_of_their_first_scores_chooses(
    make_scores,
) -> None:
    mood, size = named("mood", "bad", "good"), named("size", "large", "small", "tiny")
    found = make_scores(mood, size).score()
    alone = [make_scores(task).score().score for task in (mood, size)]
    assert found.metrics["mean"] == found.score == pytest.approx(sum(alone) / 2)
    assert found.metrics["size_accuracy"] == alone[1]
    assert next(iter(found.metrics)) == "mean"


def test_another_score_can_choose(make_scores) -> None:
    found = make_scores(named("mood", "bad", "good"), choose_by="macro_f1").score()
    assert found.score == found.metrics["macro_f1"]


def test_a_score_that_there_is_not_is_named_with_those_there_are(make_scores) -> None:
    with pytest.raises(UsageError, match=r"^--choose-by is 'bleu', but the scores on dev are accu"):
        make_scores(named("mood", "bad", "good"), choose_by="bleu").score()


def test_tasks_that_can_be_tuned_are_and_others_stay(make_scores) -> None:
    plain = named("mood", "bad", "good")
    scores = make_scores(plain, Shifting(("a", "b"), name="shift"))
    scores.tune()
    assert scores.model.tasks["mood"] is plain
    assert scores.model.tasks["shift"].labels == ("tuned", "b")


def test_other_scores_are_chosen_from_in_the_same_way(make_scores) -> None:
    mood, size = named("mood", "bad", "good"), named("size", "large", "small")
    one = make_scores(mood)
    assert one.chosen({"mood": {"accuracy": 0.4, "f1": 0.2}}) == 0.4
    assert one.chosen({"mood": {}}) is None
    floors = {"mood": {"accuracy": 0.4}, "size": {"accuracy": 0.8}}
    assert make_scores(mood, size).chosen(floors) == pytest.approx(0.6)
    assert make_scores(mood, size, choose_by="size_accuracy").chosen(floors) == 0.8
    assert make_scores(mood, choose_by="auc").chosen({"mood": {"accuracy": 0.4}}) is None
