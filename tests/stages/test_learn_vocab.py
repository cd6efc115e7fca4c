"""learn-vocab: text becomes a tokenizer folder, or one sentence says why not."""

import gzip
import json
import os
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertworks.core.artifact import read_manifest, sha256_of
from bertworks.core.quarantine import Quarantine
from bertworks.corpus.read import read_documents
from bertworks.tokenizer.tokenizer import Tokenizer

Run = Callable[..., Any]
Contents = Callable[[Path], dict[str, bytes]]
FILES = {"tokenizer.json", "vocab.txt", "tokenizer_config.json"}
CHINESE = "今天天气很好，我们去公园。\n\n公园里有很多花，也有很多人。\n"


def learned(folder: Path, contents: Contents) -> dict[str, bytes]:
    """Return the files of a tokenizer that other tokenizers can be compared by."""
    return {name: data for name, data in contents(folder).items() if name in FILES}


def test_a_tokenizer_says_how_it_was_made(vocabulary: Path, text: Path) -> None:
    manifest = read_manifest(vocabulary)
    assert (manifest["kind"], set(manifest["files"])) == ("tokenizer", FILES)
    assert manifest["settings"] == {
        "text": [str(text)],
        "out": str(vocabulary),
        "size": 130,
        "kind": "wordpiece",
        "cased": False,
        "min_count": 2,
    }
    assert manifest["inputs"] == {str(text): {"path": str(text), "sha256": sha256_of(text)}}
    assert manifest["command"].startswith(f"bertworks learn-vocab {text} --out ")


def test_the_written_command_learns_the_same_vocabulary(
    vocabulary: Path, tmp_path: Path, contents: Contents, run_again: Callable[..., Path]
) -> None:
    again = run_again(vocabulary, tmp_path / "again")
    assert learned(again, contents) == learned(vocabulary, contents)
    other = run_again(vocabulary, tmp_path / "other", more=("--size", "90"))
    assert learned(other, contents) != learned(vocabulary, contents)


def test_the_form_of_the_text_does_not_matter(
    text: Path, vocabulary: Path, tmp_path: Path, contents: Contents, command: Run
) -> None:
    folder = tmp_path / "texts" / "inner"
    folder.mkdir(parents=True)
    (folder / "a.txt.gz").write_bytes(gzip.compress(text.read_bytes()))
    (folder / "notes.pdf").write_text("not text")
    documents = text.read_text().strip().split("\n\n")
    rows = tmp_path / "b.jsonl"
    rows.write_text("".join(json.dumps({"text": document}) + "\n" for document in documents))
    for number, given in enumerate((tmp_path / "texts", rows)):
        out = tmp_path / str(number)
        assert command("learn-vocab", given, "--out", out, "--size", 130).code == 0
        assert learned(out, contents) == learned(vocabulary, contents)
    both = command("learn-vocab", rows, text, "--out", tmp_path / "both", "--size", 130, "--json")
    assert json.loads(both.out)["pieces"] > 5
    assert set(read_manifest(tmp_path / "both")["inputs"]) == {str(rows), str(text)}


def test_cased_keeps_capital_letters(text: Path, tmp_path: Path, command: Run) -> None:
    out = tmp_path / "cased"
    assert command("learn-vocab", text, "--out", out, "--size", 150, "--cased").code == 0
    tokenizer = Tokenizer.open(out)
    assert not tokenizer.folds("A", "a")
    assert tokenizer.ids_of(["River"]) != tokenizer.ids_of(["river"])


