"""A path with two languages stands for two files."""

from pathlib import Path

import pytest

from bertworks.core.artifact import name_input
from bertworks.core.errors import DataError
from bertworks.core.file_pairs import is_pair, require_sides, sides_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("train.en", "train.de.xz", "train.pt-BR", "train.tar.gz", "dev.fr", "a-b.en"):
        (tmp_path / name).write_bytes(b"x\n")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("train.en-de", ("train.en", "train.de.xz")),
        ("train.de-en", ("train.de.xz", "train.en")),
        ("train.en-pt-BR", ("train.en", "train.pt-BR")),
        ("train.pt-BR-en", ("train.pt-BR", "train.en")),
        ("a-b.en-en", ("a-b.en", "a-b.en")),
        ("train.en", ("train.en",)),
        ("train.en-fr", ("train.en-fr",)),
        ("dev.en-fr", ("dev.en-fr",)),
        ("train.-en", ("train.-en",)),
        ("train", ("train",)),
    ],
)
def test_both_sides_are_found_as_they_are_or_compressed(
    folder: Path, name: str, expected: tuple[str, ...]
) -> None:
    assert sides_of(folder / name) == tuple(folder / one for one in expected)
    assert is_pair(folder / name) == (len(expected) == 2)


def test_a_file_of_that_very_name_is_no_pair(folder: Path) -> None:
    (folder / "train.en-de").write_text("x")
    assert not is_pair(folder / "train.en-de")
    assert require_sides(folder / "train.en-de") == (folder / "train.en-de",)


def test_a_pair_of_other_languages_says_which_there_are(folder: Path) -> None:
    with pytest.raises(DataError, match="the languages that lie there are de, en, pt-BR: name two"):
        require_sides(folder / "train.en-fr")


@pytest.mark.parametrize("name", ["other.en-fr", "train.jsonl", "gone/train.en-de", "-"])
def test_a_path_that_is_no_pair_at_all_is_left_to_others(folder: Path, name: str) -> None:
    assert require_sides(folder / name) == (folder / name,)


def test_an_input_of_two_files_is_named_by_both(folder: Path) -> None:
    before = name_input(folder / "train.en-de")
    assert before["path"] == str(folder / "train.en-de")
    assert name_input(folder / "train.de-en")["sha256"] == before["sha256"]  # both hold the same
    (folder / "train.de.xz").write_bytes(b"y\n")
    after = {name_input(folder / f"train.{pair}")["sha256"] for pair in ("en-de", "de-en")}
    assert len(after | {before["sha256"], None}) == 4
