"""Tokenizer folders of every form are opened, written so that others open them, or refused."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bertworks.core.errors import ArtifactError
from bertworks.tokenizer.files import read_engine, tells_segments, write_engine
from bertworks.tokenizer.learn import learn_byte_bpe, learn_unigram, learn_wordpiece
from bertworks.tokenizer.special_pieces import ALBERT, BERT, ROBERTA
from bertworks.tokenizer.tokenizer import Tokenizer

LEARNED_FROM = [
    "The Café was naïve about running, runners and runs.",
    "我们今天在北京学习中文。",
] * 3
TEXT = "The café [MASK] <mask> runs 北京!"
PIECES = [(name, 0.0, 2 if name == "<unk>" else 3) for name in ALBERT.names()]
PIECES += [("▁", -2.0, 1), ("run", -3.3, 1), ("s", -1.1, 1)]
LEARN = {"wordpiece": learn_wordpiece, "byte-bpe": learn_byte_bpe, "unigram": learn_unigram}
FILES = {
    "wordpiece": {"tokenizer.json", "tokenizer_config.json", "vocab.txt"},
    "byte-bpe": {"tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt"},
    "unigram": {"tokenizer.json", "tokenizer_config.json"},
}
Contents = Callable[[Path], dict[str, bytes]]


@pytest.fixture(params=LEARN)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def saved(folder: Path, kind: str, *, cased: bool = True) -> Path:
    folder.mkdir()
    LEARN[kind](lambda: LEARNED_FROM, size=290, cased=cased).save(folder)
    return folder


def test_each_kind_has_its_files(kind: str, tmp_path: Path, contents: Contents) -> None:
    assert contents(saved(tmp_path / "tok", kind)).keys() == FILES[kind]


def test_files_that_cannot_say_everything_are_not_written(tmp_path: Path) -> None:
    folder = saved(tmp_path / "tok", "byte-bpe", cased=False)
    assert {path.name for path in folder.iterdir()} == FILES["unigram"]


@pytest.mark.parametrize("cased", [False, True])
def test_opened_and_saved_again_the_files_are_the_same(
    kind: str, cased: bool, tmp_path: Path, contents: Contents
) -> None:
    first, second = saved(tmp_path / "first", kind, cased=cased), tmp_path / "second"
    second.mkdir()
    Tokenizer.open(first).save(second)
    assert contents(second) == contents(first)


def test_a_sentencepiece_model_saved_and_opened_again_stays_the_same(
    tmp_path: Path, contents: Contents, sentencepiece_model: Callable[..., bytes]
) -> None:
    odd = [(f"odd{n}", -(n**1.37) - 1 / 7, 1) for n in range(1, 300)]  # scores of many digits
    (tmp_path / "spiece.model").write_bytes(sentencepiece_model(PIECES + odd))
    folders = [tmp_path / name for name in "abc"]
    source = tmp_path
    for folder in folders:
        folder.mkdir()
        Tokenizer.open(source).save(folder)
        source = folder
    assert contents(folders[0]) == contents(folders[1]) == contents(folders[2])


def test_the_forms_are_tried_in_a_fixed_order(tmp_path: Path, contents: Contents) -> None:
    folder = tmp_path / "all"
    wordpiece, byte_bpe = saved(tmp_path / "w", "wordpiece"), saved(tmp_path / "b", "byte-bpe")
    shutil.copytree(byte_bpe, folder)
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    assert read_engine(folder)[1] == ROBERTA
    shutil.copy(wordpiece / "vocab.txt", folder)
    assert read_engine(folder)[1] == BERT
    shutil.copy(byte_bpe / "tokenizer.json", folder)
    assert read_engine(folder)[1] == ROBERTA


@pytest.mark.parametrize("kind", ["wordpiece", "byte-bpe"])
def test_the_classical_files_alone_give_the_same_pieces(kind: str, tmp_path: Path) -> None:
    folder = saved(tmp_path / "tok", kind)
    before = Tokenizer.open(folder)
    (folder / "tokenizer.json").unlink()
    after = Tokenizer.open(folder)
    assert after.encode(TEXT).ids == before.encode(TEXT).ids
    assert after.specials == before.specials


def test_older_files_name_special_and_added_pieces(tmp_path: Path) -> None:
    lines = ["<none>", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
    (tmp_path / "vocab.txt").write_text("\n".join(lines))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"pad_token": "gone"}))
    told = {"pad_token": {"content": "<none>", "lstrip": False}, "mask_token": "[MASK]"}
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(told))
    (tmp_path / "added_tokens.json").write_text(json.dumps({"newword": 7}))
    tokenizer = Tokenizer.open(tmp_path)
    assert tokenizer.piece(tokenizer.specials.pad) == "<none>"
    assert tokenizer.ids_of(["a newword b"]) == [[5, 7, 6]]
    assert tokenizer.vocab_size == 8


def test_a_hole_in_the_numbers_stays_a_hole(tmp_path: Path) -> None:
    lines = [*BERT.names(), "twice", "a", "twice", "b"]
    (tmp_path / "vocab.txt").write_text("\n".join(lines))
    (tmp_path / "again").mkdir()
    Tokenizer.open(tmp_path).save(tmp_path / "again")
    (tmp_path / "again" / "tokenizer.json").unlink()
    for folder in (tmp_path, tmp_path / "again"):
        tokenizer = Tokenizer.open(folder)
        assert tokenizer.vocab_size == 9
        assert tokenizer.ids_of(["twice a b"]) == [[7, 6, 8]]
        assert tokenizer.word_starts().shape == (9,)


def test_more_settings_are_written_beside_the_own(tmp_path: Path) -> None:
    engine, names = read_engine(saved(tmp_path / "tok", "wordpiece"))
    write_engine(tmp_path, engine, names, more={"model_max_length": 77})
    told = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert (told["model_max_length"], told["tokenizer_class"]) == (77, "BertTokenizer")


# Bad input


def refusal(folder: Path) -> str:
    with pytest.raises(ArtifactError) as error:
        Tokenizer.open(folder)
    sentence = str(error.value)
    assert str(folder) in sentence
    assert "\n" not in sentence
    return sentence


def test_a_merge_of_unknown_pieces_is_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path / "tok", "byte-bpe")
    (folder / "tokenizer.json").unlink()
    with (folder / "merges.txt").open("a") as file:
        file.write("zzz qqq\n")
    said = refusal(folder)
    assert said.startswith(f"{folder / 'vocab.json'} with merges.txt cannot be read: ")
    assert "zzz" in said


@pytest.mark.parametrize("lines", ["#version: 0.2\na\n", "a b c\n", "\x00\n"])
def test_merges_that_are_no_pairs_are_refused(lines: str, tmp_path: Path) -> None:
    folder = saved(tmp_path / "tok", "byte-bpe")
    (folder / "tokenizer.json").unlink()
    (folder / "merges.txt").write_text(lines)
    assert "with merges.txt cannot be read: " in refusal(folder)


def test_a_vocabulary_without_its_merges_is_no_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_text("{}")
    assert "holds no tokenizer (tokenizer.json, vocab.txt, vocab.json + merges" in refusal(tmp_path)


@pytest.mark.parametrize("name", ["tokenizer.json", "vocab.json"])
@pytest.mark.parametrize("text", ["{torn", "[]", "", '{"a": -1}', "\x00", '{"model": {}}'])
def test_other_json_is_refused(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "merges.txt").write_text("")
    assert f"{tmp_path / name}" in refusal(tmp_path)


@pytest.mark.parametrize(
    "name", ["tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"]
)
@pytest.mark.parametrize("text", ["{torn", "[1]", "\xff", "[" * 100_000, '{"a":' * 100_000])
def test_broken_settings_are_refused(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(BERT.names()))
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    assert refusal(tmp_path).startswith(f"{tmp_path / name} is not ")


@pytest.mark.parametrize(
    "told",
    [
        {"do_lower_case": "perhaps"},
        {"strip_accents": 7},
        {"added_tokens_decoder": {"5": {}}},
        {"added_tokens_decoder": []},
    ],
)
def test_settings_that_cannot_be_meant_are_refused(told: dict, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(BERT.names()))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(told))
    assert f"{tmp_path / 'vocab.txt'} cannot be read: " in refusal(tmp_path)


def test_a_word_list_without_a_special_piece_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(BERT.names()[:4]))
    said = refusal(tmp_path)
    assert said.startswith(f"{tmp_path / 'vocab.txt'} has no [MASK], the mask piece; name")


def test_a_sentencepiece_model_of_pairs_is_refused(
    tmp_path: Path, sentencepiece_model: Callable[..., bytes]
) -> None:
    (tmp_path / "spiece.model").write_bytes(sentencepiece_model(PIECES, model_type=2))
    assert "is a BPE model of SentencePiece" in refusal(tmp_path)
    (tmp_path / "spiece.model").write_bytes(sentencepiece_model(PIECES[:-4]))
    assert "has no [MASK]" in refusal(tmp_path)


@pytest.mark.parametrize("characters", [b"abc", b"\x04\x00\x00\x00abcd"])
def test_a_broken_map_of_characters_is_refused(
    characters: bytes, tmp_path: Path, sentencepiece_model: Callable[..., bytes]
) -> None:
    data = sentencepiece_model(PIECES, characters=characters)
    (tmp_path / "spiece.model").write_bytes(data)
    assert "spiece.model cannot be read: " in refusal(tmp_path)


def test_a_tokenizer_that_joins_pairs_in_another_way_is_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path / "tok", "wordpiece")
    told = json.loads((folder / "tokenizer.json").read_text())
    told["post_processor"]["pair"].reverse()
    (folder / "tokenizer.json").write_text(json.dumps(told))
    assert "joins a pair with [SEP] [SEP] [CLS], which no network here expects" in refusal(folder)


# Settings beside `tokenizer.json`


def with_settings(folder: Path, kind: str, *, cased: bool = True, **changes: object) -> Path:
    path = saved(folder, kind, cased=cased) / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder


CONTRADICTIONS = [
    ("wordpiece", False, {"do_lower_case": False}),
    ("wordpiece", True, {"do_lower_case": True}),
    ("wordpiece", False, {"strip_accents": False}),
    ("wordpiece", True, {"strip_accents": True}),
    ("wordpiece", True, {"tokenize_chinese_chars": False}),
    ("wordpiece", True, {"do_lower_case": "perhaps"}),
    ("byte-bpe", True, {"add_prefix_space": True}),
]
AGREEMENTS = [
    ("wordpiece", False, {"do_lower_case": True, "strip_accents": True}),
    ("wordpiece", True, {"do_lower_case": False, "strip_accents": None}),
    ("wordpiece", True, {"do_lower_case": None, "tokenize_chinese_chars": None}),
    ("wordpiece", False, {"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": False}),
    ("wordpiece", True, {"add_prefix_space": True, "keep_accents": False}),
    ("byte-bpe", True, {"add_prefix_space": False, "do_lower_case": True}),
    ("unigram", False, {"do_lower_case": False, "add_prefix_space": False}),
    ("unigram", True, {"do_lower_case": True, "strip_accents": True}),
    ("unigram", True, {"additional_special_tokens": [], "added_tokens_decoder": {}}),
]


@pytest.mark.parametrize(("kind", "cased", "told"), CONTRADICTIONS)
def test_settings_that_contradict_the_engine_are_refused(
    kind: str, cased: bool, told: dict, tmp_path: Path
) -> None:
    said = refusal(with_settings(tmp_path / "tok", kind, cased=cased, **told))
    ((key, value),) = told.items()
    file = tmp_path / "tok" / "tokenizer_config.json"
    assert said.startswith(f"{key} is {json.dumps(value)} in {file}, but tokenizer.json beside")
    assert said.endswith("remove the entry that is wrong, or make them agree")


def test_accents_that_go_with_the_capitals_contradict_an_engine_that_keeps_them(
    tmp_path: Path,
) -> None:
    folder = with_settings(tmp_path / "tok", "wordpiece", cased=False, strip_accents=None)
    file = folder / "tokenizer.json"
    told = json.loads(file.read_text())
    told["normalizer"]["strip_accents"] = False
    file.write_text(json.dumps(told))
    assert refusal(folder).startswith("strip_accents is true in ")


@pytest.mark.parametrize(("kind", "cased", "told"), AGREEMENTS)
def test_settings_that_repeat_the_engine_or_mean_nothing_to_it_are_no_obstacle(
    kind: str, cased: bool, told: dict, tmp_path: Path
) -> None:
    plain = Tokenizer.open(saved(tmp_path / "plain", kind, cased=cased))
    opened = Tokenizer.open(with_settings(tmp_path / "tok", kind, cased=cased, **told))
    assert opened.engine.to_str() == plain.engine.to_str()


@pytest.mark.parametrize("key", ["additional_special_tokens", "extra_special_tokens"])
def test_a_piece_that_only_the_settings_add_is_refused(key: str, kind: str, tmp_path: Path) -> None:
    mask = Tokenizer.open(saved(tmp_path / "plain", kind)).mask_piece
    folder = with_settings(tmp_path / "tok", kind, **{key: [mask, {"content": "[new]"}]})
    assert refusal(folder).startswith(f"{key} in {folder / 'tokenizer_config.json'}, or an older")
    assert "names the piece [new], but tokenizer.json does not" in refusal(folder)


def test_an_added_piece_must_have_the_number_that_the_engine_gives_it(tmp_path: Path) -> None:
    for name, number in (("right", 4), ("wrong", 3)):
        entry = {str(number): {"content": "[MASK]", "special": True}}
        with_settings(tmp_path / name, "wordpiece", added_tokens_decoder=entry)
    assert Tokenizer.open(tmp_path / "right").specials.mask == 4
    assert "names the piece [MASK] as number 3, but" in refusal(tmp_path / "wrong")


def test_an_older_file_that_adds_other_pieces_is_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path / "tok", "wordpiece")
    (folder / "added_tokens.json").write_text(json.dumps({"newword": 290}))
    assert "names the piece newword as number 290, but tokenizer.json does not" in refusal(folder)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (None, True),
        ("unclear", True),
        (["input_ids", "attention_mask"], False),
        (["input_ids", "token_type_ids", "attention_mask"], True),
    ],
)
def test_the_settings_say_whether_pairs_are_numbered(
    names: object, told: bool, tmp_path: Path
) -> None:
    folder = with_settings(tmp_path / "tok", "wordpiece", model_input_names=names)
    assert tells_segments(folder) is told
    assert Tokenizer.open(folder).specials.second_segment == int(told)
    assert tells_segments(tmp_path / "nothing")


def test_a_folder_whose_name_is_not_unicode_is_one_sentence(tmp_path: Path, kind: str) -> None:
    folder = saved(tmp_path / "tok", kind).rename(tmp_path / os.fsdecode(b"caf\xe9"))
    assert refusal(folder).endswith("is not Unicode; rename the folder")
