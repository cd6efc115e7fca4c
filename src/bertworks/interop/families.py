"""The families in Hugging Face's words: tables that are read in both directions."""

from collections.abc import Mapping
from typing import Any

from bertworks.interop.dialect import (
    ABSOLUTE,
    BERT_ENCODER,
    COMMON_KEYS,
    EMBEDDINGS,
    PLAIN_ENCODER,
    PLAIN_HEADS,
    SUMMARY,
    Dialect,
    Names,
    classes_of,
    pooled,
    text_heads,
    writing,
)
from bertworks.model.config import Bucketed, EncoderConfig, Local, Rotary, Sharing

BERT_PIECES: Names = {
    "heads.fill_mask.transform": ("cls.predictions.transform.dense",),
    "heads.fill_mask.norm": ("cls.predictions.transform.LayerNorm",),
    "heads.fill_mask.bias": ("cls.predictions.bias",),
}
BERT = Dialect(
    prefix="bert.",
    keys=COMMON_KEYS,
    encoder=BERT_ENCODER,
    heads={
        "fill_mask": BERT_PIECES,
        "generate": writing("bert.", BERT_PIECES),
        "next_sentence": {"heads.next_sentence.output": ("cls.seq_relationship",)},
        **PLAIN_HEADS,
        **text_heads({"heads.TASK.output": ("classifier",)}),
    },
    classes={
        **classes_of("Bert"),
        ("next_sentence",): "BertForNextSentencePrediction",
        ("fill_mask", "next_sentence"): "BertForPreTraining",
    },
    with_pooler=pooled("Bert", "Model", "ForNextSentencePrediction", "ForPreTraining"),
    decoder="cls.predictions.decoder",
    expected={**PLAIN_ENCODER, **ABSOLUTE},
)

# These families have the pooler inside the classifier.
DEEP_CLASSIFIER = text_heads(
    {"encoder.pooler.dense": ("classifier.dense",), "heads.TASK.output": ("classifier.out_proj",)}
)
ROBERTA_HEADS: Mapping[str, Names] = {
    "fill_mask": {
        "heads.fill_mask.transform": ("lm_head.dense",),
        "heads.fill_mask.norm": ("lm_head.layer_norm",),
        "heads.fill_mask.bias": ("lm_head.bias",),
    },
    **DEEP_CLASSIFIER,
    **PLAIN_HEADS,
}
ROBERTA = Dialect(
    prefix="roberta.",
    keys=COMMON_KEYS,
    defaults={"vocab_size": 50265, "max_position_embeddings": 512, "pad_token_id": 1},
    encoder=BERT_ENCODER,
    heads={**ROBERTA_HEADS, "generate": writing("roberta.", ROBERTA_HEADS["fill_mask"])},
    classes=classes_of("Roberta"),
    with_pooler=pooled("Roberta", "Model"),
    decoder="lm_head.decoder",
    skipped_places=lambda pad_id: pad_id + 1,
    expected={**PLAIN_ENCODER, **ABSOLUTE},
)

DISTILBERT = Dialect(
    prefix="distilbert.",
    keys={
        "vocab_size": "vocab_size",
        "dim": "hidden_size",
        "n_layers": "num_layers",
        "n_heads": "num_heads",
        "hidden_dim": "feed_forward_size",
        "max_position_embeddings": "max_positions",
        "activation": "activation",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
    },
    defaults={"n_layers": 6},
    fixed={"num_segments": 0, "norm_epsilon": 1e-12},
    encoder={
        **EMBEDDINGS,
        "encoder.blocks.{i}.mixer.qkv": (
            "transformer.layer.{i}.attention.q_lin",
            "transformer.layer.{i}.attention.k_lin",
            "transformer.layer.{i}.attention.v_lin",
        ),
        "encoder.blocks.{i}.mixer.output": ("transformer.layer.{i}.attention.out_lin",),
        "encoder.blocks.{i}.mixer_norm": ("transformer.layer.{i}.sa_layer_norm",),
        "encoder.blocks.{i}.feed_forward.expand": ("transformer.layer.{i}.ffn.lin1",),
        "encoder.blocks.{i}.feed_forward.contract": ("transformer.layer.{i}.ffn.lin2",),
        "encoder.blocks.{i}.feed_forward_norm": ("transformer.layer.{i}.output_layer_norm",),
    },
    heads={
        "fill_mask": {
            "heads.fill_mask.transform": ("vocab_transform",),
            "heads.fill_mask.norm": ("vocab_layer_norm",),
            "heads.fill_mask.bias": ("vocab_projector.bias",),
        },
        **PLAIN_HEADS,
        **text_heads(
            {"encoder.pooler.dense": ("pre_classifier",), "heads.TASK.output": ("classifier",)},
            "choose",
        ),
    },
    classes=classes_of("DistilBert"),
    with_pooler=pooled("DistilBert"),
    decoder="vocab_projector",
    head_dropout="seq_classif_dropout",
)


