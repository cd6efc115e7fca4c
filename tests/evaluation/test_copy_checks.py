"""Checks of copies: leaks, repetitions and conflicts, exact and near."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.data.examples import ChoiceExample, QuestionExample, TextExample
from bertworks.evaluation.copy_checks import CopyCheck, PassageCheck
from bertworks.evaluation.findings import Finding

WORDS = [f"{a}{b}{c}" for a in "bdfgk" for b in "aeiou" for c in "lmnrst"]


def sentence(seed: int, size: int = 23) -> str:
    """Make a text of words that other seeds give in another order."""
    return " ".join(random.Random(seed).choices(WORDS, k=size))


def look(check: Any, **parts: list[Any]) -> dict[tuple[str, str], Finding]:
    """Return findings by what was looked for and the first file that is named."""
    for part, examples in parts.items():
        for example in examples:
            check.add(part, example)
    return {(found.check, found.places.first[0][0]): found for found in check.findings()}


def rows(*texts: str, label: str = "a") -> list[TextExample]:
    """Make rows with one label."""
    return [TextExample(text, label=label, line=line) for line, text in enumerate(texts, 1)]


def test_copies_within_a_file_and_between_files_are_told_apart() -> None:
    one, two, three = map(sentence, range(3))
    found = look(CopyCheck(), train=rows(one, two, one.upper(), one), dev=rows(three, two))
    assert set(found) == {("leak: copies", "dev"), ("copies", "train")}
    leak, copies = found["leak: copies", "dev"], found["copies", "train"]
    assert (leak.severity, leak.said) == ("warning", "1 row of dev is the same as one of train")
    assert leak.places.first == [("dev", 2)]
    assert leak.shown_places() == [("dev", 2), ("train", 2)]
    assert (copies.severity, copies.places.first) == ("note", [("train", 3), ("train", 4)])


def test_every_pair_of_files_is_compared() -> None:
    one, two = map(sentence, range(2))
    found = look(CopyCheck(), train=rows(one), dev=rows(two), test=rows(one, two))
    (leak,) = found.values()
    said = {finding.said for finding in _all(train=rows(one), dev=rows(two), test=rows(one, two))}
    assert leak.check == "leak: copies"
    assert said == {
        "1 row of test is the same as one of train",
        "1 row of test is the same as one of dev",
    }


def _all(**parts: list[Any]) -> list[Finding]:
    check = CopyCheck()
    for part, examples in parts.items():
        for example in examples:
            check.add(part, example)
    return list(check.findings())


def test_near_copies_are_found_and_others_left_alone() -> None:
    whole = sentence(1, 40)
    near, far = whole.rsplit(" ", 1)[0] + " end", sentence(2, 40)
    found = look(CopyCheck(similarity=0.8), train=rows(whole, far), dev=rows(near, sentence(3)))
    assert set(found) == {("leak: near copies", "dev")}
    assert found["leak: near copies", "dev"].places.first == [("dev", 1)]
    assert look(CopyCheck(), train=rows(whole), dev=rows(near)) == {}


def test_near_copies_in_chinese_are_found() -> None:
    text = "我们今天在北京学习中文而且天气非常好所以大家都很高兴地去公园散步"
    found = look(CopyCheck(similarity=0.8), train=rows(text), dev=rows(text[:-1] + "跑"))
    assert ("leak: near copies", "dev") in found


def test_the_same_text_with_different_labels_is_a_conflict() -> None:
    one, two = map(sentence, range(2))
    check = CopyCheck()
    found = look(check, train=rows(one, two), dev=[TextExample(one, label="b", line=7)])
    conflict = found["conflicting labels", "train"]
    assert conflict.said == "1 text with different labels in 2 rows"
    assert conflict.places.first == [("train", 1), ("dev", 7)]
    listed = [row for row in check.listed if row["kind"] == "conflicting labels"]
    assert listed == [
        {"kind": "conflicting labels", "file": "train", "line": 1},
        {"kind": "conflicting labels", "file": "dev", "line": 7},
    ]
    json.dumps(check.listed)


def test_the_questions_about_a_passage_are_no_copies_of_each_other() -> None:
    passage = sentence(5, 90)
    asked = [QuestionExample(sentence(n, 9), passage, (), line=n) for n in range(1, 6)]
    assert look(CopyCheck(similarity=0.8), train=asked) == {}
    again = QuestionExample(sentence(1, 9), passage, (), line=9)
    assert ("copies", "train") in look(CopyCheck(), train=[*asked, again])


def test_aspects_of_a_text_are_no_copies_of_each_other() -> None:
    text = sentence(5, 40)
    pairs = [TextExample(text, aspect, "a", line=n) for n, aspect in enumerate(("food", "staff"))]
    assert look(CopyCheck(similarity=0.8), train=pairs) == {}


def test_passages_in_two_files_are_a_leak() -> None:
    one, two = sentence(1), sentence(2)
    train = [QuestionExample("Who?", one, line=1), QuestionExample("Why?", two, line=2)]
    dev = [ChoiceExample("When?", ("a", "b"), one.title(), line=3), TextExample("x", line=4)]
    found = look(PassageCheck(), train=train, dev=dev)
    assert found["leak: passages", "dev"].said == "1 row of dev is about a passage of train"
    assert look(PassageCheck(), train=train) == {}


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), max_size=30))
def test_exact_copies_are_those_that_a_plain_comparison_finds(drawn: list[tuple[int, int]]) -> None:
    parts: dict[str, list[TextExample]] = {"a": [], "b": [], "c": []}
    for part, text in drawn:
        own = parts["abc"[part]]
        own.append(TextExample(f"text {text}", label="x", line=len(own) + 1))
    check, expected = CopyCheck(), 0
    look(check, **parts)
    for part, own in parts.items():
        for place, example in enumerate(own):
            expected += example.text in {e.text for e in own[:place]}
            earlier = [other for other in "abc" if other < part]
            expected += sum(example.text in {e.text for e in parts[o]} for o in earlier)
    assert len(check.listed) == expected


@pytest.mark.parametrize("similarity", [0.8, 1.0])
def test_no_rows_have_no_copies(similarity: float) -> None:
    assert look(CopyCheck(similarity=similarity)) == {}
