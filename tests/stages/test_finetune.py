"""finetune: labelled rows make a model for a task, or a sentence names the row that cannot."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from bertworks.core.artifact import MANIFEST, read_manifest
from bertworks.core.settings import as_json
from bertworks.core.shipped import shipped_models
from bertworks.data.examples import TextExample
from bertworks.serving.model_folder import open_model
from bertworks.serving.predictor import load
from bertworks.stages.settings import FinetuneSettings
from bertworks.tasks.answering import Answerer, windows_of
from bertworks.training.log import read_log

Run = Callable[..., Any]
Words = Callable[..., list[Any]]
Rows = Callable[..., list[dict[str, str]]]
Write = Callable[[Path, list[Any]], Path]
Contents = Callable[[Path], dict[str, bytes]]
NOT_FETCHED = (
    "names are not fetched: give a folder on this disk, or a model that comes with bertworks: "
    f"{', '.join(shipped_models())}"
)
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
    options = {"pooling": None, "dropout": None, "temperature": 1.0}
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
    (interval,) = [row for row in result["intervals"] if row["score"] == "accuracy"]
    assert interval["low"] <= max(scores) <= interval["high"]
    saved = json.loads((tmp_path / "run" / "bertworks.json").read_text())["dev_intervals"]
    assert saved["accuracy"] == [interval["low"], interval["high"]]
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
    wrong = command(*finetune_words(tmp_path / "no", task="guess"))
    assert "task is 'guess', but it must be classify or match or " in wrong.refusal(2)


@pytest.mark.parametrize("task", ["match", "embed"])
def test_single_texts_among_pairs_are_set_aside(
    task: str, finetune_words: Words, labelled: dict[str, Path], write_rows: Write,
    tmp_path: Path, command: Run,
) -> None:  # fmt: skip
    lines = labelled["train_pairs"].read_text().splitlines()
    train = write_rows(tmp_path / "rows.jsonl", [*lines, {"text": "Road.", "label": "other"}])
    dev, out = labelled["dev_pairs"], tmp_path / "run"
    ended = command(*finetune_words(out, train=train, dev=dev, task=task, epochs=1), "--json")
    assert json.loads(ended.out)["bad_rows"] == 1
    (aside,) = (out / "quarantine.jsonl").read_text().splitlines()
    assert json.loads(aside)["reason"] == "no 'text_b', but the task reads two texts"
    assert json.loads(aside)["line"] == len(lines) + 1


def test_too_many_single_texts_among_pairs_are_one_sentence(
    finetune_words: Words, write_rows: Write, tmp_path: Path, command: Run
) -> None:
    pair = {"text": "River.", "text_b": "Boat.", "label": "same"}
    file = write_rows(tmp_path / "rows.jsonl", [pair, {"text": "Road.", "label": "other"}])
    ended = command(*finetune_words(tmp_path / "run", train=file, task="match"))
    said = f"1 of 2 rows cannot be used, the first at {file} line 2: no 'text_b', but the task"
    assert said in ended.refusal(1)
    file = write_rows(tmp_path / "rows.jsonl", [{"text": "Road.", "label": n} for n in (0, 1)])
    ended = command(*finetune_words(tmp_path / "run", train=file, task="match"))
    assert f"{file} line 1: the task match needs a second text" in ended.refusal(1)


def test_texts_in_letters_that_the_model_does_not_know_are_said(
    finetune_words: Words, write_rows: Write, tmp_path: Path, command: Run
) -> None:
    rows = [{"text": f"河水上涨 {n}", "label": label} for n in range(6) for label in "ab"]
    file = write_rows(tmp_path / "rows.jsonl", rows)
    ended = command(*finetune_words(tmp_path / "run", train=file, dev=file, epochs=1))
    assert ended.code == 0, ended.err
    assert f"of the pieces of {file} are unknown to the model's tokenizer; take a" in ended.err


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


def test_one_row_of_dev_is_scored_without_a_number_that_it_cannot_tell(
    finetune_words: Words, labelled: dict[str, Path], write_rows: Write, tmp_path: Path,
    command: Run,
) -> None:  # fmt: skip
    one: list[Any] = labelled["dev"].read_text().splitlines()[:1]
    dev = write_rows(tmp_path / "rows.jsonl", one)
    ended = command(*finetune_words(tmp_path / "run", dev=dev, epochs=1), "--json")
    told = json.loads(ended.out)
    assert [name for name in told if name.startswith("dev_")] == ["dev_accuracy"]
    assert told["intervals"] == []
    known = ("same label, so accuracy alone", "no intervals", "1 answer is too few", "no part in a")
    for said in known:
        assert said in ended.err
    page = (tmp_path / "run" / "report.html").read_text()
    assert "accuracy alone is told" in page
    assert "expected calibration error" not in page


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
    file.write_text("alpha,beta\nRiver.,water\nRoad.,road\n")
    said = command(*finetune_words(tmp_path / "run", train=file)).refusal(1)
    assert said.startswith(f"{file} has no known header and the columns 1 ('alpha'), 2 ('beta')")
    assert said.endswith("say it with --columns text=COLUMN label=COLUMN")


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("gone.jsonl", 1, "there is no file {}; check the path"),
        ("folder.jsonl", 1, "{} is a folder"),
        ("rows.xlsx", 2, "{} has no known format; its name should end with .jsonl, .tsv, .csv"),
        ("-", 2, "examples cannot come from standard input here; give files"),
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
    remedy = "give --longest 32 or less"
    assert said == f"--longest is 33, but {pretrained} reads 32 pieces; {remedy}"
    assert list(tmp_path.iterdir()) == []
    assert command(*finetune_words(tmp_path / "run", longest=32, epochs=1)).code == 0


def test_a_model_answers_from_windows_as_long_as_those_it_learned_from(
    finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    ended = command(*finetune_words(tmp_path / "run", longest=9, epochs=1))
    assert ended.code == 0, ended.err
    predictor = load(tmp_path / "run", device="cpu")
    assert (predictor.window, predictor.longest) == (9, 32)
    text = "the boat on the river and the fish in the water by the bank " * 2
    (answer,) = predictor.predict([text])
    task, opened = predictor.task, open_model(tmp_path / "run")
    expected = []
    for longest in (9, 32):
        machine = predictor.machine
        answerer = Answerer(opened.model.eval(), task, opened.tokenizer, machine)
        windows = windows_of(task, [TextExample(text)], opened.tokenizer, longest=longest)
        expected += answerer.answer([TextExample(text)], windows)
    assert answer["probability"] == pytest.approx(expected[0]["probability"], abs=1e-6)
    assert answer["probability"] != pytest.approx(expected[1]["probability"], abs=1e-6)


def test_whatever_is_made_of_a_model_answers_from_windows_as_long(
    finetune_words: Words, tmp_path: Path, text: Path, command: Run
) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    ended = command(*finetune_words(run, longest=9, epochs=6, lr=3e-3, seeds=2))
    assert ended.code == 0, ended.err
    for words in (
        ["vocab", "shrink", text, "--model", run],
        ["vocab", "extend", "--words", "houseboat", "--model", run],
        ["extend-positions", "--model", run, "--to", 40],
        ["export", "--to", "onnx", "--model", run],
        ["export", "--to", "bertworks", "--model", run],
    ):
        ended = command(*words, "--out", out)
        assert ended.code == 0, ended.err
        assert load(out, device="cpu").window == 9
        shutil.rmtree(out)


@pytest.mark.parametrize("kind", ["vocabulary", "shards", "text", "nowhere", "checkpoints"])
def test_a_folder_that_is_no_model_is_one_sentence(
    kind: str, pretrained: Path, finetune_words: Words, tmp_path: Path, command: Run,
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    here = {"nowhere": tmp_path / "nowhere", "checkpoints": pretrained / "checkpoints"}
    given = here.get(kind) or request.getfixturevalue(kind)
    said = {
        "vocabulary": f"{given} holds a tokenizer, but a model is needed here; check the path",
        "shards": f"{given} holds shards, but a model is needed here; check the path",
        "text": f"{given} is a file; give the folder of a model",
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


def test_a_place_that_is_taken_is_refused_before_the_rows_are_read(
    classifier: Path, finetune_words: Words, write_rows: Write, tmp_path: Path, command: Run
) -> None:
    torn = write_rows(tmp_path / "torn.jsonl", ["torn"] * 3)
    assert "rows cannot be used" in command(*finetune_words(tmp_path / "new", train=torn)).err
    for out, said in ((classifier, "holds a finished run"), (tmp_path, "exists already")):
        assert f"{out} {said}" in command(*finetune_words(out, train=torn)).refusal(2)


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


def test_vectors_are_learned_from_labelled_pairs(
    finetune_words: Words, labelled: dict[str, Path], tmp_path: Path, command: Run
) -> None:
    pairs = {"train": labelled["train_pairs"], "dev": labelled["dev_pairs"]}
    words = finetune_words(tmp_path / "model", **pairs, task="embed", same="same")
    result = json.loads(command(*words, "--json").out)
    assert result["task"] == "embed"
    assert result["dev_auc"] > 0.6
    assert {"dev_spearman", "dev_accuracy", "dev_f1"} <= set(result)
    ours = json.loads((tmp_path / "model" / "bertworks.json").read_text())
    assert -1 < ours["tasks"]["embed"]["options"]["threshold"] < 1
    assert (tmp_path / "model" / "modules.json").is_file()


def test_vectors_are_learned_from_texts_alone(
    finetune_words: Words, make_rows: Rows, write_rows: Write, tmp_path: Path, command: Run
) -> None:
    texts = [{"text": row["text"]} for row in make_rows(23, seed=9)]
    pairs = make_rows(17, seed=8, pairs=True)
    files = {
        "train": write_rows(tmp_path / "texts.jsonl", texts),
        "dev": write_rows(
            tmp_path / "dev.jsonl",
            [row | {"label": int(row["label"] == "same")} for row in pairs],
        ),
    }
    words = finetune_words(tmp_path / "model", **files, task="embed", epochs=1)
    ended = command(*words, "--json")
    assert 0 < json.loads(ended.out)["dev_auc"] <= 1, ended.err


def test_vectors_without_anything_to_score_them_by_are_not_learned(
    finetune_words: Words, write_rows: Write, tmp_path: Path, command: Run
) -> None:
    file = write_rows(tmp_path / "rows.jsonl", [{"text": "a", "text_b": "b"}] * 3)
    words = finetune_words(tmp_path / "out", train=file, dev=file, task="embed")
    assert "no 'label' (found text, text_b)" in command(*words).refusal(1)


# Several tasks


@pytest.fixture
def task_list(labelled: dict[str, Path], tmp_path: Path) -> Path:
    """Write a file of two tasks."""
    file = tmp_path / "tasks.toml"
    file.write_text(
        f'[topic]\ntask = "classify"\ntrain = "{labelled["train"]}"\ndev = "{labelled["dev"]}"\n'
        f'[same]\nweight = 2\ntrain = "{labelled["train_pairs"]}"\n'
        f'dev = "{labelled["dev_pairs"]}"\n'
    )
    return file


def several_words(pretrained: Path, tasks: Path, out: Path, *more: Any) -> list[Any]:
    flags = ["--epochs", 1, "--batch-size", 7, "--lr", 0.002]
    return ["finetune", "--model", pretrained, "--tasks", tasks, "--out", out, *flags, *more]


def heads(folder: Path, name: str = "") -> dict[str, torch.Tensor]:
    """Return the weights of a model's heads, or of one."""
    parameters = open_model(folder).model.named_parameters()
    return {key: p.detach() for key, p in parameters if key.startswith(f"heads.{name}")}


