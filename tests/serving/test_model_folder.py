"""Model folders: what was saved is what is opened, and nothing damaged is."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from bertworks.core.artifact import Origin, saving
from bertworks.core.errors import ArtifactError, UsageError
from bertworks.model.weights import read_tensors, write_tensors
from bertworks.serving.model_folder import open_model, save_model
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel
from bertworks.tokenizer.learn import learn_wordpiece

TASKS = [(), ("fill_mask", "next_sentence"), ("next_sentence",), ("classify",), ("match",)]
FILES = ["config.json", "bertworks.json", "model.safetensors", "tokenizer.json", "vocab.txt"]


@pytest.fixture
def saved(tmp_path, make_model, tokenizer) -> Path:
    """Save a classifier of three labels."""
    save_model(tmp_path / "model", make_model("classify"), tokenizer, origin=Origin(seed=3))
    return tmp_path / "model"


@pytest.fixture
def bare(saved: Path) -> Path:
    """Turn the folder into one that another library could have written."""
    (saved / "manifest.json").unlink()
    (saved / "bertworks.json").unlink()
    return saved


def differing(first: nn.Module, second: nn.Module) -> list[str]:
    others = dict(second.named_parameters())
    return [n for n, p in first.named_parameters() if not torch.equal(p, others[n])]


@pytest.mark.parametrize("names", TASKS, ids="+".join)
def test_what_was_saved_is_what_is_opened(
    tmp_path: Path, make_model, tokenizer, names: tuple[str, ...]
) -> None:
    model = make_model(*names)
    save_model(tmp_path / "model", model, tokenizer, origin=Origin())
    opened = open_model(tmp_path / "model")
    assert opened.model.config == model.config
    assert list(opened.model.tasks) == list(names)
    assert [t.labels for t in opened.model.tasks.values()] == [
        t.labels for t in model.tasks.values()
    ]
    assert differing(model, opened.model) == []
    assert opened.account is not None
    assert (opened.account.missing, opened.account.unexpected) == ((), ())
    texts = ["The cat, 北京 läuft!", "[MASK]"]
    assert opened.tokenizer.ids_of(texts) == tokenizer.ids_of(texts)


def test_a_masked_language_model_is_opened_with_a_fresh_pooler(
    tmp_path: Path, make_model, tokenizer
) -> None:
    save_model(tmp_path / "model", make_model("fill_mask"), tokenizer, origin=Origin())
    opened = open_model(tmp_path / "model", seed=9)
    assert opened.account is not None
    assert set(opened.account.missing) == {"encoder.pooler.weight", "encoder.pooler.bias"}
    fresh = TaskModel(opened.model.config, [make_task("fill_mask")], seed=9)
    assert torch.equal(opened.model.encoder.pooler.weight, fresh.encoder.pooler.weight)


def test_a_classifier_without_its_pooler_is_refused(bare: Path) -> None:
    tensors = read_tensors(bare / "model.safetensors")
    kept = {name: t for name, t in tensors.items() if "pooler" not in name}
    write_tensors(bare / "model.safetensors", kept)
    with pytest.raises(ArtifactError, match=r"lack encoder\.pooler\.weight"):
        open_model(bare)


def test_a_weight_that_is_missing_is_named(bare: Path) -> None:
    tensors = read_tensors(bare / "model.safetensors")
    del tensors["bert.encoder.layer.1.output.dense.bias"]
    write_tensors(bare / "model.safetensors", tensors)
    with pytest.raises(ArtifactError, match=r"lack encoder\.blocks\.1\.feed_forward\.contract\.b"):
        open_model(bare)


def test_the_labels_of_a_foreign_folder_are_those_of_its_config(bare: Path) -> None:
    assert open_model(bare).model.tasks["classify"].labels == ("cold", "mild", "warm")


def test_another_task_gets_a_fresh_head_on_the_same_encoder(saved: Path) -> None:
    task = make_task("match", ("no", "yes"))
    opened = open_model(saved, tasks=[task], seed=7)
    fresh = TaskModel(opened.model.config, [task], seed=7)
    assert differing(opened.model.heads, fresh.heads) == []
    assert differing(opened.model.encoder, open_model(saved).model.encoder) == []
    assert opened.account is not None
    assert opened.account.missing == ("heads.match.output.weight", "heads.match.output.bias")
    assert len(opened.account.unexpected) == 2


def test_a_task_that_goes_on_keeps_its_head(saved: Path) -> None:
    opened = open_model(saved, tasks=[make_task("classify", ("cold", "mild", "warm"))])
    assert differing(opened.model, open_model(saved).model) == []


@pytest.mark.parametrize("labels", [("a", "b"), ("a", "b", "c"), ("warm", "mild", "cold")])
def test_a_head_for_other_labels_starts_fresh(saved: Path, labels: tuple[str, ...]) -> None:
    task = make_task("classify", labels)
    opened = open_model(saved, tasks=[task], seed=7)
    fresh = TaskModel(opened.model.config, [task], seed=7)
    assert differing(opened.model.heads, fresh.heads) == []
    assert differing(opened.model.encoder, open_model(saved).model.encoder) == []
    assert opened.account is not None
    assert set(opened.account.unexpected) == {"classifier.weight", "classifier.bias"}


def test_a_fresh_model_takes_nothing_but_the_shape(saved: Path) -> None:
    opened = open_model(saved, fresh=True, seed=5)
    untrained = TaskModel(opened.model.config, list(opened.model.tasks.values()), seed=5)
    assert opened.account is None
    assert differing(opened.model, untrained) == []
    assert differing(opened.model, open_model(saved).model) != []


def test_dropout_is_chosen_when_a_model_is_opened(saved: Path, config) -> None:
    assert open_model(saved).model.config.dropout == config.dropout
    opened = open_model(saved, dropout=0.25).model
    assert (opened.config.dropout, opened.config.attention_dropout) == (0.25, 0.25)
    assert opened.encoder.blocks[0].dropout.p == 0.25


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "delete"])
def test_a_damaged_folder_of_ours_is_not_opened(saved: Path, name: str, damage: str) -> None:
    file = saved / name
    whole = bytearray(file.read_bytes())
    if damage == "delete":
        file.unlink()
    elif damage == "flip":
        whole[len(whole) // 2] ^= 1
        file.write_bytes(whole)
    else:
        file.write_bytes(whole[: -3 if damage == "cut" else 0])
    with pytest.raises(ArtifactError, match=name):
        open_model(saved)


def test_a_folder_of_another_kind_is_refused(tmp_path: Path, tokenizer) -> None:
    with saving(tmp_path / "pieces", kind="tokenizer", origin=Origin()) as folder:
        tokenizer.save(folder)
    with pytest.raises(ArtifactError, match="holds a tokenizer, but a model is needed"):
        open_model(tmp_path / "pieces")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="nowhere"):
        open_model(tmp_path / "nowhere")


def test_a_tokenizer_of_another_model_is_refused(bare: Path) -> None:
    config = json.loads((bare / "config.json").read_text())
    config["vocab_size"] -= 1
    (bare / "config.json").write_text(json.dumps(config))
    with pytest.raises(ArtifactError, match="belong to different models"):
        open_model(bare)


def test_a_tokenizer_with_fewer_pieces_than_the_network_is_fine(bare: Path) -> None:
    words = learn_wordpiece(lambda: ["the cat sat"] * 3, size=30, cased=False)
    words.save(bare)
    assert open_model(bare).tokenizer.vocab_size < open_model(bare).model.config.vocab_size


def test_a_folder_without_a_tokenizer_is_refused(bare: Path) -> None:
    (bare / "tokenizer.json").unlink()
    assert open_model(bare).tokenizer.vocab_size  # from vocab.txt
    (bare / "vocab.txt").unlink()
    with pytest.raises(ArtifactError, match="holds no tokenizer"):
        open_model(bare)


def test_a_model_is_never_written_over_another(saved: Path, make_model, tokenizer) -> None:
    before = {file.name: file.read_bytes() for file in saved.iterdir()}
    with pytest.raises(UsageError, match="exists already"):
        save_model(saved, make_model("fill_mask"), tokenizer, origin=Origin())
    assert {file.name: file.read_bytes() for file in saved.iterdir()} == before


def test_provenance_is_saved_beside_the_weights(tmp_path: Path, make_model, tokenizer) -> None:
    origin = Origin(command="bertworks finetune", settings={"lr": 0.1}, seed=3)
    extra = {"dev": {"accuracy": 0.5}}
    save_model(tmp_path / "m", make_model("classify"), tokenizer, origin=origin, extra=extra)
    ours = json.loads((tmp_path / "m" / "bertworks.json").read_text())
    assert ours == {"tasks": {"classify": ["cold", "mild", "warm"]}, "dev": {"accuracy": 0.5}}
    manifest = json.loads((tmp_path / "m" / "manifest.json").read_text())
    assert (manifest["command"], manifest["settings"]) == ("bertworks finetune", {"lr": 0.1})
