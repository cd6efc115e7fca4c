"""The file of several tasks: a table for each, or a sentence that says what is wrong with it."""

from dataclasses import replace
from pathlib import Path

import pytest

from bertworks.core.errors import UsageError
from bertworks.stages.setting_groups import SeveralSettings
from bertworks.stages.settings import FinetuneSettings
from bertworks.stages.task_list import TaskSource, read_task_list, task_sources
from bertworks.stages.task_settings import TaskSettings

WHOLE = """
[sentiment]
task = "classify"
train = "a/train.jsonl"
dev = "/elsewhere/dev.tsv"
columns = {text = "sentence", label = "gold"}
weight = 0.5
class-weights = "balanced"

[topic_2]
train = "t.csv"
dev = "d.csv"
columns = ["text=body"]
"""
FILES = 'train = "t"\ndev = "d"\n'


def write(folder: Path, text: str) -> Path:
    file = folder / "tasks.toml"
    file.write_text(text)
    return file


def test_every_table_is_a_task_and_paths_begin_at_the_file(tmp_path: Path) -> None:
    first, second = read_task_list(write(tmp_path, WHOLE))
    assert (first.name, first.task, first.weight) == ("sentiment", "classify", 0.5)
    assert (first.train, first.dev) == (tmp_path / "a/train.jsonl", Path("/elsewhere/dev.tsv"))
    assert first.columns == ("text=sentence", "label=gold")
    assert first.flags == {"class_weights": "balanced"}
    assert (second.name, second.task, second.weight) == ("topic_2", None, 1.0)
    assert (second.columns, second.flags) == (("text=body",), {})


# What the file says, and what is said about it.
BAD = {
    "nothing": ("", "has no tables; give it one for each task"),
    "no TOML": ("[a\n", "is not TOML: "),
    "no table": ("a = 3\n", "has 'a' at its top, but it takes only tables"),
    "unknown key": (f"[a]\n{FILES}trian = 3\n", "[a] has no setting 'trian' (did you mean train?)"),
    "no dev": ('[a]\ntrain = "t"\n', "[a] has no dev; add the file of its examples"),
    "no weight": (f"[a]\n{FILES}weight = 0\n", "weight is 0, but it must be a number above 0"),
    "a name": (f'[a]\n{FILES}name = "b"\n', "[a] has a name, but it is named by its table"),
    "no word": (
        f'["a.b"]\n{FILES}',
        "[a.b] cannot be the name of a task; choose another, as a_b_task",
    ),
    "unknown task": (
        f'[a]\n{FILES}task = "clasify"\n',
        "[a]: task is 'clasify', but it must be classify",
    ),
    "no such column": (
        f'[a]\n{FILES}columns = {{txt = "sentence"}}\n',
        "[a] columns takes NAME=COLUMN with text, text_b, label, ",
    ),
    "no name of a column": (
        f"[a]\n{FILES}columns = {{text = true}}\n",
        "[a] columns: text is True, but it must be a name, a number, or a list of names",
    ),
    "of any module": (f"[training]\n{FILES}", "[training] cannot be the name of a task"),
    "of a module": (f"[train]\n{FILES}", "[train] cannot be the name of a task"),
    "of the log": (f"[lr]\n{FILES}", "[lr] cannot be the name of a task; choose another, as lr_"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_cannot_be_meant_is_one_sentence(name: str, tmp_path: Path) -> None:
    text, said = BAD[name]
    file = write(tmp_path, text)
    with pytest.raises(UsageError) as refused:
        read_task_list(file)
    assert str(refused.value).startswith(str(file))
    assert said in str(refused.value)


def test_columns_may_be_a_list_or_a_number(tmp_path: Path) -> None:
    columns = 'columns = {question = 1, choices = ["A", "B"], label = "answer"}\n'
    (source,) = read_task_list(write(tmp_path, f"[a]\n{FILES}{columns}"))
    assert source.columns == ("question=1", "choices=A,B", "label=answer")


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*gone\.toml: No such file.*check the path"):
        read_task_list(tmp_path / "gone.toml")


def asked(tmp_path: Path, **given: object) -> FinetuneSettings:
    several = SeveralSettings(tasks=write(tmp_path, WHOLE))
    return FinetuneSettings(model=Path("m"), out=Path("o"), several=several, **given)


def test_the_flags_of_one_task_make_one_source_without_a_name() -> None:
    files = {"train": Path("t"), "dev": Path("d")}
    told = FinetuneSettings(model=Path("m"), out=Path("o"), task="match", columns=("a=b",), **files)
    (source,) = task_sources(told)
    assert (source.train, source.dev, source.task) == (Path("t"), Path("d"), "match")
    assert (source.name, source.columns, source.weight) == (None, ("a=b",), 1.0)


@pytest.mark.parametrize(
    ("flag", "given"),
    [
        ("--train", {"train": Path("t")}),
        ("--columns", {"columns": ("text=a",)}),
        ("--task", {"task": "match"}),
        ("--focal", {"of_task": TaskSettings(focal=2.0)}),
    ],
)
def test_the_flags_of_one_task_are_refused_beside_a_file_of_several(
    flag: str, given: dict[str, object], tmp_path: Path
) -> None:
    assert len(task_sources(asked(tmp_path))) == 2
    with pytest.raises(UsageError, match=f"^{flag} is for one task; put it into the tables of"):
        task_sources(asked(tmp_path, **given))


def test_without_any_examples_it_is_said_what_is_needed() -> None:
    with pytest.raises(UsageError, match="needs --train and --dev, or --tasks"):
        task_sources(FinetuneSettings(model=Path("m"), out=Path("o"), train=Path("t")))


def test_a_source_knows_the_flags_by_which_its_files_are_read_elsewhere() -> None:
    plain = TaskSource(train=Path("a"), dev=Path("b"))
    assert plain.reading_flags == []
    named = replace(plain, task="score", columns=("text=s", "score=n"))
    assert named.reading_flags == ["--task", "score", "--columns", "text=s", "score=n"]
