"""The description of a network: the published sizes, and shapes that cannot be."""

from dataclasses import FrozenInstanceError, fields, replace
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.errors import UsageError
from bertworks.model.config import (
    PUBLISHED,
    SIZES,
    STYLES,
    Bucketed,
    EncoderConfig,
    Family,
    Local,
    Rotary,
    Sharing,
)
from bertworks.model.encoder import Encoder

BERTS = {
    "tiny": (2, 128, 2, 512),
    "mini": (4, 256, 4, 1024),
    "small": (4, 512, 8, 2048),
    "medium": (8, 512, 8, 2048),
    "base": (12, 768, 12, 3072),
    "large": (24, 1024, 16, 4096),
}


@pytest.mark.parametrize("name", BERTS)
def test_a_named_size_is_the_published_one(name: str) -> None:
    config = EncoderConfig.named(name)
    shape = (config.num_layers, config.hidden_size, config.num_heads, config.feed_forward_size)
    assert shape == BERTS[name]
    assert config.head_size == 64


def test_every_named_size_is_checked_here() -> None:
    assert set(SIZES) == set(BERTS)


def test_the_default_is_bert_base() -> None:
    assert EncoderConfig() == EncoderConfig.named("base")


def test_an_unknown_size_is_answered_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"'huge'.*tiny, mini, small, medium, base, large"):
        EncoderConfig.named("huge")


@given(st.integers(1, 40), st.integers(1, 20))
def test_any_depth_and_any_multiple_of_64_is_a_shape(num_layers: int, heads: int) -> None:
    config = EncoderConfig.named(f"{num_layers}x{64 * heads}")
    assert (config.num_layers, config.hidden_size) == (num_layers, 64 * heads)
    assert (config.num_heads, config.head_size) == (heads, 64)
    assert config.feed_forward_size == 4 * config.hidden_size


@pytest.mark.parametrize(("width", "heads"), [(200, 2), (210, 3), (320, 5), (67, 1), (9, 1)])
def test_the_heads_of_any_width_are_near_64_wide_and_share_it(width: int, heads: int) -> None:
    assert EncoderConfig.named(f"2x{width}").num_heads == heads


@given(st.integers(1, 1000))
def test_every_width_is_a_shape(width: int) -> None:
    config = EncoderConfig.named(f"2x{width}")
    assert config.head_size * config.num_heads == config.hidden_size == width


@given(st.sampled_from(sorted(set(STYLES) - {""})), st.integers(1, 500))
def test_every_even_width_is_a_shape_of_every_family(style: str, half: int) -> None:
    config = EncoderConfig.named(f"{style}-2x{2 * half}")
    assert config.head_size * config.num_heads == config.hidden_size == 2 * half


def test_heads_that_cannot_share_the_width_are_refused() -> None:
    message = "hidden_size 22 cannot be shared by 3 heads; choose a multiple of 3"
    with pytest.raises(UsageError, match=message):
        EncoderConfig(hidden_size=22, num_heads=3)


