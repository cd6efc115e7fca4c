"""Text becomes pieces and comes back, here and in other libraries alike."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Encoding
from tokenizers import Tokenizer as Engine
from transformers import AutoTokenizer, BertTokenizerFast, PreTrainedTokenizerFast

from bertworks.core.errors import ArtifactError
from bertworks.tokenizer.engines import byte_bpe_engine
from bertworks.tokenizer.learn import learn_byte_bpe, learn_unigram, learn_wordpiece
from bertworks.tokenizer.special_pieces import BERT, ROBERTA
from bertworks.tokenizer.tokenizer import Tokenizer

LEARNED_FROM = [
    "The Café was naïve about running, runners and runs.",
    "我们今天在北京学习中文，北京是中国的首都。",
    "Das Mädchen läuft über den Hügel.",
]
TEXTS = [
    "The runners run, don't they?",
    "北京 is 中国的首都。",
    "Café NAÏVE naïve Ångström über",
    "smile \U0001f600 and \U0001f468\u200d\U0001f469\u200d\U0001f467 family",
    "fill the [MASK] here, [SEP] is special",
    "tabs\tand\nlines \u3000 wide, zero\u200bwidth, nul\x00, \u202ertl עברית",
    "x" * 101 + " too long a word",
    "##run [UNK] ## #",
    "",
    " ",
]


@pytest.fixture(scope="module", params=[False, True], ids=["uncased", "cased"])
def learned(request: pytest.FixtureRequest) -> Tokenizer:
    """Learn a small vocabulary, cased or not."""
    return learn_wordpiece(lambda: LEARNED_FROM * 3, size=101, cased=request.param)


@pytest.fixture(scope="module")
def folder(learned: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save the vocabulary."""
    path = tmp_path_factory.mktemp("tokenizer")
    learned.save(path)
    return path


def test_opened_again_it_is_the_same(learned: Tokenizer, folder: Path) -> None:
    opened = Tokenizer.open(folder)
    assert opened.engine.to_str() == learned.engine.to_str()
    assert opened.specials == learned.specials
    assert opened.vocab_size == learned.vocab_size == 101
    assert opened.folds("A", "a") == learned.folds("A", "a")
    assert opened.ids_of(TEXTS) == learned.ids_of(TEXTS)


def test_a_bare_word_list_gives_the_same_pieces(
    learned: Tokenizer, folder: Path, tmp_path: Path
) -> None:
    for name in ("vocab.txt", "tokenizer_config.json"):
        shutil.copy(folder / name, tmp_path / name)
    opened = Tokenizer.open(tmp_path)
    assert opened.ids_of(TEXTS) == learned.ids_of(TEXTS)
    assert opened.folds("A", "a") == learned.folds("A", "a")


def test_the_word_list_has_a_piece_a_line_in_the_order_of_ids(
    learned: Tokenizer, folder: Path
) -> None:
    lines = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    assert lines.pop() == ""
    assert lines == [learned.piece(index) for index in range(learned.vocab_size)]
    assert lines[:5] == list(BERT.names())


def test_a_word_list_may_hold_characters_that_look_like_line_ends(tmp_path: Path) -> None:
    listed = [*BERT.names(), "a", "\u2028", "\x85", "\x1c", "b"]
    (tmp_path / "vocab.txt").write_text("\n".join(listed), encoding="utf-8")
    assert Tokenizer.open(tmp_path).ids_of(["a b"]) == [[5, 9]]


@pytest.mark.parametrize("reader", [AutoTokenizer, BertTokenizerFast, PreTrainedTokenizerFast])
def test_transformers_reads_the_same_pieces_from_the_folder(
    learned: Tokenizer, folder: Path, reader: type
) -> None:
    theirs = reader.from_pretrained(folder)
    for text in TEXTS:
        ours = learned.encode(text)
        found = theirs(text, add_special_tokens=False, return_offsets_mapping=True)
        assert found["input_ids"] == ours.ids == learned.ids_of([text])[0]
        assert [tuple(span) for span in found["offset_mapping"]] == ours.offsets
        first, separator = learned.specials.first, learned.specials.separator
        assert theirs(text)["input_ids"] == [first, *ours.ids, separator]
    pair = theirs(TEXTS[0], TEXTS[1])["input_ids"]
    inner = learned.ids_of(TEXTS[:2])
    assert pair == [first, *inner[0], separator, *inner[1], separator]
    assert (theirs.pad_token_id, theirs.unk_token_id, theirs.mask_token_id) == (0, 1, 4)


