"""clean: raw text becomes documents, the same however many processes work and are killed."""

import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bertworks
from bertworks.core.artifact import MANIFEST, read_manifest
from bertworks.stages import clean

Run = Callable[..., Any]
Contents = Callable[[Path], dict[str, bytes]]
SOURCES = str(Path(bertworks.__file__).parents[1])
SYLLABLES = ["ba", "ke", "mi", "so", "tu", "ra", "ne", "lo", "pi", "da"]


def prose(chance: random.Random, num_words: int) -> list[str]:
    """Draw made-up words."""
    return ["".join(chance.choices(SYLLABLES, k=chance.randint(2, 4))) for _ in range(num_words)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write documents in two files, and after them copies, near copies and scraps of some."""
    folder = tmp_path_factory.mktemp("raw")
    chance = random.Random(6)
    originals = [prose(chance, chance.randint(60, 140)) for _ in range(60)]
    copies = [" ".join(words).upper() for words in originals[::4]]
    near_copies = [" ".join(["otherwise", *words[1:]]) for words in originals[::5]]
    scraps = [" ".join(words[:5]) for words in originals[::7]]
    documents = [*map(" ".join, originals), *copies, *near_copies, *scraps]
    lines = [json.dumps({"text": text}) + "\n" for text in documents[:50]]
    (folder / "a.jsonl").write_text("".join(lines))
    (folder / "b.txt").write_text("\n\n".join(documents[50:]) + "\n")
    return folder


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make many chunks and commits of a short text."""
    monkeypatch.setattr(clean, "CHUNK_BYTES", 3000)
    monkeypatch.setattr(clean, "CHUNKS_PER_COMMIT", 2)


@pytest.fixture(scope="module")
def whole(corpus: Path, tmp_path_factory: pytest.TempPathFactory, command: Run) -> Path:
    """Clean the corpus in one go."""
    out = tmp_path_factory.mktemp("whole") / "docs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clean, "CHUNK_BYTES", 3000)
        ended = command("clean", corpus, "--out", out, "--workers", 1)
    assert ended.code == 0, ended.err
    return out


def plain(files: dict[str, bytes]) -> dict[str, bytes]:
    """Leave out the manifest, which names the command."""
    return {name: data for name, data in files.items() if name != MANIFEST}


def rows_of(folder: Path) -> list[dict[str, str]]:
    """Return the documents of a folder."""
    parts = sorted(folder.glob("documents-*.jsonl.gz"))
    return [
        json.loads(line)
        for part in parts
        for line in gzip.decompress(part.read_bytes()).splitlines()
    ]


def write_lines(path: Path, texts: list[str]) -> Path:
    """Write texts as JSON lines."""
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


# What comes out


def test_the_documents_do_not_depend_on_the_number_of_processes(
    corpus: Path, whole: Path, small: None, tmp_path: Path, command: Run, contents: Contents
) -> None:
    for workers in (2, 3):
        out = tmp_path / str(workers)
        assert command("clean", corpus, "--out", out, "--workers", workers).code == 0
        assert plain(contents(out)) == plain(contents(whole))
    other = ["--workers", 1, "--similarity", 1]
    assert command("clean", corpus, "--out", tmp_path / "other", *other).code == 0
    assert plain(contents(tmp_path / "other")) != plain(contents(whole))


def test_copies_near_copies_and_scraps_are_dropped_and_the_rest_stays_in_order(
    corpus: Path, whole: Path
) -> None:
    statistics = json.loads((whole / "statistics.json").read_text())
    dropped = {reason: n["documents"] for reason, n in statistics["dropped"].items()}
    assert dropped == {"exact duplicate": 15, "near duplicate": 12, "too short": 9}
    assert statistics["documents_read"] == 96
    assert statistics["kept"]["documents"] == len(rows_of(whole)) == 60
    chance = random.Random(6)
    expected = [" ".join(prose(chance, chance.randint(60, 140))) for _ in range(60)]
    assert [row["text"] for row in rows_of(whole)] == expected
    assert {row["source"] for row in rows_of(whole)} == {
        str(corpus / "a.jsonl"),
        str(corpus / "b.txt"),
    }


def test_the_result_and_the_page_tell_what_was_dropped(
    corpus: Path, whole: Path, tmp_path: Path, command: Run
) -> None:
    ended = command("clean", corpus, "--out", tmp_path / "out", "--workers", 1, "--json")
    result = json.loads(ended.out)
    assert result["documents_kept"] == 60
    assert result["duplicate_share"] == pytest.approx(27 / 96)
    assert result["dropped"][0] == {"reason": "exact duplicate", "documents": 15}
    page = (whole / "report.html").read_text()
    for words in ("exact duplicate", "near duplicate", "too short", "28.1%", "otherwise", "Latin"):
        assert words in page


def test_text_is_repaired_and_filters_can_be_set(tmp_path: Path, command: Run) -> None:
    texts = ["Ｃafe\u0301  \u200bau\u00a0lait\u0007.", "1914 1918 1939 1945 12345"]
    file = write_lines(tmp_path / "text.jsonl", texts)
    words = ["clean", file, "--workers", 1, "--min-words", 1]
    assert command(*words, "--out", tmp_path / "nfc").code == 0
    assert [row["text"] for row in rows_of(tmp_path / "nfc")] == ["Ｃafé au lait."]
    more = ["--form", "NFKC", "--min-letters", 0, "--max-digits", 1, "--max-symbols", 1]
    assert command(*words, *more, "--out", tmp_path / "nfkc").code == 0
    assert rows_of(tmp_path / "nfkc")[0]["text"] == "Café au lait."
    assert len(rows_of(tmp_path / "nfkc")) == 2


def test_only_the_languages_that_are_wanted_stay(tmp_path: Path, command: Run) -> None:
    texts = {
        "en": "The river runs through the old town, and every morning the boats bring fresh fish "
        "to the market where people have met for hundreds of years to buy and to talk.",
        "de": "Der Fluss fließt durch die alte Stadt, und jeden Morgen bringen die Boote frischen "
        "Fisch zum Markt, auf dem sich die Leute seit Jahrhunderten treffen und reden.",
        "zh": "这条河流穿过古老的城市，每天早晨船只都会把新鲜的鱼运到市场，"
        "人们几百年来都在那里买卖和聊天，孩子们在桥上奔跑，老人们在树下下棋喝茶。",
    }
    file = write_lines(tmp_path / "text.jsonl", list(texts.values()))
    out = tmp_path / "out"
    ended = command("clean", file, "--out", out, "--languages", "en", "zh", "--workers", 1)
    assert ended.code == 0, ended.err
    assert [row["text"] for row in rows_of(out)] == [texts["en"], texts["zh"]]
    assert json.loads((out / "statistics.json").read_text())["scripts"] == {"Latin": 1, "Han": 1}


def test_a_column_and_whole_files_can_be_named(tmp_path: Path, command: Run) -> None:
    chance = random.Random(2)
    parts = [" ".join(prose(chance, 30)) for _ in range(3)]
    (tmp_path / "rows.jsonl").write_text(json.dumps({"body": parts[0]}) + "\n")
    (tmp_path / "file.txt").write_text(f"{parts[1]}\n\n{parts[2]}\n")
    flags = ["--column", "body", "--whole-files", "--workers", 1, "--out", tmp_path / "out"]
    assert command("clean", tmp_path / "rows.jsonl", tmp_path / "file.txt", *flags).code == 0
    assert [row["text"] for row in rows_of(tmp_path / "out")] == [
        parts[0],
        f"{parts[1]}\n{parts[2]}",
    ]


def test_documents_say_how_they_were_made_and_can_be_made_again(
    whole: Path, tmp_path: Path, contents: Contents, run_again: Run
) -> None:
    manifest = read_manifest(whole)
    assert (manifest["kind"], manifest["settings"]["similarity"]) == ("documents", 0.8)
    again = run_again(whole, tmp_path / "again")
    assert rows_of(again) == rows_of(whole)
    assert contents(again)["statistics.json"] == contents(whole)["statistics.json"]


# The next stages


def test_clean_documents_are_learned_from_and_tokenized(
    whole: Path, tmp_path: Path, command: Run, contents: Contents
) -> None:
    texts = [row["text"] for row in rows_of(whole)]
    file = write_lines(tmp_path / "same.jsonl", texts)
    made = {}
    for name, text in (("docs", whole), ("file", file)):
        tokenizer, shards = tmp_path / f"{name}-tok", tmp_path / f"{name}-shards"
        assert command("learn-vocab", text, "--out", tokenizer, "--size", 150).code == 0
        words = ["tokenize", text, "--tokenizer", tokenizer, "--workers", 1, "--held-out", 0.2]
        assert command(*words, "--out", shards).code == 0
        made[name] = {k: v for k, v in contents(shards).items() if not k.endswith(MANIFEST)}
    assert made["docs"] == made["file"]
    held_out = json.loads((whole / "statistics.json").read_text())["held_out_documents"]
    assert 0 <= held_out < 10


@pytest.mark.parametrize("kind", ["damaged", "shards"])
def test_a_folder_that_is_not_whole_or_not_documents_is_refused(
    kind: str, whole: Path, shards: Path, tmp_path: Path, command: Run
) -> None:
    given = shards
    if kind == "damaged":
        given = shutil.copytree(whole, tmp_path / "damaged")
        with (given / "documents-00000.jsonl.gz").open("ab") as file:
            file.write(b"x")
    for words in (["learn-vocab"], ["clean"], ["tokenize", "--tokenizer", given]):
        said = command(*words, given, "--out", tmp_path / "out").refusal(1)
        assert ("make the folder again" in said) or ("documents are needed here" in said)
    assert not (tmp_path / "out").exists()


# Bad input


def test_a_poisoned_corpus_is_cleaned_and_each_bad_row_is_named(
    tmp_path: Path, command: Run
) -> None:
    chance = random.Random(9)
    good = [" ".join(prose(chance, 40)) for _ in range(60)]
    rows = [json.dumps({"text": text}).encode() for text in good]
    rows[3:3] = [b"\xff\xfe not text", b'{"text": "nul \0 byte"}', b"", b'{"no": "text"}']
    rows[20:20] = [b'{"text": "' + b"x" * 25_000_000 + b'"}', b'{"text": 17}', b"{torn"]
    rows[40:40] = [json.dumps({"text": "\u202e" + good[7] + " \u200b\U0001f469"}).encode()]
    file = tmp_path / "poisoned.jsonl"
    file.write_bytes(b"\n".join(rows) + b"\n")
    ended = command("clean", file, "--out", tmp_path / "out", "--workers", 1, "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["bad_rows"] == 6
    bad = list(map(json.loads, (tmp_path / "out" / "quarantine.jsonl").read_text().splitlines()))
    assert [row["line"] for row in bad] == [4, 5, 7, 21, 22, 23]
    assert all(len(row["reason"]) > 5 for row in bad)
    assert [row["text"] for row in rows_of(tmp_path / "out")] == good


REFUSALS: dict[str, tuple[list[Any], int, str]] = {
    "language": (["--languages", "klingon"], 2, "no language 'klingon'"),
    "similarity": (["--similarity", "1.5"], 2, "similarity is '1.5', but it must be a number abo"),
    "form": (["--form", "NFD"], 2, "must be NFC or NFKC"),
    "everything": (["--min-words", "9999"], 1, "all 96 documents were dropped, 96 of them as 'too"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_be_done_is_one_sentence(
    name: str, corpus: Path, tmp_path: Path, command: Run
) -> None:
    words, code, said = REFUSALS[name]
    ended = command("clean", corpus, "--out", tmp_path / "out", "--workers", 1, *words)
    assert said in ended.refusal(code)
    assert list(tmp_path.iterdir()) == []


NOT_FOR_US: dict[str, tuple[bytes, str]] = {
    "a.txt": (
        "今天天气很好。\n\n我们去公园散步。\n".encode("gbk"),
        "2 of 2 rows cannot be used, the first at {} line 1: not UTF-8 but perhaps GB18030; "
        "convert it first: iconv -f GB18030 -t UTF-8",
    ),
    "a.jsonl": (
        '{"正文": "今天天气很好。"}\n'.encode() * 3,
        '{} line 1: no "text" (found 正文); name the key with clean --column 正文',
    ),
}


@pytest.mark.parametrize("name", NOT_FOR_US)
def test_text_that_must_be_read_otherwise_is_told_how(
    name: str, tmp_path: Path, command: Run
) -> None:
    raw, said = NOT_FOR_US[name]
    (tmp_path / name).write_bytes(raw)
    ended = command("clean", tmp_path / name, "--out", tmp_path / "out", "--workers", 1)
    assert said.format(tmp_path / name) in ended.refusal(1)
    assert not (tmp_path / "out").exists()


def test_a_chinese_character_counts_as_half_a_word(tmp_path: Path, command: Run) -> None:
    texts = ["一二三四五六七八九十" * 4, "甲乙丙丁戊己庚辛壬癸" * 4]
    (tmp_path / "a.txt").write_text(f"{texts[0]}\n\n{texts[1][:-1]}\n", encoding="utf-8")
    loose = ["--max-repeated-words", 1, "--workers", 1]
    ended = command("clean", tmp_path / "a.txt", "--out", tmp_path / "out", *loose)
    assert ended.code == 0, ended.err
    assert [row["text"] for row in rows_of(tmp_path / "out")] == texts[:1]


def test_what_is_there_already_is_left_alone(whole: Path, corpus: Path, command: Run) -> None:
    assert "exists already" in command("clean", corpus, "--out", whole).refusal(2)


# Kills


def clean_until_killed(
    corpus: Path, out: Path, *, event: str, number: int, workers: int = 1
) -> int:
    """Run `clean` in a process that kills itself at the n-th event; return how it ended."""
    script = f"""
import os, signal, sys
sys.path.insert(0, {SOURCES!r})
from bertworks.cli.main import main
from bertworks.stages import clean
def fatal(real, counts=[0]):
    def call(*args, **kwargs):
        counts[0] += 1
        if counts[0] == {number}:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)
    return call
if __name__ == "__main__":
    clean.CHUNK_BYTES, clean.CHUNKS_PER_COMMIT = 3000, 2
    if {event!r} == "take":
        clean._Cleaning.take = fatal(clean._Cleaning.take)
    else:
        os.{event} = fatal(os.{event})
    main(sys.argv[1:])
"""
    flags = ["--out", str(out), "--workers", str(workers), "--resume", "auto"]
    words = [sys.executable, "-c", script, "clean", str(corpus), *flags]
    done = subprocess.run(words, capture_output=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()
    return done.returncode


def test_cleaning_that_is_killed_again_and_again_ends_in_the_same_bytes(
    corpus: Path, whole: Path, tmp_path: Path, contents: Contents
) -> None:
    out = tmp_path / "out"
    kills = [("take", 6, 1), ("fsync", 5, 1), ("take", 4, 2), ("replace", 1, 1), ("fsync", 16, 1)]
    for event, number, workers in kills:
        ended = clean_until_killed(corpus, out, event=event, number=number, workers=workers)
        assert ended == -signal.SIGKILL
        assert not out.exists()
    assert clean_until_killed(corpus, out, event="take", number=10**6) == 0
    assert plain(contents(out)) == plain(contents(whole))
    assert list(tmp_path.iterdir()) == [out]


def test_cleaning_goes_on_from_its_last_commit_with_any_number_of_processes(
    corpus: Path, whole: Path, small: None, tmp_path: Path, command: Run, contents: Contents
) -> None:
    out = tmp_path / "out"
    assert clean_until_killed(corpus, out, event="take", number=8) == -signal.SIGKILL
    journal = json.loads((tmp_path / ".out.work" / "journal.json").read_text())
    assert journal["state"]["chunks"] == 6
    words = ["clean", corpus, "--out", out, "--resume", "auto", "--workers"]
    said = command(*words, 1, "--similarity", 0.9).refusal(2)
    assert "was begun with similarity = 0.8, now 0.9; resume with the same settings" in said
    assert command(*words, 2).code == 0
    assert plain(contents(out)) == plain(contents(whole))
    again = command(*words, 1)
    assert again.code == 0
    assert "is finished already" in again.err


def test_documents_may_lie_in_the_folder_that_they_are_made_from(
    corpus: Path, small: None, tmp_path: Path, command: Run
) -> None:
    text = tmp_path / "text"
    shutil.copytree(corpus, text)
    words = ["clean", text, "--out", text / "clean", "--workers", 1, "--resume", "auto"]
    ended = clean_until_killed(text, text / "clean", event="take", number=8)
    assert ended == -signal.SIGKILL
    assert command(*words).code == 0
    assert {row["source"] for row in rows_of(text / "clean")} == {
        f"{text}/a.jsonl",
        f"{text}/b.txt",
    }
    assert "is finished already" in command(*words).err
    (text / "b.txt").rename(tmp_path / "b.txt")
    assert "b.txt has gone since" in command(*words).refusal(2)


def test_a_signature_that_is_forgotten_in_a_kill_would_be_noticed(
    corpus: Path, whole: Path, small: None, tmp_path: Path, command: Run, contents: Contents
) -> None:
    out = tmp_path / "out"
    assert clean_until_killed(corpus, out, event="take", number=8) == -signal.SIGKILL
    journal = tmp_path / ".out.work" / "journal.json"
    told = json.loads(journal.read_text())
    told["sizes"]["hashes.bin"] = told["sizes"]["signatures.bin"] = 0
    journal.write_text(json.dumps(told))
    for name in ("hashes.bin", "signatures.bin"):
        os.truncate(tmp_path / ".out.work" / name, 0)
    words = ["clean", corpus, "--out", out, "--resume", "auto", "--workers", 1]
    assert command(*words).code == 0
    assert plain(contents(out)) != plain(contents(whole))