@pytest.mark.parametrize(
    "field",
    [
        "vocab_size",
        "hidden_size",
        "num_layers",
        "num_heads",
        "feed_forward_size",
        "max_positions",
        "embedding_size",
    ],
)
@pytest.mark.parametrize("value", [0, -3, 5.0, "5"])
def test_a_size_that_is_no_positive_number_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(UsageError, match=rf"{field} is {value!r}; .* whole number from 1 up"):
        EncoderConfig(**{field: value})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EncoderConfig(num_segments=-1), "num_segments is -1"),
        (lambda: Local(window=0), "window is 0"),
        (lambda: Local(window=3, full_every=0), "full_every is 0"),
        (lambda: Sharing(num_groups=0), "num_groups is 0"),
        (lambda: Sharing(group_size=0), "group_size is 0"),
        (lambda: Bucketed(num_buckets=3), "num_buckets is 3"),
        (lambda: Bucketed(num_buckets=512), "num_buckets is 512"),
        (lambda: EncoderConfig(norm_epsilon=0.0), "norm_epsilon is 0.0"),
        (lambda: EncoderConfig(family="gpt"), r"family is 'gpt'; known are .*'roberta'"),
        (lambda: EncoderConfig(activation="sine"), r"activation is 'sine'; known are .*'relu'"),
        (
            lambda: EncoderConfig(norm_place="between"),
            "norm_place is 'between'; known are .*'before'",
        ),
        (lambda: EncoderConfig(mixer="fourier"), r"mixer is 'fourier'; known are .*'recurrent'"),
        (
            lambda: EncoderConfig(hidden_size=21, num_heads=3, positions=Rotary()),
            "width 7 cannot be turned in pairs",
        ),
        (
            lambda: EncoderConfig(hidden_size=21, num_heads=3, mixer="recurrent"),
            "hidden_size 21 cannot be shared by two directions",
        ),
        (
            lambda: EncoderConfig(positions=Bucketed(), local=Local(window=5)),
            "local attention knows no scores by distance",
        ),
        (
            lambda: EncoderConfig(local=Local(window=5), sharing=Sharing(group_size=2)),
            "local attention goes by layers, not by groups of blocks",
        ),
    ],
)
def test_what_cannot_be_built_is_refused_with_the_reason(make, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


@pytest.mark.parametrize("field", ["dropout", "attention_dropout"])
@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5, float("nan")])
def test_a_dropout_that_is_no_share_is_refused_by_name(field: str, rate: float) -> None:
    with pytest.raises(UsageError, match=field):
        EncoderConfig(**{field: rate})


def test_another_dropout_leaves_everything_else() -> None:
    config = EncoderConfig.named("tiny")
    other = config.with_dropout(0.0)
    assert (other.dropout, other.attention_dropout) == (0.0, 0.0)
    assert replace(other, dropout=0.1, attention_dropout=0.1) == config
    assert config.with_dropout(None) == config


def test_attention_may_have_a_rate_of_its_own() -> None:
    config = EncoderConfig.named("tiny")
    other = config.with_dropout(0.3, attention_dropout=0.0)
    assert (other.dropout, other.attention_dropout) == (0.3, 0.0)
    assert config.with_dropout(None, 0.2) == replace(config, attention_dropout=0.2)


def test_a_description_cannot_be_changed_and_stays_small() -> None:
    with pytest.raises(FrozenInstanceError):
        EncoderConfig().hidden_size = 5  # type: ignore[misc]
    assert len(fields(EncoderConfig)) <= 20


# Parameters of the published networks as they are counted elsewhere, and how ours differ from that:
# the two places that RoBERTa and MPNet never use, and poolers that the published ones do not have.
COUNTS = {
    "bert-base": (109_482_240, 0),
    "roberta-base": (124_645_632, -2 * 768),
    "distilbert-base": (66_362_880, 768 * 768 + 768),
    "albert-base": (11_683_584, 0),
    "albert-xxlarge": (222_595_584, 0),
    "electra-small": (13_483_008, 256 * 256 + 256),
    "electra-base": (108_891_648, 768 * 768 + 768),
    "mpnet-base": (109_486_464, -2 * 768),
    "modernbert-base": (149_014_272, 768 * 768 + 768),
    "modernbert-large": (394_781_696, 1024 * 1024 + 1024),
}


@pytest.mark.parametrize("name", COUNTS)
def test_a_named_network_has_as_many_parameters_as_the_published_one(name: str) -> None:
    with torch.device("meta"):
        encoder = Encoder(EncoderConfig.named(name))
    published, difference = COUNTS[name]
    assert sum(p.numel() for p in encoder.parameters()) == published + difference


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("size", [*SIZES, "3x64"])
def test_every_family_has_every_size(style: str, size: str) -> None:
    name = f"{style}-{size}" if style else size
    config = EncoderConfig.named(name)
    assert config.family == STYLES[style].get("family", "bert")
    if name not in PUBLISHED:
        shape = SIZES.get(size, (3, 64))
        assert (config.num_layers, config.hidden_size) == shape


