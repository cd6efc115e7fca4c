"""How a family is written down in Hugging Face's files, and the words that most families share.

A name without an ending stands for its weight and its bias; {i} is the number of a block, {g} and
{j} its group and its place in the group. Where several of their tensors are named, ours is all of
them joined along the first axis.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bertworks.model.config import EncoderConfig

Names = Mapping[str, tuple[str, ...]]  # our parameter -> their tensors


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How one family is written down."""

    prefix: str  # of the encoder's tensors, in the files of models with a task head
    keys: Mapping[str, str]  # their config key -> our field
    encoder: Names  # without the prefix
    heads: Mapping[str, Names]  # by kind of task; a row here replaces one of the encoder
    classes: Mapping[tuple[str, ...], str]  # the kinds of a model's tasks -> the class of it
    fixed: Mapping[str, Any] = field(default_factory=dict)  # our fields that no key tells
    defaults: Mapping[str, Any] = field(default_factory=dict)  # of their keys that are not there
    expected: Mapping[str, Any] = field(default_factory=dict)  # their keys with one known value
    with_pooler: frozenset[str] = frozenset()  # the classes that have the pooler's tensors
    decoder: str = ""  # their module of an untied fill-mask head
    poolings: Mapping[str, str] = field(default_factory=dict)  # their classifier_pooling -> ours
    head_dropout: str = "classifier_dropout"  # their key of the dropout before the labels
    skipped_places: Callable[[int], int] = lambda pad_id: 0  # rows before that of the first place
    borrowed: Names = field(default_factory=dict)  # rows that start as copies of others' tensors
    only_pad_id: int | None = None  # the one that their classes know, whatever the config says
    read: Callable[[dict[str, Any]], dict[str, Any]] = lambda theirs: {}
    write: Callable[[EncoderConfig], dict[str, Any]] = lambda config: {}


# The kinds of tasks that are a linear layer on the vector of a text, the usual one first.
OF_TEXTS = ("classify", "match", "aspect", "multilabel", "score")
PROBLEMS = {"multilabel": "multi_label_classification", "score": "regression"}  # else one label
# Fields that most families call by the same names.
COMMON_KEYS = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "intermediate_size": "feed_forward_size",
    "max_position_embeddings": "max_positions",
    "type_vocab_size": "num_segments",
    "hidden_act": "activation",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "layer_norm_eps": "norm_epsilon",
}
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
PLAIN_ENCODER = {"is_decoder": False, "add_cross_attention": False}
ABSOLUTE = {"position_embedding_type": "absolute"}
SUMMARY = {"summary_type": "first", "summary_use_proj": True, "summary_activation": "gelu"}

EMBEDDINGS: Names = {
    "encoder.embeddings.pieces.weight": ("embeddings.word_embeddings.weight",),
    "encoder.embeddings.positions.weight": ("embeddings.position_embeddings.weight",),
    "encoder.embeddings.segments.weight": ("embeddings.token_type_embeddings.weight",),
    "encoder.embeddings.norm": ("embeddings.LayerNorm",),
}
BERT_ENCODER: Names = {
    **EMBEDDINGS,
    "encoder.blocks.{i}.mixer.qkv": (
        "encoder.layer.{i}.attention.self.query",
        "encoder.layer.{i}.attention.self.key",
        "encoder.layer.{i}.attention.self.value",
    ),
    "encoder.blocks.{i}.mixer.output": ("encoder.layer.{i}.attention.output.dense",),
    "encoder.blocks.{i}.mixer_norm": ("encoder.layer.{i}.attention.output.LayerNorm",),
    "encoder.blocks.{i}.feed_forward.expand": ("encoder.layer.{i}.intermediate.dense",),
    "encoder.blocks.{i}.feed_forward.contract": ("encoder.layer.{i}.output.dense",),
    "encoder.blocks.{i}.feed_forward_norm": ("encoder.layer.{i}.output.LayerNorm",),
    "encoder.pooler.dense": ("pooler.dense",),
}

PLAIN_HEADS: Mapping[str, Names] = {  # a linear layer in most families
    "answer": {"heads.answer.output": ("qa_outputs",)},
    "choose": {"heads.choose.output": ("classifier",)},
    "tag": {"heads.tag.output": ("classifier",)},
}


def classes_of(name: str) -> dict[tuple[str, ...], str]:
    """Return the classes that every family has, for a name such as Bert."""
    return {
        (): f"{name}Model",
        ("embed",): f"{name}Model",  # its head has no weights
        ("fill_mask",): f"{name}ForMaskedLM",
        **{(kind,): f"{name}ForSequenceClassification" for kind in OF_TEXTS},
        ("answer",): f"{name}ForQuestionAnswering",
        ("choose",): f"{name}ForMultipleChoice",
        ("tag",): f"{name}ForTokenClassification",
    }


def pooled(name: str, *more: str) -> frozenset[str]:
    """Return the classes that have the pooler's tensors: those for whole texts, and more."""
    kinds = ("ForSequenceClassification", "ForMultipleChoice", *more)
    return frozenset(name + kind for kind in kinds)


def text_heads(rows: Names, *more: str) -> dict[str, Names]:
    """Return the rows of the tasks that read the vector of a text, and of more kinds."""
    return {
        kind: {ours.replace("TASK", kind): theirs for ours, theirs in rows.items()}
        for kind in (*OF_TEXTS, *more)
    }


def writing(prefix: str, pieces: Names) -> Names:
    """Return the rows of a decoder: how it reads, block by block, and the head that names pieces.

    All others it has in common with an encoder.
    """
    block, reading = prefix + "encoder.layer.{i}.crossattention", "heads.generate.readings.{i}"
    return {
        f"{reading}.query": (f"{block}.self.query",),
        f"{reading}.kv": (f"{block}.self.key", f"{block}.self.value"),
        f"{reading}.output": (f"{block}.output.dense",),
        f"{reading}.norm": (f"{block}.output.LayerNorm",),
        **{
            ours.replace("heads.fill_mask.", "heads.generate.output."): theirs
            for ours, theirs in pieces.items()
        },
    }