def is_same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[n], second[n]) for n in first)


def test_several_tasks_share_one_encoder_and_each_answers_by_its_name(
    pretrained: Path, task_list: Path, labelled: dict[str, Path], tmp_path: Path, command: Run,
    write_rows: Write,
) -> None:  # fmt: skip
    out = tmp_path / "both"
    ended = command(*several_words(pretrained, task_list, out), "--json")
    assert ended.code == 0, ended.err
    assert "task of same: match, guessed from the columns" in ended.err
    result = json.loads(ended.out)
    assert result["task"] == "topic, same"
    firsts = [result["dev_topic_accuracy"], result["dev_same_accuracy"]]
    assert result["dev_mean"] == pytest.approx(sum(firsts) / 2)
    log = [row for row in read_log(out) if "lr" in row]
    assert [sum(name in row for row in log) for name in ("topic", "same")] == [7, 7]
    notes = json.loads((out / "bertworks.json").read_text())["tasks"]
    assert {name: note["kind"] for name, note in notes.items()} == {
        "topic": "classify",
        "same": "match",
    }
    for name, data in (("topic", "dev"), ("same", "dev_pairs")):
        words = ["--model", out, "--task", name, "--data", labelled[data]]
        scored = command("evaluate", *words, "--out", tmp_path / name, "--json")
        assert json.loads(scored.out)["accuracy"] == result[f"dev_{name}_accuracy"]
        told = command("predict", *words)
        assert json.loads(told.out.splitlines()[0])["label"] in notes[name]["labels"]
    wrong = command("evaluate", *words[:2], "--task", "other", *words[4:], "--out", tmp_path / "no")
    assert wrong.refusal(2) == "this model has no task 'other'; its tasks are: topic, same"


