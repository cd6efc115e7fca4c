"""The same weights and texts give the same numbers here and in transformers."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    BertForMaskedLM,
    BertForNextSentencePrediction,
    BertForPreTraining,
    BertForSequenceClassification,
    BertModel,
)

from bertworks.data.packing import Features
from bertworks.serving.model_folder import open_model
from bertworks.tasks.task import TaskModel

CLASSES = [
    BertModel,
    BertForMaskedLM,
    BertForNextSentencePrediction,
    BertForPreTraining,
    BertForSequenceClassification,
]
ALLOWED = 1e-5


@pytest.fixture
def open_ours(tmp_path: Path, pieces):
    """Save their model, and open the folder as ours."""

    def opened(theirs: Any) -> TaskModel:
        folder = tmp_path / "theirs"
        theirs.save_pretrained(folder)
        pieces.save(folder)
        return open_model(folder).model.eval()

    return opened


@pytest.fixture
def gaps(flat, padded, largest_gap):
    """Measure how far apart all outputs of both sides are, by name."""

    @torch.no_grad()
    def measure(ours: TaskModel, theirs: Any, texts: list[Features]) -> dict[str, float]:
        batch, inputs = flat(texts), padded(texts)
        is_real = inputs["attention_mask"].bool()
        hidden = ours.encoder(batch)
        told = theirs(**inputs, output_hidden_states=True, return_dict=True)
        encoder = theirs if isinstance(theirs, BertModel) else theirs.bert
        found = {"hidden": largest_gap(hidden, told.hidden_states[-1][is_real])}
        if encoder.pooler is not None:
            pooled = encoder.pooler(told.hidden_states[-1])
            found["pooled"] = largest_gap(ours.encoder.pool(hidden, batch.layout), pooled)
        for name, head in ours.heads.items():
            expected = _their_logits(told, name)
            rows = expected[is_real] if name == "fill_mask" else expected
            found[name] = largest_gap(head(hidden, batch, ours.encoder), rows)
        return found

    return measure


def _their_logits(told: Any, name: str) -> Tensor:
    if name == "fill_mask":
        return told.prediction_logits if hasattr(told, "prediction_logits") else told.logits
    return told.seq_relationship_logits if hasattr(told, "seq_relationship_logits") else told.logits


@pytest.mark.parametrize("seed", range(12))
def test_random_networks_agree_on_texts_and_pairs(
    seed: int, draw_config, roughen, draw_texts, open_ours, gaps
) -> None:
    kernel = ("eager", "sdpa")[seed // 2 % 2]
    theirs = roughen(BertForPreTraining(draw_config(seed, attn_implementation=kernel)), seed=seed)
    assert theirs.config._attn_implementation == kernel
    lengths = (1, 17, 512, 2, 2, 3, 129, 1, 40 + seed)
    found = gaps(open_ours(theirs), theirs, draw_texts(lengths, seed=seed))
    assert set(found) == {"hidden", "pooled", "fill_mask", "next_sentence"}
    assert max(found.values()) <= ALLOWED, found


@pytest.mark.parametrize("cls", CLASSES)
def test_every_class_agrees(cls, draw_config, roughen, draw_texts, open_ours, gaps) -> None:
    config = draw_config(5, hidden_size=21, num_attention_heads=3, num_labels=5)
    theirs = roughen(cls(config), seed=6)
    found = gaps(open_ours(theirs), theirs, draw_texts((7, 1, 30, 7, 100), seed=7))
    assert max(found.values()) <= ALLOWED, found


def test_every_length_from_1_to_512_agrees(
    draw_config, roughen, draw_texts, open_ours, gaps
) -> None:
    config = draw_config(1, hidden_size=21, num_attention_heads=3, num_hidden_layers=2)
    theirs = roughen(BertForPreTraining(config), seed=2)
    ours = open_ours(theirs)
    worst = 0.0
    for first in range(1, 513, 32):
        texts = draw_texts(range(first, first + 32), seed=first)
        worst = max(worst, *gaps(ours, theirs, texts).values())
    assert worst <= ALLOWED


@pytest.mark.parametrize(
    "name",
    [
        "encoder.embeddings.segments.weight",
        "encoder.blocks.1.attention.qkv.bias",
        "encoder.blocks.0.feed_forward_norm.weight",
        "encoder.pooler.bias",
        "heads.fill_mask.bias",
        "heads.next_sentence.output.weight",
    ],
)
def test_a_weight_that_is_slightly_off_is_noticed(
    name: str, draw_config, roughen, draw_texts, open_ours, gaps
) -> None:
    config = draw_config(1, hidden_size=21, num_attention_heads=3, num_hidden_layers=2)
    theirs = roughen(BertForPreTraining(config), seed=2)
    ours = open_ours(theirs)
    texts = draw_texts((5, 9, 30), seed=3)
    assert max(gaps(ours, theirs, texts).values()) <= ALLOWED
    with torch.no_grad():
        ours.get_parameter(name).view(-1)[0] += 1e-2
    assert max(gaps(ours, theirs, texts).values()) > 10 * ALLOWED
