"""The files of a tokenizer folder, in the forms that this and other libraries know."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, models
from tokenizers import Tokenizer as Engine

from bertworks.core.artifact import read_object
from bertworks.core.errors import ArtifactError
from bertworks.core.lines import is_unicode
from bertworks.tokenizer.engines import byte_bpe_engine, unigram_engine, wordpiece_engine
from bertworks.tokenizer.sentencepiece import read_sentencepiece
from bertworks.tokenizer.special_pieces import (
    KEYS,
    ROBERTA,
    SpecialPieces,
    added_pieces,
    find_special_pieces,
    listed_pieces,
)

SETTINGS = "tokenizer_config.json"
PARTS = ("normalizer", "pre_tokenizer", "decoder", "post_processor")
# Their option -> the normalizer's own name for it.
BERT_OPTIONS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
# The classes that take the normalizer of `tokenizer.json` as it is, whatever the settings say.
PLAIN_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
PROBE = "Any text, 1 “würde” 中文"  # a broken table of characters shows only in use
NUM_READINGS = 5  # a score comes to rest after one or two

Settings = dict[str, Any]
Opened = tuple[Engine, SpecialPieces]
Reader = Callable[[Path, Settings], Opened]


def read_engine(folder: Path) -> Opened:
    """Open the first of the known forms in a folder; settings beside it are obeyed."""
    if not folder.is_dir():
        raise ArtifactError(f"there is no folder {folder}; check the path")
    for files, read in READERS.items():
        if all((folder / name).is_file() for name in files):
            return _read(folder, files, read)
    known = ", ".join(" + ".join(files) for files in READERS)
    raise ArtifactError(f"{folder} holds no tokenizer ({known}); check the path")


def write_engine(folder: Path, engine: Engine, names: SpecialPieces, *, more: Settings) -> None:
    """Write `tokenizer.json`, the settings (and `more` of them), and the files of its kind."""
    text = _settled(engine.to_str(pretty=True))  # the library's own saving hides a full disk
    _write(folder / "tokenizer.json", text)
    settings = {**_class_settings(engine, names), **_special_settings(engine, names), **more}
    _write(folder / SETTINGS, json.dumps(settings, indent=1, ensure_ascii=False))
    pieces = dict(sorted(engine.get_vocab().items(), key=lambda item: item[1]))
    if isinstance(engine.model, models.WordPiece):
        lines = [""] * (max(pieces.values()) + 1)  # an id without a piece is an empty line
        for piece, index in pieces.items():
            lines[index] = piece
        _write(folder / "vocab.txt", "".join(f"{line}\n" for line in lines))
    elif settings["tokenizer_class"] == "RobertaTokenizer":
        merges = (" ".join(merge) for merge in json.loads(text)["model"]["merges"])
        _write(folder / "vocab.json", json.dumps(pieces, ensure_ascii=False))
        _write(folder / "merges.txt", "\n".join(["#version: 0.2", *merges]) + "\n")


def tells_segments(folder: Path) -> bool:
    """Tell whether the settings let the texts of a pair be numbered, as they do unless they say."""
    names = _read_json(folder / SETTINGS).get("model_input_names")
    return not isinstance(names, list) or "token_type_ids" in names


def is_byte_level(engine: Engine) -> bool:
    """Tell whether the pieces are made of bytes."""
    return isinstance(engine.model, models.BPE) and type(engine.decoder).__name__ == "ByteLevel"


def _read(folder: Path, files: tuple[str, ...], read: Reader) -> Opened:
    settings = _read_settings(folder)
    if not is_unicode(str(folder)):
        raise ArtifactError(f"the name of {folder} is not Unicode; rename the folder")
    try:
        engine, names = read(folder, settings)
        engine.encode(PROBE)
    except ArtifactError:
        raise
    except BaseException as error:  # the library raises bare exceptions, or panics
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        named = " with ".join((str(folder / files[0]), *files[1:]))
        raise ArtifactError(f"{named} cannot be read: {error}; copy it again") from error
    return engine, names


def _read_tokenizer_json(folder: Path, settings: Settings) -> Opened:
    path = folder / "tokenizer.json"
    engine = Engine.from_file(str(path))
    names = find_special_pieces(settings, engine.get_vocab(), where=path)
    known = {token.content for token in engine.get_added_tokens_decoder().values()}
    engine.add_tokens([t for t in added_pieces({}, names) if t.content not in known])
    _refuse_other_rules(engine, settings, path)
    _refuse_other_pieces(engine, settings, path)
    return engine, names


def _refuse_other_rules(engine: Engine, settings: Settings, path: Path) -> None:
    """Stop where the settings want another cutting than the engine does."""
    own = _rules(engine)
    if settings.get("tokenizer_class") in PLAIN_CLASSES:
        own = {key: own[key] for key in own if key not in BERT_OPTIONS}
    told = {**own, **{key: value for key, value in settings.items() if value is not None}}
    if settings.get("strip_accents", True) is None:  # BERT's way: they go with the capitals
        told["strip_accents"] = told.get("do_lower_case")
    for key, value in own.items():
        if told[key] != value:
            raise ArtifactError(
                f"{key} is {json.dumps(told[key])} in {path.with_name(SETTINGS)}, but "
                f"{path.name} beside it does the opposite; remove the entry that is wrong, or "
                "make them agree"
            )


def _rules(engine: Engine) -> Settings:
    """Return the rules of an engine by the names that settings have for them."""
    told = _outline(engine)
    normal, cutting = told["normalizer"] or {}, told["pre_tokenizer"] or {}
    rules = {}
    if normal.get("type") == "BertNormalizer":
        rules = {key: normal[ours] for key, ours in BERT_OPTIONS.items()}
        if rules["strip_accents"] is None:
            rules["strip_accents"] = rules["do_lower_case"]
    if cutting.get("type") == "ByteLevel":
        rules["add_prefix_space"] = cutting["add_prefix_space"]
    return rules


def _refuse_other_pieces(engine: Engine, settings: Settings, path: Path) -> None:
    """Stop where the settings name pieces that the engine does not find in a text."""
    ids = {token.content: index for index, token in engine.get_added_tokens_decoder().items()}
    for key, name, index in listed_pieces(settings):
        if name not in ids or index not in (None, ids[name]):
            number = "" if index is None else f" as number {index}"
            raise ArtifactError(
                f"{key} in {path.with_name(SETTINGS)}, or an older file beside it, names the "
                f"piece {name}{number}, but {path.name} does not; remove the entry that is wrong, "
                "or make them agree"
            )


def _read_vocab_txt(folder: Path, settings: Settings) -> Opened:
    path = folder / "vocab.txt"
    # Some vocabularies hold pieces that `splitlines` takes for ends of lines.
    lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    vocabulary = {piece: index for index, piece in enumerate(lines)}
    names, added = _special(settings, vocabulary, path)
    engine = wordpiece_engine(
        vocabulary,
        cased=not _flag(settings, "do_lower_case", usual=True),
        strip_accents=settings.get("strip_accents"),
        split_chinese=_flag(settings, "tokenize_chinese_chars", usual=True),
        names=names,
        added=added,
    )
    return engine, names


def _read_vocab_json(folder: Path, settings: Settings) -> Opened:
    path = folder / "vocab.json"
    vocabulary, merges = models.BPE.read_file(str(path), str(folder / "merges.txt"))
    names, added = _special(settings, vocabulary, path)
    engine = byte_bpe_engine(
        vocabulary,
        merges,
        prefix_space=_flag(settings, "add_prefix_space", usual=False),
        trim_offsets=_flag(settings, "trim_offsets", usual=True),
        names=names,
        added=added,
    )
    return engine, names


def _read_spiece_model(folder: Path, settings: Settings) -> Opened:
    path = folder / "spiece.model"
    model = read_sentencepiece(path)
    names, added = _special(settings, dict(model.pieces), path)
    known = {token.content for token in added}
    own = [
        AddedToken(piece, special=is_special, normalized=False)
        for piece, is_special in model.added
        if piece not in known
    ]
    engine = unigram_engine(
        model,
        cased=not _flag(settings, "do_lower_case", usual=True),
        keep_accents=_flag(settings, "keep_accents", usual=False),
        prefix_space=_flag(settings, "add_prefix_space", usual=True),
        names=names,
        added=[*added, *own],
    )
    return engine, names


READERS: dict[tuple[str, ...], Reader] = {
    ("tokenizer.json",): _read_tokenizer_json,
    ("vocab.txt",): _read_vocab_txt,
    ("vocab.json", "merges.txt"): _read_vocab_json,
    ("spiece.model",): _read_spiece_model,
}


def _special(
    settings: Settings, vocabulary: dict[str, Any], path: Path
) -> tuple[SpecialPieces, list[AddedToken]]:
    listed = settings.get("added_tokens_decoder", {}).values()
    held = {*vocabulary, *(entry["content"] for entry in listed)}
    names = find_special_pieces(settings, held, where=path)
    return names, added_pieces(settings, names)


def _flag(settings: Settings, key: str, *, usual: bool) -> bool:
    value = settings.get(key, usual)
    if not isinstance(value, bool):
        raise ValueError(f"its setting {key} is {value!r} instead of true or false")
    return value


def _read_settings(folder: Path) -> Settings:
    """Join the settings of old and new folders; the older files count where the new is silent."""
    settings = _read_json(folder / SETTINGS)
    if "added_tokens_decoder" in settings:
        return settings
    special = _read_json(folder / "special_tokens_map.json")
    added = _read_json(folder / "added_tokens.json")
    entries = {
        index: {"content": piece, "special": False, "normalized": True}
        for piece, index in added.items()
    }
    return {**settings, **special, **({"added_tokens_decoder": entries} if entries else {})}


def _read_json(path: Path) -> Settings:
    return read_object(path) if path.is_file() else {}


def _settled(text: str) -> str:
    """Return the text that a tokenizer opened from it writes again.

    The library reads a score to its last digit but one, so that it moves when read.
    """
    for _ in range(NUM_READINGS):
        before, text = text, Engine.from_str(text).to_str(pretty=True)
        if text == before:
            break
    return text


def _class_settings(engine: Engine, names: SpecialPieces) -> Settings:
    """Name the class of another library that builds the same engine, and its options."""
    outline = _outline(engine)
    ids = engine.get_vocab()
    vocabulary = {name: ids[name] for name in names.names()}
    if outline["model"]["type"] == "WordPiece" and names.separator != ROBERTA.separator:
        normal = outline["normalizer"] or {}
        options = {key: normal.get(ours) for key, ours in BERT_OPTIONS.items()}
        twin = wordpiece_engine(
            vocabulary,
            cased=not options["do_lower_case"],
            strip_accents=options["strip_accents"],
            split_chinese=bool(options["tokenize_chinese_chars"]),
            names=names,
        )
        if outline == _outline(twin):
            return {"tokenizer_class": "BertTokenizer", **options}
    if is_byte_level(engine):
        layout = outline["post_processor"] or {}
        trimming = {key: bool(layout.get(key)) for key in ("add_prefix_space", "trim_offsets")}
        twin = byte_bpe_engine(
            vocabulary,
            [],
            prefix_space=trimming["add_prefix_space"],
            trim_offsets=trimming["trim_offsets"],
            names=names,
        )
        if outline == _outline(twin):
            return {"tokenizer_class": "RobertaTokenizer", **trimming}
    return {"tokenizer_class": PLAIN_CLASSES[0]}


def _outline(engine: Engine) -> Settings:
    """Describe an engine without its vocabulary."""
    told = json.loads(engine.to_str())
    model = {key: told["model"][key] for key in told["model"] if key not in ("vocab", "merges")}
    return {**{part: told[part] for part in PARTS}, "model": model}


def _special_settings(engine: Engine, names: SpecialPieces) -> Settings:
    """Name the special pieces, with their flags where these are unusual."""
    tokens = {token.content: token for token in engine.get_added_tokens_decoder().values()}
    settings: Settings = {}
    for role, key in KEYS.items():
        name = getattr(names, role)
        flags = tokens[name].__getstate__()
        usual = AddedToken(name, special=True).__getstate__()
        settings[key] = name if flags == usual else {"__type": "AddedToken", **flags}
    return settings


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
