"""A task of a suite: what it says when nobody says otherwise."""

from bertworks.evaluation.suite_task import SIZES, Metric, Source, SuiteTask
from bertworks.model.config import SIZES as KNOWN_SIZES


def test_published_sizes_are_sizes_that_can_be_trained() -> None:
    assert set(SIZES) <= set(KNOWN_SIZES)


def test_a_task_is_trained_as_the_bert_paper_says_unless_told_otherwise() -> None:
    task = SuiteTask(kind="classify", parts={}, metrics=(Metric("accuracy"),))
    assert task.lr in (2e-5, 3e-5, 5e-5)
    assert task.batch_size in (16, 32)
    assert task.epochs in (2, 3, 4)
    assert (task.longest, task.model_of, task.remark) == (None, None, "")


def test_a_source_is_a_whole_file_unless_told_otherwise() -> None:
    source = Source("set/train.tsv")
    assert (source.begin, source.end, source.columns) == (0.0, 1.0, ())
