"""check: what is wrong with labelled data is found before training, which does not begin on it."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertworks.core.artifact import read_manifest

Run = Callable[..., Any]
Words = Callable[..., list[Any]]
Write = Callable[[Path, list[Any]], Path]
NOUNS = ("river", "boat", "water", "fish", "bank", "harbour", "engine", "wheel", "motor", "road")


def rows_of(form: str, count: int, *, seed: int) -> list[dict[str, Any]]:
    """Make good rows of a form, no two alike."""
    chance = random.Random(seed)
    return [MAKERS[form](chance.sample(NOUNS, 5), number) for number in range(count)]


def _classify(words: list[str], number: int) -> dict[str, Any]:
    return {"text": " ".join(words), "label": ("water", "road")[number % 2]}


def _score(words: list[str], number: int) -> dict[str, Any]:
    return {"text": " ".join(words[:3]), "text_b": " ".join(words[3:]), "score": number % 5}


def _tag(words: list[str], number: int) -> dict[str, Any]:
    return {"tokens": words, "tags": ["O", "B-THING", "I-THING", "O", "O"]}


def _answer(words: list[str], number: int) -> dict[str, Any]:
    answer = {"text": words[1], "start": len(words[0]) + 1}
    return {"question": words[2], "passage": " ".join(words), "answers": [answer]}


MAKERS = {"classify": _classify, "score": _score, "tag": _tag, "answer": _answer}


@pytest.fixture
def files(tmp_path: Path, write_rows: Write) -> Callable[..., dict[str, Path]]:
    """Write files to train on and to judge by, good but for what is said."""

    def write(form: str, **changed: Any) -> dict[str, Path]:
        good = {"train": rows_of(form, 21, seed=1), "dev": rows_of(form, 11, seed=2)}
        folder = tmp_path / "data"
        folder.mkdir()
        return {
            name: write_rows(folder / f"{name}.jsonl", rows)
            for name, rows in (good | changed).items()
        }

    return write


def check_words(files: dict[str, Path]) -> list[Any]:
    """Say the words of a check."""
    return ["check", files["train"], "--against", files["dev"]]


def findings_of(ended: Any) -> dict[str, str]:
    """Return the severity of every finding that a command printed as JSON."""
    return {row["check"]: row["severity"] for row in json.loads(ended.out)["findings"]}


@pytest.mark.parametrize("form", MAKERS)
def test_good_data_have_no_errors_and_no_warnings(form: str, files: Run, command: Run) -> None:
    ended = command(*check_words(files(form)), "--rare", 1, "--json")
    assert ended.code == 0, ended.err
    found = findings_of(ended)
    assert set(found.values()) == {"note"}, found
    assert [row["examples"] for row in json.loads(ended.out)["files"]] == [21, 11]


# Bad input


def test_single_texts_are_of_no_use_where_pairs_are_needed(
    tmp_path: Path, write_rows: Write, command: Run
) -> None:
    pairs = [{**row, "label": str(n % 2)} for n, row in enumerate(rows_of("score", 21, seed=1))]
    for row in pairs:
        del row["score"]
    pairs[4]["text_b"] = None
    file = write_rows(tmp_path / "pairs.jsonl", pairs)
    ended = command("check", file, "--task", "match", "--rare", 1, "--json")
    told = json.loads(ended.out)
    assert (told["files"][0]["examples"], told["files"][0]["bad_rows"]) == (20, 1)
    found = [row["finding"] for row in told["findings"] if row["check"] == "unusable rows"]
    assert "the task match needs a second text" in found[0]
    assert "line 5" in found[0]
    single = command("check", file, "--task", "classify", "--rare", 1, "--json")
    assert json.loads(single.out)["files"][0]["examples"] == 21


AIR = {"text": "Sky over the water.", "label": "air"}
SHORT = {"tokens": ["river", "boat"], "tags": ["O"]}
ELSEWHERE = {"question": "boat", "passage": "river bank", "answers": [{"text": "sea", "start": 0}]}
NO_NUMBER = {"text": "river", "text_b": "boat", "score": "nan"}
CONSTANT = [{"text": f"river {word}", "text_b": word, "score": 2} for word in NOUNS]
ALONE = [{"text": f"the {word}", "label": f"label {word}"} for word in NOUNS]
ONE_CLASS = [{"text": f"the {word}", "label": "water"} for word in NOUNS]
UNUSABLE = "rows cannot be used, the first"
# The form, what is wrong, the check that finds it, and what is said before training.
REFUSED: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "an unknown label": (
        "classify",
        {"dev": [*rows_of("classify", 11, seed=2), AIR]},
        "unknown labels",
        "dev.jsonl line 12: the label 'air' is not among those of the training data (road, water); "
        "correct it or remove the row",
    ),
    "tag sequences of the wrong length": (
        "tag",
        {"train": [*rows_of("tag", 5, seed=1), SHORT]},
        "unusable rows",
        "train.jsonl line 6: 2 tokens but 1 tags; each token needs one; mend the file",
    ),
    "answers that are not in their passage": (
        "answer",
        {"dev": [ELSEWHERE]},
        "unusable rows",
        "dev.jsonl line 1: the answer 'sea' is not in its passage; mend the file",
    ),
    "scores that are no numbers": (
        "score",
        {"train": [NO_NUMBER, *rows_of("score", 5, seed=1)]},
        "unusable rows",
        "train.jsonl line 1: 'score' is 'nan'; it must be a finite number; mend the file",
    ),
    "one score only": (
        "score",
        {"dev": CONSTANT},
        "constant score",
        "dev.jsonl lines 1, 2, 3, 4, 5, …); check that the right column is read",
    ),
    "one class only": (
        "classify",
        {"train": ONE_CLASS},
        "one label only",
        "train.jsonl has one label only ('water'), so there is nothing to tell apart; add examples",
    ),
    "an empty dev file": (
        "classify",
        {"dev": []},
        "unreadable file",
        "dev.jsonl is empty; give a file with text in it",
    ),
    "a dev file without rows": (
        "classify",
        {"dev": ["", ""]},
        "no rows",
        "dev.jsonl holds no rows; give a file with examples in it",
    ),
    "as many classes as examples": (
        "classify",
        {"train": ALONE, "dev": ALONE},
        "more labels than can be learned",
        "has 10 labels in 10 rows, each of them once",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_training_never_begins_on_what_cannot_be_scored(
    name: str, files: Run, finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    form, changed, _, said = REFUSED[name]
    ended = command(*finetune_words(tmp_path / "run", task=form, **files(form, **changed)))
    assert said in ended.refusal(1)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize("name", REFUSED)
def test_check_finds_what_cannot_be_scored(name: str, files: Run, command: Run) -> None:
    form, changed, check, _ = REFUSED[name]
    ended = command(*check_words(files(form, **changed)), "--task", form, "--json")
    assert ended.code == 1
    assert findings_of(ended)[check] == "error"
    (sentence,) = [line for line in ended.err.splitlines() if line.startswith("bertworks: ")]
    assert "; " in sentence  # a remedy


LATIN = "café by the river"
# The form, a row that cannot be used, and why.
SET_ASIDE: dict[str, tuple[str, Any, str]] = {
    "tags": ("tag", SHORT, "2 tokens but 1 tags; each token needs one"),
    "answer": ("answer", ELSEWHERE, "the answer 'sea' is not in its passage"),
    "score": ("score", NO_NUMBER, "'score' is 'nan'; it must be a finite number"),
    "encoding": ("classify", {"text": LATIN, "label": "water"}, "not UTF-8 at byte 13"),
}


@pytest.mark.parametrize("name", SET_ASIDE)
def test_a_bad_row_among_good_ones_is_set_aside(
    name: str, files: Run, finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    form, row, reason = SET_ASIDE[name]
    lines = [json.dumps(row, ensure_ascii=False), *map(json.dumps, rows_of(form, 21, seed=1))]
    written = files(form, train=lines[1:])
    written["train"].write_bytes("\n".join(lines).encode("latin-1"))
    aside = [{"file": str(written["train"]), "line": 1, "reason": reason}]
    trained = command(*finetune_words(tmp_path / "run", task=form, epochs=1, **written))
    assert trained.code == 0, trained.err
    checked = command(*check_words(written), "--task", form, "--out", tmp_path / "report", "--json")
    assert findings_of(checked)["unusable rows"] == "warning"
    for folder in ("run", "report"):
        kept = (tmp_path / folder / "quarantine.jsonl").read_text().splitlines()
        assert [json.loads(line) for line in kept] == aside


def test_a_very_long_text_is_trained_on_with_a_warning(
    files: Run, finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    long = {"text": "river boat " * 9100, "label": "water"}
    written = files("classify", dev=[*rows_of("classify", 5, seed=2), long])
    ended = command(*finetune_words(tmp_path / "run", epochs=1, **written))
    assert ended.code == 0, ended.err
    assert "warning: 1 row of 100,000 characters or more, the longest of 100,100" in ended.err
    assert f"more: bertworks check {written['train']} --against {written['dev']}" in ended.err
    checked = command(*check_words(written), "--json")
    assert (checked.code, findings_of(checked)["very long texts"]) == (0, "warning")


def test_leaks_and_broken_characters_are_said_before_training(
    files: Run, finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    train = rows_of("classify", 21, seed=1)
    written = files("classify", dev=[train[4], {"text": "lost \ufffd boat", "label": "road"}])
    ended = command(*finetune_words(tmp_path / "run", epochs=1, **written))
    assert ended.code == 0, ended.err
    assert (
        f"warning: 1 row of {written['dev']} is the same as one of {written['train']}" in ended.err
    )
    assert "warning: 1 row with replacement characters" in ended.err


# The command


def test_a_report_holds_the_findings_the_page_and_the_copies(
    files: Run, tmp_path: Path, command: Run
) -> None:
    train = rows_of("classify", 21, seed=1)
    written = files("classify", dev=[train[4], {"text": "a boat", "label": "road"}])
    ended = command(*check_words(written), "--out", tmp_path / "report")
    assert ended.code == 0, ended.err
    manifest = read_manifest(tmp_path / "report")
    assert manifest["kind"] == "report"
    assert manifest["command"].startswith(f"bertworks check {written['train']} --against ")
    told = json.loads((tmp_path / "report" / "check.json").read_text())
    leak = next(row for row in told["findings"] if row["check"] == "leak: copies")
    assert leak["first"] == [{"file": "dev.jsonl", "line": 1}]
    copies = (tmp_path / "report" / "copies.jsonl").read_text().splitlines()
    assert json.loads(copies[0]) == {
        "kind": "leak: copies",
        "file": "dev.jsonl",
        "line": 1,
        "like": {"file": "train.jsonl", "line": 5},
    }
    page = (tmp_path / "report" / "report.html").read_text()
    assert f"{train[4]['text']} → {train[4]['label']}" in page
    assert "leak: copies" in ended.out


UNTOLD = {  # files that do not tell what their rows hold, and what is said of them
    "names": (
        "gist,remark\na boat,old\na river,wide\n",
        "has no known header and the columns 1 ('gist'), 2 ('remark'), and which of them hold what "
        "cannot be told; name the --task (classify, match, tag, answer, generate, ...), and if "
        "need be say it with --columns text=COLUMN label=COLUMN",
    ),
    "a half": (
        "text,remark\na boat,old\na river,wide\n",
        "has the columns text, remark, and which of them hold what cannot be told; name the --task",
    ),
    "two labels": (
        "text,class,category\na boat,old,road\na river,wide,road\n",
        "has more than one column that may hold the label: class, category; choose with --columns "
        "label=COLUMN",
    ),
}


@pytest.mark.parametrize("name", UNTOLD)
def test_columns_that_do_not_tell_a_task_are_a_finding_with_its_report(
    name: str, files: Run, tmp_path: Path, command: Run
) -> None:
    content, said = UNTOLD[name]
    data = tmp_path / "untold.csv"
    data.write_text(content)
    words = ["check", data, "--against", files("classify")["dev"], "--out", tmp_path / "report"]
    ended = command(*words, "--json")
    assert f"bertworks: {data} {said}" in ended.err
    assert ended.code == 1
    told = json.loads(ended.out)
    assert told["files"] == [{"file": "untold.csv", "form": None, "examples": 0, "bad_rows": 0}]
    (found,) = told["findings"]
    assert (found["severity"], found["check"]) == ("error", "unreadable file")
    assert found["finding"].startswith(f"{data} {said}")
    written = json.loads((tmp_path / "report" / "check.json").read_text())
    assert [row["check"] for row in written["findings"]] == ["unreadable file"]
    assert "--columns" in (tmp_path / "report" / "report.html").read_text()


def test_a_tokenizer_adds_lengths_in_pieces(
    files: Run, vocabulary: Path, tmp_path: Path, command: Run
) -> None:
    words = [*check_words(files("answer")), "--tokenizer", vocabulary, "--longest", 8]
    ended = command(*words, "--out", tmp_path / "report", "--json")
    assert ended.code == 0, ended.err
    assert {"length in pieces", "gold lost by truncating", "several windows"} <= set(
        findings_of(ended)
    )


def test_files_of_one_name_are_told_apart_by_their_paths(
    tmp_path: Path, write_rows: Write, command: Run
) -> None:
    made = []
    for seed, name in enumerate(("a", "b")):
        (tmp_path / name).mkdir()
        made.append(write_rows(tmp_path / name / "x.jsonl", rows_of("classify", 9, seed=seed)))
    ended = command("check", made[0], "--against", made[1], "--json")
    assert [row["file"] for row in json.loads(ended.out)["files"]] == [str(path) for path in made]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--task", "dance"], 2, "task is 'dance', but it must be classify or match or"),
        (["--against", "nowhere.jsonl"], 1, "there is no file nowhere.jsonl; check the path"),
        (["--against", "b.jsonl", "b.jsonl"], 2, "b.jsonl is given twice; leave it out once"),
        (["--columns", "gold=x"], 2, "--columns takes NAME=COLUMN"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(
    words: list[str], code: int, said: str, files: Run, command: Run
) -> None:
    assert said in command("check", files("classify")["train"], *words).refusal(code)


def test_a_report_that_is_there_is_left_alone(files: Run, tmp_path: Path, command: Run) -> None:
    words = [*check_words(files("classify")), "--out", tmp_path / "report"]
    assert command(*words).code == 0
    before = (tmp_path / "report" / "check.json").read_bytes()
    assert "exists already" in command(*words).refusal(2)
    assert (tmp_path / "report" / "check.json").read_bytes() == before
