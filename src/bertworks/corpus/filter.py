"""Quality filters: which documents are worth learning from, and the reason why others are not."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from bertworks.core.code_points import CharTable, code_points
from bertworks.core.scripts import WITHOUT_SPACES, pattern_of
from bertworks.corpus.language import language_of
from bertworks.corpus.minhash import mix

REASONS = (
    "too short",
    "too long",
    "few letters",
    "many digits",
    "many symbols",
    "odd words",
    "short lines",
    "list lines",
    "cut lines",
    "repeated lines",
    "repeated words",
    "placeholder",
    "other language",
)
RUN = 8  # words in a row that count as repeated when they occur again
SAMPLE = 200_000  # characters that are searched for repeated words
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, kw_only=True)
class Filters:
    """What a document must be like; the defaults let go only what is clearly no prose.

    Shares are of the characters that are not blank, of the lines, or of the words. A character of a
    script that is written without spaces, such as Chinese, counts as half a word.
    """

    min_words: int = 20
    max_words: int = 1_000_000
    min_letters: float = 0.6
    max_digits: float = 0.25
    max_symbols: float = 0.1
    min_word_length: float = 2.0
    max_word_length: float = 15.0
    min_line_words: float = 2.5  # menus and tables have shorter lines than verse
    max_list_lines: float = 0.9
    max_cut_lines: float = 0.5  # that end in dots: teasers of texts
    max_repeated_lines: float = 0.3
    max_repeated_words: float = 0.3
    languages: tuple[str, ...] = ()  # those to keep; none: all

    def reason(self, text: str) -> str | None:
        """Return the first of REASONS for which a text is dropped, or None when it is kept."""
        judged = zip(REASONS, self._judge(text), strict=True)
        return next((reason for reason, applies in judged if applies), None)

    def _judge(self, text: str) -> Iterator[bool]:
        """Yield for each of REASONS in turn whether it applies; the dear ones come last."""
        codes = code_points(text)
        classes = _CLASSES.of(codes)
        kinds = np.bincount(classes & _KIND, minlength=_KIND + 1)
        total = max(1, len(codes) - kinds[_BLANK])
        num_spaced, length_spaced = _count_spaced(classes)
        num_words = num_spaced + kinds[_UNSPACED] / 2
        word_length = length_spaced / max(1, num_spaced)
        yield num_words < self.min_words
        yield num_words > self.max_words
        yield kinds[_LETTER] + kinds[_UNSPACED] < self.min_letters * total
        yield kinds[_DIGIT] > self.max_digits * total
        yield kinds[_SYMBOL] > self.max_symbols * total
        is_spaced = num_spaced > num_words / 2
        yield is_spaced and not self.min_word_length <= word_length <= self.max_word_length
        lines = [line for line in map(str.strip, text.splitlines()) if line]
        yield num_words < self.min_line_words * len(lines)
        yield _share(lines, _is_listed) > self.max_list_lines
        yield _share(lines, _is_cut) > self.max_cut_lines
        yield _repeated_lines(lines) > self.max_repeated_lines
        yield _repeated_words(codes[:SAMPLE], classes[:SAMPLE]) > self.max_repeated_words
        yield "lorem ipsum" in text.lower()
        yield bool(self.languages) and language_of(text) not in self.languages


# Of every character: its kind, and whether it parts words.
_KIND, _SPACE, _ALONE, _WIDE = 7, 8, 16, 32
_BLANK, _LETTER, _UNSPACED, _DIGIT, _SYMBOL, _OTHER = range(6)
_KINDS = {"L": _LETTER, "M": _LETTER, "N": _DIGIT, "S": _SYMBOL, "C": _SYMBOL}
_SIGNS = frozenset("#@*/\\_{}[]|\N{REPLACEMENT CHARACTER}")
_IS_ALONE = re.compile(f"[{pattern_of(WITHOUT_SPACES)}]")
_IS_WIDE = re.compile("[\u3000-\u303f\uff00-\uffef]")  # the punctuation that goes with Chinese


def _class_of(char: str) -> int:
    is_alone = _IS_ALONE.match(char) is not None
    marks = _SPACE * char.isspace() + _ALONE * is_alone + _WIDE * bool(_IS_WIDE.match(char))
    return _kind_of(char, is_alone=is_alone) + marks


def _kind_of(char: str, *, is_alone: bool) -> int:
    """Tell letters (with the marks that belong to them), digits, symbols and the rest apart."""
    category = unicodedata.category(char)
    if char.isspace() or category == "Cf":
        return _BLANK
    if category[0] in "LM" and is_alone:
        return _UNSPACED
    return _SYMBOL if char in _SIGNS else _KINDS.get(category[0], _OTHER)


_CLASSES = CharTable(_class_of)


def _count_spaced(classes: np.ndarray) -> tuple[int, int]:
    """Count the words between spaces, in text that is not Chinese or the like, and their length."""
    in_word = classes < _SPACE
    begins = in_word.copy()
    begins[1:] &= ~in_word[:-1]
    return int(begins.sum()), int(in_word.sum())


def _share(lines: list[str], holds: Callable[[str], bool]) -> float:
    return sum(map(holds, lines)) / max(1, len(lines))


_LISTED = re.compile(r"[-*+•‣▪◦●○■□·–—>]\s*\w")


def _is_listed(line: str) -> bool:
    return _LISTED.match(line) is not None


def _is_cut(line: str) -> bool:
    return line.endswith(("...", "…"))


def _repeated_lines(lines: list[str]) -> float:
    """Return the share of characters that stand in lines that stood before."""
    total = sum(map(len, lines))
    return 1 - sum(map(len, set(lines))) / total if total else 0.0


def _repeated_words(codes: np.ndarray, classes: np.ndarray) -> float:
    """Return the share of words in runs that occurred before."""
    words = _word_hashes(codes, classes)
    if len(words) <= RUN:
        return 0.0
    num_runs = len(words) - RUN + 1
    keys = np.zeros(num_runs, np.uint64)
    for place in range(RUN):
        keys = keys * _FACTOR + words[place : place + num_runs]  # modulo 2**64
    is_repeated = _stood_before(keys)
    if not is_repeated.any():
        return 0.0
    is_covered = np.zeros(len(words), dtype=bool)
    for place in range(RUN):
        is_covered[place : place + num_runs] |= is_repeated
    return float(is_covered.mean())


def _stood_before(keys: np.ndarray) -> np.ndarray:
    """Tell for each key whether one before it is the same; few are, so only those are ordered."""
    ordered = np.sort(keys)
    several = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    is_found = np.zeros(len(keys), dtype=bool)
    if len(several):
        places = np.searchsorted(several, keys).clip(max=len(several) - 1)
        is_found = several[places] == keys
        found = np.flatnonzero(is_found)
        is_found[found[np.unique(keys[found], return_index=True)[1]]] = False
    return is_found


def _word_hashes(codes: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return a hash of every word: what stands between spaces, and pairs of Chinese characters."""
    is_alone, is_space = (classes & _ALONE) > 0, (classes & _SPACE) > 0
    begins = ~(is_alone | is_space)
    begins[1:] &= is_alone[:-1] | is_space[:-1]
    if is_alone.any():
        places = np.arange(len(codes))
        is_first = is_alone.copy()
        is_first[1:] &= ~is_alone[:-1]
        firsts = np.maximum.accumulate(np.where(is_first, places, 0))
        begins |= is_alone & ((places - firsts) % 2 == 0)
    starts = np.flatnonzero(begins)
    powers, inverses = _powers()
    weighed = np.where(is_space, 0, codes + np.uint32(1)) * powers[: len(codes)]
    return mix(np.add.reduceat(weighed, starts) * inverses[starts])


@cache
def _powers() -> tuple[np.ndarray, np.ndarray]:
    """Return the powers of a factor and of its inverse, for the place of a character in a text."""
    bases = (int(_FACTOR), pow(int(_FACTOR), -1, 2**64))
    up, down = (np.cumprod(np.full(SAMPLE, base, np.uint64)) for base in bases)
    return up, down
