"""Behind the last layer stand the outputs that others ask for by name."""

from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import nn

from bertworks.core.batch import Batch, Target
from bertworks.interop.onnx import OnnxPlan, make_onnx
from bertworks.interop.onnx_outputs import head_of
from bertworks.model.embedding import (
    BENDS,
    DenseLayer,
    EmbeddingRecipe,
    VectorPooling,
    pool_vectors,
)
from bertworks.model.heads import PieceHead, PlaceHead, TextHead

LENGTHS = (9, 17, 2)
FAMILIES = ["bert", "distilbert", "electra", "modernbert"]


def loud(module: nn.Module) -> nn.Module:
    """Draw all of a head's weights."""
    random = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=random))
    return module.eval()


def ask_all(batch: Batch) -> Batch:
    """Ask a target named `x` of every token."""
    places = torch.arange(len(batch.tokens))
    batch.targets["x"] = Target(torch.zeros(len(places)).long(), places)
    return batch


@pytest.mark.parametrize("pooling", get_args(VectorPooling))
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("bend", BENDS)
def test_the_vector_of_a_text_is_made_by_the_recipe(
    pooling: Any, normalize: bool, bend: Any, small, loud_encoder, make_batch, run_onnx
) -> None:
    encoder, batch = loud_encoder(small("bert")), make_batch(LENGTHS)
    random = torch.Generator().manual_seed(2)
    bias = None if bend == "relu" else torch.randn(5, generator=random)
    layer = DenseLayer(torch.randn(5, 24, generator=random), bias, bend)
    recipe = EmbeddingRecipe(pooling=pooling, normalize=normalize, layers=(layer,))
    found = run_onnx(make_onnx(encoder, OnnxPlan(recipe=recipe)), batch)["sentence_embedding"]
    with torch.inference_mode():
        pooled = pool_vectors(encoder(batch), batch.layout, pooling).numpy()
    np.testing.assert_allclose(found, recipe.finish(pooled), atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pooling", [None, "mean"])
def test_a_head_that_labels_texts_gives_a_row_for_each(
    family: str, pooling: Any, small, loud_encoder, make_batch, run_onnx
) -> None:
    encoder, batch = loud_encoder(small(family)), make_batch(LENGTHS)
    module = loud(TextHead(encoder.config, num_labels=3, pooling=pooling))
    head = head_of(module, encoder.config, of_spans=False)
    found = run_onnx(make_onnx(encoder, OnnxPlan(head=head)), batch)["logits"]
    with torch.inference_mode():
        expected = module(encoder(batch), batch, encoder).numpy()
    np.testing.assert_allclose(found, expected, atol=2e-4)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("of_spans", [True, False])
def test_a_head_that_labels_tokens_gives_a_row_for_each(
    family: str, of_spans: bool, small, loud_encoder, make_batch, run_onnx
) -> None:
    encoder, batch = loud_encoder(small(family)), ask_all(make_batch(LENGTHS))
    module = loud(PlaceHead(encoder.config, target="x", num_labels=2))
    head = head_of(module, encoder.config, of_spans=of_spans)
    found = run_onnx(make_onnx(encoder, OnnxPlan(head=head)), batch)
    if of_spans:
        assert "logits" not in found
        found["logits"] = np.stack([found["start_logits"], found["end_logits"]], axis=-1)
    with torch.inference_mode():
        expected = module(encoder(batch), batch, encoder).split(LENGTHS)
    for row, text in zip(found["logits"], expected, strict=True):
        np.testing.assert_allclose(row[: len(text)], text.numpy(), atol=2e-4)


def test_other_heads_have_no_name_elsewhere(small) -> None:
    config = small("bert")
    assert head_of(PieceHead(config, target="x"), config, of_spans=False) is None
