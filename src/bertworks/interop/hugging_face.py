"""Hugging Face folders: their config keys and tensor names as tables, read in both directions."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertworks.core.errors import ArtifactError, UsageError
from bertworks.model.config import EncoderConfig
from bertworks.model.weights import read_tensors, write_tensors

# Their config key -> our field.
CONFIG_KEYS = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "intermediate_size": "feed_forward_size",
    "max_position_embeddings": "max_positions",
    "type_vocab_size": "num_segments",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "layer_norm_eps": "norm_epsilon",
    "initializer_range": "init_deviation",
    "pad_token_id": "pad_id",
}
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}

# Our parameter -> their tensors, which are joined along the first axis where there are several.
# {i} stands for the number of a layer.
TENSORS: dict[str, tuple[str, ...]] = {
    "encoder.embeddings.pieces.weight": ("bert.embeddings.word_embeddings.weight",),
    "encoder.embeddings.positions.weight": ("bert.embeddings.position_embeddings.weight",),
    "encoder.embeddings.segments.weight": ("bert.embeddings.token_type_embeddings.weight",),
    "encoder.embeddings.norm": ("bert.embeddings.LayerNorm",),
    "encoder.blocks.{i}.attention.qkv": (
        "bert.encoder.layer.{i}.attention.self.query",
        "bert.encoder.layer.{i}.attention.self.key",
        "bert.encoder.layer.{i}.attention.self.value",
    ),
    "encoder.blocks.{i}.attention.output": ("bert.encoder.layer.{i}.attention.output.dense",),
    "encoder.blocks.{i}.attention_norm": ("bert.encoder.layer.{i}.attention.output.LayerNorm",),
    "encoder.blocks.{i}.feed_forward.expand": ("bert.encoder.layer.{i}.intermediate.dense",),
    "encoder.blocks.{i}.feed_forward.contract": ("bert.encoder.layer.{i}.output.dense",),
    "encoder.blocks.{i}.feed_forward_norm": ("bert.encoder.layer.{i}.output.LayerNorm",),
    "encoder.pooler": ("bert.pooler.dense",),
    "heads.fill_mask.transform": ("cls.predictions.transform.dense",),
    "heads.fill_mask.norm": ("cls.predictions.transform.LayerNorm",),
    "heads.fill_mask.bias": ("cls.predictions.bias",),
    "heads.next_sentence.output": ("cls.seq_relationship",),
    "heads.classify.output": ("classifier",),
    "heads.match.output": ("classifier",),
}

# Copies that other libraries keep of tied tensors, and buffers that are no weights.
NOT_WEIGHTS = {
    "bert.embeddings.position_ids",
    "cls.predictions.decoder.weight",
    "cls.predictions.decoder.bias",
}

# The tasks of a model -> the class that opens it.
ARCHITECTURES = {
    (): "BertModel",
    ("fill_mask",): "BertForMaskedLM",
    ("next_sentence",): "BertForNextSentencePrediction",
    ("fill_mask", "next_sentence"): "BertForPreTraining",
    ("classify",): "BertForSequenceClassification",
    ("match",): "BertForSequenceClassification",
}
# Classes without a pooler refuse its weights.
WITHOUT_POOLER = {"BertForMaskedLM"}


@dataclass(frozen=True)
class Folder:
    """What a Hugging Face folder says about its model."""

    path: Path
    config: EncoderConfig
    tasks: dict[str, tuple[str, ...]]  # name -> labels

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights under our names."""
        theirs = read_tensors(self.path / "model.safetensors")
        return from_hugging_face(theirs, tasks=tuple(self.tasks))


def open_folder(path: Path) -> Folder:
    """Read the description of a model folder, ours or Hugging Face's."""
    if not path.is_dir():
        raise ArtifactError(f"there is no model folder {path}; check the path")
    file = path / "config.json"
    if not file.is_file():
        raise ArtifactError(f"{path} has no config.json; it is no model folder")
    theirs = _read_object(file)
    if theirs.get("model_type") != "bert":
        raise ArtifactError(
            f"{file} describes a {theirs.get('model_type')!r} model; only 'bert' is known here"
        )
    try:
        return Folder(path, config_from_hugging_face(theirs), _tasks(theirs, path))
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise ArtifactError(
            f"{path} has a config.json or bertworks.json of no known form: {error}"
        ) from error


def write_folder(
    path: Path,
    config: EncoderConfig,
    tensors: dict[str, Tensor],
    *,
    tasks: dict[str, tuple[str, ...]],
    extra: dict[str, Any] | None = None,
) -> None:
    """Write `config.json`, `model.safetensors` and `bertworks.json` into a folder."""
    architecture = ARCHITECTURES.get(tuple(tasks), "BertModel")
    theirs = config_to_hugging_face(config)
    theirs["architectures"] = [architecture]
    labels = [label for name in tasks if name in {"classify", "match"} for label in tasks[name]]
    if labels:
        theirs["id2label"] = {str(index): label for index, label in enumerate(labels)}
        theirs["label2id"] = {label: index for index, label in enumerate(labels)}
    (path / "config.json").write_text(_dump(theirs), encoding="utf-8")
    ours = {"tasks": {name: list(labels) for name, labels in tasks.items()}, **(extra or {})}
    (path / "bertworks.json").write_text(_dump(ours), encoding="utf-8")
    kept = {
        name: tensor
        for name, tensor in tensors.items()
        if architecture not in WITHOUT_POOLER or not name.startswith("encoder.pooler")
    }
    theirs_named = to_hugging_face(kept, tasks=tuple(tasks))
    write_tensors(path / "model.safetensors", theirs_named)


