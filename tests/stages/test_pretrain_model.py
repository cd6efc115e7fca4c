"""The network of a pre-training: by its size, with the dropout that is said or its family's."""

from dataclasses import replace
from pathlib import Path

import pytest

from bertworks.core.errors import UsageError
from bertworks.data.shards import Shards
from bertworks.stages.pretrain_model import config_of, learner_of, objectives_of
from bertworks.stages.setting_groups import DropoutSettings
from bertworks.stages.settings import PretrainSettings
from bertworks.tokenizer.tokenizer import Tokenizer


@pytest.mark.parametrize(
    ("size", "said", "dropout"),
    [
        ("1x64", None, 0.1),
        ("modern-1x64", None, 0.0),
        ("1x64", 0.0, 0.0),
        ("albert-1x64", 0.3, 0.3),
    ],
)
def test_dropout_is_the_familys_own_unless_it_is_said(
    size: str, said: float | None, dropout: float, shards: Path
) -> None:
    rates = DropoutSettings(dropout=said)
    settings = PretrainSettings(shards, out=Path("o"), size=size, dropping=rates)
    config = config_of(settings, Shards.open(shards))
    assert (config.dropout, config.attention_dropout) == (dropout, dropout)


def test_what_is_drawn_fits_the_shards_and_the_seed(shards: Path) -> None:
    opened, tokenizer = Shards.open(shards), Tokenizer.open(shards / "tokenizer")
    settings = PretrainSettings(shards, out=Path("o"), size="1x64", longest=32)
    config = config_of(settings, opened)
    assert (config.vocab_size, config.max_positions) == (opened.vocab_size, 32)
    first, again, other = (
        next(learner_of(one, config, tokenizer, ("fill_mask",)).parameters())
        for one in (settings, settings, replace(settings, seed=1))
    )
    assert first.equal(again)
    assert not first.equal(other)


def test_a_difference_needs_two_networks(shards: Path) -> None:
    plain = PretrainSettings(shards, out=Path("o"), size="1x64", longest=32)
    settings = replace(plain, objective=replace(plain.objective, shared_table="generator"))
    config = config_of(settings, Shards.open(shards))
    tokenizer = Tokenizer.open(shards / "tokenizer")
    with pytest.raises(UsageError, match="--shared-table generator speaks of the two networks"):
        learner_of(settings, config, tokenizer, ("fill_mask",))


def test_a_model_that_has_learned_none_of_them_goes_on_with_those_of_its_family(
    classifier: Path, shards: Path
) -> None:
    settings = PretrainSettings(shards=shards, model=classifier, longest=32, out=Path("out"))
    config = config_of(settings, Shards.open(shards))
    assert list(objectives_of(settings, config)) == ["fill_mask", "next_sentence"]
