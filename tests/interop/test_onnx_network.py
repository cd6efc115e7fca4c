"""A graph on rectangles gives each token the vector that the network in torch gives it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from bertworks.core.errors import UsageError
from bertworks.interop.onnx import OnnxPlan, make_onnx
from bertworks.interop.onnx_network import input_names, linear_layers
from bertworks.model.config import Local, Rotary, Sharing
from bertworks.model.encoder import Encoder

VARIATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("bert", {}),
    "roberta": ("roberta", {}),
    "distilbert": ("distilbert", {}),
    "albert": ("albert", {}),
    "electra": ("electra", {}),
    "mpnet": ("mpnet", {}),
    "modernbert": ("modernbert", {"local": Local(window=3, full_every=2)}),
    "modern": ("modern", {}),
    "mean": ("mean", {}),
    "three segments": ("bert", {"num_segments": 3}),
    "no biases": ("bert", {"biases": False}),
    "norm before": ("bert", {"norm_place": "before"}),
    "norm before, narrow": ("bert", {"norm_place": "before", "embedding_size": 10}),
    "norm before, shared": ("modern", {"sharing": Sharing(num_groups=2)}),
    "gated with biases": ("bert", {"gated": True, "activation": "silu"}),
    "relu": ("bert", {"activation": "relu"}),
    "local only": ("bert", {"local": Local(window=2)}),
    "no places": ("bert", {"positions": None}),
    "turned, one segment": ("bert", {"positions": Rotary(), "num_segments": 1}),
    "local base": (
        "modern",
        {"positions": Rotary(base=500.0, local_base=9.0), "local": Local(window=4, full_every=3)},
    ),
}
LENGTHS = (19, 5, 1, 12)


@pytest.mark.parametrize("operators", ["fused", "plain"])
@pytest.mark.parametrize("name", VARIATIONS)
def test_every_family_and_variation_gives_the_same_vectors(
    name: str, operators: str, loud_encoder, make_batch, run_onnx, small
) -> None:
    style, changes = VARIATIONS[name]
    encoder = loud_encoder(small(style, **changes))
    batch = make_batch(LENGTHS)
    found = run_onnx(make_onnx(encoder, OnnxPlan(operators=operators)), batch)
    with torch.inference_mode():
        expected = encoder(batch).split(LENGTHS)
    for row, text in zip(found["last_hidden_state"], expected, strict=True):
        np.testing.assert_allclose(row[: len(text)], text.numpy(), atol=3e-5)


@pytest.mark.parametrize(
    "operator",
    [
        "Attention",
        "MultiHeadAttention",
        "SkipLayerNormalization",
        "EmbedLayerNormalization",
        "BiasGelu",
    ],
)
@pytest.mark.parametrize("name", VARIATIONS)
def test_operators_that_are_not_used_give_the_same_vectors_too(
    name: str, operator: str, loud_encoder, make_batch, run_onnx, small
) -> None:
    style, changes = VARIATIONS[name]
    encoder, batch = loud_encoder(small(style, **changes)), make_batch(LENGTHS)
    found = run_onnx(make_onnx(encoder, OnnxPlan(faster={operator})), batch)["last_hidden_state"]
    with torch.inference_mode():
        expected = encoder(batch)[: LENGTHS[0]].numpy()
    np.testing.assert_allclose(found[0], expected, atol=3e-5)


@pytest.mark.parametrize("operators", ["fused", "plain"])
@pytest.mark.parametrize("style", ["bert", "albert", "modernbert"])
def test_whole_numbers_stay_near(
    style: str, operators: str, loud_encoder, make_batch, run_onnx, small
) -> None:
    encoder = loud_encoder(small(style), deviation=0.1)
    batch = make_batch(LENGTHS)
    plan = OnnxPlan(operators=operators, int8=frozenset(linear_layers(encoder.config)))
    found = run_onnx(make_onnx(encoder, plan), batch)["last_hidden_state"][0]
    with torch.inference_mode():
        expected = encoder(batch)[: LENGTHS[0]].numpy()
    assert np.abs(found - expected).max() > 1e-5
    cosine = (found * expected).sum() / np.linalg.norm(found) / np.linalg.norm(expected)
    assert cosine > 0.99


def test_the_inputs_are_those_that_others_give(small: Callable[..., Any]) -> None:
    names = ["input_ids", "attention_mask", "token_type_ids"]
    assert input_names(small("bert")) == names
    assert input_names(small("roberta")) == names[:2]
    assert input_names(small("distilbert")) == names[:2]


def test_the_weights_of_shared_layers_are_written_once(small, loud_encoder) -> None:
    model = make_onnx(loud_encoder(small("albert", num_layers=8)), OnnxPlan())
    names = [tensor.name for tensor in model.graph.initializer]
    assert len(names) == len(set(names))
    assert sum(name.endswith("qkv.matrix") for name in names) == small("albert").num_blocks


@pytest.mark.parametrize("mixer", ["recurrent", "convolution"])
def test_older_mixers_are_refused_in_one_sentence(mixer: str, small) -> None:
    with pytest.raises(UsageError, match=f"meet by {mixer} layers cannot be exported to ONNX"):
        make_onnx(Encoder(small(mixer)), OnnxPlan())
