"""Translations go by BLEU, summaries by ROUGE, and both name what copying scores."""

import pytest

from bertworks.evaluation.suite_task import SuiteTask
from bertworks.evaluation.written_suites import SUMMARIZE, TRANSLATE
from bertworks.tasks.text_scores import TextScorer

TASKS = TRANSLATE | SUMMARIZE


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_every_task_is_scored_on_a_test_by_scores_that_there_are(task: SuiteTask) -> None:
    known = TextScorer().metrics()
    assert {metric.name for metric in task.metrics} <= known.keys()
    assert "test" in task.parts
    assert task.kind == "generate"


def test_the_first_score_fits_what_is_written() -> None:
    assert {task.metrics[0].name for task in TRANSLATE.values()} == {"bleu"}
    assert {task.metrics[0].name for task in SUMMARIZE.values()} == {"rougeL"}


@pytest.mark.parametrize("name", ["tatoeba", "python_docs"])
def test_both_directions_read_the_same_file_with_its_columns_swapped(name: str) -> None:
    there, back = (TRANSLATE[f"{name}_{way}"].parts["test"][0] for way in ("en_zh", "zh_en"))
    assert there.file == back.file
    assert there.columns == ("source=1", "target=2")
    assert back.columns == ("source=2", "target=1")
