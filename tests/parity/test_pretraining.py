"""Objectives against transformers: ELECTRA's two networks, causal reading, training further."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn import functional
from transformers import (
    BertForMaskedLM,
    BertLMHeadModel,
    ElectraForMaskedLM,
    ElectraForPreTraining,
)

from bertworks.core.artifact import Origin, saving
from bertworks.core.batch import Batch, Target
from bertworks.model.config import STYLES, Dropout, EncoderConfig
from bertworks.serving.learners import Wanted, draw_learner, open_learner, write_learner
from bertworks.tasks.electra import Electra, draw, fill_in

LENGTHS = (5, 9, 9, 31)
ELECTRA = Wanted(objectives=("fill_mask", "replaced_token"), generator_size=0.5)


def asked(batch: Batch) -> Batch:
    """Hide every third token, and ask of all which were replaced."""
    at = torch.arange(1, len(batch.tokens), 3)
    every = torch.arange(len(batch.tokens))
    targets = {
        "fill_mask": Target(batch.tokens[at], at),
        "replaced_token": Target(torch.zeros_like(every), every),
    }
    hidden = batch.tokens.index_fill(0, at, 4)
    return replace(batch, tokens=hidden, targets=targets)


def side_by_side(tokens: torch.Tensor, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Put other tokens into inputs that are padded."""
    is_real = inputs["attention_mask"].bool()
    return {**inputs, "input_ids": inputs["input_ids"].masked_scatter(is_real, tokens)}


@pytest.mark.parametrize("embedding_size", [None, 11])
def test_a_step_of_electra_has_the_losses_of_both_networks_there(
    embedding_size, tmp_path: Path, pieces, roughen, draw_texts, flat, padded
) -> None:
    shape = {"vocab_size": 97, "hidden_size": 28, "num_layers": 2, "num_heads": 4}
    sizes = {"feed_forward_size": 33, "embedding_size": embedding_size}
    config = EncoderConfig(**STYLES["electra"], **shape, **sizes).with_dropout(0.0)
    learner = roughen(draw_learner(config, ELECTRA), seed=3)
    assert isinstance(learner, Electra)
    with saving(tmp_path / "ours", kind="model", origin=Origin()) as folder:
        write_learner(folder, learner, pieces, extra={})
    texts = draw_texts(LENGTHS, seed=4)
    batch, inputs = asked(flat(texts)), padded(texts)
    is_real = inputs["attention_mask"].bool()

    torch.manual_seed(7)
    ours = learner(batch)
    torch.manual_seed(7)
    hidden = batch.targets["fill_mask"]
    generator, discriminator = opened(tmp_path / "ours")
    with torch.no_grad():
        guesses = generator(**side_by_side(batch.tokens, inputs)).logits[is_real][hidden.at]
        filled = fill_in(batch, hidden, draw(guesses))
        found = discriminator(**side_by_side(filled.tokens, inputs)).logits[is_real]
    gold = filled.targets["replaced_token"].values.float()
    assert 0 < gold.sum() <= len(hidden.values)
    theirs = {
        "fill_mask": functional.cross_entropy(guesses, hidden.values, reduction="sum"),
        "replaced_token": functional.binary_cross_entropy_with_logits(found, gold, reduction="sum"),
    }
    for name, loss in theirs.items():
        torch.testing.assert_close(ours[name].detach(), loss, atol=1e-3, rtol=1e-5)


def opened(folder: Path) -> tuple[ElectraForMaskedLM, ElectraForPreTraining]:
    """Open both networks there, without a tensor amiss."""
    found = []
    for path, kind in ((folder / "generator", ElectraForMaskedLM), (folder, ElectraForPreTraining)):
        model, info = kind.from_pretrained(path, output_loading_info=True)
        assert not any(info.values()), info
        found.append(model.eval())
    return tuple(found)


def test_a_causal_batch_reads_as_their_decoder_does(
    open_ours, roughen, draw_config, draw_texts, flat, padded, largest_gap
) -> None:
    masked = roughen(BertForMaskedLM(draw_config(2)), seed=5)
    decoder = BertLMHeadModel(draw_config(2, is_decoder=True)).eval()
    decoder.load_state_dict(masked.state_dict())
    ours = open_ours(masked).model
    texts = draw_texts(LENGTHS, seed=6)
    batch, inputs = flat(texts), padded(texts)
    is_real = inputs["attention_mask"].bool()
    with torch.no_grad():
        for is_causal, theirs in ((True, decoder), (False, masked)):
            told = theirs(**inputs).logits[is_real]
            found = ours.judged(replace(batch, is_causal=is_causal))["fill_mask"][0]
            assert largest_gap(found, told) <= 1e-4
        assert largest_gap(found, decoder(**inputs).logits[is_real]) > 0.1


def test_their_model_is_trained_further_and_what_it_lacks_is_named(
    tmp_path: Path, pieces, roughen, draw_config, draw_texts, flat, padded, largest_gap, capsys
) -> None:
    theirs = roughen(BertForMaskedLM(draw_config(2)), seed=5)
    theirs.save_pretrained(tmp_path)
    pieces.save(tmp_path)
    wanted = Wanted(objectives=("fill_mask", "next_sentence"))
    learner = open_learner(tmp_path, pieces, wanted, dropout=Dropout(0.0))
    said = capsys.readouterr().err
    assert "4 start fresh (encoder.pooler.dense.weight, encoder.pooler.dense.bias, heads." in said
    texts = draw_texts(LENGTHS, seed=6)
    batch, inputs = flat(texts), padded(texts)
    with torch.no_grad():
        told = theirs(**inputs).logits[inputs["attention_mask"].bool()]
        assert largest_gap(learner.judged(batch)["fill_mask"][0], told) <= 1e-4
