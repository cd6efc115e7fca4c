"""Checks of texts: lengths, and characters that no writer meant."""

import pytest

from bertworks.data.examples import TextExample
from bertworks.evaluation.findings import Finding
from bertworks.evaluation.text_checks import VERY_LONG, CharacterCheck, LengthCheck


def look(check: CharacterCheck | LengthCheck, *texts: str) -> dict[str, Finding]:
    """Return the findings about texts of one file."""
    for line, text in enumerate(texts, 1):
        check.add("train", TextExample(text, line=line))
    return {finding.check: finding for finding in check.findings()}


def test_lengths_are_told_in_percentiles() -> None:
    found = look(LengthCheck(), *("x" * n for n in range(1, 101)))
    assert list(found) == ["length in characters"]
    (row,) = found["length in characters"].details
    assert row == {
        "file": "train",
        "mean": "50",
        "50 %": "51",
        "90 %": "91",
        "99 %": "100",
        "100 %": "100",
    }


def test_a_text_of_a_hundred_thousand_characters_is_named() -> None:
    found = look(LengthCheck(), "x" * (VERY_LONG - 1), "y" * VERY_LONG)["very long texts"]
    assert found.severity == "warning"
    assert str(found).startswith(
        "1 row of 100,000 characters or more, the longest of 100,000 (train line 2); "
    )


@pytest.mark.parametrize(
    "kept", ["naïve café, »déjà vu«", "“…the café…”", "NÃO É À TOA", "你好，世界"]
)
def test_text_in_other_languages_is_not_suspected(kept: str) -> None:
    assert look(CharacterCheck(), kept) == {}


def test_broken_characters_are_counted_by_kind() -> None:
    broken = ("lost \ufffd", "bell \x07 \ufffd", "tab\tand\nline", "ÎÄ±¾", "文本")
    found = look(CharacterCheck(), "good", *broken)
    assert {name: finding.places.count for name, finding in found.items()} == {
        "replacement characters": 2,
        "mojibake": 1,
        "control characters": 1,
    }
    assert found["control characters"].places.first == [("train", 3)]


def test_texts_without_a_word_are_noted() -> None:
    found = look(CharacterCheck(), "...", "?!", "a?", "好")
    assert found["texts without words"].places.count == 2
