"""Every objective is learned where there is something to learn, and such a run has no warning."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WORDS = [f"w{a}{b}" for a in "bcdfghkl" for b in "aeiouxyz"]


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory, command: Callable[..., Any]) -> Path:
    """Tokenize documents that count through the words, each from another one on."""
    folder, chance = tmp_path_factory.mktemp("counting"), random.Random(17)

    def document() -> str:
        at, sentences = chance.randrange(len(WORDS)), []
        for _ in range(4):
            length = chance.randint(6, 12)
            sentences.append(" ".join(WORDS[(at + n) % len(WORDS)] for n in range(length)) + ".")
            at += length
        return "\n".join(sentences)

    (folder / "text.txt").write_text("\n\n".join(document() for _ in range(600)) + "\n")
    text, tokenizer, out = folder / "text.txt", folder / "tokenizer", folder / "shards"
    assert command("learn-vocab", text, "--out", tokenizer, "--size", 120).code == 0
    words = ["tokenize", text, "--tokenizer", tokenizer, "--out", out]
    assert command(*words, "--held-out", 0.2, "--workers", 1).code == 0
    return out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objectives", "least"),
    [
        (
            ["fill_mask", "next_sentence", "sentence_order"],
            {
                "fill_mask_accuracy": 0.7,
                "next_sentence_accuracy": 0.75,
                "sentence_order_accuracy": 0.85,
            },
        ),
        (["replaced_token"], {"replaced_token_f1": 0.6}),
        (["fill_mask", "next_piece"], {"fill_mask_accuracy": 0.6, "next_piece_accuracy": 0.7}),
    ],
    ids=lambda given: "+".join(given),
)
def test_an_objective_is_learned_where_there_is_something_to_learn(
    objectives: list[str],
    least: dict[str, float],
    shards: Path,
    tmp_path: Path,
    command: Callable[..., Any],
) -> None:
    size = ["--size", "modern-2x64", "--longest", 64, "--batch-tokens", 2048, "--steps", 600]
    words = ["pretrain", shards, "--out", tmp_path / "run", *size, "--lr", 2e-3]
    ended = command(*words, "--causal-share", 0.3, "--objectives", *objectives, "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert {name: found[name] for name in least if found[name] < least[name]} == {}
    assert found["warnings"] == []
