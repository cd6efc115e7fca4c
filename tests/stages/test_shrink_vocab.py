"""vocab shrink: fewer pieces, and what a model says of the text stays the same."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bertworks
from bertworks.core.artifact import Origin, open_artifact
from bertworks.core.batch import Target
from bertworks.data.packing import Features, flatten, join_pieces
from bertworks.model.embedding import EmbeddingRecipe
from bertworks.serving.model_folder import open_model, save_model
from bertworks.tasks.catalog import make_task

Run = Callable[..., Any]
FAMILIES = ["bert", "roberta", "albert"]
TEXTS = ["The cat sat on the [M]. A dog ran.", "北京 is a city: 日本, xyzzy!", "Der Hund läuft."]


@pytest.fixture
def shrunken(
    request: pytest.FixtureRequest, draw_model: Callable, tmp_path: Path, command: Run
) -> tuple[Path, Path, dict[str, Any]]:
    """Save a network with an untied decoder, and keep what a text uses."""
    tasks = [make_task("fill_mask", tied=False), make_task("classify", ["a", "b", "c"])]
    model, tokenizer = draw_model(request.param, *tasks)
    before, after, text = tmp_path / "before", tmp_path / "after", tmp_path / "text.txt"
    save_model(before, model, tokenizer, origin=Origin())
    text.write_text("\n".join(texts_for(tokenizer.mask_piece)), encoding="utf-8")
    ended = command("vocab", "shrink", text, "--model", before, "--out", after, "--json")
    assert ended.code == 0, ended.err
    return before, after, json.loads(ended.out)


def texts_for(mask: str) -> list[str]:
    """Return the texts with the mask that a tokenizer knows."""
    return [text.replace("[M]", mask) for text in TEXTS]


def logits(folder: Path, texts: list[str]) -> dict[str, torch.Tensor]:
    """Return what every task of a model says of texts, at each piece or of each text."""
    opened = open_model(folder)
    model, specials = opened.model.eval(), opened.tokenizer.specials
    pieces = [join_pieces(np.array(ids), None, specials) for ids in opened.tokenizer.ids_of(texts)]
    batch = flatten([Features(tokens, segments) for tokens, segments in pieces])
    batch.targets["fill_mask"] = Target(batch.tokens)
    with torch.no_grad():
        return {name: model.logits(batch, name) for name in model.tasks}


@pytest.mark.parametrize("shrunken", FAMILIES, indirect=True)
def test_vectors_labels_and_masks_of_the_text_stay_the_same(shrunken) -> None:
    before, after = map(bertworks.load, shrunken[:2])
    texts = texts_for(before.tokenizer.mask_piece)
    texts += ["A dog ran.", "\n".join(texts)]  # a sentence, and the whole document
    np.testing.assert_allclose(after.embed(texts), before.embed(texts), rtol=0, atol=1e-6)
    was, now = (logits(folder, texts) for folder in shrunken[:2])
    known = before.tokenizer.engine.get_vocab()
    kept = [known[after.tokenizer.piece(i)] for i in range(after.tokenizer.vocab_size)]
    torch.testing.assert_close(now["classify"], was["classify"], rtol=0, atol=1e-6)
    torch.testing.assert_close(now["fill_mask"], was["fill_mask"][:, kept], rtol=0, atol=2e-6)


@pytest.mark.parametrize("shrunken", FAMILIES, indirect=True)
def test_every_kept_row_is_the_row_of_the_same_piece(shrunken) -> None:
    before, after = (open_model(folder) for folder in shrunken[:2])
    size = after.tokenizer.vocab_size
    assert after.model.config.vocab_size == size
    known = before.tokenizer.engine.get_vocab()
    old_ids = [known[after.tokenizer.piece(index)] for index in range(size)]
    for name in ("encoder.embeddings.pieces.weight", "heads.fill_mask.decoder"):
        old, new = before.model.get_parameter(name), after.model.get_parameter(name)
        assert torch.equal(new, old[old_ids])
    others = {"encoder.embeddings.pieces.weight", "heads.fill_mask.decoder", "heads.fill_mask.bias"}
    for name, parameter in after.model.named_parameters():
        assert name in others or torch.equal(parameter, before.model.get_parameter(name))


@pytest.mark.parametrize("shrunken", ["bert"], indirect=True)
def test_what_was_done_is_told_and_can_be_done_again(
    shrunken, tmp_path: Path, run_again: Run
) -> None:
    before, after, told = shrunken
    models = [open_model(folder).model for folder in (before, after)]
    sizes = [sum(p.numel() for p in model.parameters()) for model in models]
    assert told == {
        "model": str(after),
        "pieces_before": models[0].config.vocab_size,
        "pieces": models[1].config.vocab_size,
        "parameters_before": sizes[0],
        "parameters": sizes[1],
        "bad_rows": 0,
    }
    assert told["pieces"] < told["pieces_before"] / 2
    manifest = open_artifact(after, "model")
    assert manifest["command"].startswith("bertworks vocab shrink ")
    again = run_again(after, tmp_path / "again")
    for name in ("model.safetensors", "tokenizer.json"):
        assert (again / name).read_bytes() == (after / name).read_bytes()


def test_predictions_on_the_text_stay_the_same_in_a_trained_model(
    classifier: Path, text: Path, command: Run, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert command("vocab", "shrink", text, "--model", classifier, "--out", out).code == 0
    lines = [line for line in text.read_text().splitlines() if line][:40]
    before, after = (bertworks.load(folder).predict(lines) for folder in (classifier, out))
    for was, now in zip(before, after, strict=True):
        assert now["label"] == was["label"]
        assert now["probability"] == pytest.approx(was["probability"], abs=1e-6)


def test_a_description_of_vectors_goes_along(
    draw_model: Callable, text: Path, command: Run, tmp_path: Path
) -> None:
    recipe = EmbeddingRecipe(pooling="first", max_length=40, prompts={"query": "find: "})
    model, tokenizer = draw_model("bert")
    save_model(tmp_path / "before", model, tokenizer, origin=Origin(), recipe=recipe)
    changes = {"shrunken": ["shrink", text], "extended": ["extend", "--words", "dogma"]}
    for name, words in changes.items():
        where = ["--model", tmp_path / "before", "--out", tmp_path / name]
        assert command("vocab", *words, *where).code == 0
        assert open_model(tmp_path / name).recipe == recipe


def test_bad_rows_are_counted_and_said(pretrained: Path, command: Run, tmp_path: Path) -> None:
    file, out = tmp_path / "rows.jsonl", tmp_path / "out"
    file.write_text('{"text": "river boat"}\n' * 20 + "[]\n")
    ended = command("vocab", "shrink", file, "--model", pretrained, "--out", out, "--json")
    assert json.loads(ended.out)["bad_rows"] == 1
    assert "rows.jsonl line 21: not a JSON object" in ended.err


def test_a_tokenizer_that_would_cut_the_text_otherwise_is_noticed(
    pretrained: Path, command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, out = tmp_path / "text.txt", tmp_path / "out"
    file.write_text("riverboat river\n")
    words = ["vocab", "shrink", file, "--model", pretrained, "--out", out]

    def forgetful(needs: Any) -> Any:
        needs.ids.discard(needs.tokenizer.engine.token_to_id("river"))
        return whole(needs)

    whole = bertworks.tokenizer.shrink.Needs.shrunken
    monkeypatch.setattr("bertworks.tokenizer.shrink.Needs.shrunken", forgetful)
    said = command(*words).refusal(1)
    assert said.startswith("the smaller vocabulary would cut 'riverboat river' otherwise")
    assert not out.exists()


def test_what_cannot_be_shrunk_is_one_sentence(
    pretrained: Path, command: Run, tmp_path: Path
) -> None:
    blank = tmp_path / "blank.txt"
    blank.write_text("\n \n")
    words = ["vocab", "shrink", blank, "--model", pretrained, "--out", tmp_path / "out"]
    assert "holds no text" in command(*words).refusal(1)
    assert "vocab shrink needs TEXT" in command(*words[:2], *words[3:]).refusal(2)
