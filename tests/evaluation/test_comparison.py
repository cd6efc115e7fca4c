"""Two reports side by side: every kind of task, labels, slices, and what is too little."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertworks.core.device import Machine
from bertworks.core.errors import DataError
from bertworks.data.examples import TextExample
from bertworks.data.forms import make_example
from bertworks.evaluation.comparison import Comparison, compare, slices_of
from bertworks.evaluation.scoring import Judge
from bertworks.evaluation.verdicts import Verdicts, task_note, verdict_row
from bertworks.tasks.answering import Answerer, windows_of
from bertworks.tasks.catalog import KINDS, learn_task, make_task
from bertworks.tasks.task import Answer, Task, TaskModel

LABELS = ("bad", "good", "odd")


def verdicts_of(task: Task, examples: list[Any], answers: list[Answer], name: str) -> Verdicts:
    judge = Judge(task)
    rows = [
        verdict_row(example, judge.add(example, answer), unit=judge.unit)
        for example, answer in zip(examples, answers, strict=True)
    ]
    return Verdicts(Path(name), task_note(task), rows)


def make_reports(
    count: int = 90, *, better: float = 0.3, texts: int | None = None
) -> tuple[Verdicts, Verdicts]:
    """Make reports of two models; the second has its right answers and more."""
    random = np.random.default_rng(5)
    task, examples = make_task("classify", LABELS), []
    answers: tuple[list[Answer], list[Answer]] = ([], [])
    for line in range(count):
        gold = int(random.integers(2))
        text = f"text {line % (texts or count)} " + "x" * int(random.integers(50))
        text = f"text {line % texts}" if texts else text
        source = ("web", "news")[line % 2]
        examples.append(TextExample(text, label=LABELS[gold], line=line, origin=source))
        is_right = random.random() < 0.6
        for side, right in zip(answers, (is_right, is_right or random.random() < better), strict=1):
            chances = np.full(3, 0.2)
            chances[gold if right else 1 - gold] = 0.6
            named = dict(zip(LABELS, chances.tolist(), strict=True))
            given = LABELS[int(chances.argmax())]
            side.append({"label": given, "probability": 0.6, "probabilities": named})
    first, second = (
        verdicts_of(task, examples, side, name)
        for side, name in zip(answers, ("one", "two"), strict=True)
    )
    return first, second


def test_the_better_report_is_found_and_both_ways_alike() -> None:
    first, second = make_reports()
    there, back = compare(first, second), compare(second, first)
    for name, found in there.scores.items():
        assert found.interval.mean == pytest.approx(-back.scores[name].interval.mean)
        assert found.p_value == pytest.approx(back.scores[name].p_value, abs=0.02)
    assert there.scores["accuracy"].p_value < 0.05
    assert there.scores["accuracy"].interval.low > 0
    assert (there.num_examples, there.num_texts, there.sliced_by) == (90, 90, "accuracy")


def test_the_seed_decides_what_is_drawn() -> None:
    reports = make_reports()
    found = [compare(*reports, seed=seed).scores for seed in (3, 3, 4)]
    assert found[0] == found[1] != found[2]


def test_labels_and_slices_are_compared_with_a_correction() -> None:
    found = compare(*make_reports())
    labels = {part.name: part for part in found.labels}
    assert labels["odd"].difference is None
    assert labels["odd"].note == "no example has it"
    names = [part.name for part in found.slices]
    assert {"source web", "source news", "gold bad", "gold good"} <= {*names}
    assert sum("characters" in name for name in names) == 4
    judged = [part.difference for part in (*found.labels, *found.slices) if part.difference]
    assert len(judged) == 10
    web = next(part for part in found.slices if part.name == "source web")
    alone = compare(*(_only(side, "web") for side in make_reports()))
    assert web.difference is not None
    assert web.difference.first == alone.scores["accuracy"].first
    assert web.difference.p_value >= alone.scores["accuracy"].p_value


def _only(side: Verdicts, source: str) -> Verdicts:
    rows = [row for row in side.rows if row["source"] == source]
    return Verdicts(side.folder, side.task, rows)


def test_slices_hold_every_example_once() -> None:
    first, _ = make_reports()
    for word, parts in zip(("characters", "source", "gold"), slices_of(first), strict=True):
        assert all(word in name for name in parts)
        numbers = np.concatenate(list(parts.values()))
        assert sorted(numbers) == list(range(90))


def test_texts_of_one_length_are_not_cut_by_it() -> None:
    first, _ = make_reports(40, texts=10)
    by_length, *_ = slices_of(first)
    assert by_length == {}


def test_examples_about_one_text_are_drawn_together_and_swapped_together() -> None:
    apart, together = compare(*make_reports(120)), compare(*make_reports(120, texts=12))
    assert together.num_texts == 12
    assert together.scores["accuracy"].test == "randomization"
    assert apart.scores["accuracy"].test.startswith("McNemar")


def test_few_examples_of_a_label_or_slice_have_no_numbers() -> None:
    found = compare(*make_reports(16))
    for part in (*found.labels, *found.slices):
        if part.num_examples < 10:
            assert part.difference is None
            assert part.note


@pytest.mark.parametrize("texts", [0, 1])
def test_one_text_tells_nothing(texts: int) -> None:
    first, second = make_reports(5, texts=1) if texts else make_reports(0)
    with pytest.raises(DataError, match=f"^one is of {texts} text only, by which no two models"):
        compare(first, second)


@pytest.mark.parametrize("kind", sorted(kind for kind, row in KINDS.items() if row.learn))
def test_reports_of_every_kind_of_task_can_be_compared(
    kind: str, make_samples: Any, config: Any, tokenizer: Any
) -> None:
    rows = make_samples(3).rows(kind, 13)
    examples = [make_example(row, n, form=KINDS[kind].form) for n, row in enumerate(rows, 1)]
    task, machine = learn_task(kind, examples), Machine(torch.device("cpu"), "fp32")
    windows = windows_of(task, examples, tokenizer, longest=67)

    def report(seed: int) -> Verdicts:
        model = TaskModel(config, [task], seed=seed, deviation=0.3)
        answers = Answerer(model, task, tokenizer, machine).answer(examples, windows)
        return verdicts_of(task, examples, answers, f"seed-{seed}")

    found: Comparison = compare(report(1), report(2))
    assert found.scores
    for one in found.scores.values():
        assert 0 < one.p_value <= 1
        assert one.interval.low - 1e-9 <= one.interval.mean <= one.interval.high + 1e-9
    same = compare(report(1), report(1))
    assert {one.p_value for one in same.scores.values()} == {1.0}


def make_numbers(given: list[float], *, kind: str, gold: list[float]) -> Verdicts:
    examples = [TextExample(f"a {n}", f"b {n}", score=own) for n, own in enumerate(gold)]
    return verdicts_of(make_task(kind), examples, [{"score": own} for own in given], "numbers")


def test_answers_that_are_all_the_same_are_compared_by_what_is_defined() -> None:
    gold = [float(number % 7) for number in range(30)]
    good = make_numbers([own + 0.1 for own in gold], kind="score", gold=gold)
    found = compare(good, make_numbers([9.0] * 30, kind="score", gold=gold))
    assert list(found.scores) == ["mean_absolute_error"]
    assert found.undefined == ("pearson", "spearman")
    assert found.scores["mean_absolute_error"].interval.low > 0


def test_reports_without_any_score_in_common_are_one_sentence() -> None:
    gold = [1.0] * 12
    report = make_numbers([number / 20 for number in range(12)], kind="embed", gold=gold)
    with pytest.raises(DataError, match="have no score that is defined for both"):
        compare(report, report)
