"""Longer texts through BERT: the same numbers as in transformers, by either of its kernels."""

import pytest
from transformers import BertForPreTraining

ALLOWED = 1e-5


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
def test_random_networks_agree_on_texts_and_pairs(
    kernel: str, seed: int, draw_config, roughen, draw_texts, open_ours, gaps
) -> None:
    theirs = roughen(BertForPreTraining(draw_config(seed, attn_implementation=kernel)), seed=seed)
    assert theirs.config._attn_implementation == kernel
    lengths = (1, 17, 512, 2, 2, 3, 129, 1, 40 + seed)
    found = gaps(open_ours(theirs).model, theirs, draw_texts(lengths, seed=seed))
    assert set(found) == {"hidden", "pooled", "fill_mask", "next_sentence"}
    assert max(found.values()) <= ALLOWED, found


def test_every_length_from_1_to_512_agrees(
    draw_config, roughen, draw_texts, open_ours, gaps
) -> None:
    config = draw_config(1, hidden_size=21, num_attention_heads=3, num_hidden_layers=2)
    theirs = roughen(BertForPreTraining(config), seed=2)
    ours = open_ours(theirs).model
    worst = 0.0
    for first in range(1, 513, 32):
        texts = draw_texts(range(first, first + 32), seed=first)
        worst = max(worst, *gaps(ours, theirs, texts, alone=False).values())
    assert worst <= ALLOWED
