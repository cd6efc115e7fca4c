"""The settings of commands that read raw text."""

from pathlib import Path

from bertworks.cli.main import parse
from bertworks.stages.text_settings import TokenizeSettings


def test_texts_stand_without_a_flag_and_may_be_several() -> None:
    settings = parse(["tokenize", "a", "b", "--tokenizer", "t", "--out", "o"])[1]
    texts = (Path("a"), Path("b"))
    assert settings == TokenizeSettings(texts, tokenizer=Path("t"), out=Path("o"))
