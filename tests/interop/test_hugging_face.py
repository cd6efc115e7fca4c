"""Hugging Face folders: the tables read in both directions, and folders that cannot be meant."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from bertworks.core.errors import ArtifactError
from bertworks.interop.hugging_face import (
    config_from_hugging_face,
    config_to_hugging_face,
    from_hugging_face,
    open_folder,
    to_hugging_face,
    write_folder,
)
from bertworks.model.config import EncoderConfig
from bertworks.model.weights import read_tensors, write_tensors
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel

CONFIG = EncoderConfig(
    vocab_size=97,
    hidden_size=21,
    num_layers=2,
    num_heads=3,
    feed_forward_size=37,
    max_positions=53,
    init_deviation=0.3,
)
TASKS = ((), ("fill_mask",), ("next_sentence",), ("fill_mask", "next_sentence"), ("classify",))
configs = st.builds(
    lambda heads, head_size, **fields: EncoderConfig(
        num_heads=heads, hidden_size=heads * head_size, **fields
    ),
    st.integers(1, 7),
    st.integers(1, 9),
    vocab_size=st.integers(1, 50000),
    num_layers=st.integers(1, 30),
    feed_forward_size=st.integers(1, 5000),
    max_positions=st.integers(1, 2048),
    num_segments=st.integers(1, 3),
    activation=st.sampled_from(["gelu", "gelu_tanh", "relu"]),
    dropout=st.floats(0, 0.9),
    attention_dropout=st.floats(0, 0.9),
    norm_epsilon=st.sampled_from([1e-12, 1e-5]),
    init_deviation=st.floats(0.001, 1),
    pad_id=st.integers(0, 5),
)


def draw_weights(names: tuple[str, ...], config: EncoderConfig = CONFIG) -> dict[str, Tensor]:
    """Return weights of a model with these tasks, none of them zero or one throughout."""
    model = TaskModel(config, [make_task(name, ("a", "b", "c")) for name in names])
    random = torch.Generator().manual_seed(5)
    return {
        name: torch.randn(parameter.shape, generator=random)
        for name, parameter in model.named_parameters()
    }


def assert_equal_tensors(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    assert [name for name in expected if not torch.equal(found[name], expected[name])] == []


def write_config(folder: Path, **changes: Any) -> Path:
    folder.mkdir(exist_ok=True)
    theirs = {**config_to_hugging_face(CONFIG), **changes}
    (folder / "config.json").write_text(json.dumps(theirs), encoding="utf-8")
    return folder


@given(configs)
def test_a_description_survives_the_way_there_and_back(config: EncoderConfig) -> None:
    theirs = json.loads(json.dumps(config_to_hugging_face(config)))
    assert config_from_hugging_face(theirs) == config


def test_keys_that_are_absent_or_null_mean_the_published_default() -> None:
    theirs = {"model_type": "bert", "hidden_size": 384, "pad_token_id": None}
    assert config_from_hugging_face(theirs) == EncoderConfig(hidden_size=384)


@pytest.mark.parametrize("name", ["gelu_new", "gelu_pytorch_tanh"])
def test_both_names_of_the_tanh_activation_are_one(name: str) -> None:
    assert config_from_hugging_face({"hidden_act": name}).activation == "gelu_tanh"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_act": "swish"}, r"'swish' is not known; known are gelu, "),
        ({"position_embedding_type": "relative_key"}, "relative_key positions"),
        ({"is_decoder": True}, "decoder"),
        ({"hidden_size": 22}, "hidden_size 22 cannot be shared by 3 heads"),
        ({"num_attention_heads": 0}, "num_heads is 0"),
        ({"vocab_size": "many"}, "no network"),
        ({"hidden_dropout_prob": 2.0}, "dropout is 2.0"),
    ],
)
def test_a_network_that_is_not_ours_is_refused_with_the_reason(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArtifactError, match=message):
        open_folder(write_config(tmp_path / "model", **change))


@pytest.mark.parametrize("tasks", TASKS, ids=" ".join)
def test_weights_survive_the_way_there_and_back(tasks: tuple[str, ...]) -> None:
    ours = draw_weights(tasks)
    assert_equal_tensors(from_hugging_face(to_hugging_face(ours, tasks=tasks), tasks=tasks), ours)


def test_layers_beyond_the_tenth_keep_their_number() -> None:
    ours = draw_weights((), replace(CONFIG, num_layers=13))
    theirs = to_hugging_face(ours, tasks=())
    name = "attention.output.dense.weight"
    for i in range(13):
        assert torch.equal(
            theirs[f"bert.encoder.layer.{i}.{name}"],
            ours[f"encoder.blocks.{i}.attention.output.weight"],
        )
    assert_equal_tensors(from_hugging_face(theirs, tasks=()), ours)


def test_every_parameter_of_a_model_has_a_name_there() -> None:
    for tasks in TASKS:
        ours = draw_weights(tasks)
        theirs = to_hugging_face(ours, tasks=tasks)
        assert sum(t.numel() for t in theirs.values()) == sum(t.numel() for t in ours.values())


def test_query_key_and_value_are_joined_in_this_order() -> None:
    ours = draw_weights(())
    theirs = to_hugging_face(ours, tasks=())
    parts = [
        theirs[f"bert.encoder.layer.1.attention.self.{part}.weight"]
        for part in ("query", "key", "value")
    ]
    assert torch.equal(torch.cat(parts), ours["encoder.blocks.1.attention.qkv.weight"])


def test_old_names_of_norms_are_understood() -> None:
    ours = draw_weights(("fill_mask",))
    theirs = to_hugging_face(ours, tasks=("fill_mask",))
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in theirs.items()
    }
    assert "bert.embeddings.LayerNorm.gamma" in old
    assert_equal_tensors(from_hugging_face(old, tasks=("fill_mask",)), ours)


def test_names_without_the_prefix_of_the_encoder_are_understood() -> None:
    ours = draw_weights(())
    bare = {k.removeprefix("bert."): v for k, v in to_hugging_face(ours, tasks=()).items()}
    assert_equal_tensors(from_hugging_face(bare, tasks=()), ours)


def test_tied_copies_and_buffers_are_no_weights() -> None:
    ours = draw_weights(("fill_mask",))
    theirs = to_hugging_face(ours, tasks=("fill_mask",))
    theirs["bert.embeddings.position_ids"] = torch.arange(53)
    theirs["cls.predictions.decoder.weight"] = theirs["bert.embeddings.word_embeddings.weight"]
    theirs["cls.predictions.decoder.bias"] = theirs["cls.predictions.bias"]
    assert_equal_tensors(from_hugging_face(theirs, tasks=("fill_mask",)), ours)


def test_an_output_layer_of_its_own_is_refused() -> None:
    theirs = to_hugging_face(draw_weights(("fill_mask",)), tasks=("fill_mask",))
    theirs["cls.predictions.decoder.weight"] = torch.zeros(97, 21)
    with pytest.raises(ArtifactError, match="differs from the piece embeddings"):
        from_hugging_face(theirs, tasks=("fill_mask",))


def test_unknown_tensors_keep_their_names() -> None:
    theirs = to_hugging_face(draw_weights(()), tasks=())
    theirs["bert.extra.weight"] = torch.ones(3)
    assert "bert.extra.weight" in from_hugging_face(theirs, tasks=())


def test_a_lost_part_of_a_joined_tensor_is_not_made_up() -> None:
    theirs = to_hugging_face(draw_weights(()), tasks=())
    del theirs["bert.encoder.layer.0.attention.self.key.weight"]
    found = from_hugging_face(theirs, tasks=())
    assert "encoder.blocks.0.attention.qkv.weight" not in found
    assert "bert.encoder.layer.0.attention.self.query.weight" in found


def test_half_precision_becomes_single() -> None:
    theirs = {k: v.half() for k, v in to_hugging_face(draw_weights(()), tasks=()).items()}
    found = from_hugging_face(theirs, tasks=())
    assert {tensor.dtype for tensor in found.values()} == {torch.float32}


@pytest.mark.parametrize("tasks", TASKS, ids=" ".join)
def test_a_folder_is_read_as_it_was_written(tmp_path: Path, tasks: tuple[str, ...]) -> None:
    labels = {name: ("a", "b", "c") if name == "classify" else () for name in tasks}
    ours = draw_weights(tasks)
    write_folder(tmp_path, CONFIG, ours, tasks=labels, extra={"dev": {"accuracy": 0.5}})
    folder = open_folder(tmp_path)
    assert (folder.config, folder.tasks) == (CONFIG, labels)
    if tasks == ("fill_mask",):  # saved as a class that has no pooler
        ours = {k: v for k, v in ours.items() if not k.startswith("encoder.pooler")}
    assert_equal_tensors(folder.tensors(), ours)
    assert json.loads((tmp_path / "bertworks.json").read_text())["dev"] == {"accuracy": 0.5}


@pytest.mark.parametrize("task", ["classify", "match"])
def test_labels_stand_where_other_libraries_look_for_them(tmp_path: Path, task: str) -> None:
    labels = ("不", "ja", "<no>")
    write_folder(tmp_path, CONFIG, draw_weights((task,)), tasks={task: labels})
    theirs = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert theirs["architectures"] == ["BertForSequenceClassification"]
    assert theirs["id2label"] == {"0": "不", "1": "ja", "2": "<no>"}
    assert theirs["label2id"] == {"不": 0, "ja": 1, "<no>": 2}
    assert "classifier.weight" in read_tensors(tmp_path / "model.safetensors")


@pytest.mark.parametrize(
    ("architecture", "tasks"),
    [
        ("BertModel", {}),
        ("BertForMaskedLM", {"fill_mask": ()}),
        ("BertForNextSentencePrediction", {"next_sentence": ()}),
        ("BertForPreTraining", {"fill_mask": (), "next_sentence": ()}),
        ("BertForSequenceClassification", {"classify": ("LABEL_0", "LABEL_1")}),
        ("BertForTokenClassification", {}),
    ],
)
def test_the_class_that_saved_a_folder_tells_its_tasks(
    tmp_path: Path, architecture: str, tasks: dict[str, tuple[str, ...]]
) -> None:
    assert open_folder(write_config(tmp_path, architectures=[architecture])).tasks == tasks


def test_labels_are_taken_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = {str(number): f"label {number}" for number in (10, 2, 0, 1, 9, 8, 7, 6, 5, 4, 3)}
    write_config(tmp_path, architectures=["BertForSequenceClassification"], id2label=names)
    assert open_folder(tmp_path).tasks["classify"] == tuple(f"label {n}" for n in range(11))


@pytest.mark.parametrize(
    "change",
    [
        {"id2label": {"0": "LABEL_0"}},
        {"problem_type": "regression"},
        {"problem_type": "multi_label_classification"},
    ],
)
def test_a_head_that_does_not_choose_one_label_is_not_taken_for_one(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    write_config(tmp_path, architectures=["BertForSequenceClassification"], **change)
    assert open_folder(tmp_path).tasks == {}


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"no model folder .*nowhere"):
        open_folder(tmp_path / "nowhere")
    with pytest.raises(ArtifactError, match=r"has no config\.json"):
        open_folder(tmp_path)


@pytest.mark.parametrize("content", [b"{", b"", b"\xff\xfe", b"[1]", b"null", b'"bert"'])
def test_a_torn_config_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ArtifactError, match=r"config\.json is not"):
        open_folder(tmp_path)


@pytest.mark.parametrize("content", [b"{", b"", b"[1]", b"{}", b'{"tasks": 3}'])
def test_a_torn_file_of_ours_is_named(tmp_path: Path, content: bytes) -> None:
    write_config(tmp_path)
    (tmp_path / "bertworks.json").write_bytes(content)
    with pytest.raises(ArtifactError, match=r"bertworks\.json"):
        open_folder(tmp_path)


@pytest.mark.parametrize("kind", ["roberta", None])
def test_another_family_is_refused(tmp_path: Path, kind: str | None) -> None:
    with pytest.raises(ArtifactError, match=rf"describes a {kind!r} model"):
        open_folder(write_config(tmp_path, model_type=kind))


def test_weights_that_are_only_pickled_are_not_opened(tmp_path: Path) -> None:
    write_config(tmp_path)
    write_tensors(tmp_path / "pytorch_model.bin", draw_weights(()))
    with pytest.raises(ArtifactError, match="safetensors only"):
        open_folder(tmp_path).tensors()
