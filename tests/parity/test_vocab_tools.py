"""What the vocabulary tools and extend-positions write gives the same numbers in transformers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer

import bertworks
from bertworks.core.artifact import Origin
from bertworks.serving.model_folder import open_model, save_model
from bertworks.tasks.catalog import make_task

FAMILIES = ["bert", "roberta", "albert", "modernbert"]
WORDS = ["Dogma", "首都机场", "T恤", "Covid-19", "New York", "Ångström", "c++"]
TEXTS = [
    "The cat sat on the mat.",
    "dogma DOGMA, Dogma: dogmatic!",
    "我们在首都机场学习, T恤",
    "in New York (covid-19) Covid-19 c++ ångström",
    "",
]
MADE_BY: dict[str, list[Any]] = {
    "extended": ["vocab", "extend", "--words", *WORDS],
    "shrunken": ["vocab", "shrink", "TEXT"],
    "longer": ["extend-positions", "--to", 180],
}


@pytest.fixture(params=FAMILIES)
def made(
    request: pytest.FixtureRequest, draw_model: Callable, tmp_path: Path, command: Callable
) -> Callable[..., Path]:
    """Save a network of a family and change it by a command."""

    def make(change: str, *tasks: Any) -> Path:
        model, tokenizer = draw_model(request.param, *tasks)
        save_model(tmp_path / "before", model, tokenizer, origin=Origin())
        (tmp_path / "text.txt").write_text("\n".join(TEXTS), encoding="utf-8")
        words = [tmp_path / "text.txt" if word == "TEXT" else word for word in MADE_BY[change]]
        ended = command(*words, "--model", tmp_path / "before", "--out", tmp_path / "after")
        assert ended.code == 0, ended.err
        return tmp_path / "after"

    return make


@pytest.mark.parametrize("change", MADE_BY)
def test_ids_and_vectors_are_the_same_there(change: str, made: Callable[..., Path]) -> None:
    folder = made(change)
    ours = bertworks.load(folder)
    cut = AutoTokenizer.from_pretrained(folder)
    theirs, info = AutoModel.from_pretrained(folder, output_loading_info=True)
    assert not any(info.values()), info
    texts = [*TEXTS, "the cat and the dog " * (20 if change == "longer" else 3)]
    vectors = ours.embed(texts, normalize=False)
    for text, vector in zip(texts, vectors, strict=True):
        inputs = cut(text, return_tensors="pt")
        assert inputs["input_ids"][0, 1:-1].tolist() == ours.tokenizer.ids_of([text])[0]
        with torch.no_grad():
            expected = theirs.eval()(**inputs).last_hidden_state[0].mean(dim=0)
        np.testing.assert_allclose(vector, expected.numpy(), rtol=0, atol=1e-5)
    if change == "longer":
        assert inputs["input_ids"].shape[1] > 67


@pytest.mark.parametrize(("change", "tied"), [("extended", False), ("shrunken", True)])
def test_filled_masks_are_the_same_there(
    change: str, tied: bool, made: Callable[..., Path]
) -> None:
    folder = made(change, make_task("fill_mask", tied=tied))
    opened = open_model(folder)
    theirs, info = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert not any(info.values()), info
    cut = AutoTokenizer.from_pretrained(folder)
    text = f"The cat sat on the {cut.mask_token}."
    inputs = cut(text, return_tensors="pt")
    with torch.no_grad():
        logits = theirs.eval()(**inputs).logits[0][inputs["input_ids"][0] == cut.mask_token_id]
    found = bertworks.load(folder).fill_mask(text, num_candidates=5)
    best = logits.softmax(-1)[0].topk(5)
    np.testing.assert_allclose([c.probability for c in found], best.values.numpy(), atol=1e-5)
    named = [opened.tokenizer.shown(index) for index in best.indices.tolist()]
    assert [candidate.token for candidate in found] == named