def _read_sharing(theirs: dict[str, Any]) -> dict[str, Any]:
    sharing = Sharing(
        num_groups=theirs.get("num_hidden_groups", 1), group_size=theirs.get("inner_group_num", 1)
    )
    return {"sharing": sharing}


def _write_sharing(config: EncoderConfig) -> dict[str, Any]:
    sharing = config.sharing or Sharing()
    return {"num_hidden_groups": sharing.num_groups, "inner_group_num": sharing.group_size}


ALBERT_BLOCK = "encoder.albert_layer_groups.{g}.albert_layers.{j}"
ALBERT = Dialect(
    prefix="albert.",
    keys={**COMMON_KEYS, "embedding_size": "embedding_size"},
    defaults={
        "vocab_size": 30000,
        "embedding_size": 128,
        "hidden_size": 4096,
        "num_attention_heads": 64,
        "intermediate_size": 16384,
        "hidden_act": "gelu_new",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    },
    encoder={
        **EMBEDDINGS,
        "encoder.embeddings.widen": ("encoder.embedding_hidden_mapping_in",),
        "encoder.blocks.{i}.mixer.qkv": (
            f"{ALBERT_BLOCK}.attention.query",
            f"{ALBERT_BLOCK}.attention.key",
            f"{ALBERT_BLOCK}.attention.value",
        ),
        "encoder.blocks.{i}.mixer.output": (f"{ALBERT_BLOCK}.attention.dense",),
        "encoder.blocks.{i}.mixer_norm": (f"{ALBERT_BLOCK}.attention.LayerNorm",),
        "encoder.blocks.{i}.feed_forward.expand": (f"{ALBERT_BLOCK}.ffn",),
        "encoder.blocks.{i}.feed_forward.contract": (f"{ALBERT_BLOCK}.ffn_output",),
        "encoder.blocks.{i}.feed_forward_norm": (f"{ALBERT_BLOCK}.full_layer_layer_norm",),
        "encoder.pooler.dense": ("pooler",),
    },
    heads={
        "fill_mask": {
            "heads.fill_mask.transform": ("predictions.dense",),
            "heads.fill_mask.norm": ("predictions.LayerNorm",),
            "heads.fill_mask.bias": ("predictions.bias",),
        },
        "sentence_order": {"heads.sentence_order.output": ("sop_classifier.classifier",)},
        **PLAIN_HEADS,
        **text_heads({"heads.TASK.output": ("classifier",)}),
    },
    classes={**classes_of("Albert"), ("fill_mask", "sentence_order"): "AlbertForPreTraining"},
    with_pooler=pooled("Albert", "Model", "ForPreTraining"),
    decoder="predictions.decoder",
    head_dropout="classifier_dropout_prob",
    expected={**PLAIN_ENCODER, **ABSOLUTE},
    read=_read_sharing,
    write=_write_sharing,
)


def _read_narrow(theirs: dict[str, Any]) -> dict[str, Any]:
    """ELECTRA widens its embeddings only where they are not as wide as the blocks."""
    size = theirs["embedding_size"]
    return {"embedding_size": None if size == theirs["hidden_size"] else size}


