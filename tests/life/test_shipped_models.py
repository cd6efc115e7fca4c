"""The models that come with bertworks: whole, told truly, and good for what their cards say."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bertworks
from bertworks.core.shipped import PLACE
from bertworks.serving.predictor import Predictor

NAMES = sorted(path.parent.name for path in PLACE.glob("*/manifest.json"))
ENGLISH = [name for name in NAMES if "-en" in name]
# What stands behind the mask is among the five likeliest pieces for most of these.
MASKED = {
    "She was born in New [MASK] City.": "york",
    "The war lasted from 1914 [MASK] 1918.": "to",
    "He is the author of several [MASK] and short stories.": "novels",
    "The [MASK] flows through the valley into the sea.": "river",
    "They lived in the United [MASK] of America.": "states",
    "He was the first [MASK] of the United States.": "president",
    "She opened the [MASK] and went into the house.": "door",
    "The film was directed [MASK] a young man.": "by",
    "It is one of the [MASK] cities in the world.": "largest",
    "I do not [MASK] what you mean.": "know",
}
NEAR = [
    ("A man is playing a guitar.", "Someone plays a guitar.", "The stock market fell on Monday."),
    ("The cat sleeps on the sofa.", "A cat is sleeping.", "Water boils at a hundred degrees."),
    ("How old is the earth?", "What is the age of the earth?", "She sings in a choir."),
    ("The ship sank in a storm.", "A storm sank the ship.", "He opened a new restaurant."),
]


@pytest.fixture(scope="module", params=ENGLISH)
def model(request: pytest.FixtureRequest) -> Predictor:
    """Open a model that comes with bertworks by its name."""
    return bertworks.load(request.param, device="cpu")


def test_there_are_some_and_the_command_tells_them(command: Any) -> None:
    told = json.loads(command("models", "--json").out)["models"]
    assert [row["name"] for row in told] == NAMES
    assert ENGLISH
    assert all(row["language"] in ("en", "zh") for row in told)


def test_masks_are_filled_with_sense(model: Predictor) -> None:
    if "fill_mask" not in model.model.tasks:
        pytest.skip("made for vectors")
    found = {text: [one.token for one in model.fill_mask(text)] for text in MASKED}
    right = [text for text, expected in MASKED.items() if expected in found[text]]
    assert len(right) >= 7, found


def test_texts_that_mean_alike_lie_nearer_than_others(model: Predictor) -> None:
    for texts in NEAR:
        first, alike, other = model.embed(list(texts))
        assert first @ alike > first @ other


def test_transformers_opens_what_export_makes_of_it(
    model: Predictor, request: pytest.FixtureRequest, command: Any, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    import torch

    name = request.node.callspec.params["model"]
    out = tmp_path / "theirs"
    ended = command("export", "--model", name, "--to", "hugging-face", "--out", out)
    assert ended.code == 0, ended.err
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    theirs = transformers.AutoModel.from_pretrained(out).eval()
    text = "The river flows through the old town and into the sea."
    with torch.no_grad():
        hidden = theirs(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
    vector = hidden.mean(0).numpy()
    own = model.embed([text], pooling="mean", normalize=False)[0]
    assert np.allclose(own, vector, atol=1e-4)
