"""import: pickled weights become a model folder, and nothing in a pickle is ever run."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bertworks
from bertworks.core.artifact import Origin, is_whole, read_manifest, sha256_of
from bertworks.model.embedding import EmbeddingRecipe
from bertworks.model.weights import read_tensors
from bertworks.serving.model_folder import open_model, save_model

Run = Callable[..., Any]
OURS = ("manifest.json", "bertworks.json", "log.jsonl")
PICKLE = "pytorch_model.bin"
TEXTS = ["River boat fish.", "engine", "wheel motor road " * 30]


@pytest.fixture
def make_old(tmp_path: Path) -> Callable[..., Path]:
    """Make of a model folder one as it was written before safetensors, perhaps in parts."""

    def make(model: Path, *, parts: int = 1) -> Path:
        folder = tmp_path / "old"
        unwanted = shutil.ignore_patterns(*OURS, "checkpoints", "best", "model.safetensors")
        shutil.copytree(model, folder, ignore=unwanted)
        tensors = list(read_tensors(model / "model.safetensors").items())
        for part in range(parts):
            name = f"pytorch_model-{part + 1:05}-of-{parts:05}.bin" if parts > 1 else PICKLE
            torch.save(dict(tensors[part::parts]), folder / name)
        return folder

    return make


@pytest.mark.parametrize("parts", [1, 2])
def test_a_pickled_classifier_answers_as_it_did(
    parts: int, classifier: Path, make_old, tmp_path: Path, command: Run
) -> None:
    old, out = make_old(classifier, parts=parts), tmp_path / "out"
    assert len(list(old.glob("*.bin"))) == parts
    ended = command("import", old, "--out", out, "--json")
    assert ended.code == 0, ended.err
    assert "weights: " in ended.err
    result = json.loads(ended.out)
    before, after = bertworks.load(classifier), bertworks.load(out)
    assert result == {
        "model": str(out),
        "parameters": sum(parameter.numel() for parameter in before.model.parameters()),
    }
    assert after.predict(TEXTS) == before.predict(TEXTS)
    np.testing.assert_array_equal(after.embed(TEXTS), before.embed(TEXTS))
    theirs, ours = (read_tensors(f / "model.safetensors") for f in (classifier, out))
    assert theirs.keys() == ours.keys()
    assert not list(out.glob("*.bin"))


def test_a_pickled_pretrained_model_fills_masks_as_it_did(
    pretrained: Path, make_old, tmp_path: Path, command: Run
) -> None:
    assert command("import", make_old(pretrained), "--out", tmp_path / "out").code == 0
    text = "river [MASK] fish"
    expected = bertworks.load(pretrained).fill_mask(text)
    assert bertworks.load(tmp_path / "out").fill_mask(text) == expected


def test_an_imported_model_says_what_it_was_made_of(
    classifier: Path, make_old, tmp_path: Path, command: Run
) -> None:
    old, out = make_old(classifier), tmp_path / "out"
    torch.save({"step": 3}, old / "pytorch_model_trainer.bin")  # no weights, and not read
    assert command("import", old, "--out", out).code == 0
    assert is_whole(out, "model")
    manifest = read_manifest(out)
    assert manifest["command"] == f"bertworks import {old} --out {out}"
    assert manifest["inputs"] == {
        PICKLE: {"path": str(old / PICKLE), "sha256": sha256_of(old / PICKLE)}
    }


@pytest.mark.parametrize("inner", ["", "0_Transformer"])
def test_a_folder_of_sentence_transformers_keeps_its_recipe(
    inner: str, pretrained: Path, make_old, tmp_path: Path, command: Run
) -> None:
    opened = open_model(pretrained, tasks=[])
    recipe = EmbeddingRecipe(
        pooling="first", normalize=False, max_length=9, prompts={"query": "boat: "}
    )
    described, out = tmp_path / "described", tmp_path / "out"
    save_model(described, opened.model, opened.tokenizer, origin=Origin(), recipe=recipe)
    expected = bertworks.load(described).embed(TEXTS, prompt="query")
    old = make_old(described)
    if inner:
        move_encoder(old, inner)
    ended = command("import", old, "--out", out)
    assert ended.code == 0, ended.err
    after = bertworks.load(out)
    assert after.recipe == recipe
    np.testing.assert_array_equal(after.embed(TEXTS, prompt="query"), expected)
    assert list(read_manifest(out)["inputs"]) == [PICKLE]


def move_encoder(folder: Path, inner: str) -> None:
    """Put the encoder's files into a folder of their own, as old folders have them."""
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = inner
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / inner).mkdir()
    stays = ("modules.json", "config_sentence_transformers.json")
    for file in [path for path in folder.iterdir() if path.is_file() and path.name not in stays]:
        file.rename(folder / inner / file.name)


