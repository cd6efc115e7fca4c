"""Attention weights: shares that sum to one, the same as the network uses, with their pieces."""

import json

import numpy as np
import pytest
import torch

from bertworks.core.errors import DataError, UsageError
from bertworks.data.packing import Features, flatten
from bertworks.serving.attention_weights import look
from bertworks.serving.text_pieces import read_input

FAMILIES = ["bert", "albert", "mpnet", "modernbert"]
PAIR = ("the cat sat on the mat and looked at the dog", "a dog ran")


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_weights_times_values_are_what_the_network_gathers(
    family: str, draw_model, machine
) -> None:
    model, tokenizer = draw_model(family)
    found = look(model, tokenizer, machine, PAIR)
    length = len(found.pieces)
    assert found.weights.shape == (4, 3, length, length)
    np.testing.assert_allclose(found.weights.sum(-1), 1, atol=1e-5)
    tokens, segments, _ = read_input(PAIR, tokenizer, longest=67)
    seen = []
    for block in model.encoder.blocks:
        block.mixer.register_forward_hook(lambda mixer, given, out: seen.append((mixer, given[0])))
        block.mixer.output.register_forward_hook(lambda layer, given, out: seen.append(given[0]))
    model.encoder(flatten([Features(tokens, segments)]))
    gathered, readers = seen[0::2], seen[1::2]
    for weights, (mixer, hidden), expected in zip(found.weights, readers, gathered, strict=True):
        values = mixer.qkv(hidden).unflatten(-1, (3, 3, -1))[:, 2].transpose(0, 1)
        own = (torch.tensor(weights) @ values).transpose(0, 1).flatten(1)
        torch.testing.assert_close(own, expected, atol=1e-5, rtol=1e-4)


def test_weights_are_json_with_their_pieces(draw_model, machine) -> None:
    model, tokenizer = draw_model("bert")
    told = json.loads(json.dumps(look(model, tokenizer, machine, ("", None)).as_json()))
    assert [piece["piece"] for piece in told["pieces"]] == ["[CLS]", "[SEP]"]
    assert np.shape(told["weights"]) == (4, 3, 2, 2)


def test_what_has_no_weights_or_is_too_long_is_refused(draw_model, machine) -> None:
    model, tokenizer = draw_model("bert")
    with pytest.raises(DataError, match="only inputs of one window can be explained"):
        look(model, tokenizer, machine, ("the cat " * 50, None))
    model, tokenizer = draw_model("bert", mixer="recurrent")
    with pytest.raises(UsageError, match="no attention weights; its mixer is recurrent"):
        look(model, tokenizer, machine, ("the cat", None))


def test_a_model_that_was_left_in_training_looks_without_dropout(draw_model, machine) -> None:
    model, tokenizer = draw_model("bert")
    quiet = look(model.eval(), tokenizer, machine, PAIR).weights
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.5
    np.testing.assert_array_equal(look(model.train(), tokenizer, machine, PAIR).weights, quiet)
