"""Adding words to a vocabulary: each is found whole, and text without them is cut as before."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tokenizers import AddedToken, models
from tokenizers import Tokenizer as Engine

from bertworks.core.errors import UsageError
from bertworks.tokenizer.scripts import needs_no_space
from bertworks.tokenizer.tokenizer import Tokenizer
from bertworks.tokenizer.words import CONTINUATION, SPACE

SPACE_MARKS = (SPACE, "Ġ")  # of unigram and byte-level pieces


@dataclass(frozen=True)
class Extension:
    """A tokenizer with more words, and what became of each word."""

    tokenizer: Tokenizer
    parts: dict[int, Sequence[int]]  # new piece -> the pieces from whose mean it starts
    known: list[str]  # was one piece already, and is left as it was
    reused: list[str]  # was a piece that no text reached, and is reached now
    unreadable: list[str]  # could not be read whole before: starts as the mean of all pieces

    def sources(self, num_rows: int) -> list[Sequence[int]]:
        """Return for each row of the larger tables the old rows from whose mean it starts."""
        size = max(num_rows, 1 + max(self.parts, default=0))
        return [self.parts.get(row, [row]) for row in range(size)]


def extend(tokenizer: Tokenizer, words: Iterable[str]) -> Extension:
    """Add words, as the tokenizer writes them, to a copy of it."""
    engine = Engine.from_str(tokenizer.engine.to_str())
    before = {word: _cut(tokenizer, word) for word in _normal(tokenizer, words)}
    unknown = tokenizer.specials.unknown
    is_known = {word: len(ids) == 1 and unknown not in ids for word, ids in before.items()}
    known, new = ([word for word in before if is_known[word] is wanted] for wanted in (True, False))
    _refuse_marked(tokenizer, new)
    has_spaces = tokenizer.ids_of(["a "]) != tokenizer.ids_of(["a"])
    engine.add_tokens([_added(word, takes_space=has_spaces) for word in new])
    extended = tokenizer.with_engine(engine)
    made = Extension(extended, {}, known, [], [])
    for word in new:
        index = engine.token_to_id(word)
        if index is None or _cut(extended, word) != [index]:
            raise UsageError(f"{word!r} cannot be one piece of this tokenizer; leave it out")
        if tokenizer.engine.token_to_id(word) is not None:
            made.reused.append(word)
        elif unknown in before[word] or not before[word]:
            made.unreadable.append(word)
            made.parts[index] = range(tokenizer.vocab_size)
        else:
            made.parts[index] = before[word]
    return made


def _normal(tokenizer: Tokenizer, words: Iterable[str]) -> list[str]:
    """Write words as the tokenizer does, such as in small letters, each once."""
    normalizer = tokenizer.engine.normalizer
    special = {name.casefold() for name in tokenizer.names.names()}
    found: dict[str, None] = {}
    for word in words:
        _refuse_torn(word)
        if word.strip().casefold() in special:
            raise UsageError(
                f"the word {word!r} is a special piece of this tokenizer; leave it out"
            )
        parts = word.split()
        if normalizer is not None:
            # Chinese characters come with spaces around them, which are no part of the word.
            parts = ["".join(normalizer.normalize_str(part).split()) for part in parts]
        normal = " ".join(filter(None, parts))
        if not normal:
            raise UsageError(f"the word {word!r} is nothing to this tokenizer; leave it out")
        found[normal] = None
    return list(found)


def _refuse_torn(word: str) -> None:
    try:
        word.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(f"the word {word!r} is not UTF-8; write it in UTF-8") from error


def _refuse_marked(tokenizer: Tokenizer, words: Iterable[str]) -> None:
    """Stop at words that are written as a piece of other meaning, whose row they would take."""
    has_continuations = isinstance(tokenizer.engine.model, models.WordPiece)
    for word in words:
        index = tokenizer.engine.token_to_id(word)
        if index is None:
            continue
        continues = has_continuations and word.startswith(CONTINUATION)
        if continues or tokenizer.text_of([index]).strip() != word:
            raise UsageError(
                f"the word {word!r} is written as a piece of this tokenizer that stands for "
                "something else, such as a byte or a part of a word; leave it out"
            )


def _cut(tokenizer: Tokenizer, word: str) -> list[int]:
    """Return the pieces of a word as it stands in running text, without bare marks of spaces."""
    ids = tokenizer.ids_of([word if needs_no_space(word) else f" {word}"])[0]
    return [index for index in ids if tokenizer.piece(index) not in SPACE_MARKS]


def _added(word: str, *, takes_space: bool) -> AddedToken:
    """Return the rule by which a word is found; the space before it must not be left alone."""
    return AddedToken(
        word,
        single_word=not needs_no_space(word),
        lstrip=takes_space,
        normalized=True,
        special=False,
    )