# Files that are not believed


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.canary,)


def test_code_in_a_pickle_is_refused_and_not_run(
    classifier: Path, make_old, tmp_path: Path, command: Run
) -> None:
    old, out, canary = make_old(classifier), tmp_path / "out", tmp_path / "canary"
    tensors = read_tensors(classifier / "model.safetensors")
    torch.save({**tensors, "bomb": Bomb(canary)}, old / PICKLE)
    said = command("import", old, "--out", out).refusal(1)
    assert said.startswith(f"{old / PICKLE} was refused (")
    assert "it is damaged, or holds more than tensors, which could run code" in said
    assert not canary.exists()
    assert not out.exists()
    torch.load(old / PICKLE, weights_only=False)  # noqa: TID251 (what the refusal saved us from)
    assert canary.exists()


def test_a_pickle_of_something_else_is_one_sentence(
    classifier: Path, make_old, tmp_path: Path, command: Run
) -> None:
    old = make_old(classifier)
    torch.save([torch.ones(3)], old / PICKLE)
    said = command("import", old, "--out", tmp_path / "out").refusal(1)
    assert said == f"{old / PICKLE} is no table of tensors; it is not a model's weights"


def test_a_torn_pickle_is_one_sentence(
    classifier: Path, make_old, tmp_path: Path, command: Run
) -> None:
    old = make_old(classifier)
    (old / PICKLE).write_bytes((old / PICKLE).read_bytes()[:-1000])
    said = command("import", old, "--out", tmp_path / "out").refusal(1)
    assert said.startswith(f"{old / PICKLE} was refused (")
    assert not (tmp_path / "out").exists()


def test_weights_of_another_network_are_refused_by_name(
    classifier: Path, make_old, tmp_path: Path, command: Run
) -> None:
    old = make_old(classifier)
    tensors = read_tensors(classifier / "model.safetensors")
    del tensors["bert.embeddings.LayerNorm.bias"]
    torch.save(tensors, old / PICKLE)
    said = command("import", old, "--out", tmp_path / "out").refusal(1)
    assert "the weights lack encoder.embeddings.norm.bias" in said


def test_a_folder_without_pickles_needs_no_import(
    classifier: Path, tmp_path: Path, command: Run
) -> None:
    said = command("import", classifier, "--out", tmp_path / "out").refusal(1)
    assert said == f"{classifier} has no {PICKLE}; there is nothing to import"
    nowhere = tmp_path / "nowhere"
    assert f"no model folder {nowhere}" in command("import", nowhere, "--out", "o").refusal(1)


def test_a_model_that_comes_with_bertworks_needs_no_import(
    classifier: Path, ship, make_old, tmp_path: Path, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship(classifier, "little-en")
    monkeypatch.chdir(tmp_path)
    said = command("import", "little-en", "--out", "out").refusal(2)
    assert said.startswith("little-en comes with bertworks and opens as it is (--model little-en)")
    make_old(classifier).rename("little-en")  # a folder of that name comes first
    ended = command("import", "little-en", "--out", "out")
    assert ended.code == 0, ended.err
    assert read_manifest(tmp_path / "out")["command"] == "bertworks import little-en --out out"


def test_what_is_there_already_is_left_alone(
    classifier: Path, make_old, contents, command: Run
) -> None:
    old = make_old(classifier)
    before = contents(old)
    said = command("import", old, "--out", old).refusal(2)
    assert said == f"{old} exists already; choose another --out or remove it first"
    assert contents(old) == before