def config_from_hugging_face(theirs: dict[str, Any]) -> EncoderConfig:
    """Return our description of their network."""
    activation = theirs.get("hidden_act", "gelu")
    if activation not in ACTIVATIONS:
        raise ArtifactError(
            f"hidden_act {activation!r} is not known; known are {', '.join(ACTIVATIONS)}"
        )
    kind = theirs.get("position_embedding_type") or "absolute"
    if kind != "absolute" or theirs.get("is_decoder"):
        raise ArtifactError(f"a BERT with {kind} positions or as decoder is not an encoder we know")
    fields = {ours: theirs[key] for key, ours in CONFIG_KEYS.items() if theirs.get(key) is not None}
    try:
        return EncoderConfig(**fields, activation=ACTIVATIONS[activation])  # type: ignore[arg-type]
    except (TypeError, UsageError) as error:
        raise ArtifactError(
            f"the config describes no network that can be built: {error}"
        ) from error


def config_to_hugging_face(config: EncoderConfig) -> dict[str, Any]:
    """Return their description of our network."""
    activation = next(key for key, ours in ACTIVATIONS.items() if ours == config.activation)
    values = {key: getattr(config, ours) for key, ours in CONFIG_KEYS.items()}
    return {"model_type": "bert", **values, "hidden_act": activation, "torch_dtype": "float32"}


def from_hugging_face(theirs: dict[str, Tensor], *, tasks: tuple[str, ...]) -> dict[str, Tensor]:
    """Rename (and join) their tensors into our parameters; unknown names stay as they are."""
    given = {_full_name(name): tensor for name, tensor in theirs.items()}
    _refuse_untied(given)
    given = {name: tensor for name, tensor in given.items() if name not in NOT_WEIGHTS}
    ours: dict[str, Tensor] = {}
    for name, parts in _pairs(_num_layers(given), tasks):
        if all(part in given for part in parts):
            joined = [given.pop(part).float() for part in parts]
            ours[name] = joined[0] if len(joined) == 1 else torch.cat(joined)
    return ours | given


def to_hugging_face(ours: dict[str, Tensor], *, tasks: tuple[str, ...]) -> dict[str, Tensor]:
    """Rename (and split) our parameters into their tensors."""
    known = dict(_pairs(_num_layers(ours), tasks))
    nameless = [name for name in ours if name not in known]
    if nameless:
        raise ArtifactError(f"the table of tensors has no row for {nameless[0]}; add one")
    return {
        part: piece
        for name, tensor in ours.items()
        for part, piece in zip(known[name], tensor.chunk(len(known[name])), strict=True)
    }


def _pairs(num_layers: int, tasks: tuple[str, ...]) -> list[tuple[str, tuple[str, ...]]]:
    """Return the table for these tasks, with layers counted out and weights and biases named."""
    found = []
    for ours, theirs in TENSORS.items():
        if ours.startswith("heads.") and ours.split(".")[1] not in tasks:
            continue
        for i in range(num_layers) if "{i}" in ours else [0]:
            whole = ours.endswith((".weight", ".bias"))
            for ending in [""] if whole else [".weight", ".bias"]:
                parts = tuple(part.format(i=i) + ending for part in theirs)
                found.append((ours.format(i=i) + ending, parts))
    return found


def _refuse_untied(given: dict[str, Tensor]) -> None:
    decoder = given.get("cls.predictions.decoder.weight")
    pieces = given.get("bert.embeddings.word_embeddings.weight")
    if decoder is not None and pieces is not None and not torch.equal(decoder, pieces):
        raise ArtifactError(
            "cls.predictions.decoder.weight differs from the piece embeddings; "
            "a fill-mask head that is not tied to them is not known here"
        )


def _num_layers(names: dict[str, Tensor]) -> int:
    numbers = [int(n) for name in names for n in re.findall(r"(?:layer|blocks)\.(\d+)\.", name)]
    return max(numbers, default=-1) + 1


def _full_name(name: str) -> str:
    """Undo the ways in which the same tensor has been called over the years."""
    name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace(
        "LayerNorm.beta", "LayerNorm.bias"
    )
    is_bare = name.startswith(("embeddings.", "encoder.layer.", "pooler."))
    return f"bert.{name}" if is_bare else name


def _tasks(theirs: dict[str, Any], path: Path) -> dict[str, tuple[str, ...]]:
    """Return the tasks by `bertworks.json`, or else by the class that saved the folder."""
    ours = path / "bertworks.json"
    if ours.is_file():
        tasks = _read_object(ours).get("tasks")
        if not isinstance(tasks, dict):
            raise ArtifactError(f"{ours} names no tasks; make the folder again")
        return {name: tuple(labels) for name, labels in tasks.items()}
    architecture = (theirs.get("architectures") or ["BertModel"])[0]
    names = next((names for names, known in ARCHITECTURES.items() if known == architecture), ())
    labels = theirs.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
    by_number = tuple(labels[key] for key in sorted(labels, key=int))
    kind = theirs.get("problem_type") or "single_label_classification"
    if names == ("classify",) and (len(by_number) < 2 or kind != "single_label_classification"):
        return {}  # a score, or several labels at once: tasks that are not known here
    return {name: by_number if name == "classify" else () for name in names}


def _read_object(file: Path) -> dict[str, Any]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ArtifactError(
            f"{file} is not JSON ({error}); make or fetch the folder again"
        ) from error
    if not isinstance(data, dict):
        raise ArtifactError(f"{file} is not a JSON object; make or fetch the folder again")
    return data


def _dump(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False)