def test_each_of_several_tasks_has_a_floor_of_its_own(
    pretrained: Path, task_list: Path, tmp_path: Path, command: Run
) -> None:
    out = tmp_path / "both"
    words = several_words(pretrained, task_list, out, "--lr", 1e-9, "--seeds", 2)
    ended = command(*words)
    for seed in (0, 1):
        told = json.loads((out / f"seed-{seed}" / "bertworks.json").read_text())
        floors = {name: one["accuracy"] for name, one in told["dev_floors"].items()}
        assert floors.keys() == {"topic", "same"}
        fallen = [name for name in floors if told["dev"][f"{name}_accuracy"] <= floors[name]]
        assert told["collapsed_tasks"] == fallen
        for name in fallen:
            said = f"{name} has collapsed: one and the same answer for all scores as much on dev"
            assert f"warning: {said}" in ended.err
    assert fallen


def test_the_files_of_several_tasks_are_inputs_of_the_model(
    pretrained: Path, task_list: Path, tmp_path: Path, command: Run, run_again: Callable[..., Path]
) -> None:
    out = tmp_path / "both"
    assert command(*several_words(pretrained, task_list, out, "--temperature", 3)).code == 0
    named = {"model", "tasks", "topic train", "topic dev", "same train", "same dev"}
    assert set(read_manifest(out)["inputs"]) == named
    assert made(run_again(out, tmp_path / "again")) == made(out)


