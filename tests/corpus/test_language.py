"""The language of a text is told offline, from a bounded part of it."""

import sys

import pytest

from bertworks.core.errors import MissingPackageError, UsageError
from bertworks.corpus import language
from bertworks.corpus.language import SAMPLE, check_languages, language_of

TEXTS = {
    "en": "The river rises in the hills to the north and runs through three villages.",
    "zh": "这条河发源于北方的山丘，流经三个村庄，最后注入大海。",
    "de": "Der Fluss entspringt in den Hügeln im Norden und durchquert drei Dörfer.",
    "fr": "La rivière prend sa source dans les collines du nord et traverse trois villages.",
    "ja": "この川は北の丘に源を発し、三つの村を通って海に注いでいる。",
    "ar": "ينبع هذا النهر من التلال في الشمال ويمر بثلاث قرى قبل أن يصل إلى البحر.",
    "hi": "यह नदी उत्तर की पहाड़ियों से निकलती है और तीन गाँवों से होकर बहती है।",
    "ru": "Река берёт начало на холмах на севере и протекает через три деревни.",
}


@pytest.mark.parametrize("code", TEXTS)
def test_common_languages_are_told_apart(code: str) -> None:
    assert language_of(TEXTS[code]) == code
    assert language_of(TEXTS[code] * 100) == code


def test_a_long_text_is_judged_by_its_beginning_middle_and_end() -> None:
    english, german = TEXTS["en"] * 20, TEXTS["de"] * 20
    assert len(english) > 3 * SAMPLE
    assert language_of(german[:SAMPLE] + english * 10) == "en"
    assert language_of(german * 10 + english[:SAMPLE]) == "de"


def test_what_is_no_language_is_none_of_the_common_ones() -> None:
    assert language_of("12345 67890 3.14 42") not in TEXTS


def test_unknown_codes_are_refused() -> None:
    check_languages(("en", "zh"))
    with pytest.raises(UsageError, match=r"no language 'english'; the known ones are .*\ben\b"):
        check_languages(("en", "english"))


def test_a_missing_detector_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    language._identifier.cache_clear()
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    with pytest.raises(MissingPackageError, match=r"telling languages apart needs: .*\[corpus\]"):
        language_of("text")
    language._identifier.cache_clear()
