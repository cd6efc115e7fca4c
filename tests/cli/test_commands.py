"""The command table: one stage for each command, one help for each setting."""

import re
from dataclasses import MISSING, is_dataclass
from importlib import import_module
from pathlib import Path

import pytest

import bertworks.stages
from bertworks.cli.commands import COMMANDS, Command
from bertworks.core.settings import make_settings, read_values, settings_of
from bertworks.stages.text_settings import LearnVocabSettings


def test_every_stage_has_its_command_and_every_command_its_stage() -> None:
    folder = Path(bertworks.stages.__file__).parent
    parts = {
        "children",
        "finetune_data",
        "finetune_model",
        "finetune_plan",
        "finetune_seeds",
        "finetune_vectors",
        "pretrain_data",
        "pretrain_model",
        "pretrain_plan",
        "idle_flags",
        "learning_plan",
        "onnx_export",
        "outputs",
        "own_export",
        "ranking",
        "suite",
        "suite_runs",
        "task_list",
        "zero_shot",
    }  # of other stages
    no_stages = {
        "__init__",
        "settings",
        "setting_groups",
        "answer_settings",
        "shipping_settings",
        "task_settings",
        "text_settings",
        *parts,
    }
    stages = {path.stem for path in folder.glob("*.py")} - no_stages
    modules = [command.module for command in COMMANDS.values()]
    assert sorted(modules) == sorted(f"bertworks.stages.{stage}" for stage in stages)
    for name, command in COMMANDS.items():
        assert set(re.split("[- ]", name)) <= set(command.module.split(".")[-1].split("_"))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_one_sentence_and_runs_its_settings(name: str) -> None:
    command = COMMANDS[name]
    assert is_dataclass(command.settings)
    sentence = str(command.settings.__doc__)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    stage = import_module(command.module)
    assert stage.run.__annotations__["settings"] is command.settings


@pytest.mark.parametrize("name", COMMANDS)
def test_every_setting_says_what_it_means(name: str) -> None:
    for setting in settings_of(COMMANDS[name].settings):
        assert len(setting.help) > 10, setting.name
        assert setting.help.endswith("."), setting.name
        assert setting.is_switch or setting.shape


@pytest.mark.parametrize("name", COMMANDS)
def test_no_default_breaks_its_own_rule(name: str) -> None:
    kind = COMMANDS[name].settings
    plain = {
        setting.name: str(setting.default) if isinstance(setting.default, Path) else setting.default
        for setting in settings_of(kind)
        if setting.default not in (MISSING, None)
    }
    assert read_values(kind, plain, where=name).keys() == plain.keys()


def test_names_of_settings_do_not_collide() -> None:
    for command in COMMANDS.values():
        names = [setting.name for setting in settings_of(command.settings)]
        assert len(names) == len(set(names))
        assert not {"recipe", "json", "help"} & set(names)


def test_running_a_command_returns_the_result_of_its_stage(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the cat and the dog and the hat\n" * 5)
    command = Command(LearnVocabSettings, "bertworks.stages.learn_vocab")
    given = {"text": [str(text)], "out": str(tmp_path / "tok"), "size": 40}
    values = read_values(LearnVocabSettings, given, where="test")
    result = command.run(make_settings(LearnVocabSettings, values, command="learn-vocab"))
    assert result["tokenizer"] == str(tmp_path / "tok")
    assert 5 < result["pieces"] <= 40
