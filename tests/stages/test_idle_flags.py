"""Flags that change nothing are said, or refused where no recipe can have brought them along."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bertworks.core.settings import settings_of
from bertworks.model.config import EncoderConfig
from bertworks.stages.idle_flags import OF_FINETUNE, OF_PRETRAIN, say_idle
from bertworks.stages.setting_groups import DropoutSettings
from bertworks.stages.settings import FinetuneSettings, PretrainSettings

PLAIN = PretrainSettings(Path("shards"), out=Path("out"))
LEARNING = PLAIN.learning
TINY = EncoderConfig.named("tiny")


@pytest.mark.parametrize(
    ("changed", "given", "flag"),
    [
        ({"short_share": 0.5}, {"short_longest": 64}, "--short-share"),
        (
            {"objective": replace(PLAIN.objective, generator_size=0.5)},
            {
                "objective": replace(
                    PLAIN.objective, generator_size=0.5, objectives=("replaced_token=50",)
                )
            },
            "--generator-size",
        ),
        (
            {"objective": replace(PLAIN.objective, split_share=0.5)},
            {"objective": replace(PLAIN.objective, split_share=0.5, objectives=("fill_mask",))},
            "--split-share",
        ),
        (
            {"objective": replace(PLAIN.objective, repeat_share=0.5)},
            {"objective": replace(PLAIN.objective, repeat_share=0.5, objectives=("fill_mask",))},
            "--repeat-share",
        ),
        (
            {"learning": replace(LEARNING, decay=0.3)},
            {"learning": replace(LEARNING, decay=0.3, schedule="stable")},
            "--decay",
        ),
    ],
)
def test_a_setting_that_changes_nothing_is_said(
    capsys: pytest.CaptureFixture[str], changed: dict[str, Any], given: dict[str, Any], flag: str
) -> None:
    say_idle(PLAIN, TINY)
    say_idle(replace(PLAIN, **{**changed, **given}), TINY)
    assert capsys.readouterr().err == ""
    say_idle(replace(PLAIN, **changed), TINY)
    assert capsys.readouterr().err.startswith(f"{flag} changes nothing here, for it belongs to ")


def test_it_is_said_of_texts_that_are_pairs_anyway_that_no_share_of_them_is_split(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say_idle(replace(PLAIN, objective=replace(PLAIN.objective, split_share=0.5)), TINY)
    said = "it belongs to runs that learn neither next_sentence nor sentence_order, which make"
    assert said in capsys.readouterr().err


def test_what_a_family_learns_by_itself_need_not_be_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    wide = replace(PLAIN, objective=replace(PLAIN.objective, generator_size=0.5))
    say_idle(wide, EncoderConfig.named("electra-small"))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["fresh", "new_head", "keep_tasks"])
def test_a_fresh_network_has_nothing_to_forget_or_to_keep(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = FinetuneSettings(model=Path("m"), out=Path("o"))
    several: dict[str, Any] = {name: True}
    given = several if name == "fresh" else {"several": replace(plain.several, **several)}
    say_idle(replace(plain, **given), TINY)
    assert capsys.readouterr().err == ""
    say_idle(replace(plain, **given, size="tiny"), TINY)
    assert "changes nothing here, for it belongs to a --model" in capsys.readouterr().err


@pytest.mark.parametrize("size", ["tiny", "modern-2x64", "mean-2x64", "recurrent-tiny"])
def test_only_networks_with_attention_leave_out_what_it_looks_at(
    capsys: pytest.CaptureFixture[str], size: str
) -> None:
    rates = DropoutSettings(attention_dropout=0.2)
    for plain in (PLAIN, FinetuneSettings(model=Path("m"), out=Path("o"))):
        say_idle(replace(plain, dropping=rates), EncoderConfig.named(size))
        is_idle = size in ("mean-2x64", "recurrent-tiny")
        assert ("--attention-dropout changes nothing here" in capsys.readouterr().err) == is_idle


def test_of_one_task_there_is_no_share(capsys: pytest.CaptureFixture[str]) -> None:
    plain = FinetuneSettings(model=Path("m"), out=Path("o"))
    several = replace(plain.several, temperature=2.0)
    say_idle(replace(plain, several=several), TINY)
    assert "--temperature changes nothing here" in capsys.readouterr().err
    say_idle(replace(plain, several=replace(several, tasks=Path("tasks.toml"))), TINY)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("kind", "table"), [(PretrainSettings, OF_PRETRAIN), (FinetuneSettings, OF_FINETUNE)]
)
def test_the_tables_name_settings(kind: type, table: dict[str, Any]) -> None:
    assert table.keys() <= {setting.name for setting in settings_of(kind)}


@pytest.mark.parametrize("name", ["predict", "evaluate"])
@pytest.mark.parametrize(
    ("words", "flag"), [(["--task", "nonsense"], "--task"), (["--beams", 5], "--beams")]
)
def test_labels_without_training_need_no_learned_task(
    tmp_path: Path, pretrained: Path, labelled, command: Callable[..., Any], name, words, flag
) -> None:
    data = ["--model", pretrained, "--data", labelled["dev"], "--out", tmp_path / "out.jsonl"]
    ended = command(name, *data, "--zero-shot", "water", "road", *words)
    assert ended.refusal(2).startswith(f"{flag} is for ")
    assert "leave it or --zero-shot out" in ended.err
