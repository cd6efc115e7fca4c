"""Layers that eight bits would ruin are found by trying, and stay as they are."""

import pytest
import torch

from bertworks.interop.onnx_network import linear_layers
from bertworks.serving import quantizing
from bertworks.serving.quantizing import calibration_batches, choose_int8

TEXTS = ["The cat sat on the mat.", "北京", "", "a " * 90, "the dog ran"]


@pytest.fixture
def batches(tokenizer):
    """Lay texts end to end."""
    return calibration_batches(TEXTS, tokenizer, longest=67)


def test_every_text_is_read_and_none_is_too_long(batches) -> None:
    lengths = sorted(length for batch in batches for length in batch.layout.lengths)
    assert len(lengths) == len(TEXTS)
    assert lengths[0] == 2
    assert lengths[-1] == 67


def test_a_layer_that_suffers_stays(make_model, batches, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantizing, "MOST_TOGETHER", 1.0)
    encoder = make_model().encoder.eval()
    layer = encoder.blocks[1].feed_forward.contract
    with torch.no_grad():
        # One number so loud that the steps of all others in its row are coarse.
        encoder.blocks[1].feed_forward.expand.bias[3] = 500.0
        layer.weight[:, 3] *= 0.002
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    choice = choose_int8(encoder, batches)
    assert choice.kept == ["blocks.1.feed_forward.contract"]
    assert set(choice.damage) == set(linear_layers(encoder.config))
    assert max(choice.damage, key=choice.damage.__getitem__) == choice.kept[0]
    for name, tensor in encoder.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert choose_int8(encoder, batches) == choice


def test_the_worst_stay_until_all_together_do_little_damage(
    make_model, batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = make_model().encoder.eval()
    monkeypatch.setattr(quantizing, "MOST_ALONE", 1.0)
    monkeypatch.setattr(quantizing, "MOST_TOGETHER", 1.0)
    everything = choose_int8(encoder, batches)
    assert everything.kept == []
    monkeypatch.setattr(quantizing, "MOST_TOGETHER", everything.together / 2)
    choice = choose_int8(encoder, batches)
    assert 0 < len(choice.kept) < len(choice.damage)
    assert choice.together <= everything.together / 2
    worst_chosen = max(choice.damage[name] for name in choice.chosen)
    assert worst_chosen <= min(choice.damage[name] for name in choice.kept)
    monkeypatch.setattr(quantizing, "MOST_TOGETHER", 0.0)
    assert choose_int8(encoder, batches).chosen == frozenset()
