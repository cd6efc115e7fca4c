"""What a model folder is, without its network."""

from pathlib import Path

import pytest

from bertworks.core.artifact import Origin
from bertworks.core.errors import ArtifactError
from bertworks.model.weights import round_weights
from bertworks.serving.model_facts import facts_of
from bertworks.serving.model_folder import save_model
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel


@pytest.fixture
def folder(tmp_path: Path, config, tokenizer) -> Path:
    model = TaskModel(config, [make_task("fill_mask")], seed=3)
    save_model(tmp_path / "little", model, tokenizer, origin=Origin())
    return tmp_path / "little"


def test_the_facts_are_those_of_the_network(folder: Path, config) -> None:
    facts = facts_of(folder)
    model = TaskModel(config, [make_task("fill_mask")])
    assert facts.pop("megabytes") > 0
    assert facts == {
        "name": "little",
        "language": None,
        "family": "bert",
        "parameters": sum(
            one.numel() for name, one in model.named_parameters() if "pooler" not in name
        ),
        "layers": 3,
        "width": 21,
        "longest": 67,
        "tasks": "fill_mask",
    }


def test_rounded_weights_are_as_many(folder: Path) -> None:
    before = facts_of(folder)["parameters"]
    (folder / "manifest.json").unlink()
    round_weights(folder)
    assert facts_of(folder)["parameters"] == before


@pytest.mark.parametrize(
    ("card", "language"),
    [
        ("---\nlicense: mit\nlanguage: [en]\n---\n# x\n", "en"),
        ('---\nlanguage: "zh"\n---\n', "zh"),
        ("---\nlicense: mit\n---\nlanguage: en\n", None),
        ("# x\nlanguage: en\n", None),
        ("", None),
    ],
)
def test_the_language_is_what_the_head_of_a_card_says(
    folder: Path, card: str, language: str | None
) -> None:
    (folder / "README.md").write_text(card)
    assert facts_of(folder)["language"] == language


def test_pickled_weights_are_refused_with_the_way_to_import_them(folder: Path) -> None:
    (folder / "manifest.json").unlink()
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    said = rf"has its weights as a pickle .*: bertworks import {folder} --out NEW$"
    with pytest.raises(ArtifactError, match=said):
        facts_of(folder)


def test_a_damaged_folder_is_noticed(folder: Path) -> None:
    with (folder / "config.json").open("a") as file:
        file.write(" ")
    with pytest.raises(ArtifactError, match="its manifest says"):
        facts_of(folder)
