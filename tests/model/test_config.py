"""The description of a network: the published sizes, and shapes that cannot be."""

from dataclasses import FrozenInstanceError, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.errors import UsageError
from bertworks.model.config import SIZES, EncoderConfig

PUBLISHED = {
    "tiny": (2, 128, 2, 512),
    "mini": (4, 256, 4, 1024),
    "small": (4, 512, 8, 2048),
    "medium": (8, 512, 8, 2048),
    "base": (12, 768, 12, 3072),
    "large": (24, 1024, 16, 4096),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_named_size_is_the_published_one(name: str) -> None:
    config = EncoderConfig.named(name)
    shape = (config.num_layers, config.hidden_size, config.num_heads, config.feed_forward_size)
    assert shape == PUBLISHED[name]
    assert config.head_size == 64


def test_every_named_size_is_checked_here() -> None:
    assert set(SIZES) == set(PUBLISHED)


def test_the_default_is_bert_base() -> None:
    assert EncoderConfig() == EncoderConfig.named("base")


def test_an_unknown_size_is_answered_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"'huge'.*tiny, mini, small, medium, base, large"):
        EncoderConfig.named("huge")


@given(st.integers(1, 40), st.integers(1, 20))
def test_any_depth_and_any_multiple_of_64_is_a_shape(num_layers: int, heads: int) -> None:
    config = EncoderConfig.of_shape(num_layers, 64 * heads)
    assert (config.num_heads, config.head_size) == (heads, 64)
    assert config.feed_forward_size == 4 * config.hidden_size


def test_heads_that_cannot_share_the_width_are_refused() -> None:
    with pytest.raises(UsageError, match="hidden_size 22 cannot be shared by 3 heads"):
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
        "num_segments",
    ],
)
@pytest.mark.parametrize("value", [0, -3])
def test_a_size_that_is_not_positive_is_refused_by_name(field: str, value: int) -> None:
    with pytest.raises(UsageError, match=rf"{field} is {value}"):
        EncoderConfig(**{field: value})


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
    assert config.with_dropout(None) is config


def test_a_description_cannot_be_changed_and_stays_small() -> None:
    with pytest.raises(FrozenInstanceError):
        EncoderConfig().hidden_size = 5  # type: ignore[misc]
    assert len(fields(EncoderConfig)) <= 20
