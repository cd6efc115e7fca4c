"""What the tasks that tag words share: words and their tags, windows, spans and their scores."""

import operator
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from bertworks.core.errors import DataError
from bertworks.core.pieces import IGNORE
from bertworks.core.progress import say
from bertworks.core.scripts import WITHOUT_SPACES, kind_of
from bertworks.data.examples import Place, TaggedExample
from bertworks.data.packing import join_pieces
from bertworks.data.tag_schemes import (
    LETTERS,
    OUTSIDE,
    Scheme,
    WordSpan,
    covered,
    cut_at_spans,
    find_scheme,
    find_spans,
    of_whole_words,
    tags_for,
    write_tags,
)
from bertworks.data.windows import cut_centered
from bertworks.tasks.metrics import rate_of
from bertworks.tasks.statistic import Sample, Statistic, share_of
from bertworks.tasks.tag_decoding import TagChain, rules_of
from bertworks.tasks.task import Parts
from bertworks.tokenizer.tokenizer import Tokenizer
from bertworks.tokenizer.word_pieces import cut_words, find_tagged_words

TextWords = Literal["text", "characters"]  # what a text without words is cut into
FindSpans = Callable[[Sequence[str]], list[WordSpan]]


@dataclass(frozen=True)
class Window:
    """A part of a text as the network reads it, and the words that are asked for in it."""

    tokens: np.ndarray
    segments: np.ndarray
    at: np.ndarray  # the first piece of each word that is asked for
    words: np.ndarray  # their numbers in the text


@dataclass(frozen=True)
class Tagged:
    """A text with its best tags."""

    text: str
    words: Sequence[Place]
    tags: list[str]
    chances: np.ndarray  # of each tag
    chances_behind: np.ndarray  # after the tag before it

    @property
    def tokens(self) -> list[str]:
        """The words."""
        return [self.text[start:end] for start, end in self.words]

    def spans(self, find: FindSpans = find_spans) -> list[dict[str, Any]]:
        """Return the spans that the tags speak of; one is as likely as all its tags together."""
        found = []
        for first, end, label in find(self.tags):
            place = slice(self.words[first][0], self.words[end - 1][1])
            chance = self.chances[first] * self.chances_behind[first + 1 : end].prod()
            told = {"start": place.start, "end": place.stop, "label": label}
            found.append({**told, "text": self.text[place], "probability": float(chance)})
        return found


class TagSet:
    """The tags that a model knows, how they speak of spans, and what words get them."""

    def __init__(
        self, tags: Sequence[str], scheme: Scheme | None, words: TextWords = "text"
    ) -> None:
        self.tags = tuple(tags)
        self.words: TextWords = words
        self.scheme: Scheme = scheme or find_scheme(tags)
        if self.scheme != "plain" and self.scheme not in LETTERS:
            raise DataError(f"the scheme {scheme!r} of tags is not known; known: {list(LETTERS)}")
        self._numbers = LabelNumbers(self.tags, "tag")

    def blinded(self, example: TaggedExample) -> TaggedExample:
        """Return an example whose words its spans do not tell."""
        return replace(example, words=words_to_ask(example, self.words))

    def gold(self, example: TaggedExample, words: Sequence[Place]) -> list[str] | None:
        """Return the tags that the words of an example should get, where they are known."""
        if example.tags is not None:
            return list(example.tags)
        if example.spans is None:
            return None
        if self.scheme == "plain":
            raise DataError("the example has spans, but the tags of the model speak of none")
        spans = covered(of_whole_words(example.spans, words), words)
        return write_tags(spans, len(words), self.scheme)

    def beyond(self, example: TaggedExample, words: Sequence[Place]) -> list[str]:
        """Return the labels of the spans that no tags of these words can speak of."""
        spans = example.spans or () if example.tags is None else ()
        whole = of_whole_words(spans, words)
        return [span.label for span in spans if span not in whole]

    def values(self, example: TaggedExample, words: Sequence[Place]) -> np.ndarray:
        """Return the numbers of the tags of an example's words, or IGNORE."""
        gold = self.gold(example, words)
        if gold is None:
            return np.full(len(words), IGNORE, np.int32)
        return np.array([self._numbers.of(tag) for tag in gold], np.int32)

    def decode(self, text: str, words: Sequence[Place], rows: np.ndarray) -> Tagged:
        """Return the best tags of words; a row has the score of each, or of each after each."""
        if not words:
            return Tagged(text, words, [], np.ones(0), np.ones(0))
        chain = TagChain(rows, self._rules)
        path = chain.best()
        return Tagged(text, words, [self.tags[tag] for tag in path], *chain.chances(path))

    @cached_property
    def _rules(self) -> np.ndarray:
        return rules_of(self.tags, self.scheme)


