"""Each kind of tokenizer gives the ids and offsets of the other library, from the same folder.

Real vocabularies are compared only where `shared/data/vocabs` lies beside the repository; small
ones that are made here always are.
"""

import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    AddedToken,
    AlbertTokenizer,
    AutoTokenizer,
    BertTokenizer,
    MPNetTokenizer,
    RobertaTokenizer,
)

from bertworks.data.packing import join_pieces
from bertworks.tokenizer.engines import wordpiece_engine
from bertworks.tokenizer.learn import learn_byte_bpe, learn_unigram, learn_wordpiece
from bertworks.tokenizer.special_pieces import BERT, ROBERTA
from bertworks.tokenizer.tokenizer import Tokenizer

VOCABULARIES = Path(__file__).parents[3] / "shared" / "data" / "vocabs"
LEARNED_FROM = [
    "The Café was naïve about running, runners and runs; it's the cafés' fault.",
    "我们今天在北京学习中文，北京是中国的首都。",
    "Das Mädchen läuft über den Hügel, und die Straße ist naß.",
] * 3
TEXTS = [
    "The runners run, don't they?",
    "  two  spaces ,``quoted'' and ''closed``  ",
    "北京 is 中国的首都。它很大!",
    "Die Straße ist naß; ẞ, Ärger, ÜBER",
    "Café NAÏVE naïve Ångström ﬁne ① ½ Ⅷ İstanbul",
    "e\u0301 a\u0308o \u0300x n\u0303\u0323",
    "smile \U0001f600 and \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\u2764\ufe0f \U0001f1e9\U0001f1ea flags",
    "zero\u200bwidth\u200c \u2060 soft\u00adhyphen \ufeff no\u00a0break \u3000 wide",
    "\u202eright to left\u202c עברית العربيّة",
    "ภาษาไทย ไม่มีช่องว่าง हिन्दी 한국어 カタカナ",
    "tabs\tand\nlines\r\n\x0b\x0c nul\x00 bell\x07 \x7f \x85 \u2028",
    "fill the [MASK] here, [SEP] or [mask] <mask> is</s> special <s><pad> <unk>[UNK] [CLS]",
    "##run ## # ▁ ▁the Ġthe Ċ",
    "1,000 2, 3.14159 e-mail@example.com",
    "x" * 101 + " too long a word",
    "",
    " ",
    "\n",
]
ODD_PARTS = [
    *("the", "The", "run", "##s", "北京", "é", "e\u0301", "ä", "ß", "①", ",", "``", "''"),
    *(" ", "  ", "\t", "\n", "\u200b", "\u200d", "\U0001f600", "▁", "Ġ"),
    *("[MASK]", "<mask>", "</s>", "[SEP]"),
]
UNIGRAM_PIECES = [
    ("<pad>", 0.0, 3),
    ("<unk>", 0.0, 2),
    ("[CLS]", 0.0, 3),
    ("[SEP]", 0.0, 3),
    ("[MASK]", 0.0, 3),
    ("(", 0.0, 4),
    ("<own>", 0.0, 4),
    *((piece, -2.7 - number / 7, 1) for number, piece in enumerate(["▁the", "run", "▁", "s", "n"])),
    *((char, -6.1 - number / 13, 1) for number, char in enumerate('etaoihrdulcCTaé北京ǘ1,"')),
]
CHANGES = {"①": "1", "ﬁ": "fi", "\u3000": " ", "\t": " ", "é": "e"}


class Both(NamedTuple):
    """One vocabulary, opened here and there, and the family whose folder it lies in."""

    ours: Tokenizer
    theirs: Any
    family: str


def learned(learn: Callable[..., Tokenizer], folder: Path, *, cased: bool, keep: str) -> None:
    """Save a learned vocabulary and keep only some of its files."""
    learn(lambda: LEARNED_FROM, size=307, cased=cased).save(folder)
    for path in folder.iterdir():
        if path.name not in keep.split():
            path.unlink()


def say(folder: Path, **options: Any) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps(options))


def make_wordpiece(folder: Path, request: Any, **options: Any) -> Both:
    learned(learn_wordpiece, folder, cased=not options["do_lower_case"], keep="vocab.txt")
    say(folder, **options)
    return Both(Tokenizer.open(folder), BertTokenizer.from_pretrained(folder), "bert")


def make_mpnet(folder: Path, request: Any) -> Both:
    learned(learn_wordpiece, folder, cased=False, keep="vocab.txt")
    text = (folder / "vocab.txt").read_text()
    names = {"[PAD]": "<pad>", "[CLS]": "<s>", "[SEP]": "</s>", "[MASK]": "<mask>"}
    for old, new in names.items():
        text = text.replace(old, new)
    (folder / "vocab.txt").write_text(text)
    say(folder, mask_token={"__type": "AddedToken", "content": "<mask>", "lstrip": True})
    return Both(Tokenizer.open(folder), MPNetTokenizer.from_pretrained(folder), "mpnet")