def test_examples_are_named_by_their_own_file(
    pretrained: Path, task_list: Path, labelled: dict[str, Path], write_rows: Write,
    tmp_path: Path, command: Run,
) -> None:  # fmt: skip
    bad = write_rows(tmp_path / "bad.jsonl", [WATER, ROAD, AIR])
    task_list.write_text(task_list.read_text().replace(str(labelled["dev"]), str(bad)))
    said = command(*several_words(pretrained, task_list, tmp_path / "run")).refusal(1)
    assert said.startswith(f"{bad} line 3: the label 'air' is not among those")


# Fine-tuned again


def test_the_same_task_goes_on_with_its_head_and_other_labels_begin_anew(
    classifier: Path, finetune_words: Words, labelled: dict[str, Path], write_rows: Write,
    tmp_path: Path, command: Run,
) -> None:  # fmt: skip
    tiny = {"model": classifier, "lr": 1e-12, "epochs": 1}
    same = command(*finetune_words(tmp_path / "same", **tiny))
    assert "task classify: goes on\n" in same.err
    new = command(*finetune_words(tmp_path / "new", **tiny, new_head=True))
    assert "task classify: begins with a fresh head, in place of the model's" in new.err
    files = {}
    for name in ("train", "dev"):
        lines = labelled[name].read_text().replace('"water"', '"sea"').splitlines()
        files[name] = write_rows(tmp_path / f"{name}.jsonl", list(lines))
    other = command(*finetune_words(tmp_path / "other", **tiny, **files))
    assert "task classify: begins with a fresh head" in other.err
    before = heads(classifier)
    gaps = {
        name: max(float((p - before[key]).abs().max()) for key, p in heads(tmp_path / name).items())
        for name in ("same", "new", "other")
    }
    assert gaps["same"] < 1e-6
    assert min(gaps["new"], gaps["other"]) > 1e-3


