"""Words and marks as a text again: where people write a space between two of them.

Vocabularies of words forget the spaces of a text and cut off every mark. What is written here are
habits of English, German and Chinese; a text that breaks them does not come back exactly.
"""

import unicodedata
from collections.abc import Sequence

from bertworks.core.scripts import EAST_ASIAN, kind_of

Sides = tuple[bool, bool]  # whether a mark leaves no space before it, and none behind it

CLOSING, OPENING, INSIDE = (True, False), (False, True), (True, True)
APART = (False, False)
SIDES: dict[str, Sides] = {
    **dict.fromkeys(".,!?;:)]}%…°", CLOSING),
    **dict.fromkeys("([{¿¡@#", OPENING),
    **dict.fromkeys("_/\\·—", INSIDE),
}
# The mark that ends what a mark of a quotation begins; of those that do both, each in its turn.
ENDS = {'"': '"', "`": "`", "$": "$", "„": "“", "“": "”", "»": "«", "«": "»", "‚": "‘", "‘": "’"}
CLOSERS = (*ENDS.values(), ")", "]")
APOSTROPHES = ("'", "’")
SHORTENED = {"s", "t", "re", "ve", "ll", "d", "m", "em", "clock"}  # behind an apostrophe
SHORT = {"o", "d", "l", "y"}  # before one, as in O'Brien and y'all
LEFT_OUT_BEFORE = {"und", "oder", "bzw", "bis", "and", "or", "to"}  # as in Vor- und Nachteile
LEFT_OUT_BEHIND = {"und", "oder", "bzw"}  # as in Papierteller und -tassen
CURRENCIES = "$£¥"
CHINESE_TOO = "“”‘’…—"  # marks that Chinese writes without spaces
MOST_DIGITS = 3  # around a comma inside a number, and before a point; four are mostly a year


def join_words(words: Sequence[str]) -> str:
    """Put words and marks together as people write them."""
    is_chinese = _are_chinese(words)
    marks = _Marks(words)
    sides = [marks.sides(place) for place in range(len(words))]
    found = list(words[:1])
    for place in range(1, len(words)):
        is_glued = sides[place - 1][1] or sides[place][0]
        is_near = _are_near(words[place - 1][-1], words[place][0], is_chinese=is_chinese)
        found.append(words[place] if is_glued or is_near else f" {words[place]}")
    return "".join(found)


class _Marks:
    """Reads marks in their order, for some of them open and close in turn."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self.open: list[str] = []  # the marks that are waited for
        quoting = (at for at, word in enumerate(words) if word == "'" and not self._shortens(at))
        self.has_single = sum(1 for _ in quoting) % 2 > 0  # one that opens and closes nothing

    def sides(self, place: int) -> Sides:
        """Tell on which sides of a word there is no space for its own sake."""
        word = self.words[place]
        if word in APOSTROPHES:
            return self._apostrophe(place)
        if word in ("-", "–"):
            return self._dash(place)
        if word in CURRENCIES and word not in self.open and self._next(place)[:1].isdigit():
            return OPENING
        if word in ENDS or word in ENDS.values():
            return self._quote(word)
        if word in ".,:" and self._is_inside(place):
            return INSIDE
        return SIDES.get(word, APART)

    def _quote(self, mark: str) -> Sides:
        if mark in self.open:
            del self.open[self.open.index(mark) :]
            return CLOSING
        if mark not in ENDS:
            return CLOSING
        self.open.append(ENDS[mark])
        return OPENING

    def _apostrophe(self, place: int) -> Sides:
        if self._shortens(place):
            return INSIDE
        mark, before, behind = self.words[place], self._before(place), self._next(place)
        if mark in self.open or mark == "’":
            return self._quote(mark)
        if self.has_single and before[-1:].isalnum():
            is_owner = before[-1] in "sxz" or not behind[:1].isalnum()
            return CLOSING if is_owner else INSIDE
        self.open.append(mark)
        return OPENING

    def _shortens(self, place: int) -> bool:
        before, behind = self._before(place), self._next(place)
        is_within = before[-1:].isalnum() and behind[:1].isalnum()
        return is_within and (behind.lower() in SHORTENED or before.lower() in SHORT)

    def _dash(self, place: int) -> Sides:
        mark, before, behind = self.words[place], self._before(place), self._next(place)
        if "-" in (before, behind):
            return before == "-", behind == "-"  # several make a longer one
        if mark == "–":
            return INSIDE if before[-1:].isdigit() and behind[:1].isdigit() else APART
        is_listed = behind.lower() in LEFT_OUT_BEFORE and self._next(place + 1) != "-"
        is_behind = before[-1:].isalnum() or before in CLOSERS
        if before.lower() in LEFT_OUT_BEHIND:
            return OPENING
        return is_behind, behind[:1].isalnum() and not is_listed

    def _is_inside(self, place: int) -> bool:
        """Tell whether a point, comma or colon stands within a number or an abbreviation."""
        mark, before, behind = self.words[place], self._before(place), self._next(place)
        if mark == "." and len(before) == len(behind) == 1 and before.isalpha():
            return behind.isalpha() and self._next(place + 1) == "."
        if not before[-1:].isdigit() or not behind[:1].isdigit():
            return False
        if mark == ":":
            return True
        if len(before) > MOST_DIGITS or mark == ".":
            return len(before) <= MOST_DIGITS
        around = self._before(place - 1), self._next(place + 1).lower()
        is_list = "," in around or around[1] in LEFT_OUT_BEFORE
        return len(behind) == MOST_DIGITS or (len(behind) < MOST_DIGITS and not is_list)

    def _before(self, place: int) -> str:
        return self.words[place - 1] if place > 0 else ""

    def _next(self, place: int) -> str:
        return self.words[place + 1] if place + 1 < len(self.words) else ""


def _are_chinese(words: Sequence[str]) -> bool:
    """Tell whether East Asian characters are most of a text, each of which is half a word."""
    is_letter = [kind_of(word[0]) in EAST_ASIAN for word in words]
    num_others = sum(word[0].isalpha() for word in words) - sum(is_letter)
    return sum(is_letter) > 2 * num_others


def _are_near(before: str, behind: str, *, is_chinese: bool) -> bool:
    """Tell whether two characters have no space between them as East Asian ones have none."""
    pair = before, behind
    letters = [kind_of(char) in EAST_ASIAN for char in pair]
    if any(map(_is_wide_mark, pair)) or all(letters):
        return True
    return is_chinese and (any(letters) or any(char in CHINESE_TOO for char in pair))


def _is_wide_mark(char: str) -> bool:
    is_mark = unicodedata.category(char)[0] in "PS"
    return is_mark and unicodedata.east_asian_width(char) in "WF" and ord(char) < 0x1F000