def test_the_tokenizers_library_alone_adds_the_special_pieces(
    learned: Tokenizer, folder: Path
) -> None:
    encoding = Engine.from_file(str(folder / "tokenizer.json")).encode("the run", "runs")
    assert encoding.tokens[0] == "[CLS]"
    assert encoding.tokens.count("[SEP]") == 2
    assert encoding.type_ids == [0] * (encoding.tokens.index("[SEP]") + 1) + [1] * (
        len(encoding.tokens) - encoding.tokens.index("[SEP]") - 1
    )


def test_a_long_text_is_cut_as_a_short_one_while_other_threads_go_on(learned: Tokenizer) -> None:
    long = "The runners run 北京. " * 500 + "x" * (1 << 20)
    ended, ticks = Event(), 0

    def cut() -> Encoding:
        try:
            return learned.encode(long)
        finally:
            ended.set()

    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(cut)
        while not ended.wait(0.001):
            ticks += 1
    whole = learned.engine.encode(long, add_special_tokens=False)
    assert (found.result().ids, found.result().offsets) == (whole.ids, whole.offsets)
    assert ticks > 9


def test_offsets_point_at_the_characters_of_the_text() -> None:
    tokenizer = learn_wordpiece(lambda: LEARNED_FROM * 3, size=500, cased=False)
    text = "The CAFÉ, \U0001f600 北京 naïve Mädchen!"
    encoding = tokenizer.encode(text)
    shown = [text[start:end] for start, end in encoding.offsets]
    assert shown == ["The", "CAFÉ", ",", "\U0001f600", "北", "京", "naïve", "Mädchen", "!"]


@given(st.text(st.characters(codec="utf-8"), max_size=40))
def test_offsets_rise_and_stay_inside_the_text(learned: Tokenizer, text: str) -> None:
    offsets = learned.encode(text).offsets
    ends = [0, *(end for _, end in offsets)]
    assert all(start < end <= len(text) for start, end in offsets)
    assert all(start >= before for (start, _), before in zip(offsets, ends, strict=False))


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=20), max_size=5))
def test_a_neighbour_never_changes_the_pieces_of_a_text(
    learned: Tokenizer, texts: list[str]
) -> None:
    assert learned.ids_of(texts) == [learned.ids_of([text])[0] for text in texts]
    assert learned.ids_of(texts) == [learned.encode(text).ids for text in texts]


def test_another_way_to_ids_changes_neither_places_nor_the_tokenizer_itself(
    learned: Tokenizer,
) -> None:
    text, plain = TEXTS[0], learned.ids_of(TEXTS[:1])
    other = learned.cutting(lambda texts: [[len(text)] for text in texts])
    assert other.ids_of([text, "ab"]) == [[len(text)], [2]]
    assert other.encode(text).ids == plain[0] == other.cut([text]).ids.tolist()
    assert learned.ids_of([text]) == plain
    assert (other.specials, other.vocab_size) == (learned.specials, learned.vocab_size)


def test_a_special_piece_written_in_the_text_stands_for_itself(learned: Tokenizer) -> None:
    assert learned.specials.mask in learned.ids_of(["a [MASK] here"])[0]
    assert learned.specials.mask not in learned.ids_of(["a [mask] here"])[0]


def test_texts_to_write_hold_no_special_piece_by_its_name(learned: Tokenizer) -> None:
    plain, odd = "北京 runners", f"北京 {learned.names.separator} runners"
    assert learned.written_ids_of([plain]) == learned.ids_of([plain])
    kept, found = learned.written_ids_of([plain, odd])
    assert kept == learned.ids_of([plain])[0]
    assert not {*found} & {*learned.specials.as_tuple()} - {learned.specials.unknown}
    assert len(found) > len(kept) + 1