def make_byte_bpe(folder: Path, request: Any, **options: Any) -> Both:
    learned(learn_byte_bpe, folder, cased=True, keep="vocab.json merges.txt")
    if options:
        say(folder, **options)
    return Both(Tokenizer.open(folder), RobertaTokenizer.from_pretrained(folder), "roberta")


def make_modernbert(folder: Path, request: Any) -> Both:
    """Write byte-level pieces with BERT's special ones, as only `tokenizer.json` can say it."""
    learned(learn_byte_bpe, folder, cased=True, keep="tokenizer.json")
    text = (folder / "tokenizer.json").read_text(encoding="utf-8")
    for old, new in zip(ROBERTA.names(), BERT.names(), strict=True):
        text = text.replace(f'"{old}"', f'"{new}"')
    told = json.loads(text) | {"normalizer": {"type": "NFC"}}
    told["post_processor"] = processors_of_bert(told["model"]["vocab"])
    (folder / "tokenizer.json").write_text(json.dumps(told), encoding="utf-8")
    keys = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    say(
        folder,
        tokenizer_class="PreTrainedTokenizerFast",
        model_input_names=["input_ids", "attention_mask"],
        **dict(zip(keys, BERT.names(), strict=True)),
    )
    (folder / "config.json").write_text(json.dumps({"model_type": "modernbert"}))
    return Both(Tokenizer.open(folder), AutoTokenizer.from_pretrained(folder), "modernbert")


def processors_of_bert(ids: dict[str, int]) -> dict[str, Any]:
    engine = wordpiece_engine({name: ids[name] for name in BERT.names()}, cased=True)
    return json.loads(engine.to_str())["post_processor"]


def make_saved(folder: Path, request: Any, *, kind: str, cased: bool) -> Both:
    learn, family = {
        "wordpiece": (learn_wordpiece, "bert"),
        "byte-bpe": (learn_byte_bpe, "roberta"),
        "unigram": (learn_unigram, "albert"),
    }[kind]
    learned(learn, folder, cased=cased, keep="tokenizer.json tokenizer_config.json")
    (folder / "config.json").write_text(json.dumps({"model_type": family}))
    return Both(Tokenizer.open(folder), AutoTokenizer.from_pretrained(folder), family)


def make_sentencepiece(folder: Path, request: Any, *, changes: bool, **options: Any) -> Both:
    """Open a `spiece.model`; the other library, which needs two more for that, gets its content."""
    write = request.getfixturevalue("sentencepiece_model")
    characters = request.getfixturevalue("character_map")(CHANGES) if changes else b""
    (folder / "spiece.model").write_bytes(write(UNIGRAM_PIECES, characters=characters))
    say(folder, **options)
    theirs = AlbertTokenizer(
        vocab=[(piece, float(np.float32(score))) for piece, score, _ in UNIGRAM_PIECES],
        _spm_precompiled_charsmap=characters or None,
        extra_special_tokens=[
            AddedToken(piece, normalized=False, special=kind == 3)
            for piece, _, kind in UNIGRAM_PIECES
            if kind in (3, 4)
        ],
        **options,
    )
    return Both(Tokenizer.open(folder), theirs, "albert")


def make_real(folder: Path, request: Any, *, name: str, **options: Any) -> Both:
    for path in (VOCABULARIES / name).iterdir():
        data = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
        (folder / path.name.removesuffix(".xz")).write_bytes(data)
    say(folder, **options)
    reader = RobertaTokenizer if name.startswith("roberta") else BertTokenizer
    family = name.split("-")[0]
    return Both(Tokenizer.open(folder), reader.from_pretrained(folder), family)


MADE: dict[str, tuple[Callable[..., Both], dict[str, Any]]] = {
    "wordpiece uncased": (make_wordpiece, {"do_lower_case": True}),
    "wordpiece cased": (make_wordpiece, {"do_lower_case": False}),
    "wordpiece with accents": (make_wordpiece, {"do_lower_case": True, "strip_accents": False}),
    "wordpiece, Chinese whole": (
        make_wordpiece,
        {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False},
    ),
    "wordpiece with more pieces": (
        make_wordpiece,
        {"do_lower_case": True, "additional_special_tokens": ["[new]", "runners"]},
    ),
    "wordpiece of MPNet": (make_mpnet, {}),
    "byte-bpe": (make_byte_bpe, {}),
    "byte-bpe of ModernBERT": (make_modernbert, {}),
    "byte-bpe with a space": (make_byte_bpe, {"add_prefix_space": True, "trim_offsets": False}),
    "saved wordpiece": (make_saved, {"kind": "wordpiece", "cased": False}),
    "saved byte-bpe": (make_saved, {"kind": "byte-bpe", "cased": True}),
    "saved byte-bpe uncased": (make_saved, {"kind": "byte-bpe", "cased": False}),
    "saved unigram": (make_saved, {"kind": "unigram", "cased": True}),
    "saved unigram uncased": (make_saved, {"kind": "unigram", "cased": False}),
    "sentencepiece": (make_sentencepiece, {"changes": False}),
    "sentencepiece with changes": (make_sentencepiece, {"changes": True}),
    "sentencepiece cased": (
        make_sentencepiece,
        {"changes": True, "do_lower_case": False, "keep_accents": True},
    ),
}
REAL: dict[str, tuple[Callable[..., Both], dict[str, Any]]] = {
    name: (make_real, {"name": name, **options})
    for name, options in {
        "bert-base-uncased": {"do_lower_case": True},
        "bert-base-cased": {"do_lower_case": False},
        "bert-base-chinese": {"do_lower_case": False},
        "roberta-base": {},
    }.items()
    if (VOCABULARIES / name).is_dir()
}
CASES = MADE | REAL


