"""vocab extend: words become pieces of a model, and all it said of other text stays the same."""

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
from bertworks.serving.model_folder import open_model, save_model
from bertworks.tasks.catalog import make_task

Run = Callable[..., Any]
FAMILIES = ["bert", "roberta", "albert"]
OTHER = ["The cat sat on the mat.", "北京是中国的首都。", "läuft über den Hügel", "dogmatic covid"]


@pytest.fixture
def extended(
    request: pytest.FixtureRequest, draw_model: Callable, tmp_path: Path, command: Run
) -> tuple[Path, Path, dict[str, Any]]:
    """Save a network with an untied decoder, and add words to it."""
    tasks = [make_task("fill_mask", tied=False), make_task("classify", ["a", "b", "c"])]
    model, tokenizer = draw_model(request.param, *tasks)
    before, after = tmp_path / "before", tmp_path / "after"
    save_model(before, model, tokenizer, origin=Origin())
    words = ["vocab", "extend", "--model", before, "--words", "dogma", "首都机场", "Covid-19"]
    ended = command(*words, "--out", after, "--json")
    assert ended.code == 0, ended.err
    return before, after, json.loads(ended.out)


def logits(folder: Path, texts: list[str]) -> dict[str, torch.Tensor]:
    """Return what every task of a model says of texts, at each piece or of each text."""
    opened = open_model(folder)
    model, specials = opened.model.eval(), opened.tokenizer.specials
    pieces = [join_pieces(np.array(ids), None, specials) for ids in opened.tokenizer.ids_of(texts)]
    batch = flatten([Features(tokens, segments) for tokens, segments in pieces])
    batch.targets["fill_mask"] = Target(batch.tokens)
    with torch.no_grad():
        return {name: model.logits(batch, name) for name in model.tasks}


@pytest.mark.parametrize("extended", FAMILIES, indirect=True)
def test_text_without_the_words_keeps_its_vectors_and_labels(extended) -> None:
    before, after = map(bertworks.load, extended[:2])
    assert before.tokenizer.ids_of(OTHER) == after.tokenizer.ids_of(OTHER)
    np.testing.assert_allclose(after.embed(OTHER), before.embed(OTHER), rtol=0, atol=1e-6)
    was, now = (logits(folder, OTHER) for folder in extended[:2])
    size = before.tokenizer.vocab_size
    torch.testing.assert_close(now["classify"], was["classify"], rtol=0, atol=1e-6)
    torch.testing.assert_close(
        now["fill_mask"][:, :size], was["fill_mask"][:, :size], rtol=0, atol=2e-6
    )


@pytest.mark.parametrize("extended", FAMILIES, indirect=True)
def test_new_rows_start_as_the_mean_of_the_pieces_before(extended) -> None:
    before, after = (open_model(folder) for folder in extended[:2])
    (parts,) = before.tokenizer.ids_of([" dogma"])
    parts = [part for part in parts if before.tokenizer.piece(part) not in ("Ġ", "▁")]
    (index,) = after.tokenizer.ids_of(["dogma"])[0]
    for name in ("encoder.embeddings.pieces.weight", "heads.fill_mask.decoder"):
        old, new = before.model.get_parameter(name), after.model.get_parameter(name)
        torch.testing.assert_close(new[index], old[parts].mean(0))
        kept = before.tokenizer.vocab_size
        assert torch.equal(new[:kept], old[:kept])


@pytest.mark.parametrize("extended", ["bert"], indirect=True)
def test_what_was_done_is_told_and_can_be_done_again(
    extended, tmp_path: Path, run_again: Run, contents: Run
) -> None:
    before, after, told = extended
    size = open_model(before).tokenizer.vocab_size
    assert told == {
        "model": str(after),
        "added": 3,
        "known": [],
        "reused": [],
        "unreadable_before": ["首都机场", "covid-19"],
        "pieces_before": size + 2,
        "pieces": size + 3,
    }
    manifest = open_artifact(after, "model")
    assert manifest["command"].startswith("bertworks vocab extend --model ")
    again = contents(run_again(after, tmp_path / "again"))
    assert again["model.safetensors"] == (after / "model.safetensors").read_bytes()
    assert again["tokenizer.json"] == (after / "tokenizer.json").read_bytes()


def test_words_come_from_a_file_too(pretrained: Path, command: Run, tmp_path: Path) -> None:
    file, out = tmp_path / "words.txt", tmp_path / "out"
    file.write_text("\n riverboat \nroad\n\nmotor road\nriverboat\n", encoding="utf-8")
    words = ["vocab", "extend", "--model", pretrained, "--words-file", file, "--out", out]
    told = json.loads(command(*words, "--words", "fishbank", "--json").out)
    assert (told["added"], told["known"]) == (3, ["road"])
    tokenizer = open_model(out).tokenizer
    ids = tokenizer.ids_of(["Riverboat, fishbank: motor road"])[0]
    assert tokenizer.piece(ids[0]) == "riverboat"
    assert len(ids) == 5


def test_an_extended_model_is_extended_again(
    pretrained: Path, command: Run, tmp_path: Path
) -> None:
    once, twice = tmp_path / "once", tmp_path / "twice"
    for model, word, out in ((pretrained, "riverboat", once), (once, "fishbank", twice)):
        assert command("vocab", "extend", "--model", model, "--words", word, "--out", out).code == 0
    first, second = (open_model(folder).tokenizer for folder in (once, twice))
    assert second.vocab_size == first.vocab_size + 1
    assert len(second.ids_of(["riverboat fishbank"])[0]) == 2


def test_what_cannot_be_added_is_one_sentence(
    pretrained: Path, command: Run, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = ["vocab", "extend", "--model", pretrained, "--out", out]
    assert "needs --words or a --words-file" in command(*words).refusal(2)
    said = command(*words, "--words", "river", "road").refusal(2)
    assert "knows each of the 2 words as one piece already; there is nothing to add" in said
    assert "is nothing to this tokenizer" in command(*words, "--words", "\u200b").refusal(2)
    assert "'\\udcff' is not UTF-8" in command(*words, "--words", "\udcff").refusal(2)
    assert "is a special piece of this" in command(*words, "--words", "[MASK]").refusal(2)
    gone = command(*words, "--words-file", tmp_path / "gone.txt").refusal(1)
    assert "there is no file" in gone
    assert not out.exists()