def test_pieces_are_put_together_again(learned: Tokenizer) -> None:
    text = "runners 北京" if learned.folds("A", "a") else "Mädchen 北京"
    ids = learned.ids_of([text])[0]
    specials = learned.specials
    assert learned.text_of([specials.first, *ids, specials.separator, specials.pad]) == text


def test_word_starts_are_the_pieces_that_continue_nothing(learned: Tokenizer) -> None:
    starts = learned.word_starts()
    assert starts.dtype == np.bool_
    assert starts.shape == (learned.vocab_size,)
    for index, begins in enumerate(starts):
        assert begins == (not learned.piece(index).startswith("##"))
    assert 0 < starts.sum() < len(starts)


def test_padding_and_truncation_of_a_foreign_file_are_switched_off(
    learned: Tokenizer, folder: Path, tmp_path: Path
) -> None:
    foreign = Engine.from_file(str(folder / "tokenizer.json"))
    foreign.enable_truncation(5)
    foreign.enable_padding(length=13)
    foreign.save(str(tmp_path / "tokenizer.json"))
    assert Tokenizer.open(tmp_path).ids_of(TEXTS) == learned.ids_of(TEXTS)


def test_chance_in_a_foreign_file_is_switched_off(kinds: dict[str, Tokenizer]) -> None:
    plain = kinds["byte-bpe"]
    told = json.loads(plain.engine.to_str())
    told["model"]["dropout"] = 0.5
    foreign = plain.with_engine(Engine.from_str(json.dumps(told)))
    assert foreign.ids_of(TEXTS * 5) == plain.ids_of(TEXTS * 5)
    assert foreign.cut(TEXTS).ids.tolist() == plain.cut(TEXTS).ids.tolist()


