"""Tables without a header: which column holds what, told from what stands in them."""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bertworks.core.errors import DataError, UsageError

FEWEST_ROWS = 4  # fewer tell nothing about a column
LONGEST_LABEL = 50  # characters
MOST = 0.95
MOST_NUMBERS = 3  # of different labels of pairs; more are perhaps grades
_DIGIT = re.compile("[0-9]")
_STARS = {"", "*", "?", "??", "?*", "*?"}


@dataclass(frozen=True)
class Column:
    """What stands in one column of the first rows."""

    values: tuple[str, ...]

    @property
    def is_label(self) -> bool:
        """Tell whether short values come again and again."""
        is_short = self._are(lambda value: 0 < len(value.strip()) <= LONGEST_LABEL)
        is_whole = not self.is_number or self.is_integer
        return is_short and is_whole and 2 * len(set(self.values)) <= len(self.values)

    @property
    def is_number(self) -> bool:
        """Tell whether the values are numbers."""
        return self._are(_is_finite)

    @property
    def is_integer(self) -> bool:
        """Tell whether the values are whole numbers."""
        return self._are(lambda value: value.strip().lstrip("+-").isdecimal())

    @property
    def has_decimals(self) -> bool:
        """Tell whether the values are numbers, and some not whole."""
        return self.is_number and any(
            float(value) % 1 for value in self.values if _is_finite(value)
        )

    @property
    def is_count(self) -> bool:
        """Tell whether it numbers the rows, or names each by a code."""
        is_key = self.is_integer or self.is_code
        return is_key and len(set(self.values)) == len(self.values)

    @property
    def is_code(self) -> bool:
        """Tell whether the values are made of digits and signs like those of ids and dates."""
        return not self.is_number and self._are(
            lambda value: value.isascii() and len(value.split()) == 1 and _DIGIT.search(value)
        )

    @property
    def is_text(self) -> bool:
        """Tell whether nearly each row has words of its own."""
        is_other = self.is_number or self.is_label or self.is_code
        return not is_other and self._are(lambda value: value.strip())

    @property
    def begins_with_name(self) -> bool:
        """Tell whether the first value is of another kind than all others: a header's."""
        if len(self.values) < FEWEST_ROWS:
            return False
        first, rest = self.values[0], Column(self.values[1:])
        if rest.is_number:
            return not _is_finite(first)
        counts = Counter(rest.values)
        num_single = [*counts.values()].count(1)
        is_rare = num_single <= (1 - MOST) * len(rest.values)
        return rest.is_label and first not in counts and is_rare

    def _are(self, is_so: Callable[[str], object]) -> bool:
        """Tell whether something is so of the values, but for a few bad rows."""
        return sum(bool(is_so(value)) for value in self.values) >= MOST * len(self.values)


def guess_form(columns: Sequence[Column]) -> str:
    """Return the form of rows without names."""
    for layout in _KNOWN:
        if layout.fits(columns):
            return layout.form
    if any(column.is_number and not column.is_integer for column in columns):
        return "score"
    is_pair = sum(column.is_text for column in columns) == 2
    grades = (column for column in columns if column.is_label and column.is_integer)
    if is_pair and any(len(set(column.values)) > MOST_NUMBERS for column in grades):
        raise UsageError(
            "has numbers that may be labels or scores; name the --task, or give --columns"
        )
    return "label"


def guess_columns(columns: Sequence[Column], form: str, *, labelled: bool) -> dict[str, str] | None:
    """Return the number of the column that holds each of ours, or None where it is not sure."""
    for layout in _KNOWN:
        if layout.form == form and layout.fits(columns):
            return dict(layout.columns)
    if form == "texts":
        form, labelled = "label", False
    if form not in ("label", "score", "target"):
        return None
    if len(columns) == 1:
        return None if labelled else {"source" if form == "target" else "text": "1"}
    if len(columns[0].values) < FEWEST_ROWS or form == "target":
        return None  # which of two texts is the source cannot be seen
    if any(column.begins_with_name for column in columns):
        raise DataError("begins with what may be a header")
    return _texts_and_gold(columns, form, labelled=labelled)


def least_width(columns: Sequence[Column]) -> int | None:
    """Return how many columns a row must have where it may have more, as known layouts do."""
    known = (layout for layout in _KNOWN if layout.has_extras and layout.fits(columns))
    return next((layout.width for layout in known), None)


def _texts_and_gold(
    columns: Sequence[Column], form: str, *, labelled: bool
) -> dict[str, str] | None:
    """Return one or two texts and what is sought of them, if every column is one of these."""
    texts = [str(at) for at, column in enumerate(columns, start=1) if column.is_text]
    gold = [str(at) for at, column in enumerate(columns, start=1) if _is_gold(column, form)]
    is_known = len(texts) + len(gold) + sum(column.is_count for column in columns) == len(columns)
    is_told = len(gold) == 1 or not (gold or labelled)
    if not is_known or not is_told or len(texts) not in (1, 2):
        return None
    found = dict(zip(("text", "text_b"), texts, strict=False))
    return {**found, form: gold[0]} if labelled else found


def _is_gold(column: Column, form: str) -> bool:
    if form == "score":
        return column.is_number and not column.is_count
    return column.is_label and not column.is_count


@dataclass(frozen=True)
class _Known:
    """A public set without a header, told by what stands in its columns."""

    form: str
    width: int
    columns: Mapping[str, str]
    has_extras: bool = False

    def fits(self, columns: Sequence[Column]) -> bool:
        is_wide = len(columns) == self.width or (self.has_extras and len(columns) > self.width)
        return is_wide and len(columns[0].values) > 0 and _SIGNS[self.form](columns)


def _is_acceptability(columns: Sequence[Column]) -> bool:
    """Source, label, star, sentence, as CoLA has them."""
    labels, stars = set(columns[1].values), {value.strip() for value in columns[2].values}
    return labels <= {"0", "1"} and "" in stars and stars <= _STARS and columns[3].is_text


def _is_similarity(columns: Sequence[Column]) -> bool:
    """Genre, file, year, number, score, two sentences, as the STS benchmark has them."""
    scores, genres = columns[4], columns[0].values
    return (
        scores.is_number
        and all(0 <= float(value) <= 5 for value in scores.values if _is_finite(value))
        and all(genre.startswith("main-") for genre in genres)
    )


def _is_ending(columns: Sequence[Column]) -> bool:
    """Category, prompt, four endings, the number of the right one, as CODAH has them."""
    is_numbered = set(columns[6].values) <= set("0123")
    is_short = all(len(value) < 10 for value in columns[0].values)
    return is_numbered and is_short and columns[1].is_text


_SIGNS = {"label": _is_acceptability, "score": _is_similarity, "choice": _is_ending}
_KNOWN = (
    _Known("label", 4, {"text": "4", "label": "2"}),
    _Known("score", 7, {"text": "6", "text_b": "7", "score": "5"}, has_extras=True),
    _Known("choice", 7, {"question": "2", "choices": "3,4,5,6", "label": "7"}),
)


def _is_finite(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False
