"""A pair gets the logits of the other library, from the same folder, whatever the vocabulary."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import bertworks
from bertworks.core.artifact import Origin
from bertworks.model.config import STYLES, EncoderConfig
from bertworks.serving.model_folder import save_model
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel
from bertworks.tokenizer.tokenizer import Tokenizer

LABELS = ("no", "perhaps", "yes")
PAIRS = [
    ("The cat sat on the mat", "and looked at the dog."),
    ("北京是中国的首都。", "Die Katze sitzt"),
    ("a", "the river runs through the city; numbers such as 3"),
]
FAMILIES = ["bert", "albert", "electra", "roberta"]
KINDS = ["wordpiece", "byte-bpe", "unigram"]


@pytest.fixture
def save_pairs(
    kinds: dict[str, Tokenizer], tmp_path: Path
) -> Callable[[str, str], tuple[Path, Tokenizer]]:
    """Save a small classifier of pairs whose segments weigh much, with a vocabulary of a kind."""

    def save(family: str, kind: str) -> tuple[Path, Tokenizer]:
        tokenizer = kinds[kind]
        shape = {"hidden_size": 18, "num_heads": 3, "num_layers": 2, "feed_forward_size": 31}
        if family == "albert":
            shape["embedding_size"] = 11
        size = {"vocab_size": tokenizer.vocab_size, "max_positions": 67, "num_segments": 2}
        config = EncoderConfig(**{**STYLES[family], **shape, **size})
        model = TaskModel(config, [make_task("classify", LABELS)], seed=5, deviation=0.3).eval()
        with torch.no_grad():
            model.encoder.embeddings.segments.weight.mul_(5)
        save_model(tmp_path / "model", model, tokenizer, origin=Origin())
        return tmp_path / "model", tokenizer

    return save


def ours(folder: Path) -> np.ndarray:
    answers = bertworks.load(folder, device="cpu").predict(PAIRS)
    return np.array([[answer["probabilities"][label] for label in LABELS] for answer in answers])


@torch.no_grad()
def theirs(folder: Path) -> np.ndarray:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    inputs = [tokenizer(*pair, return_tensors="pt") for pair in PAIRS]
    return torch.cat([network(**each).logits.softmax(-1) for each in inputs]).numpy()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_classifier_says_the_same_of_pairs(save_pairs, family: str, kind: str) -> None:
    folder, tokenizer = save_pairs(family, kind)
    np.testing.assert_allclose(ours(folder), theirs(folder), rtol=0, atol=1e-5)
    opened = Tokenizer.open(folder)
    assert opened.specials == tokenizer.specials


@pytest.mark.parametrize("kind", ["wordpiece", "unigram"])
def test_a_folder_that_asks_for_no_segments_gets_none(save_pairs, kind: str) -> None:
    folder, _ = save_pairs("bert", kind)
    (folder / "manifest.json").unlink()
    before = ours(folder)
    file = folder / "tokenizer_config.json"
    told = json.loads(file.read_text()) | {"model_input_names": ["input_ids", "attention_mask"]}
    file.write_text(json.dumps(told))
    np.testing.assert_allclose(ours(folder), theirs(folder), rtol=0, atol=1e-5)
    assert np.abs(ours(folder) - before).max() > 1e-3


def test_a_folder_of_roberta_with_classical_files_alone_has_no_second_segment(save_pairs) -> None:
    folder, _ = save_pairs("roberta", "byte-bpe")
    for name in ("manifest.json", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    np.testing.assert_allclose(ours(folder), theirs(folder), rtol=0, atol=1e-5)