@pytest.fixture(scope="module", params=CASES)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Both:
    """Open one vocabulary in both libraries."""
    make, options = CASES[request.param]
    return make(tmp_path_factory.mktemp("tokenizer"), request, **options)


def equal(both: Both, text: str) -> bool:
    ours = both.ours.encode(text)
    theirs = both.theirs(text, add_special_tokens=False, return_offsets_mapping=True)
    spans = [tuple(span) for span in theirs["offset_mapping"]]
    assert both.ours.ids_of([text]) == [ours.ids]
    return (ours.ids, ours.offsets) == (theirs["input_ids"], spans)


def test_texts_of_many_scripts_get_the_same_ids_and_offsets(both: Both) -> None:
    assert [text for text in TEXTS if not equal(both, text)] == []


@settings(max_examples=60)
@given(st.text(st.characters(codec="utf-8"), max_size=40))
def test_any_text_gets_the_same_ids_and_offsets(both: Both, text: str) -> None:
    assert equal(both, text)


@settings(max_examples=40)
@given(
    st.lists(
        st.sampled_from(ODD_PARTS),
        max_size=12,
    )
)
def test_any_mixture_of_odd_parts_gets_the_same_ids_and_offsets(
    both: Both, parts: list[str]
) -> None:
    assert equal(both, "".join(parts))


def test_a_text_and_a_pair_are_laid_out_the_same(both: Both) -> None:
    texts = [text for text in TEXTS if text]  # an empty second text is none to the other library
    for first, second in zip(texts, texts[3:], strict=False):
        one, two = (np.array(ids, dtype=np.int64) for ids in both.ours.ids_of([first, second]))
        specials = both.ours.specials
        assert join_pieces(one, None, specials)[0].tolist() == both.theirs(first)["input_ids"]
        tokens, segments = join_pieces(one, two, specials)
        # Their class for ALBERT asks for no numbers by itself, but knows them.
        numbered = True if specials.second_segment else None
        told = both.theirs(first, second, return_token_type_ids=numbered)
        assert tokens.tolist() == told["input_ids"]
        assert segments.tolist() == told.get("token_type_ids", [0] * len(tokens))
        assert len(tokens) - len(one) - len(two) == specials.num_added(pair=True)


def test_the_special_pieces_are_the_same(both: Both) -> None:
    told = [getattr(both.theirs, f"{key}_token_id") for key in ("pad", "unk", "cls", "sep", "mask")]
    assert list(both.ours.specials.as_tuple()) == told
    assert both.ours.mask_piece == both.theirs.mask_token


def test_saved_it_opens_the_same_there_and_here(both: Both, tmp_path: Path) -> None:
    both.ours.save(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": both.family}))
    saved = Both(Tokenizer.open(tmp_path), AutoTokenizer.from_pretrained(tmp_path), both.family)
    assert [text for text in TEXTS if not equal(saved, text)] == []
    assert saved.ours.ids_of(TEXTS) == both.ours.ids_of(TEXTS)
    assert saved.ours.specials == both.ours.specials
    test_a_text_and_a_pair_are_laid_out_the_same(saved)
    test_the_special_pieces_are_the_same(saved)


def test_what_the_other_library_saves_is_opened_here(both: Both, tmp_path: Path) -> None:
    both.theirs.save_pretrained(tmp_path)
    opened = both._replace(ours=Tokenizer.open(tmp_path))
    assert [text for text in TEXTS if not equal(opened, text)] == []
    assert opened.ours.specials == both.ours.specials


def test_the_comparison_sees_another_vocabulary() -> None:
    ours = learn_wordpiece(lambda: LEARNED_FROM, size=307, cased=False)
    other = learn_wordpiece(lambda: LEARNED_FROM, size=100, cased=False)
    assert ours.ids_of(TEXTS) != other.ids_of(TEXTS)
