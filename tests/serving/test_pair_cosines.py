"""Cosines of pairs: those of the vectors that `embed` gives, whatever a folder says of vectors."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bertworks
from bertworks.core.artifact import Origin
from bertworks.model.embedding import DenseLayer, EmbeddingRecipe
from bertworks.serving.model_folder import save_model
from bertworks.serving.predictor import Predictor

LONG = "the cat sat on the mat and the dog ran over the hill " * 11
PAIRS = [
    ("The cat sat on the mat.", "北京"),
    ("Paris is the capital of France.", LONG),
    (LONG, "the river runs " + LONG),
    ("?", "Die Katze läuft!"),
]
WEIGHT = torch.randn(5, 21, generator=torch.Generator().manual_seed(2))
PROMPTS = {"query": "the dog on the hill: ", "document": "Paris: "}
RECIPES: dict[str, dict[str, Any]] = {
    "cut": {"max_length": 31},
    "first": {"pooling": "first"},
    "max": {"pooling": "max"},
    "weighted": {"pooling": "weighted", "max_length": 31},
    "last": {"pooling": "last"},
    "sqrt": {"pooling": "sqrt", "normalize": False},
    "prompted": {"prompts": PROMPTS, "default_prompt": "query"},
    "not asked": {"prompts": PROMPTS},
    "prompt not pooled": {"prompts": PROMPTS, "default_prompt": "query", "pools_prompt": False},
    "small letters": {"lowercase": True},
    "dense": {
        "layers": (DenseLayer(WEIGHT, WEIGHT[:, 0], "tanh"),),
        "prompts": PROMPTS,
        "default_prompt": "document",
        "max_length": 31,
    },
}


@pytest.fixture
def save(tmp_path: Path, make_model, tokenizer) -> Callable[..., Path]:
    """Write a folder of sentence-transformers, perhaps one with a task of pairs."""

    def write(*tasks: str, longest: int = 67, **said: Any) -> Path:
        recipe, model = EmbeddingRecipe(**said), make_model(*tasks, labels=("other", "same"))
        about: dict[str, Any] = {"origin": Origin(), "recipe": recipe}
        save_model(tmp_path / "model", model, tokenizer, **about, extra={"longest": longest})
        return tmp_path / "model"

    return write


def cosines_of(model: Predictor) -> np.ndarray:
    """Return the cosines of the pairs by the vectors that the model gives."""
    first, second = (model.embed([pair[side] for pair in PAIRS]) for side in (0, 1))
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return (first * second).sum(axis=1) / lengths


def scores_of(model: Predictor) -> list[float]:
    """Return the cosines of the pairs as the model answers them."""
    return [answer["score"] for answer in model.predict(PAIRS)]


@pytest.mark.parametrize("tasks", [(), ("embed",)])
@pytest.mark.parametrize("name", RECIPES)
def test_a_pair_is_answered_with_the_cosine_of_its_vectors(
    name: str, tasks: tuple[str, ...], save
) -> None:
    model = bertworks.load(save(*tasks, **RECIPES[name]))
    cosines = cosines_of(model)
    assert np.ptp(cosines) > 1e-2
    np.testing.assert_allclose(scores_of(model), cosines, atol=1e-5)


@pytest.mark.parametrize("cut", [None, 31])
def test_the_windows_that_were_learned_from_change_no_vector_of_a_pair(
    cut: int | None, save
) -> None:
    model = bertworks.load(save("embed", longest=20, max_length=cut))
    assert model.window == 20
    np.testing.assert_allclose(scores_of(model), cosines_of(model), atol=1e-5)


def test_commands_tell_the_cosine_of_the_vectors_that_embed_writes(
    save, tmp_path: Path, command
) -> None:
    folder = save(max_length=31, prompts=PROMPTS, default_prompt="query")
    data, texts = tmp_path / "pairs.jsonl", tmp_path / "texts.jsonl"
    rows = [{"text": a, "text_b": b, "score": n} for n, (a, b) in enumerate(PAIRS)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    texts.write_text("".join(json.dumps({"text": text}) + "\n" for p in PAIRS for text in p))
    model, out = ["--model", folder], ["--out", tmp_path / "report"]
    assert command("embed", *model, "--data", texts, "--out", tmp_path / "v.npy").code == 0
    vectors = np.load(tmp_path / "v.npy").reshape(len(PAIRS), 2, -1)
    cosines = vectors.prod(axis=1).sum(axis=1)  # they are one long
    predicted = command("predict", *model, "--data", data)
    evaluated = command("evaluate", *model, "--data", data, *out)
    answers = predicted.out, (tmp_path / "report" / "answers.jsonl").read_text()
    for lines in answers:
        scores = [json.loads(line)["score"] for line in lines.splitlines()]
        np.testing.assert_allclose(scores, cosines, atol=1e-5)
    said = "of 2 of 4 inputs no more than the first 31 pieces make a text's vector\n"
    assert said in predicted.err
    assert said in evaluated.err
