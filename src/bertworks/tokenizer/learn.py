"""Learning a vocabulary from text that is streamed, never held."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

from tokenizers import AddedToken, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Engine

from bertworks.core.errors import DataError
from bertworks.tokenizer.engines import (
    byte_bpe_engine,
    split_at_spaces,
    unigram_engine,
    wordpiece_engine,
)
from bertworks.tokenizer.sentencepiece import UnigramModel
from bertworks.tokenizer.special_pieces import ALBERT, BERT, ROBERTA
from bertworks.tokenizer.tokenizer import Tokenizer
from bertworks.tokenizer.words import CONTINUATION, SPACE

Read = Callable[[], Iterable[str]]

LARGEST_ALPHABET = 6000  # of characters; rarer ones become the unknown piece
SCORE_DIGITS = 4  # far above the noise of the trainer's sums
SCORE_STEP = 1e-4  # between the characters that the unigram trainer found no use for


def learn_wordpiece(read: Read, *, size: int, cased: bool, min_count: int = 2) -> Tokenizer:
    """Learn a WordPiece vocabulary; memory holds character and word counts, never the text.

    `read` starts the stream of texts, and is called twice: for the characters, then for the words.
    """
    engine = wordpiece_engine({}, cased=cased)
    normal = map(engine.normalizer.normalize_str, read())
    alphabet = _alphabet(normal, most=min(LARGEST_ALPHABET, size // 2))
    inner = [char for char in alphabet if _joins_words(char, engine)]
    # The trainer numbers continuation pieces in the order of a hash table and breaks ties by
    # number, so it is not repeatable by itself; pieces named beforehand keep their place.
    named = [*BERT.names(), *alphabet, *(CONTINUATION + char for char in inner)]
    _check_room(len(named), alphabet, size=size)
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


def learn_byte_bpe(read: Read, *, size: int, cased: bool, min_count: int = 2) -> Tokenizer:
    """Learn a byte-level BPE vocabulary as RoBERTa has it; the text is read once."""
    names = (ROBERTA.first, ROBERTA.pad, ROBERTA.separator, ROBERTA.unknown, ROBERTA.mask)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    if len(names) + len(alphabet) > size:
        raise DataError(
            f"the bytes and the special pieces alone need {len(names) + len(alphabet)} pieces; "
            f"raise --size, which is {size}"
        )
    learner = Engine(models.BPE())  # to which special pieces in the text are plain text
    learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if not cased:
        learner.normalizer = _folding(normalizers.NFD(), normalizers.NFC())
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=min_count,
        initial_alphabet=alphabet,
        special_tokens=list(names),
        show_progress=False,
    )
    learner.train_from_iterator(read(), trainer)
    merges = [(first, second) for first, second in json.loads(learner.to_str())["model"]["merges"]]
    # The mask takes the space before it along, as the word that it stands for would.
    added = [AddedToken(name, special=True, lstrip=name == ROBERTA.mask) for name in names]
    engine = byte_bpe_engine(learner.get_vocab(), merges, added=added)
    engine.normalizer = learner.normalizer
    return Tokenizer(engine, ROBERTA)


def learn_unigram(read: Read, *, size: int, cased: bool) -> Tokenizer:
    """Learn a unigram vocabulary with ALBERT's special pieces.

    `read` starts the stream of texts, and is called twice: for the characters, then for the words.
    """
    special = [(name, 0.0) for name in ALBERT.names()]
    nfkc = normalizers.NFKC()
    normalizer = nfkc if cased else _folding(normalizers.NFKD(), nfkc)
    normal = map(normalizer.normalize_str, read())
    alphabet = _alphabet(normal, most=min(LARGEST_ALPHABET, size // 2))
    _check_room(len({*ALBERT.names(), *alphabet, SPACE}), alphabet, size=size)
    known: defaultdict[int, str] = defaultdict(lambda: " ", {ord(char): char for char in alphabet})
    trainer = trainers.UnigramTrainer(
        vocab_size=size,
        unk_token=ALBERT.unknown,
        special_tokens=list(ALBERT.names()),
        show_progress=False,
    )
    learner = Engine(models.Unigram())  # to which special pieces in the text are plain text
    split_at_spaces(learner)
    texts = (normalizer.normalize_str(text).translate(known) for text in read())
    learner.train_from_iterator(texts, trainer)
    learned = json.loads(learner.to_str())["model"]["vocab"][len(special) :]
    engine = unigram_engine(UnigramModel(special + _steady(learned, alphabet), 1))
    engine.normalizer = normalizer
    return Tokenizer(engine, ALBERT)


def _steady(pieces: list[tuple[str, float]], alphabet: list[str]) -> list[tuple[str, float]]:
    """Take out of a trained unigram vocabulary what depends on the order of a hash table.

    The trainer adds up in that order, which changes the last digits, and lets the characters that
    it found no use for rise in that order from the lowest score.
    """
    lowest = min((score for _, score in pieces), default=0.0)
    limit = lowest + SCORE_STEP * len(alphabet)
    scores = {
        piece: lowest if len(piece) == 1 and score < limit else score for piece, score in pieces
    }
    rounded = sorted((-round(score, SCORE_DIGITS), piece) for piece, score in scores.items())
    return [(piece, -score) for score, piece in rounded]


def _folding(
    apart: normalizers.Normalizer, together: normalizers.Normalizer
) -> normalizers.Normalizer:
    """Fold case and accents: take characters apart, drop the accents, put them together again."""
    fold = [normalizers.StripAccents(), normalizers.Lowercase()]
    return normalizers.Sequence([apart, *fold, together])


def _check_room(needed: int, alphabet: list[str], *, size: int) -> None:
    if needed >= size:
        raise DataError(
            f"the {len(alphabet)} commonest characters, with the special pieces, already need "
            f"{needed} pieces; raise --size above {size}"
        )


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