def test_every_family_has_a_name() -> None:
    assert {config.get("family", "bert") for config in STYLES.values()} == set(get_args(Family))


@pytest.mark.parametrize("name", ["gpt-base", "roberta_base-base"])
def test_an_unknown_family_is_answered_with_those_there_are(name: str) -> None:
    with pytest.raises(UsageError, match=r"no family '.*'; the families are bert, roberta, "):
        EncoderConfig.named(name)


@pytest.mark.parametrize("name", ["roberta-huge", "roberta-", "roberta-3x", "x64", "3x64x2", ""])
def test_an_unknown_size_of_a_family_is_answered_with_those_there_are(name: str) -> None:
    with pytest.raises(UsageError, match=r"no size '.*'; use tiny, .* or LAYERSxWIDTH"):
        EncoderConfig.named(name)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 3))
def test_sharing_runs_each_group_in_turn_and_all_blocks_of_it(
    num_layers: int, num_groups: int, group_size: int
) -> None:
    sharing = Sharing(num_groups=min(num_groups, num_layers), group_size=group_size)
    config = EncoderConfig(num_layers=num_layers, sharing=sharing)
    order = config.block_order
    assert len(order) == num_layers * group_size
    assert sorted(set(order)) == list(range(config.num_blocks))
    firsts = order[::group_size]
    assert list(firsts) == sorted(firsts)
    for start in range(0, len(order), group_size):
        first = order[start]
        assert first % group_size == 0
        assert order[start : start + group_size] == tuple(range(first, first + group_size))


def test_without_sharing_every_layer_has_a_block() -> None:
    config = EncoderConfig(num_layers=5)
    assert (config.num_blocks, config.block_order) == (5, (0, 1, 2, 3, 4))


@pytest.mark.parametrize(
    ("local", "is_local"),
    [
        (None, [False] * 7),
        (Local(window=5), [True] * 7),
        (Local(window=5, full_every=1), [False] * 7),
        (Local(window=5, full_every=3), [False, True, True, False, True, True, False]),
    ],
)
def test_every_so_manieth_layer_sees_the_whole_text(
    local: Local | None, is_local: list[bool]
) -> None:
    config = EncoderConfig(num_layers=7, local=local)
    assert [config.is_local(layer) for layer in config.layers] == is_local


def test_blocks_that_are_shared_one_by_one_may_be_local() -> None:
    config = EncoderConfig(local=Local(window=5), sharing=Sharing(num_groups=2))
    assert config.is_local(1)


def test_a_mean_has_no_order_of_words() -> None:
    assert EncoderConfig.named("mean-tiny").positions is None


def test_a_piece_is_as_wide_as_the_blocks_unless_said_otherwise() -> None:
    assert EncoderConfig(hidden_size=24).piece_size == 24
    assert EncoderConfig(hidden_size=24, embedding_size=5).piece_size == 5


def test_groups_are_divided_as_albert_divides_them() -> None:
    sharing = Sharing(num_groups=14)
    config = EncoderConfig(num_layers=18, sharing=sharing, hidden_size=24, num_heads=3)
    assert config.block_order == tuple(int(layer / (18 / 14)) for layer in range(18))


@pytest.mark.parametrize("size", ["2x99999999999999999999", "99999999x64", "1025x64"])
def test_a_network_beyond_all_measure_is_refused_at_once(size: str) -> None:
    with pytest.raises(UsageError, match="the most is"):
        EncoderConfig.named(size)


@pytest.mark.parametrize("base", [0.5, -5.0, float("nan"), float("inf"), "x", None])
def test_a_base_that_turns_nothing_is_refused(base) -> None:
    with pytest.raises(UsageError, match="base of rotary positions"):
        Rotary(base=base)
