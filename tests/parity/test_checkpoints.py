"""Weights that were trained elsewhere: old files and real ones give the same numbers here.

The rxnfp checkpoint is compared only where the folder `shared/data/checkpoints` lies beside the
repository. Its twin, small, random and with the same oddities (half precision, names of 2020, a
bare `vocab.txt`), is always compared.
"""

import json
import lzma
import shutil
from pathlib import Path

import pytest
import torch
from transformers import BertForPreTraining

from bertworks.model.weights import read_tensors, write_tensors
from bertworks.serving.model_folder import open_model

CHECKPOINTS = Path(__file__).parents[3] / "shared" / "data" / "checkpoints"
RXNFP = CHECKPOINTS / "rxnfp-bert_pretrained"
NAMES = ["twin", "rxnfp"] if RXNFP.is_dir() else ["twin"]


@pytest.fixture
def twin(tmp_path: Path, draw_config, roughen) -> Path:
    """Write a folder as it was written in 2020, of a small network."""
    folder = tmp_path / "twin"
    config = draw_config(0, hidden_size=21, num_attention_heads=3, vocab_size=61)
    roughen(BertForPreTraining(config), seed=1).save_pretrained(folder)
    tensors = read_tensors(folder / "model.safetensors")
    tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"]
    halves = {name: tensor.half().clone() for name, tensor in tensors.items()}
    write_tensors(folder / "model.safetensors", halves)
    written = json.loads((folder / "config.json").read_text())
    for key in ("pad_token_id", "dtype", "transformers_version", "tie_word_embeddings"):
        written.pop(key)
    written |= {"pruned_heads": {}, "output_past": True, "use_bfloat16": False}
    (folder / "config.json").write_text(json.dumps(written))
    unused = [f"[unused{number}]" for number in range(1, 11)]
    words = ["[UNK]", "[CLS]", "[SEP]", "[MASK]", "c", "C", "(", ")", "##o", "[C@H]"]
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", *unused, *words]) + "\n")
    return folder


@pytest.fixture
def rxnfp(tmp_path: Path) -> Path:
    folder = tmp_path / "rxnfp"
    folder.mkdir()
    for name in ("config.json", "vocab.txt"):
        shutil.copyfile(RXNFP / name, folder / name)
    with lzma.open(RXNFP / "model.safetensors.xz") as packed:
        (folder / "model.safetensors").write_bytes(packed.read())
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_an_old_checkpoint_gives_the_same_numbers(
    name: str, request, draw_texts, flat, padded, largest_gap
) -> None:
    folder: Path = request.getfixturevalue(name)
    opened = open_model(folder)
    assert opened.account is not None
    assert (opened.account.missing, opened.account.unexpected) == ((), ())
    ours = opened.model.eval()
    theirs = BertForPreTraining.from_pretrained(folder, dtype=torch.float32).eval()
    size = opened.tokenizer.vocab_size
    texts = draw_texts((1, 7, 60, 7, 200), seed=6, vocab_size=size)
    batch, inputs = flat(texts), padded(texts)
    is_real = inputs["attention_mask"].bool()
    with torch.no_grad():
        hidden = ours.encoder(batch)
        told = theirs(**inputs, output_hidden_states=True)
        logits = {n: head(hidden, batch, ours.encoder) for n, head in ours.heads.items()}
    assert largest_gap(hidden, told.hidden_states[-1][is_real]) <= 1e-5
    assert largest_gap(logits["next_sentence"], told.seq_relationship_logits) <= 1e-5
    # Trained logits are large: what counts is their share.
    chances = told.prediction_logits[is_real].softmax(-1)
    assert largest_gap(logits["fill_mask"].softmax(-1), chances) <= 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_an_old_vocabulary_is_read_line_by_line(name: str, request) -> None:
    folder: Path = request.getfixturevalue(name)
    lines = (folder / "vocab.txt").read_text().splitlines()
    tokenizer = open_model(folder).tokenizer
    assert [tokenizer.piece(number) for number in range(len(lines))] == lines
    assert tokenizer.specials.mask == lines.index("[MASK]")
