"""Recurrence and convolution on flat batches: the library's own, text by text."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from bertworks.core.batch import Layout
from bertworks.model.attention import Sight
from bertworks.model.config import EncoderConfig
from bertworks.model.encoder import initialize
from bertworks.model.mixers import DILATIONS, Convolution, Recurrence

CONFIG = EncoderConfig(hidden_size=14, num_heads=1, mixer="recurrent")
lengths = st.lists(st.integers(1, 23), min_size=1, max_size=7).map(tuple)
seeds = st.integers(0, 2**31)


def draw_hidden(lengths: tuple[int, ...], seed: int) -> Tensor:
    return torch.randn(sum(lengths), 14, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def recurrence() -> Recurrence:
    mixer = Recurrence(CONFIG, 0)
    initialize(mixer, seed=1, deviation=0.3)
    with torch.no_grad():
        mixer.lstm.bias_hh_l0.normal_(generator=torch.Generator().manual_seed(2))
    return mixer


def draw_convolution(layer: int) -> Convolution:
    mixer = Convolution(CONFIG, layer)
    initialize(mixer, seed=3, deviation=0.3)
    with torch.no_grad():
        mixer.look.bias.normal_(generator=torch.Generator().manual_seed(4))
    return mixer


def convolve(mixer: Convolution, text: Tensor) -> Tensor:
    """Convolve one text with the library's own convolution."""
    kernel = torch.stack(mixer.look.weight.chunk(3, dim=1), dim=-1)  # [out, in, 3]
    distance = mixer.distance
    seen = functional.conv1d(
        text.T.unsqueeze(0), kernel, mixer.look.bias, padding=distance, dilation=distance
    )
    return functional.glu(seen, dim=1).squeeze(0).T


@given(lengths, seeds)
def test_recurrence_is_an_lstm_run_text_by_text(
    recurrence, lengths: tuple[int, ...], seed: int
) -> None:
    hidden = draw_hidden(lengths, seed)
    found = recurrence(hidden, Sight(Layout.of(lengths)))
    expected = torch.cat([recurrence.lstm(text)[0] for text in hidden.split(lengths)])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@given(lengths, seeds, st.integers(0, 2 * len(DILATIONS)))
def test_convolution_is_the_librarys_run_text_by_text(
    lengths: tuple[int, ...], seed: int, layer: int
) -> None:
    mixer, hidden = draw_convolution(layer), draw_hidden(lengths, seed)
    found = mixer(hidden, Sight(Layout.of(lengths)))
    expected = torch.cat([convolve(mixer, text) for text in hidden.split(lengths)])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_convolutions_look_farther_from_layer_to_layer_and_then_begin_again() -> None:
    found = [Convolution(CONFIG, layer).distance for layer in range(6)]
    assert found == [1, 2, 4, 8, 1, 2]


@pytest.mark.parametrize("layer", [0, 3])
def test_a_convolution_sees_three_tokens(layer: int) -> None:
    mixer, hidden = draw_convolution(layer), draw_hidden((31,), seed=5).requires_grad_()
    mixer(hidden, Sight(Layout.of((31,))))[15].sum().backward()
    seen = hidden.grad.abs().sum(1).nonzero().flatten().tolist()
    assert seen == [15 - mixer.distance, 15, 15 + mixer.distance]


def test_recurrence_reads_from_both_ends(recurrence) -> None:
    hidden = draw_hidden((9, 5), seed=6).requires_grad_()
    recurrence(hidden, Sight(Layout.of((9, 5))))[4].sum().backward()
    assert hidden.grad.abs().sum(1).nonzero().flatten().tolist() == list(range(9))


@pytest.mark.parametrize("kind", [Recurrence, Convolution])
def test_without_biases_there_are_none(kind) -> None:
    mixer = kind(EncoderConfig(hidden_size=14, num_heads=1, biases=False), 0)
    assert not [name for name, _ in mixer.named_parameters() if "bias" in name]