class LabelNumbers:
    """The numbers of labels; those that training never showed have none, which is said once."""

    def __init__(self, labels: Sequence[str], what: str) -> None:
        self._what = what
        self._numbers = {label: number for number, label in enumerate(labels)}
        self._is_told = False

    def of(self, label: str) -> int:
        """Return the number of a label, or IGNORE."""
        number = self._numbers.get(label, IGNORE)
        if number == IGNORE and not self._is_told:
            self._is_told = True
            say(
                f"warning: the {self._what} {label!r} is not in the training data, so answers miss "
                "it; others like it are not named"
            )
        return number


class TagScores:
    """Words with the right tag; spans that are right, given and sought, as CoNLL counts them."""

    def __init__(self, find: FindSpans) -> None:
        self._find = find
        self.right, self.given, self.gold = Counter[str](), Counter[str](), Counter[str]()
        self._words = array("i")  # of each text, how many are right and how many there are
        self._num_beyond = 0  # spans of gold that no tags of the words can speak of
        self._cells: dict[str, array[int]] = {}  # of each label: the text, and its three counts

    def add(
        self, gold: Sequence[str], given: Sequence[str], *, beyond: Sequence[str] = ()
    ) -> Parts:
        """Count the tags of a text and return what was counted.

        Spans of gold that lie beyond the words, of which the labels are given, are missed.
        """
        sought, found = set(self._find(gold)), set(self._find(given))
        counts = {
            name: Counter(span.label for span in spans)
            for name, spans in (("right", sought & found), ("given", found), ("gold", sought))
        }
        counts["gold"].update(beyond)
        right_words = sum(map(operator.eq, gold, given))
        parts = {
            **counts,
            "right_words": right_words,
            "words": len(gold),
            "beyond": len(beyond),
        }
        self.take(parts)
        return parts

    def take(self, parts: Parts) -> None:
        """Count a text by its parts."""
        text = len(self._words) // 2
        right, given, gold = (Counter[str](parts[name]) for name in ("right", "given", "gold"))
        self.right.update(right)
        self.given.update(given)
        self.gold.update(gold)
        for label in gold | given:
            row = (text, right[label], given[label], gold[label])
            self._cells.setdefault(label, array("i")).extend(row)
        self._words.extend((parts["right_words"], parts["words"]))
        self._num_beyond += parts.get("beyond", 0)

    def metrics(self) -> dict[str, float]:
        """Return F1, precision and recall of all spans as one, and the share of right words."""
        return {name: one.value for name, one in self.statistics().items()}

    def statistics(self) -> dict[str, Statistic]:
        """Return the scores with what each text adds; gold without spans tells accuracy alone."""
        words = np.array(self._words).reshape(-1, 2).T
        found = {"accuracy": share_of(*words)}
        if self.lacking:
            return found
        counts = np.zeros((len(self._words) // 2, 3))
        for label in self._cells:
            counts += self._of_label(label)
        whole = Sample.of(counts)
        rates = ("f1", "precision", "recall")
        return {name: rate_of(whole, name, over="micro") for name in rates} | found

    @property
    def lacking(self) -> str:
        """Which scores the gold does not tell, and why; empty where it tells all."""
        return "" if self.gold else "no example has a span, so accuracy alone is told of tags"

    @property
    def note(self) -> str:
        """How many spans could not be found, for they cut words; empty without any."""
        if not self._num_beyond:
            return ""
        return (
            f"{self._num_beyond} of {self.gold.total()} spans of gold begin or end inside a word "
            "as texts are cut into words, so they count as missed"
        )

    def macro_f1(self) -> Statistic:
        """Return the mean of the F1 of all labels."""
        columns = [self._of_label(label) for label in sorted(self._cells)]
        cells = np.stack(columns, axis=2)  # [texts, 3, labels]
        return rate_of(Sample.of(cells.reshape(len(cells), -1)), "f1", over="macro")

    def by_label(self) -> dict[str, dict[str, float]]:
        """Return the scores of each label, and how many spans have it."""
        return {
            label: _rates(self.right[label], self.given[label], self.gold[label])
            | {"support": self.gold[label]}
            for label in sorted(self._cells)
        }

    def label_statistics(self) -> dict[str, Statistic]:
        """Return the F1 of each label with what each text adds."""
        return {
            label: rate_of(Sample.of(self._of_label(label)), "f1", over=0)
            for label in sorted(self._cells)
        }

    def _of_label(self, label: str) -> np.ndarray:
        """Return how many spans of a label each text has right, given and sought."""
        rows = np.array(self._cells[label]).reshape(-1, 4)
        counts = np.zeros((len(self._words) // 2, 3))
        counts[rows[:, 0]] = rows[:, 1:]
        return counts


def words_to_learn(example: TaggedExample, kind: TextWords) -> tuple[Place, ...]:
    """Return the words of an example as given, or as its text tells, cut where spans end."""
    if example.words is not None:
        return example.words
    return cut_at_spans(words_to_ask(example, kind), example.spans or ())


def words_to_ask(example: TaggedExample, kind: TextWords) -> tuple[Place, ...]:
    """Return the words of an example as given, or as its text alone tells."""
    if example.words is not None:
        return example.words
    if kind == "characters":
        return tuple((at, at + 1) for at, char in enumerate(example.text) if not char.isspace())
    return tuple(find_tagged_words(example.text))


def kind_of_words(examples: Sequence[TaggedExample]) -> TextWords:
    """Tell what words the examples of a task have: as texts are cut, or their single characters.

    They are characters where runs of letters and digits mostly come in single ones.
    """
    num_whole = num_cut = 0
    for example in examples:
        tokens = [example.text[start:end] for start, end in example.words or ()]
        joins = [len(token) == 1 and _joins_others(token) for token in tokens]
        num_cut += sum(before and after for before, after in pairwise(joins))
        num_whole += sum(len(token) > 1 and all(map(_joins_others, token)) for token in tokens)
    return "characters" if num_cut > num_whole else "text"


@cache
def _joins_others(char: str) -> bool:
    """Tell whether a character makes a word with others like it beside it."""
    return char.isalnum() and kind_of(char) not in WITHOUT_SPACES


def cut_windows(
    example: TaggedExample, words: Sequence[Place], tokenizer: Tokenizer, *, longest: int
) -> Iterator[Window]:
    """Yield the windows of a text; each word is asked for where most is seen around it."""
    pieces = cut_words(tokenizer, example.text, words)
    room = longest - tokenizer.specials.num_added(pair=False)
    for start, end, asked in cut_centered(len(pieces.ids), pieces.firsts, room=room):
        tokens, segments = join_pieces(pieces.ids[start:end], None, tokenizer.specials)
        at = pieces.firsts[asked] - start + 1  # the first piece is [CLS]
        yield Window(tokens, segments, at.astype(np.int32), asked.astype(np.int32))


def join_rows(rows: Sequence[np.ndarray], asked: Sequence[np.ndarray]) -> np.ndarray:
    """Put the rows of all windows in the order of their words."""
    return np.concatenate(rows)[np.argsort(np.concatenate(asked), kind="stable")]


def learn_tag_set(
    examples: Sequence[TaggedExample], order: Sequence[str] = ()
) -> tuple[list[str], Scheme]:
    """Return the tags in use and how they are written; spans become tags of B and I.

    An order of the same tags is kept.
    """
    sequences = [example.tags for example in examples if example.tags]
    labels = {span.label for example in examples for span in example.spans or ()}
    tags = {tag for sequence in sequences for tag in sequence}
    scheme = find_scheme(tags, sequences) if tags else "bio"
    if labels and scheme == "plain":
        raise DataError("has rows with spans and rows with tags that speak of none; give one kind")
    if labels:
        tags |= {OUTSIDE, *tags_for(labels, scheme)}
    if len(tags) < 2:
        found = ", ".join(tags) or "none"
        raise DataError(
            f"has one tag only ({found}), so there is nothing to tell apart; add others"
        )
    if tags == {*order}:
        return list(order), scheme
    return sorted(tags, key=lambda tag: _order(tag, scheme)), scheme


def single_words(tags: Sequence[str]) -> list[WordSpan]:
    """Return every word as a span of its tag."""
    return [WordSpan(word, word + 1, tag) for word, tag in enumerate(tags)]


def _rates(right: int, given: int, gold: int) -> dict[str, float]:
    return {
        "f1": 2 * right / max(given + gold, 1),
        "precision": right / max(given, 1),
        "recall": right / max(gold, 1),
    }


def _order(tag: str, scheme: Scheme) -> tuple[bool, str, int]:
    """Sort what is outside before all spans, and the tags of a label together."""
    letter, _, label = tag.partition("-")
    if scheme == "plain":
        return True, tag, 0
    return tag != OUTSIDE, label, [*LETTERS[scheme], OUTSIDE].index(letter)
