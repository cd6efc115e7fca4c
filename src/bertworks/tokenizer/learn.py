"""Learning a vocabulary from text that is streamed, never held."""

from collections import Counter
from collections.abc import Callable, Iterable

from tokenizers import Tokenizer as Engine
from tokenizers import trainers

from bertworks.core.errors import DataError
from bertworks.tokenizer.tokenizer import (
    CONTINUATION,
    SPECIAL_PIECES,
    Tokenizer,
    wordpiece_engine,
)

LARGEST_ALPHABET = 6000  # of characters; rarer ones become [UNK]


def learn_wordpiece(
    read: Callable[[], Iterable[str]], *, size: int, cased: bool, min_count: int = 2
) -> Tokenizer:
    """Learn a WordPiece vocabulary; memory holds character and word counts, never the text.

    `read` starts the stream of texts, and is called twice: for the characters, then for the words.
    """
    engine = wordpiece_engine({}, cased=cased)
    normal = map(engine.normalizer.normalize_str, read())
    alphabet = _alphabet(normal, most=min(LARGEST_ALPHABET, size // 2))
    inner = [char for char in alphabet if _joins_words(char, engine)]
    # The trainer numbers continuation pieces in the order of a hash table and breaks ties by
    # number, so it is not repeatable by itself; pieces named beforehand keep their place.
    named = [*SPECIAL_PIECES, *alphabet, *(CONTINUATION + char for char in inner)]
    if len(named) >= size:
        raise DataError(
            f"the {len(alphabet)} commonest characters, with the special pieces, already need "
            f"{len(named)} pieces; raise --size above {size}"
        )
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=min_count,
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        special_tokens=named,
        continuing_subword_prefix=CONTINUATION,
        show_progress=False,
    )
    engine.train_from_iterator(read(), trainer)
    return Tokenizer(wordpiece_engine(engine.get_vocab(), cased=cased))


def _alphabet(texts: Iterable[str], *, most: int) -> list[str]:
    """Return the commonest characters in a fixed order."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    visible = sorted((-count, char) for char, count in counts.items() if not char.isspace())
    return sorted(char for _, char in visible[:most])


def _joins_words(character: str, engine: Engine) -> bool:
    """Tell whether a character can stand inside a word (punctuation and Chinese ones cannot)."""
    text = engine.normalizer.normalize_str(f"a{character}")
    return len(engine.pre_tokenizer.pre_tokenize_str(text)) == 1
