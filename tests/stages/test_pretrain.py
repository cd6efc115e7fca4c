"""pretrain: shards become a model that says how it was made, or nothing is begun."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertworks.core.artifact import MANIFEST, read_manifest
from bertworks.core.settings import as_json
from bertworks.data.shards import Shards
from bertworks.model.config import EncoderConfig
from bertworks.stages import pretrain
from bertworks.stages.settings import PretrainSettings
from bertworks.training.run import read_log, whole_checkpoints

Run = Callable[..., Any]
Words = Callable[..., list[Any]]
Contents = Callable[[Path], dict[str, bytes]]
MODEL = ("model.safetensors", "config.json", "bertworks.json", "tokenizer.json", "log.jsonl")


def made(folder: Path) -> dict[str, bytes]:
    """Return what two runs can be compared by."""
    return {name: (folder / name).read_bytes() for name in MODEL}


def unfinished(pretrained: Path, folder: Path) -> Path:
    """Copy a run as it was before its model was written."""
    shutil.copytree(pretrained, folder)
    for path in folder.iterdir():
        if path.name not in ("checkpoints", "best", "log.jsonl"):
            path.unlink()
    return folder


def test_a_model_says_how_it_was_made(pretrained: Path, shards: Path) -> None:
    manifest = read_manifest(pretrained)
    settings = PretrainSettings(
        shards,
        out=pretrained,
        size="2x64",
        longest=32,
        steps=6,
        batch_tokens=512,
        evaluate_every=3,
        checkpoint_every=2,
        lr=0.002,
    )
    assert (manifest["kind"], manifest["seed"]) == ("model", 0)
    assert manifest["settings"] == as_json(settings) | {"precision": "fp32"}
    assert manifest["inputs"]["shards"]["path"] == str(shards)
    assert set(MODEL[:4]) < set(manifest["files"])


def test_the_written_command_makes_the_same_model(
    pretrained: Path, tmp_path: Path, run_again: Callable[..., Path]
) -> None:
    assert made(run_again(pretrained, tmp_path / "again")) == made(pretrained)
    other = made(run_again(pretrained, tmp_path / "other", more=("--seed", "1")))
    assert other["model.safetensors"] != made(pretrained)["model.safetensors"]
    assert other["log.jsonl"] != made(pretrained)["log.jsonl"]


def test_the_result_is_json_and_the_course_is_said(
    pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    ended = command(*pretrain_words(tmp_path / "run", steps=2), "--json")
    result = json.loads(ended.out)
    assert (result["model"], result["steps"], result["best_step"]) == (str(tmp_path / "run"), 2, 2)
    assert {"loss", "fill_mask_loss", "next_sentence_accuracy", "seconds"} < result.keys()
    assert "pre-training " in ended.err
    assert "training: 2/2 steps" in ended.err
    assert "after step 2: loss " in ended.err


def test_the_log_has_a_line_for_every_step_and_evaluation(pretrained: Path) -> None:
    log = read_log(pretrained)
    assert [row["step"] for row in log if "lr" in row] == [1, 2, 3, 4, 5, 6]
    assert [row["step"] for row in log if "evaluation" in row] == [3, 6]
    assert len(whole_checkpoints(pretrained)) == 2


def test_sizes_come_by_name_or_by_shape(
    pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    for size, layers, width in (("tiny", 2, 128), ("1x65", 1, 65)):
        out = tmp_path / size
        assert command(*pretrain_words(out, size=size, steps=1)).code == 0
        config = json.loads((out / "config.json").read_text())
        assert (config["num_hidden_layers"], config["hidden_size"]) == (layers, width)


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ("huge", "there is no size 'huge'; use tiny, mini, small, medium, base, large or LAYERSx"),
        ("2x", "there is no size '2x'"),
        ("roberta-", "there is no size ''"),
        ("gpt-mini", "there is no family 'gpt'; the families are bert, roberta, "),
        ("0x64", "num_layers is 0; it must be a whole number from 1 up"),
        ("1x0", "hidden_size is 0; it must be a whole number from 1 up"),
        ("recurrent-1x129", "hidden_size 129 cannot be shared by two directions"),
        ("modern-1x129", "an attention head of width 129 cannot be turned in pairs"),
    ],
)
def test_a_size_that_cannot_be_is_one_sentence(
    size: str, said: str, pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    assert said in command(*pretrain_words(tmp_path / "run", size=size)).refusal(2)
    assert list(tmp_path.iterdir()) == []


def test_there_is_a_position_for_every_piece_of_the_longest_text_and_no_more(
    pretrain_words: Words, pretrained: Path, tmp_path: Path, command: Run
) -> None:
    assert command(*pretrain_words(tmp_path / "run", longest=700, steps=1)).code == 0
    for folder, longest in ((tmp_path / "run", 700), (pretrained, 32)):
        config = json.loads((folder / "config.json").read_text())
        assert config["max_position_embeddings"] == longest


def test_without_next_sentences_there_is_one_objective(
    pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    out = tmp_path / "run"
    ended = command(*pretrain_words(out, next_sentence=False, steps=2), "--json")
    assert not [name for name in json.loads(ended.out) if "next_sentence" in name]
    assert json.loads((out / "config.json").read_text())["architectures"] == ["BertForMaskedLM"]
    assert list(json.loads((out / "bertworks.json").read_text())["tasks"]) == ["fill_mask"]


@pytest.mark.parametrize(
    ("size", "has_pairs"),
    [
        ("1x64", True),
        ("bert-1x64", True),
        ("recurrent-1x64", True),
        ("convolution-1x64", True),
        ("mean-1x64", True),
        ("roberta-1x64", False),
        ("electra-1x64", False),
        ("modern-1x64", False),
    ],
)
def test_next_sentences_are_learned_where_the_family_does_unless_said_otherwise(
    size: str, has_pairs: bool
) -> None:
    config = EncoderConfig.named(size)

    def names(said: bool | None) -> list[str]:
        return [task.name for task in pretrain._objectives(config, next_sentence=said)]

    assert names(None) == names(has_pairs)
    assert names(True) == ["fill_mask", "next_sentence"]
    assert names(False) == ["fill_mask"]


@pytest.mark.parametrize(
    ("size", "said", "dropout"),
    [
        ("1x64", None, 0.1),
        ("modern-1x64", None, 0.0),
        ("1x64", 0.0, 0.0),
        ("albert-1x64", 0.3, 0.3),
    ],
)
def test_dropout_is_the_familys_own_unless_it_is_said(
    size: str, said: float | None, dropout: float, shards: Path
) -> None:
    settings = PretrainSettings(shards, out=Path("o"), size=size, dropout=said)
    config = pretrain._config(settings, Shards.open(shards))
    assert (config.dropout, config.attention_dropout) == (dropout, dropout)


def test_the_seed_chooses_the_batches_but_not_what_they_are_judged_by(shards: Path) -> None:
    def batches(seed: int) -> tuple[list[list[int]], list[list[int]]]:
        settings = PretrainSettings(shards, out=Path("o"), longest=32, batch_tokens=512, seed=seed)
        training, held_out = pretrain._batches(settings, Shards.open(shards), pairs=True)
        steps = [batch for step in range(3) for batch in training.at(step)]
        return [b.tokens.tolist() for b in steps], [b.tokens.tolist() for b in held_out]

    first, again, other = batches(0), batches(0), batches(1)
    assert first == again
    assert first[0] != other[0]
    assert first[1] == other[1]


# Going on


def test_a_run_whose_newest_checkpoint_is_torn_goes_on_from_the_one_before(
    pretrained: Path, pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    out = unfinished(pretrained, tmp_path / "run")
    newest = whole_checkpoints(out)[-1]
    os.truncate(newest / "model.safetensors", 999)
    ended = command(*pretrain_words(out), "--resume", "auto")
    assert ended.code == 0, ended.err
    assert f"warning: checkpoint {newest} is passed over" in ended.err
    assert "resuming after step 4" in ended.err
    assert made(out) == made(pretrained)


def test_an_unfinished_run_is_continued_only_when_that_is_asked_for(
    pretrained: Path, pretrain_words: Words, tmp_path: Path, contents: Contents, command: Run
) -> None:
    out = unfinished(pretrained, tmp_path / "run")
    before = contents(out)
    said = command(*pretrain_words(out)).refusal(2)
    assert said.startswith(f"{out} holds an unfinished run; continue it with --resume auto")
    changed = command(*pretrain_words(out, lr=0.5), "--resume", "auto").refusal(2)
    assert changed.startswith(f"{out} was begun with lr = 0.002, now 0.5; resume with the same")
    assert contents(out) == before


def test_what_is_there_already_is_left_alone(
    pretrained: Path, pretrain_words: Words, tmp_path: Path, contents: Contents, command: Run
) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    for out, said in ((pretrained, "holds a finished run"), (tmp_path, "exists already")):
        before = contents(out)
        for changed in ({}, {"seed": 1, "resume": "auto"}):
            ended = command(*pretrain_words(out, **changed))
            assert f"{out} {said}; choose another --out or remove it first" in ended.refusal(2)
        assert contents(out) == before


def test_a_finished_run_need_not_be_continued(
    pretrained: Path, pretrain_words: Words, contents: Contents, command: Run
) -> None:
    before = contents(pretrained)
    ended = command(*pretrain_words(pretrained, resume="auto"), "--json")
    assert (ended.code, json.loads(ended.out)) == (0, {"model": str(pretrained)})
    assert "is finished already" in ended.err
    assert contents(pretrained) == before


# Bad input


@pytest.mark.parametrize("kind", ["vocabulary", "pretrained", "text", "nowhere"])
def test_a_folder_that_holds_no_shards_is_one_sentence(
    kind: str, pretrain_words: Words, tmp_path: Path, command: Run, request: pytest.FixtureRequest
) -> None:
    given = tmp_path / "nowhere" if kind == "nowhere" else request.getfixturevalue(kind)
    said = {
        "vocabulary": f"{given} holds a tokenizer, but a shards is needed here; check the path",
        "pretrained": f"{given} holds a model, but a shards is needed here; check the path",
    }.get(kind, f"there is no folder {given}; check the path")
    assert command(*pretrain_words(tmp_path / "run", shards=given)).refusal(1) == said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["tokens-00000.bin", "words-00000.bin", "tokenizer/tokenizer.json", MANIFEST]
)
def test_torn_shards_are_found_before_the_run_begins(
    name: str, shards: Path, pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    torn = shutil.copytree(shards, tmp_path / "shards")
    os.truncate(torn / name, 17)
    said = command(*pretrain_words(tmp_path / "run", shards=torn)).refusal(1)
    assert str(torn / name) in said
    assert said.endswith("make the folder again")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0, "has no held-out documents; tokenize again with a larger --held-out"),
        (0.9999, "has no documents to train on; tokenize more text"),
    ],
)
def test_shards_without_a_side_to_learn_or_to_judge_by_are_one_sentence(
    share: float,
    said: str,
    text: Path,
    vocabulary: Path,
    pretrain_words: Words,
    tmp_path: Path,
    command: Run,
) -> None:
    out = tmp_path / "shards"
    words = ["tokenize", text, "--tokenizer", vocabulary, "--out", out, "--held-out", share]
    assert command(*words, "--workers", 1).code == 0
    ended = command(*pretrain_words(tmp_path / "run", shards=out))
    assert ended.refusal(1) == f"{out} {said}"
    assert not (tmp_path / "run").exists()


def test_weights_that_came_apart_are_not_saved_as_a_model(
    pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    ended = command(*pretrain_words(tmp_path / "run", lr=1e30, steps=3), "--json")
    assert "the loss on held-out text is nan in the end" in ended.refusal(1)
    assert "lower --lr" in ended.err
    assert not (tmp_path / "run" / "model.safetensors").exists()
