"""Weights that were trained elsewhere: old files and real ones give the same numbers here.

The real checkpoints are compared only where the folder `shared/data/checkpoints` lies beside the
repository. A twin of each, small, random and with the same oddities (half precision, names and
settings of 2020, a bare `vocab.txt`), is always compared.
"""

import json
import lzma
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from bertworks.model.weights import read_tensors, write_tensors
from bertworks.serving.model_folder import open_model
from bertworks.tokenizer.tokenizer import Tokenizer

CHECKPOINTS = Path(__file__).parents[3] / "shared" / "data" / "checkpoints"
CLASSES = {"rxnfp-bert_pretrained": "BertForPreTraining", "rxnmapper-albert": "AlbertForMaskedLM"}
REAL = [(name, cls) for name, cls in CLASSES.items() if (CHECKPOINTS / name).is_dir()]
NAMES = [("twin", cls) for cls in CLASSES.values()] + REAL
UNUSED = [f"[unused{number}]" for number in range(1, 11)]
WORDS = ["[UNK]", "[CLS]", "[SEP]", "[MASK]", "c", "C", "(", ")", "##o", "[C@H]"]
OLD_SETTINGS = {"pruned_heads": {}, "output_past": True, "use_bfloat16": False, "num_labels": 2}
NEW_SETTINGS = ("pad_token_id", "dtype", "transformers_version", "tie_word_embeddings")


@pytest.fixture
def unpack(tmp_path: Path, make_theirs):
    """Return the folder of a real checkpoint, or of the twin of its class."""

    def made(name: str, cls: str) -> Path:
        if name == "twin":
            family, kind = cls.split("For")
            theirs = make_theirs(family.lower(), f"For{kind}", seed=1, max_position_embeddings=200)
            return write_twin(theirs, tmp_path / "twin")
        folder = tmp_path / name
        folder.mkdir()
        for file in ("config.json", "vocab.txt"):
            shutil.copyfile(CHECKPOINTS / name / file, folder / file)
        with lzma.open(CHECKPOINTS / name / "model.safetensors.xz") as packed:
            (folder / "model.safetensors").write_bytes(packed.read())
        return folder

    return made


def write_twin(theirs: Any, folder: Path) -> Path:
    """Write a folder as it was written in 2020."""
    theirs.save_pretrained(folder)
    tensors = read_tensors(folder / "model.safetensors")
    decoder, pieces = next(iter(theirs._tied_weights_keys.items()))
    tensors[decoder] = tensors[pieces]
    halves = {name: tensor.half().clone() for name, tensor in tensors.items()}
    write_tensors(folder / "model.safetensors", halves)
    written = json.loads((folder / "config.json").read_text())
    kept = {key: value for key, value in written.items() if key not in NEW_SETTINGS}
    (folder / "config.json").write_text(json.dumps(kept | OLD_SETTINGS))
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", *UNUSED, *WORDS]) + "\n")
    return folder


@pytest.mark.parametrize(("name", "cls"), NAMES)
def test_an_old_checkpoint_gives_the_same_numbers(
    name: str, cls: str, unpack, draw_texts, gaps
) -> None:
    folder = unpack(name, cls)
    opened = open_model(folder)
    assert opened.account is not None
    assert opened.account.unexpected == ()
    assert all(name.startswith("encoder.pooler.") for name in opened.account.missing)
    ours = opened.model.eval()
    how = {"dtype": torch.float32, "attn_implementation": "eager"}
    theirs = getattr(transformers, cls).from_pretrained(folder, **how).eval()
    texts = draw_texts((1, 7, 60, 7, 200), seed=6, vocab_size=opened.tokenizer.vocab_size)
    found = gaps(ours, theirs, texts)
    # Trained logits are large, and so is what rounding leaves of them.
    allowed = dict.fromkeys(found, 1e-5) | {"fill_mask": 1e-5 if name == "twin" else 1e-4}
    assert all(found[key] <= allowed[key] for key in found), found


@pytest.mark.parametrize(("name", "cls"), NAMES)
def test_an_old_vocabulary_is_read_line_by_line(name: str, cls: str, unpack) -> None:
    folder = unpack(name, cls) if name == "twin" else CHECKPOINTS / name
    lines = (folder / "vocab.txt").read_text().splitlines()
    tokenizer = Tokenizer.open(folder)
    assert [tokenizer.piece(number) for number in range(len(lines))] == lines
    assert tokenizer.specials.mask == lines.index("[MASK]")
