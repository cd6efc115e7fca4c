"""Repaired text is clean, clean text is left alone, and repairing twice is repairing once."""

import sys

import ftfy
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bertworks.core.errors import MissingPackageError
from bertworks.corpus.repair import Form, repair
from bertworks.corpus.repair import _suspect_lines as suspect_lines

CLEAN = [
    "Plain English — with “quotes”, naïve cafés and 5 × 7 = 35.",
    "中文文本，带有全角标点和字母：（ＡＢＣ１２３）！",
    "日本語の文章です。カタカナも、ひらがなも。",
    "한국어 문장입니다.",
    "می\u200cخواهم کتاب\u200cها را بخوانم.",
    "اللغة العربية جميلة، أليس كذلك؟",
    "שלום עולם",
    "यह हिन्दी का एक वाक्य है। क्\u200dष और क्\u200cष",
    "ന്\u200d എന്ന അക്ഷരം",
    "শ্রী র্\u200cয",
    "ภาษา\u200bไทย และ ភាសា\u200bខ្មែរ",
    "ᠮᠣᠩᠭᠣᠯ\u202fᠤᠨ ᠬᠡᠯᠡ\u180eᠡ",
    "Ελληνικά, русский, Tiếng Việt, Türkçe.",
    "👩\u200d👩\u200d👧\u200d👦 👩🏽\u200d💻 ❤\ufe0f\u200d🔥 🏳\ufe0f\u200d🌈 1\ufe0f\u20e3",
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f England",
    "two lines\nof one text\n\nand another after a blank line",
]
ODD = st.sampled_from(
    "\u200b\u200c\u200d\ufeff\xa0\u3000\n\r\t \0\x85\u0301\u064b\u202f\u180e\ufe0f\xad\u2028"
    "\ufdfa\xa8\U0001f600\U0001f3f4\U000e0067\U000e007f\ud83d\ude00Ãâ\x80\x99éÂa中هमक्ก"
)


@pytest.mark.parametrize("text", CLEAN)
def test_clean_text_is_left_as_it_is(text: str) -> None:
    assert repair(text) == text
    assert repair(text, mojibake=True) == text


@pytest.mark.parametrize(
    ("text", "repaired"),
    [
        ("cafe\u0301", "café"),
        ("\ufeffbegin mid\ufeffdle", "begin middle"),
        ("be\0ll\x07 and\x1b es\x7fcape", "bell and escape"),
        ("zero\u200bwidth\u2060 hy\xadphen", "zerowidth hyphen"),
        ("a\u200cb\u200dc", "abc"),
        ("\u202eright\u202c to \u200fleft", "right to left"),
        ("a\xa0b\u2003c\u3000d\te", "a b c d e"),
        ("  many   blanks \n\n\n\n  here\t\t", "many blanks\n\nhere"),
        ("a\r\nb\rc\u2028d\x0be\x85f", "a\nb\nc\nd\ne\nf"),
        ("hidden\U000e0041\U000e0042\U000e007f tags", "hidden tags"),
        ("می\u200c\u200cخواهم", "می\u200cخواهم"),
        ("half \ud83d, whole \ud83d\ude00", "half \ufffd, whole \U0001f600"),
        ("\ufdd0\uffff none", "none"),
        ("", ""),
        (" \n\t ", ""),
    ],
)
def test_damage_is_repaired(text: str, repaired: str) -> None:
    assert repair(text) == repaired


def test_full_width_letters_and_ligatures_are_folded_only_when_asked_for() -> None:
    text = "ＡＢＣ１２３ ﬁne ①"
    assert repair(text) == text
    assert repair(text, form="NFKC") == "ABC123 fine 1"


@pytest.mark.parametrize(
    ("text", "repaired"),
    [
        ("schÃ¶n und groÃ\x9f", "schön und groß"),
        ("itâ\x80\x99s fine", "it’s fine"),
        ("clean: schön\nbroken: schÃ¶n", "clean: schön\nbroken: schön"),
        ("ä¸\xadæ–‡ and ASCII", "中文 and ASCII"),
    ],
)
def test_text_decoded_in_a_wrong_encoding_is_mended_when_asked_for(
    text: str, repaired: str
) -> None:
    assert repair(text, mojibake=True) == repaired
    assert repair(text) != repaired


def test_mending_mojibake_names_the_extra_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ftfy", None)
    assert repair("schÃ¶n") == "schÃ¶n"
    with pytest.raises(MissingPackageError, match=r"mending mojibake needs: .*bertworks\[corpus\]"):
        repair("schÃ¶n", mojibake=True)


@given(st.text(st.one_of(ODD, st.characters())), st.sampled_from(["NFC", "NFKC"]), st.booleans())
@example("ه\u0301\u064b\u200ca", "NFC", False)  # the marks change places before the non-joiner
def test_repairing_twice_is_repairing_once(text: str, form: Form, mojibake: bool) -> None:
    repaired = repair(text, form=form, mojibake=mojibake)
    assert repair(repaired, form=form, mojibake=mojibake) == repaired


@given(st.text(st.one_of(ODD, st.characters())))
def test_repaired_text_can_be_written_down_and_has_single_blanks(text: str) -> None:
    repaired = repair(text)
    repaired.encode()
    assert not {"\0", "\r", "\t", "\ufeff", "\xa0"} & set(repaired)
    assert "  " not in repaired
    assert "\n\n\n" not in repaired
    assert repaired == repaired.strip(" \n")


@given(st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1))
def test_printable_ascii_never_changes(text: str) -> None:
    assert repair(text, mojibake=True) == text


MOJIBAKE = "aZ. \xa0Ã¢Âã©€™œŒ“”–—…·ŠžŸ°²³µ×√≈вЂГВРСΒΞĀ†‚Ä\x85\x9d\ufffd中，"


@given(st.lists(st.text(st.sampled_from(MOJIBAKE), max_size=9), min_size=1, max_size=5))
@example(["voil\xc3 le travail", "plain", "中文——没有错。", "\x85"])
@settings(max_examples=400)
def test_no_line_that_would_be_decoded_again_is_passed_over(lines: list[str]) -> None:
    found = suspect_lines("\n".join(lines), lines)
    changed = [n for n, line in enumerate(lines) if ftfy.fix_encoding(line) != line]
    assert set(changed) <= set(found)


def test_most_lines_need_no_second_look() -> None:
    lines = ["It’s “quoted” – or not…", "他说：“你好”，走了。", "naïve café", "plain"]
    assert suspect_lines("\n".join(lines), lines) == []