@pytest.mark.parametrize(
    ("kind", "size", "files"),
    [
        ("byte-bpe", 300, {"tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt"}),
        ("unigram", 60, {"tokenizer.json", "tokenizer_config.json"}),
    ],
)
def test_the_other_kinds_are_learned_twice_the_same(
    kind: str, size: int, files: set[str], text: Path, tmp_path: Path, command: Run
) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for out in folders:
        words = ["learn-vocab", text, "--out", out, "--size", size, "--kind", kind, "--cased"]
        assert command(*words).code == 0
        assert set(read_manifest(out)["files"]) == files
        assert read_manifest(out)["settings"]["kind"] == kind
    assert all(
        (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes() for name in files
    )
    tokenizer = Tokenizer.open(folders[0])
    assert tokenizer.vocab_size == size
    assert tokenizer.ids_of(["River"]) != tokenizer.ids_of(["river"])


@pytest.mark.parametrize("kind", ["byte-bpe", "unigram"])
def test_the_other_kinds_refuse_what_holds_no_text(kind: str, tmp_path: Path, command: Run) -> None:
    file = tmp_path / "blank.txt"
    file.write_text("\n \n")
    said = command("learn-vocab", file, "--out", tmp_path / "tok", "--kind", kind).refusal(1)
    assert said == f"{file} holds no text; give a file with text in it"


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("byte-bpe", "need 261 pieces; raise --size, which is 12"),
        ("unigram", "already need 12 pieces; raise --size above 12"),
    ],
)
def test_the_other_kinds_refuse_a_size_that_is_too_small(
    kind: str, said: str, text: Path, tmp_path: Path, command: Run
) -> None:
    out = tmp_path / "tok"
    ended = command("learn-vocab", text, "--out", out, "--size", 12, "--kind", kind)
    assert said in ended.refusal(1)
    assert list(tmp_path.iterdir()) == []


def test_unigram_counts_by_itself(text: Path, tmp_path: Path, command: Run) -> None:
    words = ["learn-vocab", text, "--out", tmp_path / "tok", "--kind", "unigram"]
    said = command(*words, "--min-count", 3).refusal(2)
    assert said == "--min-count cannot be chosen with --kind unigram; leave it out"


def test_chinese_characters_become_pieces_of_their_own(tmp_path: Path, command: Run) -> None:
    (tmp_path / "zh.txt").write_text(CHINESE, encoding="utf-8")
    out = tmp_path / "zh"
    assert command("learn-vocab", tmp_path / "zh.txt", "--out", out, "--size", 100).code == 0
    pieces = [Tokenizer.open(out).piece(i) for i in Tokenizer.open(out).ids_of(["公园很好"])[0]]
    assert pieces == ["公", "园", "很", "好"]


def test_the_text_is_streamed_and_never_held(tmp_path: Path, command: Run) -> None:
    text = tmp_path / "text.txt"
    text.write_text("a river and a boat on the water, far away from any road\n\n" * 15_000)
    size = text.stat().st_size
    tracemalloc.start()
    held = len(list(read_documents([text], Quarantine())))
    held_by_a_list = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    ended = command("learn-vocab", text, "--out", tmp_path / "tok", "--size", 60)
    streamed = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert (ended.code, held) == (0, 15_000)
    assert held_by_a_list > size
    assert streamed < size / 2


# Bad input


