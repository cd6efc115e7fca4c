"""Other libraries' tokenizers and bare ONNX Runtime make of an exported folder what theirs do."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from bertworks.core.artifact import Origin
from bertworks.serving.model_folder import save_model
from bertworks.tasks.catalog import make_task

TEXTS = ["the cat sat on the mat", "dog", "the dog ran over the hill and sat"]
FAMILIES = ["bert", "roberta", "distilbert", "albert", "electra", "mpnet", "modernbert"]


@pytest.fixture
def exported(tmp_path: Path, draw_model, command):
    """Draw a model of a family, and export it."""

    def export(family: str, *words: Any, tasks: tuple[str, ...] = ()) -> Path:
        made = [make_task(name, ("no", "yes", "so")) for name in tasks]
        model, tokenizer = draw_model(family, *made)
        save_model(tmp_path / "model", model, tokenizer, origin=Origin())
        flags = ["--model", tmp_path / "model", "--to", "onnx", "--out", tmp_path / "out"]
        ended = command("export", *flags, *words)
        assert ended.code == 0, ended.err
        return tmp_path / "out"

    return export


def run(folder: Path, given: Any) -> dict[str, np.ndarray]:
    """Run the file of a folder on what a tokenizer made, as servers do."""
    session = onnxruntime.InferenceSession(folder / "onnx" / "model.onnx")
    none = torch.zeros_like(given["input_ids"])  # not every tokenizer tells segments
    asked = {item.name: given.get(item.name, none).numpy() for item in session.get_inputs()}
    names = [item.name for item in session.get_outputs()]
    return dict(zip(names, session.run(None, asked), strict=True))


@pytest.mark.parametrize("operators", ["fused", "plain"])
@pytest.mark.parametrize("family", FAMILIES)
@torch.inference_mode()
def test_the_last_layer_is_that_of_transformers(exported, family: str, operators: str) -> None:
    folder = exported(family, "--operators", operators)
    given = AutoTokenizer.from_pretrained(folder)(TEXTS, padding=True, return_tensors="pt")
    theirs = AutoModel.from_pretrained(folder).eval()(**given).last_hidden_state.numpy()
    found = run(folder, given)["last_hidden_state"]
    is_there = given["attention_mask"].numpy() == 1
    np.testing.assert_allclose(found[is_there], theirs[is_there], atol=2e-5)


@pytest.mark.parametrize("family", ["bert", "distilbert", "electra", "modernbert"])
@torch.inference_mode()
def test_logits_are_those_of_transformers(exported, family: str) -> None:
    folder = exported(family, tasks=("classify",))
    given = AutoTokenizer.from_pretrained(folder)(TEXTS, padding=True, return_tensors="pt")
    theirs = AutoModelForSequenceClassification.from_pretrained(folder).eval()(**given)
    np.testing.assert_allclose(run(folder, given)["logits"], theirs.logits.numpy(), atol=2e-5)


@pytest.mark.parametrize("pooling", ["mean", "first", "max"])
def test_vectors_are_those_of_sentence_transformers(exported, pooling: str) -> None:
    folder = exported("bert", "--pooling", pooling)
    given = AutoTokenizer.from_pretrained(folder)(TEXTS, padding=True, return_tensors="pt")
    theirs = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(run(folder, given)["sentence_embedding"], theirs, atol=1e-5)
