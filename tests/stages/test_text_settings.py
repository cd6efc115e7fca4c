"""The settings of commands that read raw text."""

from pathlib import Path

import pytest

from bertworks.cli.main import parse
from bertworks.core.errors import UsageError
from bertworks.stages.text_settings import PairsSettings, TokenizeSettings


def test_texts_stand_without_a_flag_and_may_be_several() -> None:
    settings = parse(["pairs", "a.txt", "b", "--out", "o", "--kind", "context"])[1]
    assert settings == PairsSettings((Path("a.txt"), Path("b")), out=Path("o"), kind="context")
    settings = parse(["tokenize", "a", "--tokenizer", "t", "--out", "o"])[1]
    assert settings == TokenizeSettings((Path("a"),), tokenizer=Path("t"), out=Path("o"))


def test_a_kind_that_is_not_known_is_answered_with_those_that_are() -> None:
    with pytest.raises(UsageError, match="it must be neighbours or context or sentences"):
        parse(["pairs", "a", "--out", "o", "--kind", "titles"])