def test_a_folder_without_a_tokenizer_and_a_broken_one_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"holds no tokenizer \(tokenizer\.json, vocab\.txt"):
        Tokenizer.open(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{torn")
    with pytest.raises(ArtifactError, match="cannot be read"):
        Tokenizer.open(tmp_path)


def test_broken_settings_of_a_tokenizer_are_one_sentence(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "vocab.txt", tmp_path / "vocab.txt")
    (tmp_path / "tokenizer_config.json").write_text("{torn")
    with pytest.raises(ArtifactError, match="is not JSON"):
        Tokenizer.open(tmp_path)


def test_a_vocabulary_without_special_pieces_is_refused(folder: Path, tmp_path: Path) -> None:
    content = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    text = json.dumps(content).replace("[MASK]", "[HIDDEN]")
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(ArtifactError, match=r"has no \[MASK\]"):
        Tokenizer.open(tmp_path)


def test_others_are_told_how_much_the_network_reads(learned: Tokenizer, tmp_path: Path) -> None:
    learned.save(tmp_path, max_length=67)
    assert AutoTokenizer.from_pretrained(tmp_path).model_max_length == 67
    long = "the run " * 99
    assert Tokenizer.open(tmp_path).ids_of([long]) == learned.ids_of([long])
    assert len(learned.ids_of([long])[0]) > 67


# The other kinds


@pytest.fixture(scope="module", params=[learn_wordpiece, learn_byte_bpe, learn_unigram])
def any_kind(request: pytest.FixtureRequest) -> Tokenizer:
    """Learn a small cased vocabulary of any kind."""
    return request.param(lambda: LEARNED_FROM * 3, size=409, cased=True)


def test_the_mask_of_each_kind_is_found_in_a_text(any_kind: Tokenizer) -> None:
    text = f"The {any_kind.mask_piece} runs"
    assert any_kind.ids_of([text])[0].count(any_kind.specials.mask) == 1
    assert any_kind.piece(any_kind.specials.mask) == any_kind.mask_piece


def test_pieces_are_shown_without_marks_of_spaces(any_kind: Tokenizer) -> None:
    ids = any_kind.ids_of(["was naïve Mädchen 北京, über"])[0]
    shown = [any_kind.shown(index) for index in ids]
    assert not [piece for piece in shown if piece != piece.strip()]
    whole = "".join(piece.removeprefix("##") for piece in shown if piece not in ("▁", "Ġ"))
    assert whole == "wasnaïveMädchen北京,über"
    assert all(any_kind.shown(index) for index in range(any_kind.vocab_size))


def test_a_part_of_a_character_is_shown_as_the_raw_piece() -> None:
    tokenizer = learn_byte_bpe(lambda: LEARNED_FROM, size=280, cased=True)
    parts = tokenizer.ids_of(["😀"])[0]
    assert len(parts) > 1
    assert [tokenizer.shown(part) for part in parts] == [tokenizer.piece(part) for part in parts]
    shown = [tokenizer.shown(index) for index in range(tokenizer.vocab_size)]
    assert "\ufffd" not in "".join(shown)


def test_special_and_added_pieces_are_shown_as_they_stand(any_kind: Tokenizer) -> None:
    for name, index in zip(any_kind.names.names(), any_kind.specials.as_tuple(), strict=True):
        assert any_kind.shown(index) == name
    engine = Engine.from_str(any_kind.engine.to_str())
    engine.add_tokens(["größe"])
    larger = Tokenizer(engine, any_kind.names)
    assert larger.shown(any_kind.vocab_size) == "größe"
    assert larger.word_starts()[any_kind.vocab_size]


def test_words_begin_where_a_person_sees_them_begin(any_kind: Tokenizer) -> None:
    text = " The runners, 北京 über"  # a space, for the first word of a text has no mark
    encoding = any_kind.encode(text)
    starts = any_kind.word_starts()[encoding.ids]
    places = [start for (start, _), begins in zip(encoding.offsets, starts, strict=True) if begins]
    words = {1: "The", 5: "runners", 12: ",", 14: "北", 17: "über"}
    assert set(words) <= set(places)
    inside = {place for at, word in words.items() for place in range(at + 1, at + len(word))}
    assert not inside & set(places)


def test_pieces_come_with_the_places_they_end_at(any_kind: Tokenizer) -> None:
    texts = ["The runners", "", " 北京 über"]
    cut = any_kind.cut(texts)
    ids = any_kind.ids_of(texts)
    assert cut.ids.tolist() == [index for pieces in ids for index in pieces]
    assert cut.counts.tolist() == [len(pieces) for pieces in ids]
    starts = (0, len(texts[0]) + 1, len(texts[0]) + 2)
    alone = [
        (at, end)
        for at, t in zip(starts, texts, strict=True)
        for _, end in any_kind.encode(t).offsets
    ]
    assert cut.ends.tolist() == [at + end for at, end in alone]
    assert any_kind.cut([]).ids.shape == any_kind.cut([]).counts.shape == (0,)


def test_each_kind_joins_pairs_as_its_family_does(any_kind: Tokenizer) -> None:
    num_between = 2 if any_kind.mask_piece == "<mask>" else 1
    assert any_kind.specials.num_between == num_between
    own = any_kind.engine.encode("The run", "runs")
    separators = own.ids.count(any_kind.specials.separator)
    assert separators == num_between + 1


def test_an_engine_that_joins_nothing_is_taken_for_one_of_bert(learned: Tokenizer) -> None:
    told = json.loads(learned.engine.to_str()) | {"post_processor": None}
    assert Tokenizer(Engine.from_str(json.dumps(told))).specials == learned.specials


def test_pieces_are_put_together_again_in_each_kind(any_kind: Tokenizer) -> None:
    text = "Das Mädchen läuft"
    assert any_kind.text_of(any_kind.ids_of([text])[0]) == text


@given(st.lists(st.integers(0, 408), max_size=12))
def test_any_pieces_make_text_that_can_be_written_down(any_kind: Tokenizer, ids: list[int]) -> None:
    text = any_kind.text_of(ids)
    assert text.encode().decode() == text
    assert "\ufffd" not in text
    assert not any(name in text for name in any_kind.names.names())


def test_a_character_whose_end_is_missing_is_left_out(any_kind: Tokenizer) -> None:
    for text in ("läuft 北京", "Hügel 😀"):
        ids = any_kind.ids_of([text])[0]
        parts = [any_kind.text_of(ids[:end]) for end in range(len(ids) + 1)]
        assert all(text.startswith(part.removesuffix(" ")) for part in parts)


def test_a_broken_character_of_the_text_itself_stays() -> None:
    tokenizer = learn_byte_bpe(lambda: LEARNED_FROM, size=280, cased=True)
    ids = tokenizer.ids_of(["was \ufffd here"])[0]
    assert tokenizer.text_of(ids) == "was \ufffd here"


@pytest.mark.parametrize("learn", [learn_byte_bpe, learn_unigram])
@given(st.text(st.sampled_from("".join(LEARNED_FROM)), max_size=40))
def test_kinds_that_mark_spaces_lose_none(learn, text: str) -> None:
    tokenizer = _learned(learn)
    found = tokenizer.text_of(tokenizer.ids_of([text])[0])
    normalizer = tokenizer.engine.normalizer
    normal = text if normalizer is None else normalizer.normalize_str(text)
    assert found.split() == normal.split()


@cache
def _learned(learn) -> Tokenizer:
    return learn(lambda: LEARNED_FROM * 3, size=409, cased=True)


def test_an_added_word_is_a_word_of_its_own(any_kind: Tokenizer) -> None:
    engine = Engine.from_str(any_kind.engine.to_str())
    engine.add_tokens(["größe"])
    larger = Tokenizer(engine, any_kind.names)
    for text in ("Das größe Mädchen", "größe größe", "größe"):
        assert larger.text_of(larger.ids_of([text])[0]) == text


@given(st.text(st.characters(codec="utf-8"), max_size=40))
def test_bytes_lose_nothing(text: str) -> None:
    tokenizer = learn_byte_bpe(lambda: LEARNED_FROM, size=280, cased=True)
    if not any(name in text for name in tokenizer.names.names()):
        assert tokenizer.text_of(tokenizer.ids_of([text])[0]) == text


def test_others_are_told_that_there_are_no_segments(any_kind: Tokenizer, tmp_path: Path) -> None:
    any_kind.save(tmp_path, has_segments=False)
    assert set(AutoTokenizer.from_pretrained(tmp_path)("a", "b")) == {"input_ids", "attention_mask"}


def test_the_second_text_of_a_pair_is_numbered_as_the_engine_numbers_it(
    any_kind: Tokenizer,
) -> None:
    own = any_kind.engine.encode("The run", "runs")
    second = {number for at, number in zip(own.sequence_ids, own.type_ids, strict=True) if at == 1}
    assert second == {any_kind.specials.second_segment}
    assert second == ({0} if any_kind.mask_piece == "<mask>" else {1})


@pytest.mark.parametrize("has_segments", [False, True])
def test_pairs_are_numbered_after_saving_as_before(
    any_kind: Tokenizer, has_segments: bool, tmp_path: Path
) -> None:
    chosen = Tokenizer(any_kind.engine, any_kind.names, has_segments=has_segments)
    chosen.save(tmp_path)
    opened = Tokenizer.open(tmp_path)
    assert opened.specials == chosen.specials
    assert opened.with_engine(any_kind.engine).specials == chosen.specials
    told = AutoTokenizer.from_pretrained(tmp_path)("a", "b").get("token_type_ids", [0])
    assert max(told) == chosen.specials.second_segment


def test_a_vocabulary_too_small_for_the_second_text_numbers_it_all_the_same() -> None:
    engine = byte_bpe_engine({name: index for index, name in enumerate(ROBERTA.names())}, [])
    assert engine.encode("a", "b", add_special_tokens=False).ids == []
    assert Tokenizer(engine).specials.second_segment == 0


def test_a_second_text_with_a_number_of_its_own_is_refused(learned: Tokenizer) -> None:
    text = learned.engine.to_str().replace('"type_id":1', '"type_id":7')
    with pytest.raises(ArtifactError, match="numbers the second text of a pair 7, and no network"):
        Tokenizer(Engine.from_str(text))


def test_ids_without_a_piece_are_not_named(learned: Tokenizer) -> None:
    assert learned.named_ids.tolist() == list(range(101))
    told = json.loads(learned.engine.to_str())
    del told["model"]["vocab"][learned.piece(57)]
    holey = Tokenizer(Engine.from_str(json.dumps(told)))
    assert holey.vocab_size == 101
    assert holey.named_ids.tolist() == [index for index in range(101) if index != 57]
