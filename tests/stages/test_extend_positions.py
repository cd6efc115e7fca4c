"""extend-positions: longer texts in one window, and the vectors of shorter ones as they were."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bertworks
from bertworks.core.artifact import Origin, open_artifact
from bertworks.model.config import Local
from bertworks.model.embedding import EmbeddingRecipe
from bertworks.serving.model_folder import open_model, save_model

Run = Callable[..., Any]
FAMILIES = ["bert", "roberta", "albert", "mpnet", "modernbert"]
SHORT = ["The cat sat on the mat.", "北京", "the cat and the dog " * 5]


@pytest.fixture
def saved(request: pytest.FixtureRequest, draw_model: Callable, tmp_path: Path) -> Path:
    """Save a network for texts of 67 pieces."""
    model, tokenizer = draw_model(request.param)
    save_model(tmp_path / "before", model, tokenizer, origin=Origin())
    return tmp_path / "before"


@pytest.mark.parametrize("saved", FAMILIES, indirect=True)
def test_short_texts_keep_their_vectors_and_long_ones_are_read_whole(
    saved: Path, command: Run, tmp_path: Path
) -> None:
    out = tmp_path / "after"
    ended = command("extend-positions", "--model", saved, "--to", 200, "--out", out, "--json")
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    assert told == {"model": str(out), "positions_before": 67, "positions": 200}
    before, after = bertworks.load(saved), bertworks.load(out)
    assert (before.longest, after.longest) == (67, 200)
    np.testing.assert_allclose(after.embed(SHORT), before.embed(SHORT), rtol=0, atol=1e-6)
    long = "the cat and the dog " * 20
    assert np.isfinite(after.embed([long])).all()
    assert np.abs(after.embed([long]) - before.embed([long])).max() > 1e-4
    assert open_artifact(out, "model")["command"].startswith("bertworks extend-positions --model")


@pytest.mark.parametrize("saved", ["bert"], indirect=True)
def test_the_table_is_repeated_until_it_is_full(saved: Path, command: Run, tmp_path: Path) -> None:
    out = tmp_path / "after"
    assert command("extend-positions", "--model", saved, "--to", 150, "--out", out).code == 0
    name = "encoder.embeddings.positions.weight"
    old, new = (open_model(folder).model.get_parameter(name) for folder in (saved, out))
    assert torch.equal(new, torch.cat([old, old, old[:16]]))


@pytest.mark.parametrize("saved", ["bert", "modernbert"], indirect=True)
def test_a_window_narrows_what_a_token_sees(saved: Path, command: Run, tmp_path: Path) -> None:
    out = tmp_path / "after"
    words = ["extend-positions", "--model", saved, "--to", 150, "--window", 5, "--out", out]
    assert command(*words).code == 0
    was, now = open_model(saved).model.config, open_model(out).model.config
    full_every = None if was.local is None else was.local.full_every
    assert now.local == Local(window=5, full_every=full_every)
    before, after = bertworks.load(saved), bertworks.load(out)
    np.testing.assert_allclose(after.embed(SHORT[1:2]), before.embed(SHORT[1:2]), atol=1e-6)
    assert np.abs(after.embed(SHORT[2:]) - before.embed(SHORT[2:])).max() > 1e-4


@pytest.mark.parametrize(("length", "afterwards"), [(67, 150), (40, 40)])
def test_a_description_of_vectors_goes_along_and_keeps_a_length_of_its_own(
    length: int, afterwards: int, draw_model: Callable, command: Run, tmp_path: Path
) -> None:
    recipe = EmbeddingRecipe(pooling="first", max_length=length, prompts={"query": "find: "})
    model, tokenizer = draw_model("bert")
    save_model(tmp_path / "before", model, tokenizer, origin=Origin(), recipe=recipe)
    words = ["--model", tmp_path / "before", "--out", tmp_path / "after"]
    assert command("extend-positions", *words, "--to", 150).code == 0
    assert open_model(tmp_path / "after").recipe == recipe.changed(max_length=afterwards)


@pytest.mark.parametrize("saved", ["bert"], indirect=True)
def test_the_window_alone_may_change(saved: Path, command: Run, tmp_path: Path) -> None:
    words = ["extend-positions", "--model", saved, "--to", 67, "--out", tmp_path / "after"]
    assert "give --to a number above 67" in command(*words).refusal(2)
    assert command(*words, "--window", 9).code == 0


@pytest.mark.parametrize("saved", ["bert", "recurrent"], indirect=True)
def test_what_cannot_be_is_one_sentence(saved: Path, command: Run, tmp_path: Path) -> None:
    words = ["extend-positions", "--model", saved, "--out", tmp_path / "after"]
    said = command(*words, "--to", 66).refusal(2)
    assert said == f"{saved} reads 67 positions already; give --to a number above 67"
    if open_model(saved).model.config.mixer != "attention":
        said = command(*words, "--to", 100, "--window", 3).refusal(2)
        assert "has no attention to narrow; leave --window out" in said
    assert not (tmp_path / "after").exists()
