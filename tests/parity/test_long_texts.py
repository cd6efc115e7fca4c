"""Texts of thousands of tokens: local and full attention in turn, as in transformers."""

import numpy as np
import pytest
import torch

from bertworks.data.packing import Features, flatten

ALLOWED = 1e-4


@pytest.mark.parametrize("lengths", [(1500, 129, 700, 65), (8192, 300)], ids=["1500", "8192"])
def test_a_modernbert_agrees_on_long_texts(
    lengths: tuple[int, ...], make_theirs, open_ours, largest_gap
) -> None:
    theirs = make_theirs(
        "modernbert",
        "Model",
        seed=1,
        hidden_size=24,
        num_attention_heads=2,
        num_hidden_layers=3,
        max_position_embeddings=8192,
        local_attention=128,
    )
    ours = open_ours(theirs).model
    assert [ours.config.is_local(layer) for layer in range(3)] == [False, True, True]
    assert ours.config.local.window == 64
    random = np.random.default_rng(2)
    texts = [random.integers(5, 97, size=length) for length in lengths]
    batch = flatten([Features(text, np.zeros_like(text)) for text in texts])
    with torch.no_grad():
        hidden = ours.encoder(batch)
        told = [theirs(torch.from_numpy(text).unsqueeze(0)).last_hidden_state[0] for text in texts]
    assert largest_gap(hidden, torch.cat(told)) <= ALLOWED
    # The same check sees a token that is one place off.
    assert largest_gap(hidden[1:], torch.cat(told)[:-1]) > 1000 * ALLOWED
