"""Batches of a pre-training: what is hidden in them, and what never changes with the seed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertworks.core.settings import Ramp
from bertworks.data.shards import Shards
from bertworks.stages.pretrain_data import corpus_batches
from bertworks.stages.setting_groups import MaskingSettings
from bertworks.stages.settings import PretrainSettings

Run = Callable[..., Any]
Words = Callable[..., list[Any]]


def test_the_seed_chooses_the_batches_but_not_what_they_are_judged_by(shards: Path) -> None:
    def batches(seed: int) -> tuple[list[list[int]], list[list[int]]]:
        settings = PretrainSettings(
            shards, out=Path("o"), longest=32, batch_tokens=Ramp(512, 512), seed=seed
        )
        training, held_out = corpus_batches(
            settings, Shards.open(shards), ("fill_mask", "next_sentence")
        )
        steps = [batch for step in range(3) for batch in training.at(step)]
        return [b.tokens.tolist() for b in steps], [b.tokens.tolist() for b in held_out]

    first, again, other = batches(0), batches(0), batches(1)
    assert first == again
    assert first[0] != other[0]
    assert first[1] == other[1]


CHINESE = ["北京大学的学生在图书馆学习。", "我们今天讨论人工智能的研究。"]
UNMARKED = "warning: Chinese words are not marked in these shards, so each character is hidden as"


@pytest.fixture(scope="module")
def chinese(tmp_path_factory: pytest.TempPathFactory, command: Run) -> Callable[[str], Path]:
    """Tokenize Chinese documents with words as they are wanted."""
    folder = tmp_path_factory.mktemp("chinese")
    text = "\n\n".join(f"{CHINESE[n % 2]}\n第{n}天。" for n in range(40))
    (folder / "text.txt").write_text(text, encoding="utf-8")
    learned = command("learn-vocab", folder / "text.txt", "--out", folder / "tokenizer")
    assert learned.code == 0, learned.err

    def tokenize(words: str) -> Path:
        chosen = ["--words", words, "--held-out", 0.2, "--workers", 1]
        given = ["--tokenizer", folder / "tokenizer", "--out", folder / words]
        ended = command("tokenize", folder / "text.txt", *given, *chosen)
        assert ended.code == 0, ended.err
        return folder / words

    return tokenize


def test_words_of_chinese_that_are_not_marked_are_warned_of(
    chinese: Callable[[str], Path], shards: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unmarked, marked, said = chinese("text"), chinese("zh"), []
    for folder, kind in (
        (unmarked, "word"),
        (unmarked, "piece"),
        (marked, "word"),
        (shards, "word"),
    ):
        settings = PretrainSettings(
            folder, out=Path("o"), longest=32, masking=MaskingSettings(mask_kind=kind)
        )
        capsys.readouterr()
        corpus_batches(settings, Shards.open(folder), ("fill_mask",))
        said.append(capsys.readouterr().err.count(UNMARKED))
    assert said == [1, 0, 0, 0]


@pytest.mark.parametrize(("masked", "kept"), [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)])
def test_what_stands_for_the_hidden_is_a_setting(masked: float, kept: float, shards: Path) -> None:
    masking = MaskingSettings(masked_share=masked, random_share=1 - masked - kept)
    settings = PretrainSettings(shards, out=Path("o"), longest=32, masking=masking)
    opened = Shards.open(shards)
    training, _ = corpus_batches(settings, opened, ("fill_mask",))
    for batch in training.at(0):
        target = batch.targets["fill_mask"]
        assert (batch.tokens[target.at] == opened.specials.mask).float().mean() == masked
        share_kept = (batch.tokens[target.at] == target.values).float().mean()
        assert abs(share_kept - kept) < 0.1
