"""Every layer and every attention weight are those of transformers, for texts and pairs."""

import numpy as np
import pytest
import torch

from bertworks.core.device import Machine
from bertworks.serving.predictor import Predictor

FAMILIES = ["bert", "roberta", "distilbert", "albert", "electra", "mpnet", "modernbert"]
INPUTS = [("the cat sat on the mat near the hat and a dog ran", None), ("the cat", "a dog on 3")]


@pytest.fixture(params=FAMILIES)
def sides(request, make_theirs, open_ours):
    theirs = make_theirs(request.param, "Model", seed=3)
    return Predictor(open_ours(theirs), Machine(torch.device("cpu"), "fp32")), theirs


@torch.no_grad()
def asked_of(theirs, model: Predictor, pair: tuple[str, str | None], **asked: bool):
    tokens = [piece.piece for piece in model.attention(*pair).pieces]
    ids = [model.tokenizer.engine.token_to_id(token) for token in tokens]
    given = {"input_ids": torch.tensor([ids])}
    if pair[1] is not None and model.model.config.num_segments > 1:
        start = len(model.attention(pair[0]).pieces)
        segments = [int(place >= start) for place in range(len(ids))]
        given["token_type_ids"] = torch.tensor([segments])
    return theirs(**given, **asked)


@pytest.mark.parametrize("pair", INPUTS, ids=["text", "pair"])
def test_attention_weights_agree(sides, pair) -> None:
    model, theirs = sides
    expected = asked_of(theirs, model, pair, output_attentions=True).attentions
    found = model.attention(*pair).weights
    np.testing.assert_allclose(found, torch.cat(expected).numpy(), atol=1e-5)
    assert np.abs(found - found[:, ::-1]).max() > 1e-3  # the check would see heads in another order


def test_the_vectors_of_every_layer_agree(sides) -> None:
    model, theirs = sides
    (text, _) = INPUTS[0]
    expected = asked_of(theirs, model, INPUTS[0], output_hidden_states=True).hidden_states
    for layer, hidden in enumerate(expected):
        (found,) = model.embed_tokens([text], layers=layer)
        np.testing.assert_allclose(found.vectors, hidden[0, 1:-1].numpy(), atol=1e-5)
        (mean,) = model.embed([text], layers=layer, normalize=False)
        np.testing.assert_allclose(mean, hidden[0].mean(0).numpy(), atol=1e-5)
    (mixed,) = model.embed([text], layers=(-1, -2), mix="concat", normalize=False)
    both = torch.cat([expected[-1], expected[-2]], dim=-1)[0].mean(0)
    np.testing.assert_allclose(mixed, both.numpy(), atol=1e-5)
