"""Scores on dev: of one task as they are, of several under their names and with their mean."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bertworks.core.errors import DataError, UsageError
from bertworks.data.examples import TextExample
from bertworks.evaluation.dev_scores import DevScores, DevSet
from bertworks.evaluation.scoring import Judge
from bertworks.tasks.answering import Answerer, windows_of
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

    def make(
        *tasks: Classify, choose_by: str | None = None, texts: Sequence[str] = TEXTS
    ) -> DevScores:
        model = TaskModel(config, tasks, seed=3, deviation=0.3)
        sets = {}
        for task in tasks:
            labels = task.labels * len(texts)
            examples = [TextExample(t, label=labels[n], line=n) for n, t in enumerate(texts)]
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
    scores = make_scores(plain, Shifting(("a", "b"), name="shift"), texts=TEXTS * 2)
    scores.tune()
    assert scores.model.tasks["mood"].options == plain.options
    assert scores.model.tasks["shift"].labels == ("tuned", "b")


def test_too_few_examples_leave_the_threshold_and_that_is_said(make_scores, capsys) -> None:
    scores = make_scores(Shifting(("a", "b"), name="shift"), texts=(TEXTS * 2)[1:])
    scores.tune()
    assert scores.model.tasks["shift"].labels == ("a", "b")
    said = capsys.readouterr().err
    assert "the threshold of shift stays as it was: 9 examples are too few to tell it" in said


def test_dev_that_tells_no_score_at_all_is_one_sentence(config, tokenizer, machine) -> None:
    task = make_task("embed", ("other", "same"))
    examples = [TextExample(text, text[::-1], label="same") for text in TEXTS]
    dev = DevSet(examples, windows_of(task, examples, tokenizer, longest=67))
    model = TaskModel(config, [task], seed=3)
    with pytest.raises(DataError, match="no score of embed: all pairs have the same label, so"):
        DevScores(model, tokenizer, {"embed": dev}, machine=machine).score()


@pytest.mark.parametrize(
    ("gold", "said"),
    [
        ([{"label": "same"}] * 11, "its 11 pairs all have the label same; add pairs of another"),
        ([{"label": "same"}], "its 1 pair has the label same"),
        ([{"score": 2.5}] * 3, "its 3 pairs all have the score 2.5"),
    ],
)
def test_vectors_that_dev_cannot_score_are_refused_before_anything_is_learned(
    gold: list[dict], said: str, config, tokenizer, machine
) -> None:
    task = make_task("embed", ("other", "same"))
    examples = [TextExample("the cat", "a dog", **own) for own in gold]
    dev = DevSet(examples, windows_of(task, examples, tokenizer, longest=21))
    model = TaskModel(config, [task], seed=1)
    with pytest.raises(DataError, match=f"dev tells no score of embed: {said}"):
        DevScores(model, tokenizer, {"embed": dev}, machine=machine).refuse_alike()
    other = replace(examples[0], **{name: "other" if name == "label" else 1.0 for name in gold[0]})
    both = DevSet([*examples, other], dev.windows)
    DevScores(model, tokenizer, {"embed": both}, machine=machine).refuse_alike()


def test_other_scores_are_chosen_from_in_the_same_way(make_scores) -> None:
    mood, size = named("mood", "bad", "good"), named("size", "large", "small")
    one = make_scores(mood)
    assert one.chosen({"mood": {"accuracy": 0.4, "f1": 0.2}}) == 0.4
    assert one.chosen({"mood": {}}) is None
    floors = {"mood": {"accuracy": 0.4}, "size": {"accuracy": 0.8}}
    assert make_scores(mood, size).chosen(floors) == pytest.approx(0.6)
    assert make_scores(mood, size, choose_by="size_accuracy").chosen(floors) == 0.8
    assert make_scores(mood, choose_by="auc").chosen({"mood": {"accuracy": 0.4}}) is None
    by_size = make_scores(mood, size, choose_by="size_accuracy")
    assert by_size.chosen({"mood": {}, "size": {"accuracy": 0.8}}) == 0.8
    assert by_size.chosen({"mood": {"accuracy": 0.4}, "size": {}}) is None
    assert by_size.chosen({"mood": {}, "size": {}}) is None


def test_an_error_is_not_chosen_by_for_its_largest_would_win(config, tokenizer, machine) -> None:
    task = make_task("score", mean=0.0, deviation=1.0)
    examples = [TextExample(text, score=float(n), line=n) for n, text in enumerate(TEXTS)]
    dev = DevSet(examples, windows_of(task, examples, tokenizer, longest=67))
    scores = DevScores(
        TaskModel(config, [task], seed=3),
        tokenizer,
        {"score": dev},
        machine=machine,
        choose_by="mean_absolute_error",
    )
    with pytest.raises(UsageError, match="would choose the largest error"):
        scores.score()


def test_scores_of_several_tasks_have_intervals_under_their_names(make_scores) -> None:
    scores = make_scores(named("mood", "bad", "good"), named("size", "large", "small", "tiny"))
    found = scores.score().metrics
    intervals = scores.intervals()
    assert "mean" not in intervals
    for name in ("mood_accuracy", "size_macro_f1"):
        assert intervals[name].low <= found[name] == intervals[name].mean <= intervals[name].high


@pytest.fixture
def make_own_set(config, tokenizer, machine):
    """Make a task with drawn weights, and examples of which three in four are as it says."""

    def make(task, gold) -> tuple[TaskModel, DevSet]:
        model = TaskModel(config, [task], seed=3, deviation=2.0)
        texts = [TextExample(f"{TEXTS[n % 5]} {n * n}", line=n) for n in range(61)]
        windows = windows_of(task, texts, tokenizer, longest=67)
        answers = Answerer(model, task, tokenizer, machine).answer(texts, windows)
        told = zip(texts, answers, strict=True)
        examples = [replace(e, **gold(own, is_so=e.line % 4 > 0)) for e, own in told]
        return model, DevSet(examples, windows_of(task, examples, tokenizer, longest=67))

    return make


def test_chances_get_the_temperature_by_which_dev_is_likeliest(
    make_own_set, tokenizer, machine
) -> None:
    task = named("mood", "bad", "good")

    def gold(answer, *, is_so: bool) -> dict[str, str]:
        return {"label": task.labels[(answer["label"] == "good") == is_so]}

    model, dev = make_own_set(task, gold)
    scores = DevScores(model, tokenizer, {"mood": dev}, machine=machine)
    before = scores.score().metrics
    scores.tune()
    found = model.tasks["mood"].options["temperature"]
    assert found > 1.5  # drawn weights are sure without a reason
    assert scores.score().metrics["accuracy"] == before["accuracy"]
    scores.tune()
    assert model.tasks["mood"].options["temperature"] == found


def test_too_few_examples_leave_the_temperature_and_that_is_said(make_scores, capsys) -> None:
    scores = make_scores(named("mood", "bad", "good"))
    scores.tune()
    assert scores.model.tasks["mood"].options["temperature"] == 1.0
    said = capsys.readouterr().err
    assert "the temperature of mood stays 1: 5 examples are too few to tell it" in said


def test_a_threshold_is_found_for_the_chances_as_the_temperature_makes_them(
    make_own_set, tokenizer, machine
) -> None:
    task = make_task("multilabel", ("a", "b", "c"))

    def gold(answer, *, is_so: bool) -> dict[str, tuple[str, ...]]:
        return {"labels": tuple(answer["labels"]) if is_so else ("a", "c")}

    model, dev = make_own_set(task, gold)
    scores = DevScores(model, tokenizer, {"multilabel": dev}, machine=machine)
    best = scores.score().metrics["micro_f1"]
    scores.tune()
    tuned = model.tasks["multilabel"]
    assert tuned.options["temperature"] > 1.5
    judge, answerer = Judge(tuned), Answerer(model, tuned, tokenizer, machine)
    answers = answerer.answer(dev.examples, dev.windows)
    for example, answer in zip(dev.examples, answers, strict=True):
        judge.add(example, answer)
    assert judge.metrics()["micro_f1"] == pytest.approx(best)