ELECTRA = Dialect(
    prefix="electra.",
    keys=COMMON_KEYS,
    defaults={
        "embedding_size": 128,
        "hidden_size": 256,
        "num_attention_heads": 4,
        "intermediate_size": 1024,
    },
    encoder={**BERT_ENCODER, "encoder.embeddings.widen": ("embeddings_project",)},
    heads={
        "fill_mask": {
            "heads.fill_mask.transform": ("generator_predictions.dense",),
            "heads.fill_mask.norm": ("generator_predictions.LayerNorm",),
            "heads.fill_mask.bias": ("generator_lm_head.bias",),
        },
        "replaced_token": {
            "heads.replaced_token.transform": ("discriminator_predictions.dense",),
            "heads.replaced_token.output": ("discriminator_predictions.dense_prediction",),
        },
        **DEEP_CLASSIFIER,
        **PLAIN_HEADS,
        "choose": {
            "encoder.pooler.dense": ("sequence_summary.summary",),
            "heads.choose.output": ("classifier",),
        },
    },
    classes={**classes_of("Electra"), ("replaced_token",): "ElectraForPreTraining"},
    with_pooler=pooled("Electra"),
    decoder="generator_lm_head",
    expected={**PLAIN_ENCODER, **ABSOLUTE, **SUMMARY},
    read=_read_narrow,
    write=lambda config: {"embedding_size": config.piece_size},
)

MPNET = Dialect(
    prefix="mpnet.",
    keys={key: ours for key, ours in COMMON_KEYS.items() if key != "type_vocab_size"},
    defaults={"vocab_size": 30527, "max_position_embeddings": 512, "pad_token_id": 1},
    fixed={"num_segments": 0, "positions": Bucketed()},
    encoder={
        **EMBEDDINGS,
        "encoder.distances.weight": ("encoder.relative_attention_bias.weight",),
        "encoder.blocks.{i}.mixer.qkv": (
            "encoder.layer.{i}.attention.attn.q",
            "encoder.layer.{i}.attention.attn.k",
            "encoder.layer.{i}.attention.attn.v",
        ),
        "encoder.blocks.{i}.mixer.output": ("encoder.layer.{i}.attention.attn.o",),
        "encoder.blocks.{i}.mixer_norm": ("encoder.layer.{i}.attention.LayerNorm",),
        "encoder.blocks.{i}.feed_forward.expand": ("encoder.layer.{i}.intermediate.dense",),
        "encoder.blocks.{i}.feed_forward.contract": ("encoder.layer.{i}.output.dense",),
        "encoder.blocks.{i}.feed_forward_norm": ("encoder.layer.{i}.output.LayerNorm",),
        "encoder.pooler.dense": ("pooler.dense",),
    },
    heads=ROBERTA_HEADS,
    classes=classes_of("MPNet"),
    with_pooler=pooled("MPNet", "Model"),
    decoder="lm_head.decoder",
    skipped_places=lambda pad_id: 2,
    only_pad_id=1,
    expected={"relative_attention_num_buckets": Bucketed().num_buckets},
)


def _read_modern(theirs: dict[str, Any]) -> dict[str, Any]:
    """Both ways of writing bases and layers: one key each, or a table for each kind of layer."""
    tables = _rope_tables(theirs)
    base, local_base = (
        (tables.get(kind) or {}).get("rope_theta", theirs.get(key, default))
        for kind, key, default in (
            ("full_attention", "global_rope_theta", 160_000.0),
            ("sliding_attention", "local_rope_theta", 10_000.0),
        )
    )
    num_layers = theirs["num_hidden_layers"]
    every = theirs.get("global_attn_every_n_layers", 3)
    if not isinstance(every, int) or every < 1:
        raise ValueError(f"global_attn_every_n_layers is {every!r}; it must be 1 or more")
    kinds = theirs.get("layer_types") or _layer_types(num_layers, every)
    if kinds != _layer_types(num_layers, every):
        full = [layer for layer, kind in enumerate(kinds) if kind == "full_attention"]
        every = full[1] if len(full) > 1 else num_layers if full else None
    if kinds != _layer_types(num_layers, every):
        raise ValueError(f"layer_types {kinds} follow no rule of every n-th layer")
    window = theirs.get("local_attention", 128) // 2
    local = None if every == 1 else Local(window=window, full_every=every)
    return {"positions": Rotary(base=base, local_base=local_base), "local": local}


