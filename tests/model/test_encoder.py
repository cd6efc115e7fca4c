"""The encoder on flat batches: what a text's vectors depend on, and what they do not."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from bertworks.core.batch import Layout
from bertworks.data.packing import Features, flatten
from bertworks.model.config import EncoderConfig
from bertworks.model.encoder import Encoder, initialize
from bertworks.model.heads import TextHead

CONFIG = EncoderConfig(
    vocab_size=97,
    hidden_size=21,
    num_layers=2,
    num_heads=3,
    feed_forward_size=37,
    max_positions=53,
    init_deviation=0.3,
)
lengths = st.lists(st.integers(1, 53), min_size=1, max_size=7)
seeds = st.integers(0, 2**31)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return draw_encoder(CONFIG, seed=11).eval()


def draw_encoder(config: EncoderConfig, *, seed: int) -> Encoder:
    encoder = Encoder(config)
    initialize(encoder, deviation=config.init_deviation, seed=seed)
    return encoder


@torch.no_grad()
def encode(encoder: Encoder, texts: list[Features]) -> list[Tensor]:
    """Return the vectors of each text of one batch."""
    batch = flatten(texts)
    return list(encoder(batch).split(list(batch.layout.lengths)))


@given(lengths, seeds)
def test_a_neighbour_in_the_batch_never_changes_a_vector(
    encoder, make_texts, lengths: list[int], seed: int
) -> None:
    texts = make_texts(lengths, vocab_size=97, seed=seed)
    for together, text in zip(encode(encoder, texts), texts, strict=True):
        torch.testing.assert_close(together, encode(encoder, [text])[0], atol=1e-5, rtol=0)


def test_that_check_notices_texts_that_see_each_other(encoder, make_texts) -> None:
    batch = flatten(make_texts([5, 7], vocab_size=97, seed=1))
    with torch.no_grad():
        apart = encoder(batch)
        merged = encoder(replace(batch, layout=Layout.of((12,))))
    assert (apart - merged).abs().max() > 1e-2


@given(lengths, seeds)
def test_the_order_of_texts_does_not_matter(
    encoder, make_texts, lengths: list[int], seed: int
) -> None:
    texts = make_texts(lengths, vocab_size=97, seed=seed)
    order = np.random.default_rng(seed).permutation(len(texts))
    straight = encode(encoder, texts)
    mixed = encode(encoder, [texts[i] for i in order])
    for place, i in enumerate(order):
        torch.testing.assert_close(mixed[place], straight[i], atol=1e-5, rtol=0)


def test_pieces_positions_and_segments_all_matter(encoder, make_texts) -> None:
    (text,) = make_texts([9], vocab_size=97, seed=2)
    batch = flatten([text])
    with torch.no_grad():
        plain = encoder(batch)
        for changed in (
            replace(batch, tokens=(batch.tokens + 1) % 97),
            replace(batch, positions=batch.positions + 1),
            replace(batch, segments=1 - batch.segments),
        ):
            assert (encoder(changed) - plain).abs().max() > 1e-2


def test_every_token_gets_a_vector_and_every_text_a_pooled_one(encoder, make_texts) -> None:
    batch = flatten(make_texts([1, 5, 53, 5], vocab_size=97, seed=3))
    with torch.no_grad():
        hidden = encoder(batch)
        pooled = encoder.pool(hidden, batch.layout)
    assert hidden.shape == (64, 21)
    assert pooled.shape == (4, 21)
    firsts = hidden[[0, 1, 6, 59]]
    weight, bias = encoder.pooler.weight, encoder.pooler.bias
    torch.testing.assert_close(pooled, torch.tanh(firsts @ weight.T + bias), atol=1e-6, rtol=0)


def test_dropout_is_off_when_the_network_does_not_train(encoder, make_texts) -> None:
    texts = make_texts([5, 9], vocab_size=97, seed=4)
    for first, second in zip(encode(encoder, texts), encode(encoder, texts), strict=True):
        assert torch.equal(first, second)


@pytest.mark.parametrize("field", ["dropout", "attention_dropout"])
def test_dropout_in_training_is_a_function_of_the_seed(field: str, make_texts) -> None:
    config = replace(CONFIG.with_dropout(0.0), **{field: 0.5})
    encoder = draw_encoder(config, seed=11).train()
    batch = flatten(make_texts([5, 9], vocab_size=97, seed=4))

    def forward(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return encoder(batch)

    assert torch.equal(forward(1), forward(1))
    assert not torch.equal(forward(1), forward(2))


def test_a_network_without_dropout_trains_as_it_answers(make_texts) -> None:
    encoder = draw_encoder(CONFIG.with_dropout(0.0), seed=11)
    texts = make_texts([5, 9], vocab_size=97, seed=4)
    for trained, answered in zip(
        encode(encoder.train(), texts), encode(encoder.eval(), texts), strict=True
    ):
        assert torch.equal(trained, answered)


def test_the_activations_are_different_networks(make_texts) -> None:
    texts = make_texts([9], vocab_size=97, seed=5)
    kinds = ("gelu", "gelu_tanh", "relu")
    found = [
        encode(draw_encoder(replace(CONFIG, activation=kind), seed=11).eval(), texts)[0]
        for kind in kinds
    ]
    assert not torch.equal(found[0], found[1])
    assert torch.allclose(found[0], found[1], atol=0.1)
    assert (found[0] - found[2]).abs().max() > 1e-2


def test_gradients_of_the_whole_network_agree_with_finite_differences(make_texts) -> None:
    config = EncoderConfig(
        vocab_size=11,
        hidden_size=6,
        num_layers=1,
        num_heads=3,
        feed_forward_size=5,
        max_positions=4,
        dropout=0.0,
        attention_dropout=0.0,
        init_deviation=0.5,
    )
    encoder = draw_encoder(config, seed=2).double()
    batch = flatten(make_texts([1, 3, 3, 2], vocab_size=11, seed=6))
    names, values = zip(*encoder.named_parameters(), strict=True)

    def forward(*changed: Tensor) -> Tensor:
        hidden = torch.func.functional_call(
            encoder, dict(zip(names, changed, strict=True)), (batch,)
        )
        return hidden.sin().sum()

    assert torch.autograd.gradcheck(
        forward, tuple(value.detach().clone().requires_grad_() for value in values)
    )


def test_fresh_weights_are_a_function_of_the_seed() -> None:
    first, again = draw_encoder(CONFIG, seed=7), draw_encoder(CONFIG, seed=7)
    other = draw_encoder(CONFIG, seed=8)
    for name, parameter in first.named_parameters():
        assert torch.equal(parameter, again.get_parameter(name))
        if parameter.dim() > 1:
            assert not torch.equal(parameter, other.get_parameter(name))


def test_fresh_weights_do_not_depend_on_other_random_draws() -> None:
    torch.manual_seed(1)
    first = draw_encoder(CONFIG, seed=7)
    torch.manual_seed(2)
    torch.randn(5)
    before = torch.get_rng_state()
    second = Encoder(CONFIG)
    torch.set_rng_state(before)
    initialize(second, deviation=CONFIG.init_deviation, seed=7)
    assert torch.equal(torch.get_rng_state(), before)
    for name, parameter in first.named_parameters():
        assert torch.equal(parameter, second.get_parameter(name))


def test_a_head_added_changes_no_other_weight() -> None:
    bare = nn.ModuleDict({"encoder": Encoder(CONFIG)})
    crowned = nn.ModuleDict({"head": TextHead(CONFIG, num_labels=5), "encoder": Encoder(CONFIG)})
    for model in (bare, crowned):
        initialize(model, deviation=0.02, seed=7)
    for name, parameter in bare.named_parameters():
        assert torch.equal(parameter, crowned.get_parameter(name))


def test_parameters_of_one_shape_still_differ() -> None:
    encoder = draw_encoder(CONFIG, seed=7)
    first, second = (block.feed_forward.expand.weight for block in encoder.blocks)
    assert not torch.equal(first, second)


def test_fresh_matrices_are_a_cut_normal_and_the_rest_is_plain() -> None:
    encoder = draw_encoder(replace(CONFIG, vocab_size=997), seed=7)
    drawn = torch.cat([p.detach().flatten() for p in encoder.parameters() if p.dim() > 1])
    assert drawn.abs().max() <= 2 * CONFIG.init_deviation
    assert abs(float(drawn.mean())) < 0.01
    # A normal cut at two deviations has 0.88 of its deviation.
    assert float(drawn.std()) == pytest.approx(0.88 * CONFIG.init_deviation, rel=0.02)
    for name, parameter in encoder.named_parameters():
        if parameter.dim() == 1:
            is_scale = "norm" in name and name.endswith("weight")
            assert torch.equal(parameter, torch.full_like(parameter, float(is_scale)))
