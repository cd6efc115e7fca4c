"""The settings of commands about models that are handed on."""

from pathlib import Path

import pytest

from bertworks.cli.main import parse
from bertworks.core.errors import UsageError
from bertworks.stages.shipping_settings import CardSettings, ModelsSettings


def test_models_takes_any_number_of_folders_or_none() -> None:
    assert parse(["models"])[1] == ModelsSettings(())
    assert parse(["models", "a", "b/c"])[1] == ModelsSettings((Path("a"), Path("b/c")))


def test_a_card_needs_a_model_and_notes() -> None:
    settings = parse(["card", "--model", "m", "--notes", "n.toml", "--bias", "zh"])[1]
    assert settings == CardSettings(model=Path("m"), notes=Path("n.toml"), bias="zh")
    with pytest.raises(UsageError, match="card needs --notes"):
        parse(["card", "--model", "m"])
    with pytest.raises(UsageError, match="bias is 'de', but it must be en or zh or none"):
        parse(["card", "--model", "m", "--notes", "n.toml", "--bias", "de"])