def test_a_score_head_answers_as_before_when_it_goes_on_with_other_scores(
    pretrained: Path, finetune_words: Words, labelled: dict[str, Path], make_rows: Rows,
    write_rows: Write, tmp_path: Path, command: Run,
) -> None:  # fmt: skip
    rows = make_rows(19, seed=3)
    files = []
    for number, (low, high) in enumerate(((0, 5), (7, 40))):
        scored = [{"text": r["text"], "score": low if r["label"] == "road" else high} for r in rows]
        data = write_rows(tmp_path / f"{number}.jsonl", scored)
        pairs = f'train = "{labelled["train_pairs"]}"\ndev = "{labelled["dev_pairs"]}"\n'
        files.append(tmp_path / f"{number}.toml")
        files[-1].write_text(f'[rate]\ntrain = "{data}"\ndev = "{data}"\n[same]\n{pairs}')
    once, again = tmp_path / "once", tmp_path / "again"
    assert command(*several_words(pretrained, files[0], once)).code == 0
    tiny = ["--lr", 1e-12, "--warmup", 0]
    ended = command(*several_words(once, files[1], again), *tiny)
    assert "task rate: goes on\n" in ended.err
    told = [
        command("predict", "--model", model, "--data", tmp_path / "0.jsonl", "--task", "rate").out
        for model in (once, again)
    ]
    first, second = ([json.loads(line)["score"] for line in out.splitlines()] for out in told)
    assert second == pytest.approx(first, abs=1e-4)


