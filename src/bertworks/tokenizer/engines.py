"""The three ways to cut text into pieces, as engines of the `tokenizers` library."""

from collections.abc import Iterable

from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Engine

from bertworks.tokenizer.sentencepiece import UnigramModel
from bertworks.tokenizer.special_pieces import ALBERT, BERT, ROBERTA, SpecialPieces
from bertworks.tokenizer.words import CONTINUATION, SPACE


def wordpiece_engine(
    vocabulary: dict[str, int],
    *,
    cased: bool,
    strip_accents: bool | None = None,
    split_chinese: bool = True,
    names: SpecialPieces = BERT,
    added: Iterable[AddedToken] = (),
) -> Engine:
    """Build BERT's WordPiece: clean, split Chinese characters, fold case and accents if uncased."""
    engine = Engine(
        models.WordPiece(vocabulary, unk_token=names.unknown, max_input_chars_per_word=100)
    )
    engine.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=split_chinese,
        strip_accents=strip_accents,
        lowercase=not cased,
    )
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.WordPiece(prefix=CONTINUATION)
    _add(engine, added, names)
    engine.post_processor = _layout(engine, names)
    return engine


def byte_bpe_engine(
    vocabulary: dict[str, int],
    merges: list[tuple[str, str]],
    *,
    prefix_space: bool = False,
    trim_offsets: bool = True,
    names: SpecialPieces = ROBERTA,
    added: Iterable[AddedToken] = (),
) -> Engine:
    """Build RoBERTa's byte-level BPE: every text can be cut, and nothing of it is lost."""
    engine = Engine(
        models.BPE(vocabulary, merges, continuing_subword_prefix="", end_of_word_suffix="")
    )
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    engine.decoder = decoders.ByteLevel()
    _add(engine, added, names)
    engine.post_processor = _roberta_layout(
        engine, names, trim_offsets=trim_offsets, prefix_space=prefix_space
    )
    return engine


def unigram_engine(
    model: UnigramModel,
    *,
    cased: bool = False,
    keep_accents: bool = False,
    prefix_space: bool = True,
    names: SpecialPieces = ALBERT,
    added: Iterable[AddedToken] = (),
) -> Engine:
    """Build ALBERT's unigram model: plain quotes, case and accents folded, spaces as marks."""
    engine = Engine(models.Unigram(model.pieces, unk_id=model.unknown_id, byte_fallback=False))
    steps: list[normalizers.Normalizer] = [
        normalizers.Replace("``", '"'),
        normalizers.Replace("''", '"'),
    ]
    if not keep_accents:
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if not cased:
        steps.append(normalizers.Lowercase())
    if model.character_map:
        steps.append(normalizers.Precompiled(model.character_map))
    engine.normalizer = normalizers.Sequence(steps)
    split_at_spaces(engine, prefix_space=prefix_space)
    _add(engine, added, names)
    engine.post_processor = _layout(engine, names)
    return engine


def split_at_spaces(engine: Engine, *, prefix_space: bool = True) -> None:
    """Let an engine cut at spaces and mark each word's beginning."""
    scheme = "always" if prefix_space else "never"
    marks = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme=scheme)
    engine.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), marks])
    engine.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme=scheme)


def _add(engine: Engine, added: Iterable[AddedToken], names: SpecialPieces) -> None:
    """Let pieces stand for themselves where a text names them, such as [MASK]."""
    engine.add_tokens(list(added) or [AddedToken(name, special=True) for name in names.names()])


def _layout(engine: Engine, names: SpecialPieces) -> processors.PostProcessor:
    """Say how texts are joined; batches are built elsewhere, but other readers rely on it."""
    first, separator, ids = names.first, names.separator, engine.get_vocab()
    if separator == ROBERTA.separator:  # MPNet: two of them between, as in RoBERTa
        return _roberta_layout(engine, names)
    return processors.TemplateProcessing(
        single=f"{first} $A {separator}",
        pair=f"{first} $A {separator} $B:1 {separator}:1",
        special_tokens=[(piece, ids[piece]) for piece in (first, separator)],
    )


def _roberta_layout(
    engine: Engine, names: SpecialPieces, *, trim_offsets: bool = True, prefix_space: bool = False
) -> processors.PostProcessor:
    """Join texts as RoBERTa does; spaces that belong to a piece are not counted to its place."""
    ids = engine.get_vocab()
    return processors.RobertaProcessing(
        (names.separator, ids[names.separator]),
        (names.first, ids[names.first]),
        trim_offsets,
        prefix_space,
    )
