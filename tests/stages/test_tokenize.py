"""tokenize: text becomes shards, the same however many processes work."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from itertools import pairwise
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bertworks
from bertworks.core.artifact import MANIFEST, read_manifest
from bertworks.corpus.sentences import split_sentences
from bertworks.data.shards import Shards
from bertworks.stages import tokenize
from bertworks.tokenizer.tokenizer import Tokenizer

Run = Callable[..., Any]
CHINESE = "今天天气很好，我们去公园。公园里有很多花！\n也有很多人。\n\n“你好吗？”他说。我很好。\n"


def digest(shards: Path) -> str:
    """Hash the names and bytes of all token and mark files."""
    whole = hashlib.sha256()
    files = sorted(shards.glob("*.bin"))
    assert len(files) >= 5
    for path in files:
        whole.update(path.name.encode() + path.read_bytes())
    return whole.hexdigest()


def documents_of(shards: Path) -> list[list[str]]:
    """Return every document as its sentences, put together again."""
    opened, tokenizer = Shards.open(shards), Tokenizer.open(shards / "tokenizer")
    return [
        [
            tokenizer.text_of(opened.tokens(*opened.sentence_starts[i : i + 2]).tolist())
            for i in range(begin, end)
        ]
        for begin, end in zip(opened.document_starts, opened.document_starts[1:], strict=False)
    ]


@pytest.fixture
def words(text: Path, vocabulary: Path) -> Callable[..., list[Any]]:
    """Say the words of a tokenizing."""

    def make(out: Path, *more: Any, file: Path = text, tokenizer: Path = vocabulary) -> list[Any]:
        return ["tokenize", file, "--tokenizer", tokenizer, "--out", out, *more]

    return make


def test_the_shards_do_not_depend_on_the_number_of_processes(
    shards: Path, words: Run, tmp_path: Path, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenize, "CHUNK_BYTES", 500)  # many chunks of a short text
    for workers in (1, 2, 3):
        ended = command(*words(tmp_path / str(workers), "--workers", workers, "--held-out", 0.2))
        assert ended.code == 0, ended.err
        assert digest(tmp_path / str(workers)) == digest(shards)
    assert command(*words(tmp_path / "other", "--workers", 1, "--held-out", 0.3)).code == 0
    assert digest(tmp_path / "other") != digest(shards)


def test_the_shards_hold_every_sentence_in_its_place(shards: Path, text: Path) -> None:
    written = [document.splitlines() for document in text.read_text().strip().split("\n\n")]
    plain = [[line.lower() for line in document] for document in written]
    found = [[line.replace(" .", ".") for line in document] for document in documents_of(shards)]
    assert found == plain


def test_tokenizers_that_keep_spaces_see_them_between_sentences(
    words: Run, tmp_path: Path, command: Run
) -> None:
    text, vocabulary, out = tmp_path / "text.txt", tmp_path / "tok", tmp_path / "shards"
    text.write_text("It rains. It rains. “It pours.”\n\nIt rains. 今天天气很好。公园。\n" * 2)
    learn = [
        "learn-vocab",
        text,
        "--out",
        vocabulary,
        "--size",
        300,
        "--kind",
        "byte-bpe",
        "--cased",
    ]
    assert command(*learn).code == 0
    assert command(*words(out, "--held-out", 0, file=text, tokenizer=vocabulary)).code == 0
    whole = ["".join(document) for document in documents_of(out)]
    assert whole == [
        "It rains. It rains. “It pours.”",
        "It rains.今天天气很好。公园。 It rains. It rains. “It pours.”",
        "It rains.今天天气很好。公园。",
    ]
    opened = Shards.open(out)
    assert opened.specials.num_between == 2
    second = opened.tokens(*opened.sentence_starts[1:3])
    assert opened.begins_word(opened.sentence_starts[1:2]).all()
    assert Tokenizer.open(out / "tokenizer").piece(int(second[0])).startswith("Ġ")


def test_the_result_counts_what_is_in_the_shards(shards: Path, text: Path) -> None:
    description = json.loads((shards / "shards.json").read_text())
    opened = Shards.open(shards)
    assert description["documents"] == len(opened.is_held_out) == 80
    assert description["sentences"] == len(opened.sentence_starts) - 1
    assert description["tokens"] == opened.sentence_starts[-1] == opened.num_tokens
    assert description["held_out_documents"] == opened.is_held_out.sum()


def test_shards_say_how_they_were_made_and_can_be_made_again(
    shards: Path,
    vocabulary: Path,
    text: Path,
    tmp_path: Path,
    contents: Callable[[Path], dict[str, bytes]],
    run_again: Callable[..., Path],
) -> None:
    manifest = read_manifest(shards)
    assert (manifest["kind"], manifest["settings"]["held_out"]) == ("shards", 0.2)
    assert set(manifest["inputs"]) == {"tokenizer", str(text)}
    again = contents(run_again(shards, tmp_path / "again"))
    whole = contents(shards)
    assert {k: v for k, v in again.items() if k != MANIFEST} == {
        k: v for k, v in whole.items() if k != MANIFEST
    }
    assert whole["tokenizer/vocab.txt"] == (vocabulary / "vocab.txt").read_bytes()


# What is held out


def test_the_share_that_is_held_out_is_about_what_was_asked_for(
    words: Run, tmp_path: Path, command: Run
) -> None:
    file = tmp_path / "many.txt"
    file.write_text("\n\n".join(f"river boat {number}" for number in range(1500)))
    for share in (0.0, 0.1, 0.5):
        out = tmp_path / str(share)
        made = command(*words(out, "--workers", 1, "--held-out", share, "--json", file=file))
        count = json.loads(made.out)["held_out_documents"]
        assert abs(count - 1500 * share) <= 4 * np.sqrt(1500 * share * (1 - share))


def test_the_text_alone_decides_what_is_held_out(
    shards: Path, text: Path, words: Run, tmp_path: Path, command: Run
) -> None:
    documents = text.read_text().strip().split("\n\n")
    (tmp_path / "turned.txt").write_text("\n\n".join(["new river.", *reversed(documents)]) + "\n")
    flags = ["--workers", 1, "--held-out", 0.2]
    turned = words(tmp_path / "turned", *flags, file=tmp_path / "turned.txt")
    assert command(*turned).code == 0
    before, after = Shards.open(shards).is_held_out, Shards.open(tmp_path / "turned").is_held_out
    assert after[1:][::-1].tolist() == before.tolist()


# Chinese


def test_chinese_text_is_cut_into_sentences_and_characters(tmp_path: Path, command: Run) -> None:
    file, tokenizer, out = (tmp_path / name for name in ("zh.txt", "tok", "shards"))
    file.write_text(CHINESE, encoding="utf-8")
    assert command("learn-vocab", file, "--out", tokenizer, "--size", 120).code == 0
    flags = ["--tokenizer", tokenizer, "--out", out, "--workers", 1]
    assert command("tokenize", file, *flags).code == 0
    found = [[sentence.replace(" ", "") for sentence in one] for one in documents_of(out)]
    assert found == [
        ["今天天气很好，我们去公园。", "公园里有很多花！", "也有很多人。"],
        ["“你好吗？”", "他说。", "我很好。"],
    ]
    assert split_sentences(CHINESE.split("\n")[0]) == found[0][:2]
    opened = Shards.open(out)
    assert opened.begins_word(np.arange(opened.num_tokens)).all()


@pytest.fixture
def chinese(tmp_path: Path, command: Run) -> Callable[..., list[Any]]:
    """Say the words of tokenizing Chinese text with English in it."""
    file, tokenizer = tmp_path / "zh.txt", tmp_path / "tok"
    file.write_text(f"{CHINESE}\nI don't know 北京大学.\n", encoding="utf-8")
    assert command("learn-vocab", file, "--out", tokenizer, "--size", 120).code == 0

    def make(out: Path, *more: Any) -> list[Any]:
        return ["tokenize", file, "--tokenizer", tokenizer, "--out", out, "--held-out", 0, *more]

    return make


def words_of(shards: Path) -> list[str]:
    """Return the words of a corpus, put together again."""
    opened, tokenizer = Shards.open(shards), Tokenizer.open(shards / "tokenizer")
    begins = opened.begins_word(np.arange(opened.num_tokens)).nonzero()[0]
    return [
        tokenizer.text_of(opened.tokens(start, end).tolist()).replace(" ", "")
        for start, end in pairwise([*begins.tolist(), opened.num_tokens])
    ]


def test_words_are_found_in_the_text_or_by_a_segmenter_or_in_the_pieces(
    chinese: Run, tmp_path: Path, command: Run
) -> None:
    found = {}
    for kind in ("text", "zh", "pieces"):
        flags = ["--workers", 1, *(["--words", kind] if kind != "text" else [])]
        assert command(*chinese(tmp_path / kind, *flags)).code == 0
        found[kind] = words_of(tmp_path / kind)
        assert Shards.open(tmp_path / kind).words == kind
    assert found["text"][-7:] == ["don't", "know", *"北京大学."]
    assert found["zh"][-4:] == ["don't", "know", "北京大学", "."]
    assert found["zh"][:5] == ["今天天气", "很", "好", "，", "我们"]
    assert found["pieces"][-9:] == ["don", "'", "t", "know", *"北京大学."]
    assert "".join(found["zh"]) == "".join(found["text"]) == "".join(found["pieces"])
    description = json.loads((tmp_path / "zh" / "shards.json").read_text())
    assert description["segmenter"] == f"rjieba {version('rjieba')}"
    assert read_manifest(tmp_path / "zh")["settings"]["segmenter"] == description["segmenter"]


def test_chinese_words_do_not_depend_on_the_number_of_processes(
    chinese: Run, tmp_path: Path, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command(*chinese(tmp_path / "whole", "--workers", 1, "--words", "zh")).code == 0
    monkeypatch.setattr(tokenize, "CHUNK_BYTES", 20)  # a document each
    for workers in (1, 2):
        flags = ["--workers", workers, "--words", "zh"]
        assert command(*chinese(tmp_path / str(workers), *flags)).code == 0
        assert digest(tmp_path / str(workers)) == digest(tmp_path / "whole")


def test_without_the_segmenter_its_extra_is_named_before_any_work(
    chinese: Run, tmp_path: Path, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rjieba", None)
    ended = command(*chinese(tmp_path / "out", "--words", "zh"))
    assert "finding Chinese words needs: pip install 'bertworks[zh]'" in ended.refusal(1)
    assert not (tmp_path / "out").exists()


# Bad input


BAD_FILES: dict[str, tuple[bytes | None, str]] = {
    "gone.txt": (None, "there is no file {}; check the path"),
    "empty.txt": (b"", "{} is empty"),
    "blank.txt": (b"\n \n", "{} holds no text"),
    "latin.txt": (b"\xff\xfe\n" * 3, "3 of 3 rows cannot be used, the first at {} line 1: not UTF"),
    "long.txt": (b"x" * 10_000_000, "{} line 1: longer than 1,000,000 bytes"),
    "half.jsonl": (b'{"text": "\\ud83d"}\n', "{} line 1: the text holds half of a surrogate"),
}


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_cannot_be_tokenized_is_one_sentence(
    name: str, workers: int, words: Run, tmp_path: Path, command: Run
) -> None:
    file = tmp_path / name
    data, said = BAD_FILES[name]
    if data is not None:
        file.write_bytes(data)
    ended = command(*words(tmp_path / "out", "--workers", workers, file=file))
    assert said.format(file) in ended.refusal(1)
    assert list(tmp_path.iterdir()) == ([] if data is None else [file])


def test_bad_lines_are_set_aside_and_counted(
    shards: Path, text: Path, words: Run, tmp_path: Path, command: Run
) -> None:
    lines = text.read_bytes().splitlines(keepends=True)
    lines[1:1] = [b"\xff\n"]
    (tmp_path / "text.txt").write_bytes(b"".join(lines))
    flags = ["--workers", 1, "--held-out", 0.2, "--json"]
    ended = command(*words(tmp_path / "out", *flags, file=tmp_path / "text.txt"))
    assert json.loads(ended.out)["bad_rows"] == 1
    assert "text.txt line 2: not UTF-8 at byte 0" in ended.err
    assert digest(tmp_path / "out") == digest(shards)
    assert (tmp_path / "out" / "quarantine.jsonl").is_file()


@pytest.mark.parametrize("kind", ["shards", "text", "nowhere", "bare"])
def test_a_folder_that_is_no_tokenizer_is_one_sentence(
    kind: str, shards: Path, text: Path, words: Run, tmp_path: Path, command: Run
) -> None:
    (tmp_path / "bare").mkdir()
    given = {"shards": shards, "text": text}.get(kind, tmp_path / kind)
    said = {
        "shards": f"{shards} holds shards, but a tokenizer or model is needed here",
        "text": f"there is no folder {text}",
        "nowhere": f"there is no folder {given}",
        "bare": f"{given} holds no tokenizer (tokenizer.json, vocab.txt, vocab.json",
    }
    ended = command(*words(tmp_path / "out", tokenizer=given))
    assert said[kind] in ended.refusal(1)
    assert [path.name for path in tmp_path.iterdir()] == ["bare"]


@pytest.mark.parametrize("name", ["tokenizer.json", "vocab.txt", MANIFEST])
def test_a_damaged_tokenizer_is_found_before_the_work(
    name: str, vocabulary: Path, words: Run, tmp_path: Path, command: Run
) -> None:
    damaged = shutil.copytree(vocabulary, tmp_path / "tokenizer")
    data = (damaged / name).read_bytes()
    (damaged / name).write_bytes(data.replace(b"river", b"rivet", 1))
    assert (damaged / name).read_bytes() != data or name == MANIFEST
    if name == MANIFEST:
        os.truncate(damaged / name, 99)
    said = command(*words(tmp_path / "out", tokenizer=damaged)).refusal(1)
    assert str(damaged / name) in said
    assert said.endswith("make the folder again")
    assert not (tmp_path / "out").exists()


def test_a_model_lends_its_tokenizer(
    shards: Path, pretrained: Path, words: Run, tmp_path: Path, command: Run
) -> None:
    flags = ["--workers", 1, "--held-out", 0.2]
    assert command(*words(tmp_path / "out", *flags, tokenizer=pretrained)).code == 0
    assert digest(tmp_path / "out") == digest(shards)


def test_what_is_there_already_is_left_alone(
    shards: Path, words: Run, command: Run, contents: Callable[[Path], dict[str, bytes]]
) -> None:
    before = contents(shards)
    assert "exists already; choose another --out" in command(*words(shards)).refusal(2)
    assert contents(shards) == before


@pytest.mark.parametrize("workers", [1, 2])
def test_a_full_disk_leaves_nothing_half_written(
    workers: int, words: Run, tmp_path: Path, process: Run
) -> None:
    out = tmp_path / "out"
    said = process(*words(out, "--workers", workers), largest_file=1000).refusal(1)
    assert f"cannot write {out}: File too large; free some space" in said
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_dies_is_one_sentence(words: Run, tmp_path: Path, command: Run) -> None:
    def kill() -> None:
        while not (children := active_children()):
            time.sleep(0.01)
        children[0].kill()

    killer = threading.Thread(target=kill)
    killer.start()
    ended = command(*words(tmp_path / "out", "--workers", 2))
    killer.join()
    assert "a process that tokenizes died" in ended.refusal(1)
    assert "use fewer --workers" in ended.err
    assert list(tmp_path.iterdir()) == []


# Statistics


def test_the_statistics_are_those_of_the_shards(shards: Path) -> None:
    statistics = json.loads((shards / "statistics.json").read_text())
    opened = Shards.open(shards)
    unknown = opened.specials.unknown
    tokens = opened.tokens(0, opened.num_tokens)
    lengths = np.diff(opened.sentence_starts[opened.document_starts])
    assert statistics["documents"] == len(lengths) == 80
    assert statistics["held_out_documents"] == opened.is_held_out.sum()
    assert statistics["unknown_tokens"] == (tokens == unknown).sum()
    assert statistics["longest_document"] == lengths.max()
    assert statistics["length_percentiles"]["50"] == np.percentile(lengths, 50, method="lower")
    assert 1 <= statistics["pieces_per_word"] < 3
    assert statistics["pieces_per_character"] is None
    assert "pieces a word" in (shards / "report.html").read_text()


# Kills


def tokenize_until_killed(words: list[Any], *, event: str, number: int) -> int:
    """Tokenize in a process that kills itself at the n-th event; return how it ended."""
    script = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(bertworks.__file__).parents[1])!r})
from bertworks.cli.main import main
from bertworks.stages import tokenize
def fatal(real, counts=[0]):
    def call(*args, **kwargs):
        counts[0] += 1
        if counts[0] == {number}:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)
    return call
if __name__ == "__main__":
    tokenize.CHUNK_BYTES, tokenize.CHUNKS_PER_COMMIT = 500, 2
    tokenize.ShardWriter.__init__.__kwdefaults__["tokens_per_part"] = 333
    if {event!r} == "take":
        tokenize._Tokenizing.take = fatal(tokenize._Tokenizing.take)
    else:
        os.{event} = fatal(os.{event})
    main(sys.argv[1:])
"""
    command = [sys.executable, "-c", script, *map(str, words)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()
    return done.returncode


def test_tokenizing_that_is_killed_again_and_again_ends_in_the_same_bytes(
    words: Run, tmp_path: Path, contents: Callable[[Path], dict[str, bytes]]
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    flags = ["--held-out", 0.2, "--resume", "auto", "--workers"]
    assert tokenize_until_killed(words(whole, *flags, 1), event="take", number=10**6) == 0
    assert len(list(whole.glob("tokens-*.bin"))) > 2
    for event, number in (("take", 4), ("fsync", 9), ("replace", 2), ("take", 4), ("fsync", 31)):
        ended = tokenize_until_killed(words(out, *flags, 1), event=event, number=number)
        assert ended == -signal.SIGKILL
        assert not out.exists()
    assert tokenize_until_killed(words(out, *flags, 2), event="take", number=10**6) == 0
    ours, theirs = contents(out), contents(whole)
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if ours[name] != theirs[name]] == [MANIFEST]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "whole"]


def test_finished_shards_are_not_made_again(
    shards: Path, words: Run, command: Run, contents: Callable[[Path], dict[str, bytes]]
) -> None:
    before = contents(shards)
    again = command(*words(shards, "--held-out", 0.2, "--resume", "auto"))
    assert again.code == 0
    assert "is finished already" in again.err
    assert contents(shards) == before
    said = command(*words(shards, "--held-out", 0.3, "--resume", "auto")).refusal(2)
    assert "was begun with held_out = 0.2, now 0.3; resume with the same settings, or" in said