def test_the_same_labels_in_another_order_go_on_with_the_head(
    classifier: Path, finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    swapped = shutil.copytree(classifier, tmp_path / "swapped")
    (swapped / MANIFEST).unlink()
    for name in ("bertworks.json", "config.json"):
        text = (swapped / name).read_text().replace('"water"', '"?"')
        (swapped / name).write_text(text.replace('"road"', '"water"').replace('"?"', '"road"'))
    words = finetune_words(tmp_path / "run", model=swapped, lr=1e-12, epochs=1)
    ended = command(*words)
    assert "its labels stay in the order of the model: water, road\n" in ended.err
    assert "task classify: goes on\n" in ended.err
    before, after = heads(swapped), heads(tmp_path / "run")
    assert max(float((after[name] - before[name]).abs().max()) for name in before) < 1e-6


def test_another_task_leaves_the_heads_out_or_keeps_them_untouched(
    classifier: Path, finetune_words: Words, labelled: dict[str, Path], tmp_path: Path,
    command: Run,
) -> None:  # fmt: skip
    pairs = {"train": labelled["train_pairs"], "dev": labelled["dev_pairs"], "epochs": 1}
    words = {"model": classifier, **pairs}
    alone = command(*finetune_words(tmp_path / "alone", **words))
    assert "the model's heads for classify are left out; --keep-tasks keeps them" in alone.err
    kept = command(*finetune_words(tmp_path / "kept", **words, keep_tasks=True))
    assert "warning: classify may score otherwise beside an encoder that has moved" in kept.err
    assert heads(tmp_path / "alone").keys() == heads(tmp_path / "kept", "match").keys()
    assert is_same(heads(tmp_path / "kept", "classify"), heads(classifier))
    assert is_same(heads(tmp_path / "kept", "match"), heads(tmp_path / "alone"))
    asked = ["predict", "--model", tmp_path / "kept", "--data", labelled["dev"]]
    assert command(*asked, "--task", "classify").code == 0


# Layers


def layers_moved(before: Path, after: Path) -> set[str]:
    """Return which parts of the encoder differ."""
    first, second = (dict(open_model(f).model.named_parameters()) for f in (before, after))
    return {
        ".".join(name.split(".")[1 : 3 if "blocks" in name else 2])
        for name in first
        if name.startswith("encoder.") and not torch.equal(first[name], second[name])
    }


@pytest.mark.parametrize(
    ("freeze", "moved"),
    [
        ("embeddings", {"blocks.0", "blocks.1", "pooler"}),
        ("1", {"blocks.1", "pooler"}),
        ("2", {"pooler"}),
        ("all", set()),
    ],
)
def test_frozen_layers_stay_as_they_are_to_the_bit(
    freeze: str, moved: set[str], classifier: Path, finetune_words: Words, tmp_path: Path,
    command: Run,
) -> None:  # fmt: skip
    out = tmp_path / "run"
    ended = command(*finetune_words(out, model=classifier, freeze=freeze, epochs=1))
    assert ended.code == 0, ended.err
    assert layers_moved(classifier, out) == moved
    assert not is_same(heads(out), heads(classifier))


def test_what_is_frozen_thaws_from_the_top_and_what_is_fresh_always_learns(
    classifier: Path, finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    out = tmp_path / "run"
    flags = {"freeze": "all", "thaw_every": 0.5, "epochs": 1}
    assert command(*finetune_words(out, model=classifier, **flags)).code == 0
    assert layers_moved(classifier, out) == {"blocks.1", "pooler"}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"freeze": "3"}, "--freeze is '3', but it must be embeddings, all, or a number of the 2 "),
        ({"freeze": "most"}, "--freeze is 'most', but it must be embeddings, all, or a number"),
        ({"thaw_every": 1}, "--thaw-every thaws what is frozen; add --freeze all, or leave it out"),
        ({"choose_by": "bleu"}, "--choose-by is 'bleu', but the scores on dev are accuracy, "),
    ],
)
def test_what_cannot_be_meant_is_refused_before_training(
    flags: dict[str, Any], said: str, finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    assert said in command(*finetune_words(tmp_path / "run", **flags)).refusal(2)
    assert list(tmp_path.iterdir()) == []


def test_lower_layers_may_learn_more_slowly(
    classifier: Path, finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    assert command(*finetune_words(tmp_path / "run", layer_decay=0.5)).code == 0
    assert made(tmp_path / "run")["model.safetensors"] != made(classifier)["model.safetensors"]


# Which weights are the result


def test_training_ends_early_when_dev_does_not_gain(
    finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    flags = {"epochs": 9, "patience": 2, "lr": 1e-9}
    ended = command(*finetune_words(tmp_path / "run", **flags), "--json")
    assert "no gain in 2 epochs, so training ended after step 21" in ended.err
    assert json.loads(ended.out)["best_epoch"] == 1
    changed = command(*finetune_words(tmp_path / "run", **{**flags, "patience": 3}, resume="auto"))
    last = command(*finetune_words(tmp_path / "last", **{**flags, "epochs": 3}))
    assert "no gain" not in last.err  # for it ended where it was to end
    assert "was begun with patience = 2, now 3; resume with the same" in changed.refusal(2)


@pytest.mark.parametrize(("last", "is_averaged"), [(1, False), (7, True)])
def test_an_early_end_says_where_there_was_nothing_to_average(
    last: int, is_averaged: bool, finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    flags = {"epochs": 9, "patience": 2, "lr": 1e-9, "average_last": last}
    ended = command(*finetune_words(tmp_path / "run", **flags))
    said = "it ended before the epochs of --average-last, so nothing is averaged"
    assert "training ended after step 21" in ended.err
    assert (said in ended.err) != is_averaged


def test_the_epoch_is_chosen_by_the_score_that_is_asked_for(
    finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    out = tmp_path / "run"
    ended = command(*finetune_words(out, choose_by="auc", epochs=3), "--json")
    scores = [row["evaluation"]["auc"] for row in read_log(out) if "evaluation" in row]
    assert json.loads(ended.out)["best_epoch"] == 1 + scores.index(max(scores))
    shown = json.loads((out / "report.json").read_text())["scores"]["scores"]
    assert [own["name"] for own in shown[:2]] == ["auc", "accuracy"]


def test_one_run_that_has_collapsed_is_a_warning(
    finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    ended = command(*finetune_words(tmp_path / "run", lr=1e-9, epochs=1))
    assert ended.code == 0
    assert "warning: this run has collapsed: its score on dev is" in ended.err
    well = command(*finetune_words(tmp_path / "well", lr=0.01, seed=4))
    assert "collapsed" not in well.err


# The report


def test_a_model_comes_with_the_report_of_its_training(
    classifier: Path, labelled: dict[str, Path]
) -> None:
    told = json.loads((classifier / "report.json").read_text())
    dev = json.loads((classifier / "bertworks.json").read_text())["dev"]
    assert {own["name"]: own["value"] for own in told["scores"]["scores"]} == dev
    assert "classify" in told["curves"]["charts"][0]["curves"]
    rows = {file["name"]: file["rows"] for file in told["data"]["files"]}
    assert rows == {"model": None, "train": 48, "dev": 17}
    assert told["speed"]["counts"] == {"steps": 14, "examples": 2 * 48}
    assert isinstance(told["findings"]["findings"], list)
    page = (classifier / "report.html").read_text()
    for heading in ("Scores on dev", "Course of the training", "Labels", "Run it again"):
        assert f"<h2>{heading}</h2>" in page
    assert str(labelled["train"]) in page


def test_a_model_that_writes_says_what_is_unknown_in_targets_and_how_bleu_counts(
    finetune_words: Words, write_rows: Write, tmp_path: Path, command: Run
) -> None:
    rows = [{"source": f"the cat {n}", "target": "the ☃ dog sat"} for n in range(4)]
    file = write_rows(tmp_path / "rows.jsonl", rows)
    words = finetune_words(tmp_path / "run", train=file, dev=file, task="generate")
    ended = command(*words, "--epochs", 1, "--longest-reply", 5)
    assert ended.code == 0, ended.err
    assert "of the pieces of" in ended.err
    said = [line for line in ended.err.splitlines() if "BLEU" in line]
    assert said == ["of generate on dev, BLEU is of sacrebleu's tokenization 13a"]


def test_a_writer_below_one_good_text_has_not_collapsed_but_one_that_repeats_itself_has(
    finetune_words: Words, write_rows: Write, tmp_path: Path, command: Run
) -> None:
    told = {"river": "boat fish swim bank", "engine": "wheel motor road drive"}
    known = [{"source": source, "target": target} for source, target in told.items()]
    other = [{"source": source, "target": "harbour water brake garage"} for source in told]
    train = write_rows(tmp_path / "train.jsonl", known * 12)
    dev = write_rows(tmp_path / "dev.jsonl", [*known, *other * 3])  # one text for all gets 0.75
    flags = {"train": train, "dev": dev, "longest_reply": 8}
    weak = command(*finetune_words(tmp_path / "weak", **flags, epochs=8, lr=0.003), "--json")
    assert json.loads(weak.out)["dev_bleu"] == pytest.approx(0.25)
    assert "collapsed" not in weak.err
    ended = command(*finetune_words(tmp_path / "same", **flags, epochs=1, lr=1e-9, seeds=2))
    words = "nearly all texts that are written are one and the same"
    assert f"warning: this run has collapsed: {words} on dev" in ended.err
    assert f"all 2 seeds have collapsed: {words}, and dev bleu is 0.0000, 0.0000; look" in ended.err
    assert ended.code == 1
    saved = json.loads((tmp_path / "same" / "seed-1" / "bertworks.json").read_text())
    assert saved["one_text_for_all"] is True
    assert "one_text_for_all" not in json.loads((tmp_path / "weak" / "bertworks.json").read_text())


@pytest.fixture(scope="module")
def byte_pieces(text: Path, tmp_path_factory: pytest.TempPathFactory, command: Run) -> Path:
    """Learn a vocabulary of bytes and what they are merged to."""
    out = tmp_path_factory.mktemp("bytes") / "pieces"
    words = ["learn-vocab", text, "--out", out, "--size", 330, "--kind", "byte-bpe", "--cased"]
    ended = command(*words)
    assert ended.code == 0, ended.err
    return out


def test_a_writer_learns_otherwise_by_merges_left_out_and_the_same_every_time(
    byte_pieces: Path, finetune_words: Words, make_rows: Rows, write_rows: Write, tmp_path: Path,
    command: Run,
) -> None:  # fmt: skip
    pairs = [
        {"source": row["text"], "target": row["text_b"]}
        for row in make_rows(20, seed=3, pairs=True)
    ]
    file = write_rows(tmp_path / "rows.jsonl", pairs)
    flags = {"model": byte_pieces, "size": "transformer-1x64", "train": file, "dev": file}
    flags |= {"longest": 64, "longest_reply": 6, "decoder": "fresh", "dropout": 0.1}
    for name, rate, workers in (("plain", 0.0, 0), ("first", 0.1, 0), ("by others", 0.1, 2)):
        flags |= {"piece_dropout": rate, "workers": workers}
        ended = command(*finetune_words(tmp_path / name, **flags))
        assert ended.code == 0, ended.err
    plain, first, by_others = (made(tmp_path / name) for name in ("plain", "first", "by others"))
    assert first == by_others
    assert first["model.safetensors"] != plain["model.safetensors"]


def test_merges_are_left_out_only_where_pieces_are_made_by_them(
    finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    said = command(*finetune_words(tmp_path / "run", piece_dropout=0.1)).refusal(2)
    assert "--piece-dropout leaves out merges of byte-level BPE, but the tokenizer is Word" in said
