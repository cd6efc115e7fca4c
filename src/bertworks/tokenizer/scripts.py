"""Words and their scripts, whatever a tokenizer makes of them."""

import unicodedata
from collections.abc import Iterator
from functools import cache

HAN, NUMBER, MARK = "Han", "Number", "Mark"
# Words of these stand in running text with no space between them.
WITHOUT_SPACES = {HAN, "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan"}


def find_words(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and script of each word: a run of letters, marks and digits.

    Each Han character is a word, whatever stands beside it. This does not depend on a tokenizer, so
    that tokenizers can be compared.
    """
    start, script = 0, ""
    for place, char in enumerate(text):
        kind = kind_of(char)
        if script and (not kind or HAN in (kind, script)):
            yield start, place, script
            script = ""
        if not script and kind != MARK:
            start, script = place, kind
        elif script == NUMBER and kind != MARK:
            script = kind  # as in 3rd: letters tell more
    if script:
        yield start, len(text), script


@cache
def kind_of(char: str) -> str:
    """Return the script of a letter, or Number, Mark, or nothing for other characters.

    Python has no table of scripts; the first word of the character's name stands in for it.
    """
    category = unicodedata.category(char)[0]
    if category != "L":
        return {"N": NUMBER, "M": MARK}.get(category, "")
    name = unicodedata.name(char, "OTHER").split()[0].partition("-")[0]
    return HAN if name == "CJK" else name.capitalize()


def needs_no_space(word: str) -> bool:
    """Tell whether a word can stand right beside others, as a Chinese one or an emoji does."""
    kinds = set(map(kind_of, word)) - {MARK, ""}
    return not kinds or bool(kinds & WITHOUT_SPACES)
