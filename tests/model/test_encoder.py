"""The encoder on flat batches: what a text's vectors depend on, and what they do not."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from bertworks.core.batch import Layout
from bertworks.data.packing import Features, flatten
from bertworks.model.attention import Sight
from bertworks.model.config import (
    STYLES,
    Bucketed,
    EncoderConfig,
    Local,
    Rotary,
    Sharing,
)
from bertworks.model.encoder import Encoder, FeedForward, initialize
from bertworks.model.fused import ACTIVATIONS
from bertworks.model.heads import TextHead
from bertworks.model.positions import Turn

CONFIG = EncoderConfig(
    vocab_size=97,
    hidden_size=21,
    num_layers=2,
    num_heads=3,
    feed_forward_size=37,
    max_positions=53,
)
SHAPE: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 24,
    "num_layers": 4,
    "num_heads": 3,
    "feed_forward_size": 37,
    "max_positions": 53,
}
# What the presets of a family say only for one size, made small.
SMALL: dict[str, dict[str, Any]] = {
    "albert": {"embedding_size": 10, "sharing": Sharing(num_groups=2, group_size=2)},
    "electra": {"embedding_size": 10},
    "mpnet": {"positions": Bucketed(num_buckets=8)},
    "modernbert": {"local": Local(window=3, full_every=3)},
}
VARIANTS = {
    style: EncoderConfig(**{**STYLES[style], **SHAPE, **SMALL.get(style, {})})
    for style in STYLES
    if style
}
lengths = st.lists(st.integers(1, 53), min_size=1, max_size=7)
seeds = st.integers(0, 2**31)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return draw_encoder(CONFIG, seed=11).eval()


@pytest.fixture(scope="module")
def variants() -> dict[str, Encoder]:
    return {name: draw_encoder(config, seed=11).eval() for name, config in VARIANTS.items()}


def draw_encoder(config: EncoderConfig, *, seed: int, deviation: float = 0.3) -> Encoder:
    encoder = Encoder(config)
    initialize(encoder, deviation=deviation, seed=seed)
    return encoder


@torch.no_grad()
def encode(encoder: Encoder, texts: list[Features]) -> list[Tensor]:
    """Return the vectors of each text of one batch."""
    batch = flatten(texts)
    return list(encoder(batch).split(list(batch.layout.lengths)))


@pytest.mark.parametrize("name", VARIANTS)
@given(lengths=lengths, seed=seeds)
@settings(max_examples=20)
def test_a_neighbour_in_the_batch_never_changes_a_vector(
    variants, make_texts, name: str, lengths: list[int], seed: int
) -> None:
    texts = make_texts(lengths, vocab_size=97, seed=seed)
    for together, text in zip(encode(variants[name], texts), texts, strict=True):
        torch.testing.assert_close(together, encode(variants[name], [text])[0], atol=2e-5, rtol=0)


@pytest.mark.parametrize("name", sorted(VARIANTS.keys() - {"mean"}))
def test_that_check_notices_texts_that_see_each_other(variants, make_texts, name: str) -> None:
    batch = flatten(make_texts([5, 7], vocab_size=97, seed=1))
    with torch.no_grad():
        apart = variants[name](batch)
        merged = variants[name](replace(batch, layout=Layout.of((12,))))
    assert (apart - merged).abs().max() > 1e-2


def test_a_mean_mixes_nothing(variants, make_texts) -> None:
    (text,) = make_texts([9], vocab_size=97, seed=1)
    batch = flatten([text])
    changed = replace(batch, tokens=torch.cat([batch.tokens[:4], (batch.tokens[4:] + 1) % 97]))
    for name, encoder in variants.items():
        with torch.no_grad():
            before, after = encoder(batch)[:4], encoder(changed)[:4]
        assert torch.equal(before, after) is (name == "mean"), name


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
    weight, bias = encoder.pooler.dense.weight, encoder.pooler.dense.bias
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
    kinds = ("gelu", "gelu_tanh", "relu", "silu")
    assert set(kinds) == set(ACTIVATIONS)
    found = [
        encode(draw_encoder(replace(CONFIG, activation=kind), seed=11).eval(), texts)[0]
        for kind in kinds
    ]
    assert not torch.equal(found[0], found[1])
    assert torch.allclose(found[0], found[1], atol=0.1)
    assert (found[0] - found[2]).abs().max() > 1e-2
    assert (found[0] - found[3]).abs().max() > 1e-2


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
    )
    encoder = draw_encoder(config, seed=2, deviation=0.5).double()
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
    initialize(second, deviation=0.3, seed=7)
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
    assert drawn.abs().max() <= 2 * 0.3
    assert abs(float(drawn.mean())) < 0.01
    # A normal cut at two deviations has 0.88 of its deviation.
    assert float(drawn.std()) == pytest.approx(0.88 * 0.3, rel=0.02)
    for name, parameter in encoder.named_parameters():
        if parameter.dim() == 1:
            is_scale = "norm" in name and name.endswith("weight")
            assert torch.equal(parameter, torch.full_like(parameter, float(is_scale)))


def parameters_of(config: EncoderConfig) -> dict[str, tuple[int, ...]]:
    with torch.device("meta"):
        encoder = Encoder(config)
    return {name: tuple(parameter.shape) for name, parameter in encoder.named_parameters()}


def difference(changes: dict[str, Any]) -> tuple[set[str], set[str], set[str]]:
    """Return which parameters one field adds, removes and reshapes, blocks told by `*`."""
    plain = parameters_of(EncoderConfig(**SHAPE))
    changed = parameters_of(EncoderConfig(**{**SHAPE, **changes}))

    def starred(names: set[str]) -> set[str]:
        return {re.sub(r"blocks\.\d+", "blocks.*", name) for name in names}

    kept = plain.keys() & changed.keys()
    return (
        starred(changed.keys() - plain.keys()),
        starred(plain.keys() - changed.keys()),
        starred({name for name in kept if plain[name] != changed[name]}),
    )


@pytest.mark.parametrize(
    ("changes", "added", "removed", "reshaped"),
    [
        (
            {"gated": True},
            set(),
            set(),
            {"blocks.*.feed_forward.expand.weight", "blocks.*.feed_forward.expand.bias"},
        ),
        ({"positions": Rotary()}, set(), {"embeddings.positions.weight"}, set()),
        ({"positions": Bucketed()}, {"distances.weight"}, set(), set()),
        ({"num_segments": 0}, set(), {"embeddings.segments.weight"}, set()),
        ({"num_segments": 1}, set(), set(), {"embeddings.segments.weight"}),
        ({"local": Local(window=3)}, set(), set(), set()),
        (
            {"embedding_size": 10},
            {"embeddings.widen.weight", "embeddings.widen.bias"},
            set(),
            {
                "embeddings.pieces.weight",
                "embeddings.positions.weight",
                "embeddings.segments.weight",
                "embeddings.norm.weight",
                "embeddings.norm.bias",
            },
        ),
    ],
)
def test_one_field_changes_one_seam(
    changes: dict[str, Any], added: set[str], removed: set[str], reshaped: set[str]
) -> None:
    assert difference(changes) == (added, removed, reshaped)


def test_without_biases_there_are_none_but_that_of_the_widening() -> None:
    config = EncoderConfig(**SHAPE, biases=False, embedding_size=10)
    names = [name for name in parameters_of(config) if name.endswith("bias")]
    assert names == ["embeddings.widen.bias"]
    assert not difference({"biases": False})[0]


def test_shared_layers_have_the_weights_of_their_groups_only() -> None:
    config = EncoderConfig(**SHAPE, sharing=Sharing(num_groups=2, group_size=3))
    numbers = {name.split(".")[1] for name in parameters_of(config) if name.startswith("blocks")}
    assert numbers == {"0", "1", "2", "3", "4", "5"}
    assert len(Encoder(config).blocks) == config.num_blocks == 6


def test_shared_layers_are_the_same_layers_written_out(make_texts) -> None:
    shared = draw_encoder(
        EncoderConfig(**SHAPE, sharing=Sharing(num_groups=2, group_size=2)), seed=3
    ).eval()
    written = Encoder(EncoderConfig(**{**SHAPE, "num_layers": 8})).eval()
    weights = shared.state_dict()
    order = shared.config.block_order
    assert order == (0, 1, 0, 1, 2, 3, 2, 3)
    for place, block in enumerate(order):
        for name in written.blocks[place].state_dict():
            weights[f"blocks.{place}.{name}"] = shared.state_dict()[f"blocks.{block}.{name}"]
    written.load_state_dict(weights)
    texts = make_texts([5, 9], vocab_size=97, seed=4)
    for first, second in zip(encode(shared, texts), encode(written, texts), strict=True):
        assert torch.equal(first, second)


def test_a_gate_scales_the_bent_half() -> None:
    forward = FeedForward(EncoderConfig(**SHAPE, gated=True))
    initialize(forward, seed=5, deviation=0.3)
    hidden = torch.randn(7, 24, generator=torch.Generator().manual_seed(6))
    bent, gate = forward.expand(hidden).split(37, dim=-1)
    expected = forward.contract(functional.gelu(bent) * gate)
    torch.testing.assert_close(forward(hidden), expected)


def normed(name: str, encoder: Encoder, hidden: Tensor) -> Tensor:
    norm = encoder.get_submodule(name)
    return functional.layer_norm(hidden, (24,), norm.weight, norm.bias, 1e-12)


@pytest.mark.parametrize("place", ["after", "before"])
def test_norms_stand_after_what_is_added_or_before_what_is_read(place: str, make_texts) -> None:
    config = EncoderConfig(**{**SHAPE, "num_layers": 2, "norm_place": place})
    encoder = draw_encoder(config, seed=7).eval()
    with torch.no_grad():
        for name, parameter in encoder.named_parameters():
            if "norm" in name:
                random = torch.Generator().manual_seed(len(name))
                parameter.add_(torch.randn(parameter.shape, generator=random), alpha=0.3)
    batch = flatten(make_texts([5, 9], vocab_size=97, seed=4))
    sight = Sight(batch.layout)
    with torch.no_grad():
        hidden = encoder.embeddings(batch)
        for number, block in enumerate(encoder.blocks):
            if place == "after":
                hidden = hidden + block.mixer(hidden, sight)
                hidden = normed(f"blocks.{number}.mixer_norm", encoder, hidden)
                hidden = hidden + block.feed_forward(hidden)
                hidden = normed(f"blocks.{number}.feed_forward_norm", encoder, hidden)
                continue
            # The embeddings are normed already.
            read = normed(f"blocks.{number}.mixer_norm", encoder, hidden) if number else hidden
            hidden = hidden + block.mixer(read, sight)
            read = normed(f"blocks.{number}.feed_forward_norm", encoder, hidden)
            hidden = hidden + block.feed_forward(read)
        if place == "before":
            hidden = normed("norm", encoder, hidden)
        torch.testing.assert_close(encoder(batch), hidden, atol=1e-5, rtol=0)


@pytest.mark.parametrize("changes", [{"sharing": Sharing()}, {"embedding_size": 10}])
def test_a_first_block_that_reads_more_than_normed_embeddings_has_its_norm(
    changes: dict[str, Any],
) -> None:
    names = parameters_of(EncoderConfig(**SHAPE, norm_place="before", **changes))
    assert "blocks.0.mixer_norm.weight" in names
    assert "blocks.0.mixer_norm.weight" not in parameters_of(
        EncoderConfig(**SHAPE, norm_place="before")
    )


@pytest.mark.parametrize(("num_segments", "matter"), [(0, False), (1, False), (2, True)])
def test_the_texts_of_a_pair_are_told_apart_where_there_are_two_segments(
    make_texts, num_segments: int, matter: bool
) -> None:
    encoder = draw_encoder(replace(CONFIG, num_segments=num_segments), seed=8).eval()
    batch = flatten(make_texts([9], vocab_size=97, seed=2))
    pair = replace(batch, segments=(torch.arange(9) > 4).long())
    single = replace(batch, segments=torch.zeros(9, dtype=torch.long))
    with torch.no_grad():
        assert torch.equal(encoder(pair), encoder(single)) is not matter


@pytest.mark.parametrize("name", ["modern", "modernbert"])
def test_rotary_networks_see_distances_and_not_places(
    variants, make_texts, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    batch, make_turn = flatten(make_texts([31], vocab_size=97, seed=2)), Turn.of

    def run_at(move: Callable[[Tensor], Tensor]) -> Tensor:
        def of(positions: Tensor, longest: int, **more: float) -> Turn:
            moved = move(positions)
            return make_turn(moved, int(moved.max()) + 1, **more)

        monkeypatch.setattr(Turn, "of", of)
        with torch.no_grad():
            return variants[name](batch)

    plain = run_at(lambda places: places)
    torch.testing.assert_close(plain, run_at(lambda places: places + 100), atol=1e-3, rtol=0)
    assert (plain - run_at(lambda places: places * 2)).abs().max() > 1e-2


def test_a_bag_of_vectors_does_not_know_the_order_of_its_words(variants, make_texts) -> None:
    batch = flatten(make_texts([31], vocab_size=97, seed=2))
    order = torch.randperm(31, generator=torch.Generator().manual_seed(3))
    mixed = replace(batch, tokens=batch.tokens[order], segments=batch.segments[order])
    for name, encoder in variants.items():
        with torch.no_grad():
            gap = float((encoder(mixed) - encoder(batch)[order]).abs().max())
        assert (gap < 1e-5) is (name == "mean"), name
    assert variants["mean"].embeddings.positions is None


NEAR = Local(window=3, full_every=2)


@pytest.mark.parametrize(
    ("local", "local_base", "num_turns"),
    [(None, 7.0, 1), (NEAR, 10_000.0, 1), (NEAR, 7.0, 2)],
)
def test_angles_are_made_once_where_all_layers_turn_alike(
    local: Local | None, local_base: float, num_turns: int, make_texts
) -> None:
    positions = Rotary(local_base=local_base)
    config = replace(VARIANTS["modernbert"], local=local, positions=positions)
    sights = Encoder(config).sights(flatten(make_texts([9], vocab_size=97)))
    assert len({id(sight.turn) for sight in sights}) == num_turns


def test_each_kind_of_layer_is_turned_by_its_own_base(make_texts) -> None:
    batch = flatten(make_texts([31], vocab_size=97, seed=2))

    def forward(**changes: Any) -> Tensor:
        config = replace(VARIANTS["modernbert"], **changes)
        with torch.no_grad():
            return draw_encoder(config, seed=9).eval()(batch)

    plain = forward()
    assert (forward(positions=Rotary(base=100.0)) - plain).abs().max() > 1e-3
    turned = Rotary(base=160_000.0, local_base=100.0)
    assert (forward(positions=turned) - plain).abs().max() > 1e-3
    only_full = forward(local=None, positions=turned)
    assert torch.equal(only_full, forward(local=None))


def reach(config: EncoderConfig, make_texts, *, place: int = 26) -> list[int]:
    """Return the places whose pieces the vector of one place depends on."""
    encoder = draw_encoder(config, seed=10).eval()
    batch = flatten(make_texts([53], vocab_size=97, seed=3))
    vectors = encoder.embeddings(batch).detach().requires_grad_()
    encoder.embeddings.forward = lambda batch: vectors
    encoder(batch)[place].square().sum().backward()
    return vectors.grad.abs().sum(1).nonzero().flatten().tolist()


def test_local_layers_see_neighbours_and_full_ones_the_whole_text(make_texts) -> None:
    config = replace(CONFIG, num_layers=2, local=Local(window=3))
    assert reach(config, make_texts) == list(range(20, 33))  # two layers of three
    one_full = replace(CONFIG, num_layers=2, local=Local(window=3, full_every=2))
    assert reach(one_full, make_texts) == list(range(53))
    assert reach(replace(CONFIG, num_layers=2), make_texts) == list(range(53))


def test_a_network_of_learned_distances_learns_them_and_uses_them(make_texts) -> None:
    encoder = draw_encoder(VARIANTS["mpnet"], seed=11).eval()
    batch = flatten(make_texts([5, 31], vocab_size=97, seed=3))
    before = encoder(batch)
    before.square().mean().backward()
    assert encoder.distances.weight.grad.any()
    with torch.no_grad():
        encoder.distances.weight.mul_(-3.0)
        assert (encoder(batch) - before).abs().max() > 1e-2


@pytest.mark.parametrize("name", VARIANTS)
def test_every_parameter_that_is_read_learns(name: str, make_texts) -> None:
    encoder = draw_encoder(VARIANTS[name].with_dropout(0.0), seed=12)
    batch = flatten(make_texts([53, 9, 1, 9], vocab_size=97, seed=6))
    pair = replace(batch, segments=(torch.arange(72) % 3 == 0).long())
    hidden = encoder(pair)
    random = torch.Generator().manual_seed(1)
    pooled = encoder.pool(hidden, batch.layout)
    for found in (hidden, pooled):
        found.backward(torch.randn(found.shape, generator=random), retain_graph=True)
    idle = {n for n, p in encoder.named_parameters() if p.grad is None or not p.grad.any()}
    assert idle == set()


@pytest.mark.parametrize(
    ("family", "bend"),
    [
        ("bert", torch.tanh),
        ("roberta", torch.tanh),
        ("distilbert", torch.relu),
        ("albert", torch.tanh),
        ("electra", functional.gelu),
        ("mpnet", torch.tanh),
        ("modernbert", functional.gelu),
        ("bertworks", torch.tanh),
    ],
)
def test_each_family_pools_in_its_own_way(family, bend, make_texts) -> None:
    encoder = draw_encoder(EncoderConfig(**SHAPE, family=family), seed=13)
    batch = flatten(make_texts([5, 9], vocab_size=97, seed=4))
    hidden = torch.randn(14, 24, generator=torch.Generator().manual_seed(2))
    for pooling, vectors in {
        None: hidden[[0, 5]],
        "first": hidden[[0, 5]],
        "mean": torch.stack([hidden[:5].mean(0), hidden[5:].mean(0)]),
        "max": torch.stack([hidden[:5].amax(0), hidden[5:].amax(0)]),
    }.items():
        expected = bend(encoder.pooler.dense(vectors))
        if family == "modernbert":
            expected = functional.layer_norm(expected, (24,), eps=1e-12)
        found = encoder.pool(hidden, batch.layout, pooling)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("mixer", ["recurrent", "convolution", "mean"])
def test_older_networks_have_no_first_token_that_stands_for_the_text(
    mixer, variants, make_texts
) -> None:
    encoder = variants[mixer]
    batch = flatten(make_texts([5, 9], vocab_size=97, seed=4))
    hidden = torch.randn(14, 24, generator=torch.Generator().manual_seed(2))
    mean = encoder.pool(hidden, batch.layout, "mean")
    assert torch.equal(encoder.pool(hidden, batch.layout), mean)


def test_only_the_parameters_that_are_named_are_drawn() -> None:
    encoder, fresh = draw_encoder(CONFIG, seed=1), draw_encoder(CONFIG, seed=2)
    before = {name: p.detach().clone() for name, p in encoder.named_parameters()}
    only = {"pooler.dense.weight", "embeddings.norm.weight"}
    initialize(encoder, seed=2, deviation=0.3, only=only)
    for name, parameter in encoder.named_parameters():
        expected = fresh.get_parameter(name) if name in only else before[name]
        assert torch.equal(parameter, expected)
