"""The model that a fine-tuning begins with: fresh ones of some size."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertworks.core.errors import UsageError
from bertworks.stages.finetune_model import (
    longest_of,
    open_for,
    own_tasks,
    refuse_vain_lessons,
)
from bertworks.stages.setting_groups import DropoutSettings
from bertworks.stages.settings import FinetuneSettings
from bertworks.tasks.classify import Classify
from bertworks.tasks.embed import Embed, VectorLesson
from bertworks.tokenizer.tokenizer import Tokenizer

Make = Callable[..., FinetuneSettings]


@pytest.fixture
def settings_of(tokenizer: Tokenizer, tmp_path: Path) -> Make:
    (tmp_path / "pieces").mkdir()
    tokenizer.save(tmp_path / "pieces")

    def make(**asked: Any) -> FinetuneSettings:
        return FinetuneSettings(model=tmp_path / "pieces", out=tmp_path / "out", **asked)

    return make


def test_a_fresh_network_has_the_size_and_the_pieces_it_is_asked_for(
    settings_of: Make, tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    rates = DropoutSettings(dropout=0.25, attention_dropout=0.0)
    settings = settings_of(size="transformer-3x24", longest=40, dropping=rates)
    assert own_tasks(settings) == {}
    opened = open_for(settings, [Classify(["a", "b"])], {})
    config = opened.model.config
    assert (config.num_layers, config.hidden_size, config.max_positions) == (3, 24, 40)
    assert config.vocab_size == tokenizer.vocab_size
    assert (config.dropout, config.attention_dropout) == (0.25, 0.0)
    assert list(opened.model.tasks) == ["classify"]
    assert "weights: fresh, " in capsys.readouterr().err
    assert longest_of(settings, opened) == 40


def test_a_window_beyond_the_network_is_refused(settings_of: Make) -> None:
    opened = open_for(settings_of(size="tiny", longest=40), [Classify(["a", "b"])], {})
    assert longest_of(settings_of(size="tiny"), opened) == 40
    with pytest.raises(
        UsageError, match=r"--longest is 41, .* 40 pieces; give --longest 40 or less"
    ):
        longest_of(settings_of(longest=41), opened)


def test_an_unknown_size_is_refused(settings_of: Make) -> None:
    with pytest.raises(UsageError, match="there is no family 'huge'"):
        open_for(settings_of(size="huge-2x24"), [Classify(["a", "b"])], {})


@pytest.mark.parametrize(
    ("together", "dropout", "lesson", "said"),
    [
        ({"batch_size": 8, "accumulate": 8}, 0.1, "contrastive", "leaves 1 in each; raise"),
        ({"batch_size": 1}, 0.1, "ranking", "--batch-size 1 in 1 parts leaves 1"),
        ({}, 0.0, "simcse", "this network has none; give --dropout 0.1"),
        ({"batch_size": 8, "accumulate": 4}, 0.0, "contrastive", None),
        ({}, 0.1, "simcse", None),
    ],
)
def test_a_lesson_without_a_difference_is_refused(
    settings_of: Make, together: dict[str, int], dropout: float, lesson: Any, said: str | None
) -> None:
    rates = DropoutSettings(dropout=dropout)
    settings = settings_of(size="tiny", longest=40, dropping=rates, **together)
    task = Embed(lesson=VectorLesson(lesson))
    opened = open_for(settings, [task], {})
    if said is None:
        refuse_vain_lessons(settings, [task], opened)
    else:
        with pytest.raises(UsageError, match=said):
            refuse_vain_lessons(settings, [task], opened)
