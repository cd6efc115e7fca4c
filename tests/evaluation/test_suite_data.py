"""The data of a suite: files found, dealt into parts that never share a text, written once."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from bertworks.core.errors import DataError
from bertworks.core.quarantine import Quarantine
from bertworks.data.examples import TextExample
from bertworks.evaluation.suite_data import (
    find_file,
    gather,
    hold_out,
    sample,
    write_at_once,
    write_parts,
)
from bertworks.evaluation.suite_task import Metric, Source, SuiteTask

COLUMNS = ("text=sentence",)
TASK = SuiteTask(
    kind="classify",
    parts={
        "train": (Source("set/a.tsv", COLUMNS), Source("set/b.tsv", COLUMNS, end=0.5)),
        "dev": (Source("set/b.tsv", COLUMNS, begin=0.5),),
    },
    metrics=(Metric("accuracy"),),
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Write a set of two files with six rows each."""
    folder = tmp_path / "data" / "set"
    folder.mkdir(parents=True)
    for name in "ab":
        rows = [f"{name} {number}\t{number % 2}\n" for number in range(6)]
        (folder / f"{name}.tsv").write_text("sentence\tlabel\n" + "".join(rows))
    return tmp_path / "data"


def texts(examples: list[TextExample]) -> list[str]:
    """Return the texts of examples."""
    return [example.text for example in examples]


def test_a_part_is_made_of_files_and_shares_of_files(data: Path) -> None:
    parts = gather(TASK, "label", data=data, quarantine=Quarantine())
    assert texts(parts["train"]) == [*(f"a {n}" for n in range(6)), "b 0", "b 1", "b 2"]
    assert texts(parts["dev"]) == ["b 3", "b 4", "b 5"]


def test_what_is_missing_is_split_off_train(data: Path) -> None:
    task = replace(TASK, parts={"train": TASK.parts["train"]}, held_out={"dev": 0.4})
    parts = gather(task, "label", data=data, quarantine=Quarantine())
    assert parts["dev"]
    assert len(parts["train"]) + len(parts["dev"]) == 9
    assert not set(texts(parts["train"])) & set(texts(parts["dev"]))


def test_a_set_too_small_to_be_split_is_one_sentence(data: Path) -> None:
    task = replace(TASK, parts={"train": TASK.parts["train"]}, held_out={"dev": 1e-9})
    with pytest.raises(DataError, match=r"set/a.tsv has too few examples to split dev off; give"):
        gather(task, "label", data=data, quarantine=Quarantine())


def test_the_split_keeps_texts_together_and_does_not_depend_on_the_others() -> None:
    examples = [TextExample(f"text {n // 3}", f"aspect {n}") for n in range(300)]
    shares = {"dev": 0.2, "test": 0.1}
    whole = hold_out({"train": examples}, shares, lambda example: example.text)
    assert sum(map(len, whole.values())) == 300
    found = {name: {example.text for example in part} for name, part in whole.items()}
    assert not found["train"] & found["dev"]
    assert not (found["train"] | found["dev"]) & found["test"]
    assert 30 < len(whole["dev"]) < 90
    fewer = hold_out({"train": examples[100:]}, shares, lambda example: example.text)
    assert fewer["dev"] == [example for example in whole["dev"] if example in examples[100:]]


def test_parts_are_written_in_our_columns_and_the_limit_is_of_train_alone(
    data: Path, tmp_path: Path
) -> None:
    whole = write_parts(TASK, "label", data=data, out=tmp_path / "whole")
    rows = [json.loads(line) for line in whole.files["train"].read_text().splitlines()]
    assert rows[:2] == [{"text": "a 0", "label": "0"}, {"text": "a 1", "label": "1"}]
    made = write_parts(TASK, "label", data=data, out=tmp_path / "out", limit=2)
    assert (made.counts, made.num_left_out) == ({"train": 2, "dev": 3}, 7)
    few = [json.loads(line) for line in made.files["train"].read_text().splitlines()]
    assert [row in rows for row in few] == [True, True]
    beyond = write_parts(TASK, "label", data=data, out=tmp_path / "beyond", limit=99)
    assert (beyond.counts["train"], beyond.num_left_out) == (9, 0)


def test_a_sample_of_a_sorted_file_has_all_its_labels_and_stays_when_rows_are_added() -> None:
    lines = [f"{label} {number}" for label in "abc" for number in range(200)]
    few = sample(lines, 60)
    counts = [sum(line.startswith(label) for line in few) for label in "abc"]
    assert sum(counts) == 60
    assert min(counts) > 10
    assert few == sorted(few, key=lines.index)
    assert set(few) <= set(sample(lines, 90))
    assert sample(lines, None) == lines


def test_a_sample_has_every_label_and_is_else_the_same() -> None:
    lines = [f"row {number}" for number in range(200)]
    labels = ["often"] * 198 + ["once", "again"]
    few = sample(lines, 8, labels=labels)
    assert {"row 198", "row 199"} <= set(few)
    assert len(few) == 8
    assert len(set(few) & set(sample(lines, 8))) >= 6
    usual = sample(lines, 190)
    assert sample(lines, 190, labels=["a" if line in usual else "b" for line in lines]) != usual
    assert sample(lines, 190, labels=["a", "b"] * 100) == usual
    assert len(sample(lines, 2, labels=list(map(str, range(200))))) == 2


def test_parts_are_written_once(data: Path, tmp_path: Path) -> None:
    made = write_parts(TASK, "label", data=data, out=tmp_path / "out")
    (data / "set" / "a.tsv").unlink()
    assert write_parts(TASK, "label", data=data, out=tmp_path / "out") == made


def test_a_torn_writing_is_done_again(data: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "train.jsonl").write_text('{"text": "torn')
    made = write_parts(TASK, "label", data=data, out=tmp_path / "out")
    assert len(made.files["train"].read_text().splitlines()) == 9


def test_bad_rows_are_counted_and_kept_apart(data: Path, tmp_path: Path) -> None:
    with (data / "set" / "a.tsv").open("a") as file:
        file.write("".join(f"more {n}\t1\n" for n in range(20)) + "no label\t\n")
    made = write_parts(TASK, "label", data=data, out=tmp_path / "out")
    assert (made.counts["train"], made.num_bad) == (29, 1)
    assert "a.tsv" in (tmp_path / "out" / "quarantine.jsonl").read_text()


def test_a_compressed_file_is_found_under_its_plain_name(data: Path) -> None:
    plain = data / "set" / "a.tsv"
    packed = plain.with_name("a.tsv.gz")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert find_file(plain) == plain
    plain.unlink()
    assert find_file(plain) == packed
    assert texts(gather(TASK, "label", data=data, quarantine=Quarantine())["train"])[0] == "a 0"


def test_a_pair_of_files_is_found_under_its_common_name(data: Path) -> None:
    pair = data / "set" / "a.en-de"
    for language in ("en", "de.gz"):
        pair.with_suffix(f".{language}").write_bytes(b"x")
    assert find_file(pair) == pair


def test_a_set_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no .*set/a.tsv, nor the same compressed; get"):
        gather(TASK, "label", data=tmp_path, quarantine=Quarantine())


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    write_at_once(tmp_path / "note.json", "{}")
    write_at_once(tmp_path / "note.json", "[]")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("note.json", "[]")]
