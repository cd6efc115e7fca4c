"""Quality filters: which documents are worth learning from, and the reason why others are not."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from bertworks.corpus.language import language_of

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
        kinds = _count_kinds(text)
        total = max(1, kinds.total())
        between_spaces = _UNSPACED_RUN.sub(" ", text).split()
        num_words = len(between_spaces) + kinds["unspaced"] / 2
        word_length = sum(map(len, between_spaces)) / max(1, len(between_spaces))
        yield num_words < self.min_words
        yield num_words > self.max_words
        yield kinds["letter"] + kinds["unspaced"] < self.min_letters * total
        yield kinds["digit"] > self.max_digits * total
        yield kinds["symbol"] > self.max_symbols * total
        is_spaced = len(between_spaces) > num_words / 2
        yield is_spaced and not self.min_word_length <= word_length <= self.max_word_length
        lines = [line for line in map(str.strip, text.splitlines()) if line]
        yield num_words < self.min_line_words * len(lines)
        yield _share(lines, _is_listed) > self.max_list_lines
        yield _share(lines, _is_cut) > self.max_cut_lines
        yield _repeated_lines(lines) > self.max_repeated_lines
        yield _repeated_words(text[:SAMPLE]) > self.max_repeated_words
        yield "lorem ipsum" in text.lower()
        yield bool(self.languages) and language_of(text) not in self.languages


# Thai, Lao, Tibetan, Burmese; Khmer; kana; Chinese characters.
_UNSPACED = "\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}\u3000-\u303f\uff00-\uffef]+")  # with their punctuation
_WORD = re.compile(rf"[{_UNSPACED}]{{1,2}}|[^\s{_UNSPACED}]+")
_SIGNS = frozenset("#@*/\\_{}[]|\N{REPLACEMENT CHARACTER}")
_KINDS = {"L": "letter", "M": "letter", "N": "digit", "S": "symbol", "C": "symbol"}
_FACTORS = np.array([pow(0x9E3779B97F4A7C15, n, 2**64) for n in range(RUN)], dtype=np.uint64)


def _count_kinds(text: str) -> "Counter[str]":
    """Count the characters of each kind, without blanks."""
    counts: Counter[str] = Counter()
    for char, count in Counter(text).items():
        counts[_kind_of(char)] += count
    del counts["blank"]
    return counts


@lru_cache(maxsize=50_000)
def _kind_of(char: str) -> str:
    """Tell letters (with the marks that belong to them), digits, symbols and the rest apart."""
    category = unicodedata.category(char)
    if char.isspace() or category == "Cf":
        return "blank"
    if category[0] in "LM" and _IS_UNSPACED.match(char):
        return "unspaced"
    return "symbol" if char in _SIGNS else _KINDS.get(category[0], "other")


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


def _repeated_words(text: str) -> float:
    """Return the share of words in runs that occurred before."""
    numbers: dict[str, int] = {}
    words = [numbers.setdefault(word, len(numbers)) for word in _WORD.findall(text)]
    if len(words) <= RUN:
        return 0.0
    runs = np.lib.stride_tricks.sliding_window_view(np.array(words, dtype=np.uint64), RUN)
    keys = runs @ _FACTORS  # modulo 2**64
    _, first = np.unique(keys, return_index=True)
    is_repeated = np.ones(len(keys), dtype=np.int64)
    is_repeated[first] = 0
    covered = np.convolve(is_repeated, np.ones(RUN, dtype=np.int64)) > 0
    return float(covered.mean())
