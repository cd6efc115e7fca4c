"""Verdicts on disk: scores that come again, and reports of different data that are told apart."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertworks.core.artifact import Origin, saving
from bertworks.core.errors import ArtifactError, UsageError
from bertworks.data.examples import ChoiceExample, TextExample
from bertworks.evaluation.scoring import Judge
from bertworks.evaluation.verdicts import (
    TASK,
    VERDICTS,
    Values,
    Verdicts,
    open_verdicts,
    refuse_other_data,
    task_note,
    verdict_row,
)
from bertworks.tasks.catalog import make_task

LABELS = ("no", "yes")


def make_examples() -> list[TextExample]:
    labels = ("no", "yes", "no", "yes", "yes")
    return [TextExample(f"text {n}", label=label, line=n) for n, label in enumerate(labels, 1)]


def make_verdicts(
    examples: list[TextExample], *, kind: str = "classify", folder: str = "report"
) -> Verdicts:
    task, rows, chance = make_task(kind, LABELS), [], np.random.default_rng(4)
    judge = Judge(task)
    for example in examples:
        yes = float(chance.random())
        chances = {"no": 1 - yes, "yes": yes}
        given = {"label": LABELS[yes > 0.5], "probability": max(yes, 1 - yes)}
        verdict = judge.add(example, {**given, "probabilities": chances})
        rows.append(verdict_row(example, verdict, unit=judge.unit))
    return Verdicts(Path(folder), task_note(task), rows)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[Verdicts], Path]:
    """Write verdicts as a report has them."""

    def write(verdicts: Verdicts) -> Path:
        with saving(tmp_path / "report", kind="report", origin=Origin()) as folder:
            (folder / TASK).write_text(json.dumps(verdicts.task))
            lines = (json.dumps(row) + "\n" for row in verdicts.rows)
            (folder / VERDICTS).write_text("".join(lines))
        return tmp_path / "report"

    return write


def test_scores_come_again_from_the_disk(write: Callable[[Verdicts], Path]) -> None:
    made = make_verdicts(make_examples())
    opened = open_verdicts(write(made))
    assert opened.scorer().metrics() == made.scorer().metrics()
    some = opened.scorer(np.array([0, 3])).statistics()["accuracy"]
    assert len(some.sample) == 2
    assert opened.units.tolist() == made.units.tolist()
    assert len({*opened.units.tolist()}) == 5


def test_a_row_says_what_slices_need() -> None:
    example = TextExample("abc", "de", "yes", line=7, origin="web")
    (row,) = make_verdicts([example]).rows
    assert (row["line"], row["length"], row["label"], row["source"]) == (7, 5, "yes", "web")
    assert row["gold"] == "yes"


def test_rows_about_one_text_share_a_unit_that_any_reader_of_json_can_tell() -> None:
    texts = [("abc", "de"), ("abc", "fg"), ("other", "de")]
    rows = make_verdicts([TextExample(*pair, "yes") for pair in texts]).rows
    first, second, third = (row["unit"] for row in rows)
    assert first == second != third
    assert max(first, third) < 2**53


def test_the_id_is_of_what_is_read_and_not_of_what_is_sought() -> None:
    rows = [
        make_verdicts([TextExample(text, label=label)]).rows[0]["id"]
        for text, label in (("a", "yes"), ("a", "no"), ("b", "yes"))
    ]
    assert rows[0] == rows[1] != rows[2]


def test_lengths_are_of_all_texts_that_are_read() -> None:
    example = ChoiceExample("1234", ("12", "345"), "12345678", 1)
    judge = Judge(make_task("choose"))
    given = {"choice": 0, "text": "12", "probability": 0.6, "probabilities": [0.6, 0.4]}
    verdict = judge.add(example, given)
    assert verdict_row(example, verdict, unit=0)["length"] == 17


# Bad input


def test_reports_of_the_same_data_are_let_pass() -> None:
    refuse_other_data(make_verdicts(make_examples()), make_verdicts(make_examples()))


def changed(number: int, **changes: Any) -> list[TextExample]:
    examples = make_examples()
    examples[number] = replace(examples[number], **changes)
    return examples


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (changed(2, text="other"), "line 3 of the data of one is another example than line 3"),
        (changed(1, label="no"), "the gold of line 2 of the data of one is 'yes', but 'no'"),
        (make_examples()[:4], "one has 5 examples, but 4 are"),
        (make_examples()[1:], "line 1 of the data of one is another example than line 2"),
    ],
)
def test_reports_of_different_data_are_refused_with_the_first_difference(
    other: list[TextExample], said: str
) -> None:
    one, two = make_verdicts(make_examples(), folder="one"), make_verdicts(other, folder="two")
    with pytest.raises(UsageError) as error:
        refuse_other_data(one, two)
    assert str(error.value) == f"{said} of the data of two; evaluate both models on the same file"


def test_reports_of_different_tasks_are_refused() -> None:
    one = make_verdicts(make_examples(), folder="one")
    two = make_verdicts(make_examples(), kind="relate", folder="two")
    with pytest.raises(UsageError, match=r"^one is of the task classify, but two of relate"):
        refuse_other_data(one, two)


def test_a_report_without_verdicts_is_one_sentence(tmp_path: Path) -> None:
    with saving(tmp_path / "report", kind="report", origin=Origin()) as folder:
        (folder / "check.json").write_text("{}")
    with pytest.raises(ArtifactError, match=r"has no verdicts\.jsonl, so it is no report of answe"):
        open_verdicts(tmp_path / "report")


def test_a_report_of_another_version_is_one_sentence() -> None:
    verdicts = make_verdicts(make_examples())
    name = next(iter(verdicts.rows[0]["parts"]))  # type: ignore[index]
    rows = [{**row, "parts": {k: v for k, v in row["parts"].items() if k != name}}
            for row in verdicts.rows]  # fmt: skip
    with pytest.raises(ArtifactError, match=f"report was written by another version.*'{name}'"):
        replace(verdicts, rows=rows).scorer()


def test_models_of_different_labels_are_refused() -> None:
    one = make_verdicts(make_examples(), folder="one")
    two = replace(one, folder=Path("two"), task={**one.task, "labels": ["no", "yes", "perhaps"]})
    with pytest.raises(UsageError) as error:
        refuse_other_data(one, two)
    assert str(error.value) == (
        "the model of one knows the labels no, yes, that of two no, yes, perhaps; compare models "
        "of the same labels"
    )


@pytest.mark.parametrize(("count", "is_kept"), [(1, False), (2, True), (30, True), (31, False)])
def test_examples_are_parted_by_a_column_of_a_few_values(count: int, is_kept: bool) -> None:
    values = Values()
    for number in range(93):
        values.add(f"value {number % count}")
    values.add(None)
    parts = values.parts()
    assert len(parts) == (count if is_kept else 0)
    assert sorted(n for part in parts.values() for n in part) == list(range(93)) * is_kept