def _rope_tables(theirs: dict[str, Any]) -> dict[str, Any]:
    """Return the rotary settings by kind of layer; those that are scaled are not known here."""
    tables = theirs.get("rope_parameters") or {}
    scaled = theirs.get("rope_scaling")
    if theirs.get("sliding_window") not in (None, theirs.get("local_attention", 128) // 2):
        raise ValueError("sliding_window differs from half of local_attention; give one of them")
    for table in tables.values():
        if not isinstance(table, dict | None):
            raise ValueError(f"rope_parameters {tables} name no kinds of layers")
        if (table or {}).get("rope_type", "default") != "default":
            scaled = table
    if scaled:
        raise ValueError(f"rotary positions of the kind {scaled} are not known here")
    if theirs.get("embedding_dropout", 0.0) != theirs.get("mlp_dropout", 0.0):
        raise ValueError("embedding_dropout differs from mlp_dropout; one rate serves both here")
    return tables


def _write_modern(config: EncoderConfig) -> dict[str, Any]:
    positions, local = config.positions, config.local
    assert isinstance(positions, Rotary)  # what is saved as ModernBERT has been read back before
    every = 1 if local is None else local.full_every
    bases = {"full_attention": positions.base, "sliding_attention": positions.local_base}
    return {
        "layer_types": _layer_types(config.num_layers, every),
        "global_attn_every_n_layers": every,
        "local_attention": 128 if local is None else 2 * local.window,
        "embedding_dropout": config.dropout,
        "global_rope_theta": positions.base,
        "local_rope_theta": positions.local_base,
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": base} for kind, base in bases.items()
        },
    }


def _layer_types(num_layers: int, every: int | None) -> list[str]:
    kinds = ("sliding_attention", "full_attention")
    return [kinds[every is not None and layer % every == 0] for layer in range(num_layers)]


MODERNBERT = Dialect(
    prefix="model.",
    keys={
        "vocab_size": "vocab_size",
        "hidden_size": "hidden_size",
        "num_hidden_layers": "num_layers",
        "num_attention_heads": "num_heads",
        "intermediate_size": "feed_forward_size",
        "max_position_embeddings": "max_positions",
        "hidden_activation": "activation",
        "norm_eps": "norm_epsilon",
        "mlp_dropout": "dropout",
        "attention_dropout": "attention_dropout",
    },
    defaults={
        "vocab_size": 50368,
        "num_hidden_layers": 22,
        "intermediate_size": 1152,
        "max_position_embeddings": 8192,
        "norm_eps": 1e-5,
        "mlp_dropout": 0.0,
        "attention_dropout": 0.0,
    },
    fixed={"num_segments": 0, "norm_place": "before", "gated": True, "biases": False},
    encoder={
        "encoder.embeddings.pieces.weight": ("embeddings.tok_embeddings.weight",),
        "encoder.embeddings.norm": ("embeddings.norm",),
        "encoder.blocks.{i}.mixer.qkv": ("layers.{i}.attn.Wqkv",),
        "encoder.blocks.{i}.mixer.output": ("layers.{i}.attn.Wo",),
        "encoder.blocks.{i}.mixer_norm": ("layers.{i}.attn_norm",),
        "encoder.blocks.{i}.feed_forward.expand": ("layers.{i}.mlp.Wi",),
        "encoder.blocks.{i}.feed_forward.contract": ("layers.{i}.mlp.Wo",),
        "encoder.blocks.{i}.feed_forward_norm": ("layers.{i}.mlp_norm",),
        "encoder.norm": ("final_norm",),
    },
    heads={
        "fill_mask": {
            "heads.fill_mask.transform": ("head.dense",),
            "heads.fill_mask.norm": ("head.norm",),
            "heads.fill_mask.bias": ("decoder.bias",),
        },
        **text_heads(
            {
                "encoder.pooler.dense": ("head.dense",),
                "encoder.pooler.norm": ("head.norm",),
                "heads.TASK.output": ("classifier",),
            },
            "answer",
            "choose",
            "tag",
        ),
    },
    borrowed={"encoder.pooler.dense": ("head.dense",), "encoder.pooler.norm": ("head.norm",)},
    classes=classes_of("ModernBert"),
    poolings={"cls": "first", "mean": "mean"},
    with_pooler=pooled("ModernBert", "ForQuestionAnswering", "ForTokenClassification"),
    decoder="decoder",
    expected={
        "attention_bias": False,
        "mlp_bias": False,
        "norm_bias": False,
        "decoder_bias": True,
        "classifier_bias": False,
        "classifier_activation": "gelu",
    },
    read=_read_modern,
    write=_write_modern,
)

DIALECTS = {
    "bert": BERT,
    "roberta": ROBERTA,
    "distilbert": DISTILBERT,
    "albert": ALBERT,
    "electra": ELECTRA,
    "mpnet": MPNET,
    "modernbert": MODERNBERT,
}
# Other names under which the same networks go.
ALIASES = {"xlm-roberta": "roberta", "camembert": "roberta"}
