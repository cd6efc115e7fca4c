"""The network of a pre-training: by its size, with the dropout that is said or its family's."""

from dataclasses import replace
from pathlib import Path

import pytest

from bertworks.core.crew import Crew
from bertworks.core.device import prepare
from bertworks.core.errors import UsageError
from bertworks.data.neighbors import count_neighbors
from bertworks.data.shards import Shards
from bertworks.model.first_vectors import begin_counted
from bertworks.stages.pretrain_model import config_of, knowing_of, learner_of, objectives_of
from bertworks.stages.setting_groups import DropoutSettings
from bertworks.stages.settings import PretrainSettings
from bertworks.tokenizer.tokenizer import Tokenizer
from bertworks.training.run import whole_checkpoints


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


@pytest.mark.parametrize("objectives", [("fill_mask",), ("replaced_token", "fill_mask")])
def test_counted_pieces_begin_with_what_stands_near_them(
    objectives: tuple[str, ...], shards: Path
) -> None:
    opened, tokenizer = Shards.open(shards), Tokenizer.open(shards / "tokenizer")
    size = "electra-1x64" if "replaced_token" in objectives else "modern-1x64"
    drawn = PretrainSettings(shards, out=Path("o"), size=size, longest=32, seed=3)
    counted = replace(drawn, piece_vectors="counted")
    config, machine = config_of(drawn, opened), prepare("cpu", precision="fp32")
    assert knowing_of(drawn, opened, machine, Crew()) is None
    learners = [
        learner_of(
            one,
            config,
            tokenizer,
            objectives,
            knowing=knowing_of(one, opened, machine, Crew()),
        )
        for one in (drawn, counted)
    ]
    before, after = (dict(learner.named_parameters()) for learner in learners)
    moved = [name for name, value in before.items() if not value.equal(after[name])]
    tables = [name for name in before if name.endswith("embeddings.pieces.weight")]
    assert moved == tables  # of the generator too, where it has one of its own
    counts = count_neighbors(opened, device=machine.device)
    for table in tables:
        assert after[table].equal(begin_counted(before[tables[0]], counts, seed=3))


def test_counting_is_not_for_a_model_that_has_learned(shards: Path, classifier: Path) -> None:
    settings = PretrainSettings(
        shards, out=Path("o"), model=classifier, longest=32, piece_vectors="counted"
    )
    machine = prepare("cpu", precision="fp32")
    assert knowing_of(settings, Shards.open(shards), machine, Crew()) is None


def test_what_goes_on_from_a_checkpoint_is_not_counted_again(
    shards: Path, tmp_path: Path, command
) -> None:
    words = ["pretrain", shards, "--size", "modern-1x64", "--longest", 32, "--steps", 4]
    words += ["--batch-tokens", 64, "--evaluate-every", 0, "--checkpoint-every", 2]
    words += ["--piece-vectors", "counted", "--resume", "auto"]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for out in (whole, cut):
        ended = command(*words, "--out", out)
        assert ended.code == 0, ended.err
        assert "counting neighbors" in ended.err
    for file in (cut / "manifest.json", whole_checkpoints(cut)[-1] / "manifest.json"):
        file.unlink()
    assert len(whole_checkpoints(cut)) < len(whole_checkpoints(whole))
    again = command(*words, "--out", cut)
    assert "resuming after step 2" in again.err
    assert "counting neighbors" not in again.err
    weights = [(out / "model.safetensors").read_bytes() for out in (whole, cut)]
    assert weights[0] == weights[1]


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
