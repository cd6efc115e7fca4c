"""finetune: labelled rows make a model for a task, or a sentence names the row that cannot."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertworks.core.artifact import MANIFEST, read_manifest
from bertworks.core.settings import as_json
from bertworks.stages.settings import FinetuneSettings
from bertworks.training.run import read_log

Run = Callable[..., Any]
Words = Callable[..., list[Any]]
Rows = Callable[..., list[dict[str, str]]]
Write = Callable[[Path, list[Any]], Path]
Contents = Callable[[Path], dict[str, bytes]]
NOT_FETCHED = "names are not fetched: give a folder on this disk"
MODEL = ("model.safetensors", "config.json", "bertworks.json", "log.jsonl")


def made(folder: Path) -> dict[str, bytes]:
    """Return what two runs can be compared by."""
    return {name: (folder / name).read_bytes() for name in MODEL}


def test_a_model_says_how_it_was_made(
    classifier: Path, pretrained: Path, labelled: dict[str, Path]
) -> None:
    manifest = read_manifest(classifier)
    settings = FinetuneSettings(
        model=pretrained,
        train=labelled["train"],
        dev=labelled["dev"],
        out=classifier,
        epochs=2,
        batch_size=7,
        lr=0.002,
    )
    assert manifest["kind"] == "model"
    assert manifest["settings"] == as_json(settings) | {"precision": "fp32"}
    assert set(manifest["inputs"]) == {"model", "train", "dev"}
    ours = json.loads((classifier / "bertworks.json").read_text())
    options = {"pooling": None, "dropout": None}
    assert ours["tasks"] == {"classify": {"labels": ["road", "water"], "options": options}}


def test_the_written_command_makes_the_same_model(
    classifier: Path, tmp_path: Path, run_again: Callable[..., Path]
) -> None:
    assert made(run_again(classifier, tmp_path / "again")) == made(classifier)
    other = run_again(classifier, tmp_path / "other", more=("--seed", "1"))
    assert made(other)["model.safetensors"] != made(classifier)["model.safetensors"]


def test_the_result_tells_the_scores_of_the_best_epoch(
    finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    ended = command(*finetune_words(tmp_path / "run"), "--json")
    result = json.loads(ended.out)
    scores = [
        row["evaluation"]["accuracy"] for row in read_log(tmp_path / "run") if "evaluation" in row
    ]
    assert len(scores) == 2
    assert result["dev_accuracy"] == max(scores)
    assert result["best_epoch"] == 1 + scores.index(max(scores))
    assert (result["task"], result["bad_rows"]) == ("classify", 0)
    assert "weights: " in ended.err
    assert "heads.classify.output.weight" in ended.err


def test_fresh_forgets_what_was_learned(
    classifier: Path, finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    ended = command(*finetune_words(tmp_path / "run", fresh=True))
    assert "weights: fresh, nothing loaded" in ended.err
    assert made(tmp_path / "run")["model.safetensors"] != made(classifier)["model.safetensors"]


# The task and the columns


def test_the_task_is_guessed_from_the_columns_and_said(
    finetune_words: Words, labelled: dict[str, Path], tmp_path: Path, command: Run
) -> None:
    pairs = {"train": labelled["train_pairs"], "dev": labelled["dev_pairs"]}
    for name, task, files in (("a", "classify", {}), ("b", "match", pairs)):
        ended = command(*finetune_words(tmp_path / name, epochs=1, **files))
        assert f"task: {task}, guessed from the columns" in ended.err
        assert list(json.loads((tmp_path / name / "bertworks.json").read_text())["tasks"]) == [task]


def test_a_task_that_is_named_is_not_guessed(
    finetune_words: Words, labelled: dict[str, Path], tmp_path: Path, command: Run
) -> None:
    pairs = {"train": labelled["train_pairs"], "dev": labelled["dev_pairs"]}
    ended = command(*finetune_words(tmp_path / "run", task="classify", epochs=1, **pairs))
    assert (ended.code, "guessed" in ended.err) == (0, False)
    assert "classify" in (tmp_path / "run" / "bertworks.json").read_text()
    wrong = command(*finetune_words(tmp_path / "no", task="tag"))
    assert "task is 'tag', but it must be classify or match" in wrong.refusal(2)


def test_a_task_for_pairs_needs_them_in_every_row(
    finetune_words: Words, write_rows: Write, tmp_path: Path, command: Run
) -> None:
    pair = {"text": "River.", "text_b": "Boat.", "label": "same"}
    file = write_rows(tmp_path / "rows.jsonl", [pair, {"text": "Road.", "label": "other"}])
    ended = command(*finetune_words(tmp_path / "run", train=file, task="match"))
    said = f"{file} line 2: the task match needs a second text; add a column text_b"
    assert ended.refusal(1) == said


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_columns_may_have_other_names(
    suffix: str, classifier: Path, labelled: dict[str, Path], finetune_words: Words, tmp_path: Path,
    command: Run,
) -> None:  # fmt: skip
    separator = {"csv": ",", "tsv": "\t"}[suffix]
    files = {}
    for name in ("train", "dev"):
        rows = [json.loads(line) for line in labelled[name].read_text().splitlines()]
        lines = [
            ("gold", "id", "sentence"),
            *((r["label"], str(n), r["text"]) for n, r in enumerate(rows)),
        ]
        files[name] = tmp_path / f"{name}.{suffix}"
        files[name].write_text("".join(separator.join(line) + "\n" for line in lines))
    columns = ["text=sentence", "label=gold"]
    ended = command(*finetune_words(tmp_path / "run", columns=columns, **files))
    assert ended.code == 0, ended.err
    same = (tmp_path / "run" / "model.safetensors").read_bytes()
    assert same == (classifier / "model.safetensors").read_bytes()
    assert read_manifest(tmp_path / "run")["settings"]["columns"] == columns


@pytest.mark.parametrize("columns", ["text", "text=", "gold=label"])
def test_columns_that_cannot_be_meant_are_one_sentence(
    columns: str, finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    said = command(*finetune_words(tmp_path / "run", columns=[columns])).refusal(2)
    assert said.startswith("--columns takes NAME=COLUMN with text, text_b, label, ")
    assert said.endswith(f"; got {columns!r}")


# Bad rows


def test_bad_rows_are_set_aside_and_change_nothing(
    classifier: Path, labelled: dict[str, Path], finetune_words: Words, write_rows: Write,
    tmp_path: Path, command: Run,
) -> None:  # fmt: skip
    lines: list[Any] = labelled["train"].read_text().splitlines()
    lines[20:20] = ["not JSON", {"text": "no label"}, {"text": "half \ud83d", "label": "water"}]
    lines.append({"text": "x" * 10_000_000, "label": "water"})
    train = write_rows(tmp_path / "train.jsonl", lines)
    ended = command(*finetune_words(tmp_path / "run", train=train), "--json")
    assert json.loads(ended.out)["bad_rows"] == 4
    assert (
        f"warning: 4 rows were set aside in quarantine.jsonl; the first: {train} line 21"
        in ended.err
    )
    aside = (tmp_path / "run" / "quarantine.jsonl").read_text().splitlines()
    assert [json.loads(line)["line"] for line in aside] == [21, 22, 23, 52]
    weights = "model.safetensors"
    assert (tmp_path / "run" / weights).read_bytes() == (classifier / weights).read_bytes()


WATER, ROAD = {"text": "River.", "label": "water"}, {"text": "Road.", "label": "road"}
AIR, PAIR, BARE = {"text": "Sky.", "label": "air"}, {**WATER, "text_b": "Boat."}, {"text": "River."}
UNUSABLE = "rows cannot be used, the first at {} line"
# Which file, its rows, and what is said about it.
BAD_FILES: dict[str, tuple[str, list[Any], str]] = {
    "empty": ("train", [], "{} is empty; give a file with text in it"),
    "blank": ("train", ["", " "], "{} holds no rows; give a file with examples in it"),
    "empty dev": ("dev", [], "{} is empty; give a file with text in it"),
    "one label": ("train", [WATER] * 3, "{} has one label only ('water'), so there is nothing to"),
    "no labels": ("train", [BARE] * 3, f"3 of 3 {UNUSABLE} 1: no 'label' (found text); mend the"),
    "bad dev": ("dev", [BARE] * 3, f"3 of 3 {UNUSABLE} 1: no 'label' (found text)"),
    "third bad": ("train", [WATER, ROAD, "torn"], f"1 of 3 {UNUSABLE} 3: not a JSON object"),
    "unknown label": ("dev", [WATER, ROAD, AIR], "{} line 3: the label 'air' is not among those"),
    "half a pair": ("train", [PAIR, ROAD], "{} line 2: some rows have a text_b and some have none"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_cannot_be_learned_from_is_one_sentence(
    name: str, finetune_words: Words, write_rows: Write, tmp_path: Path, command: Run
) -> None:
    flag, lines, said = BAD_FILES[name]
    file = write_rows(tmp_path / "rows.jsonl", lines)
    ended = command(*finetune_words(tmp_path / "run", **{flag: file}))
    assert said.format(file) in ended.refusal(1)
    assert list(tmp_path.iterdir()) == [file]


def test_an_unknown_label_is_named_with_those_that_are_known(
    finetune_words: Words, write_rows: Write, tmp_path: Path, command: Run
) -> None:
    file = write_rows(tmp_path / "dev.jsonl", [WATER, AIR])
    ended = command(*finetune_words(tmp_path / "run", dev=file))
    assert ended.refusal(1) == (
        f"{file} line 2: the label 'air' is not among those of the training data (road, water); "
        "correct it or remove the row"
    )


def test_wrong_columns_are_named_with_those_there_are(
    finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("sentence,gold\nRiver.,water\nRoad.,road\n")
    said = command(*finetune_words(tmp_path / "run", train=file)).refusal(1)
    assert f"{file} line 2: no 'text' (found sentence, gold)" in said
    assert said.endswith("or name its columns with --columns")


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("gone.jsonl", 1, "there is no file {}; check the path"),
        ("folder.jsonl", 1, "{} is a folder, but a file is needed here"),
        ("rows.xlsx", 2, "{} has no known format; its name should end with .jsonl, .tsv, .csv"),
        ("-", 1, "there is no file {}; check the path"),
    ],
)
def test_a_path_that_is_no_file_of_rows_is_one_sentence(
    name: str, code: int, said: str, finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "rows.xlsx").write_text("PK")
    file = name if name == "-" else tmp_path / name
    ended = command(*finetune_words(tmp_path / "run", train=file), stdin=b'{"text": "a"}\n')
    assert said.format(file) in ended.refusal(code)
    assert not (tmp_path / "run").exists()


# Models and places


def test_windows_longer_than_the_model_reads_are_refused(
    finetune_words: Words, pretrained: Path, tmp_path: Path, command: Run
) -> None:
    said = command(*finetune_words(tmp_path / "run", longest=33)).refusal(2)
    assert said == f"--longest is 33, but {pretrained} reads 32 pieces; lower it"
    assert list(tmp_path.iterdir()) == []
    assert command(*finetune_words(tmp_path / "run", longest=32, epochs=1)).code == 0


@pytest.mark.parametrize("kind", ["vocabulary", "shards", "text", "nowhere", "checkpoints"])
def test_a_folder_that_is_no_model_is_one_sentence(
    kind: str, pretrained: Path, finetune_words: Words, tmp_path: Path, command: Run,
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    here = {"nowhere": tmp_path / "nowhere", "checkpoints": pretrained / "checkpoints"}
    given = here.get(kind) or request.getfixturevalue(kind)
    said = {
        "vocabulary": f"{given} holds a tokenizer, but a model is needed here; check the path",
        "shards": f"{given} holds a shards, but a model is needed here; check the path",
        "checkpoints": f"{given} has no config.json; it is no model folder",
    }.get(kind, f"there is no model folder {given}; {NOT_FETCHED}")
    assert command(*finetune_words(tmp_path / "run", model=given)).refusal(1) == said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "vocab.txt", MANIFEST])
def test_a_torn_model_is_found_before_the_run_begins(
    name: str, pretrained: Path, finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    torn = shutil.copytree(pretrained, tmp_path / "model")
    os.truncate(torn / name, 99)
    said = command(*finetune_words(tmp_path / "run", model=torn)).refusal(1)
    assert str(torn / name) in said
    assert not (tmp_path / "run").exists()


def test_what_is_there_already_is_left_alone(
    classifier: Path, finetune_words: Words, tmp_path: Path, contents: Contents, command: Run
) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    for out, said in ((classifier, "holds a finished run"), (tmp_path, "exists already")):
        before = contents(out)
        assert f"{out} {said}" in command(*finetune_words(out)).refusal(2)
        assert contents(out) == before


def test_a_full_disk_is_one_sentence_and_the_same_command_works_later(
    classifier: Path, finetune_words: Words, tmp_path: Path, process: Run, command: Run
) -> None:
    out = tmp_path / "run"
    words = [*finetune_words(out), "--threads", 1]
    said = process(*words, largest_file=30_000).refusal(1)
    assert f"cannot write {out / 'best'}" in said
    assert "File too large" in said
    assert not list(out.rglob("*.safetensors"))
    assert not (out / MANIFEST).exists()
    assert command(*words).code == 0
    assert made(out) == made(classifier)


def test_weights_that_came_apart_are_not_saved_as_a_model(
    finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    ended = command(*finetune_words(tmp_path / "run", lr=1e30, batch_size=24, warmup=0, epochs=1))
    assert "the network's answers are no finite numbers" in ended.refusal(1)
    assert "lower --lr" in ended.err
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_other_ways_to_learn_make_other_models(
    classifier: Path, finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    models = {made(classifier)["model.safetensors"]}
    for changed in ({"schedule": "cosine"}, {"average": 0.5}, {"optimizer": "muon"}):
        out = tmp_path / next(iter(changed))
        ended = command(*finetune_words(out, **changed))
        assert ended.code == 0, ended.err
        models.add(made(out)["model.safetensors"])
    assert len(models) == 4