BAD_FILES: dict[str, tuple[bytes | None, str]] = {
    "gone.txt": (None, "there is no file {}; check the path"),
    "empty.txt": (b"", "{} is empty; give a file with text in it"),
    "blank.txt": (b"\n  \n\t\n", "{} holds no text; give a file with text in it"),
    "latin.txt": (b"\xff\xfeno\n", "1 of 1 rows cannot be used, the first at {} line 1: not UTF-8"),
    "long.txt": (b"x" * 10_000_000, "{} line 1: longer than 1,000,000 bytes; split it into lines"),
    "nul.txt": (b"a\0b\n", "{} line 1: holds a NUL character"),
    "half.jsonl": (b'{"text": "\\ud83d half"}\n', "{} line 1: the text holds half of a surrogate"),
    "rows.jsonl": (b'{"body": "no"}\n[]\n', "2 of 2 rows cannot be used, the first at {} line 1"),
    "torn.txt.gz": (gzip.compress(b"some text " * 99)[:20], "{} cannot be read after line"),
    "not.txt.gz": (b"plain text", "{} cannot be read after line 0: Not a gzipped file"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_cannot_be_learned_from_is_one_sentence(
    name: str, tmp_path: Path, command: Run
) -> None:
    file = tmp_path / name
    data, said = BAD_FILES[name]
    if data is not None:
        file.write_bytes(data)
    sentence = command("learn-vocab", file, "--out", tmp_path / "tok").refusal(1)
    assert said.format(file) in sentence
    assert list(tmp_path.iterdir()) == ([] if data is None else [file])


def test_a_folder_without_text_is_one_sentence(tmp_path: Path, command: Run) -> None:
    (tmp_path / "texts").mkdir()
    sentence = command("learn-vocab", tmp_path / "texts", "--out", tmp_path / "tok").refusal(1)
    assert "texts holds no text files (.txt, .md, .jsonl" in sentence


def test_bad_lines_are_set_aside_and_change_nothing(
    text: Path, vocabulary: Path, tmp_path: Path, contents: Contents, command: Run
) -> None:
    file, out = tmp_path / "text.txt", tmp_path / "tok"
    lines = text.read_bytes().splitlines(keepends=True)
    lines[3:3] = [b"caf\xe9\n", b"y" * 10_000_000 + b"\n"]
    file.write_bytes(b"".join(lines))
    ended = command("learn-vocab", file, "--out", out, "--size", 130, "--json")
    assert json.loads(ended.out)["bad_rows"] == 2
    assert f"2 rows were set aside in quarantine.jsonl; the first: {file} line 4: not" in ended.err
    aside = [json.loads(line) for line in (out / "quarantine.jsonl").read_text().splitlines()]
    assert [(row["line"], row["reason"][:11]) for row in aside] == [
        (4, "not UTF-8 a"),
        (5, "longer than"),
    ]
    assert learned(out, contents) == learned(vocabulary, contents)


def test_a_vocabulary_too_small_for_the_characters_is_refused(
    text: Path, tmp_path: Path, command: Run
) -> None:
    ended = command("learn-vocab", text, "--out", tmp_path / "tok", "--size", 12)
    assert "already need 17 pieces; raise --size above 12" in ended.refusal(1)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_already_is_left_alone(
    text: Path, vocabulary: Path, tmp_path: Path, contents: Contents, command: Run
) -> None:
    finished = shutil.copytree(vocabulary, tmp_path / "finished")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("years of work")
    file = tmp_path / "file"
    file.write_text("more work")
    before = contents(tmp_path)
    for out in (finished, foreign, file):
        said = command("learn-vocab", text, "--out", out).refusal(2)
        assert said == f"{out} exists already; choose another --out or remove it first"
    assert contents(tmp_path) == before


def test_an_empty_folder_may_be_filled(text: Path, tmp_path: Path, command: Run) -> None:
    (tmp_path / "tok").mkdir()
    assert command("learn-vocab", text, "--out", tmp_path / "tok", "--size", 130).code == 0
    assert read_manifest(tmp_path / "tok")["kind"] == "tokenizer"


@pytest.mark.parametrize("largest_file", [0, 2000])
def test_a_full_disk_leaves_nothing_half_written(
    largest_file: int, text: Path, tmp_path: Path, process: Run
) -> None:
    words = ["learn-vocab", text, "--out", tmp_path / "tok", "--size", 130]
    said = process(*words, largest_file=largest_file).refusal(1)
    assert said.startswith(f"cannot write {tmp_path / 'tok'}: File too large; free some space")
    assert list(tmp_path.iterdir()) == []
    assert process(*words, largest_file=10**6).code == 0


def test_files_may_have_names_that_are_not_unicode(
    text: Path, vocabulary: Path, labelled: dict[str, Path], tmp_path: Path, command: Run
) -> None:
    odd, rows = (tmp_path / os.fsdecode(name) for name in (b"caf\xe9.txt", b"caf\xe9.jsonl"))
    odd.write_bytes(text.read_bytes())
    rows.write_bytes(labelled["dev"].read_bytes() + b"torn\n")
    for number, words in enumerate(
        [
            ("learn-vocab", odd, "--size", 130),
            ("tokenize", odd, "--tokenizer", vocabulary, "--workers", 1),
            ("clean", odd, "--min-words", 1),
            ("check", rows, "--against", labelled["train"]),
        ]
    ):
        ended = command(*words, "--out", tmp_path / str(number))
        assert "Traceback" not in ended.err
        assert read_manifest(tmp_path / str(number))["command"].startswith("bertworks"), ended
    ended = command("learn-vocab", text, "--out", tmp_path / os.fsdecode(b"caf\xe9"))
    assert "is not Unicode; choose another --out" in ended.refusal(2)
