"""Groups of settings: each lends its flags to its commands, under the same names everywhere."""

from dataclasses import fields, is_dataclass

import pytest

from bertworks.cli.commands import COMMANDS
from bertworks.cli.main import parse
from bertworks.core.errors import UsageError
from bertworks.core.settings import as_json, settings_of
from bertworks.stages import setting_groups
from bertworks.stages.setting_groups import LearningSettings, MachineSettings

GROUPS = [
    kind
    for kind in vars(setting_groups).values()
    if is_dataclass(kind) and kind.__module__ == setting_groups.__name__
]


def test_the_groups_are_found() -> None:
    assert {LearningSettings, MachineSettings} < set(GROUPS)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)
def test_every_group_belongs_to_a_command_and_none_of_its_settings_must_be_given(
    group: type,
) -> None:
    kinds = [command.settings for command in COMMANDS.values()]
    holders = [kind for kind in kinds if any(item.type is group for item in fields(kind))]
    assert holders
    assert group() == group()
    for setting in settings_of(group):
        assert setting.help
        assert all(setting in settings_of(holder) for holder in holders)


def test_pre_training_and_fine_tuning_learn_in_the_same_ways_by_default() -> None:
    _, pretrain, _ = parse(["pretrain", "shards", "--out", "o"])
    words = ["--model", "m", "--train", "t", "--dev", "d", "--out", "o"]
    _, finetune, _ = parse(["finetune", *words])
    assert pretrain.learning == finetune.learning == LearningSettings()
    assert as_json(finetune)["optimizer"] == "adamw"


@pytest.mark.parametrize(
    ("flag", "bad", "good"), [("--optimizer", "adam", "lamb"), ("--schedule", "wsd", "stable")]
)
def test_a_way_to_learn_that_nobody_knows_is_refused(flag: str, bad: str, good: str) -> None:
    words = ["pretrain", "shards", "--out", "o", flag]
    with pytest.raises(UsageError, match="but it must be"):
        parse([*words, bad])
    parse([*words, good])
