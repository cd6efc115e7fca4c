"""Checks of labels: what cannot be learned or scored, and what is worth a look."""

from typing import Any

import pytest

from bertworks.data.examples import Span, TaggedExample, TextExample
from bertworks.evaluation.findings import Finding
from bertworks.evaluation.label_checks import LabelCheck


def look(rare: int = 2, *, all_labels: bool = True, **parts: list[Any]) -> dict[str, Finding]:
    """Return the findings about the labels of files by what was looked for."""
    check = LabelCheck(rare=rare, all_labels=all_labels)
    for part, examples in parts.items():
        for example in examples:
            check.add(part, example)
    return {finding.check: finding for finding in check.findings()}


def texts(*labels: str) -> list[TextExample]:
    """Make a row for each label."""
    return [TextExample(f"text {n}", label=label, line=n) for n, label in enumerate(labels, 1)]


def test_even_labels_are_only_counted() -> None:
    found = look(train=texts(*"aabb"), dev=texts(*"ba"))
    assert list(found) == ["label counts"]
    counts = found["label counts"]
    assert (counts.severity, counts.said) == ("note", "2 different labels, 4 in train and 2 in dev")
    assert counts.details[0] == {"label": "a", "train": "2", "dev": "1", "share": "50.0%"}


def test_one_label_is_an_error_to_learn_and_a_warning_to_judge() -> None:
    error = look(train=texts("a", "a"))["one label only"]
    assert error.severity == "error"
    assert str(error).startswith("train has one label only ('a') (train lines 1, 2); add examples")
    warning = look(train=texts(*"aabb"), dev=texts("b"))["one label only"]
    assert (warning.severity, warning.said) == ("warning", "dev has one label only ('b')")


def test_sets_of_labels_that_are_all_the_same_are_an_error() -> None:
    def sets(*found: str) -> list[TextExample]:
        return [TextExample(str(n), labels=tuple(own), line=n) for n, own in enumerate(found, 1)]

    error = look(train=sets("ab", "ba", "ab"))["one label only"]
    assert error.severity == "error"
    assert error.said == "train has the same labels on all rows ('a', 'b')"
    assert "one label only" not in look(train=sets("a", "", "a"))


def test_unknown_labels_are_named_with_their_lines() -> None:
    found = look(train=texts(*"aabb"), dev=texts(*"aczc"))
    unknown = found["unknown labels"]
    assert unknown.severity == "error"
    assert (
        str(unknown)
        == "dev has 2 labels that train has not: c, z (dev lines 2, 3, …); correct them, "
        "or add examples to train"
    )
    assert unknown.places.count == 3
    assert found["labels not judged"].said == "dev has no example of 1 of 2 labels: b"
    assert "unknown labels" not in look(train=texts(*"ab"), dev=texts("c"), all_labels=False)


def test_rare_labels_are_named_the_rarest_first() -> None:
    rare = look(rare=3, train=texts(*"aaabbc"))["rare labels"]
    assert rare.said == "2 of 3 labels stand fewer than 3 times in train: c (1), b (2)"
    assert (rare.severity, rare.places.count) == ("warning", 3)
    assert "rare labels" not in look(rare=1, train=texts(*"aaabbc"))


def test_labels_that_all_stand_once_are_names_of_rows() -> None:
    found = look(train=texts(*"abcdefghij"))["more labels than can be learned"]
    assert found.severity == "error"
    assert found.said == "train has 10 labels in 10 rows, each of them once"
    assert "more labels than can be learned" not in look(train=texts(*"abcdefghijj"))
    assert "more labels than can be learned" not in look(train=texts(*"abc"))


def test_files_with_more_labels_than_rows_are_found() -> None:
    rows = [TextExample("x", labels=tuple("abc"), line=1), TextExample("y", labels=("a",), line=2)]
    found = look(train=rows)["more labels than examples"]
    assert (found.severity, found.said) == ("error", "train has 2 rows, but there are 3 labels")


def test_labels_that_differ_in_case_alone_are_found_at_the_rarer_one() -> None:
    alike = look(train=texts("Yes", "Yes", "no", "no", "yes "))["alike labels"]
    assert alike.said == "'Yes' and 'yes ' differ in case or spaces alone"
    assert alike.places.first == [("train", 5)]


@pytest.mark.parametrize(
    ("alike", "said"),
    [
        (("1", "1.0", "１"), "'1' and '1.0' and '１' differ in width, case"),
        (("Ｙｅｓ", "yes"), "'Ｙｅｓ' and 'yes' differ in width, case"),
        (("正\u200b面", "正面"), r"'正\u200b面' and '正面' differ in characters that nobody sees"),
    ],
)
def test_one_label_in_several_spellings_is_found(alike: tuple[str, ...], said: str) -> None:
    found = look(train=texts(*alike * 3, "other", "other"))["alike labels"]
    assert (found.severity, found.said[: len(said)]) == ("warning", said)


def test_numbers_and_words_that_differ_are_not_alike() -> None:
    apart = (
        "1",
        "-1",
        "10",
        "1.5",
        "1.1",
        "1.10",
        "1_0",
        "inf",
        "infinity",
        "正面",
        "正",
        "9" * 17,
        "9" * 16,
    )
    assert "alike labels" not in look(train=texts(*apart * 2))


def test_a_label_is_shown_by_its_escapes_where_it_holds_what_nobody_sees() -> None:
    found = look(train=texts("正面", "正面", "b", "b"), dev=texts("正\u200b面"))
    assert r"has not: '正\u200b面' (dev line 1)" in str(found["unknown labels"])
    assert found["labels not judged"].said.endswith(": 正面, b")


@pytest.mark.parametrize("mark", "、，；;,｜")
def test_several_labels_that_became_one_are_found_by_their_mark(mark: str) -> None:
    one, trailing = f"体育{mark}娱乐", f"体育{mark}"
    sets = [("体育",), ("娱乐",), (one,), (trailing,), ("财经",)] * 2
    rows = [TextExample(str(n), labels=own, line=n) for n, own in enumerate(sets, 1)]
    found = look(train=rows)["joined labels"]
    assert found.severity == "warning"
    assert str(found) == (
        f"2 labels made of others with {mark!r} between or behind them: {one!r}, {trailing!r} "
        "(train lines 3, 4, …); put | between labels, or give them as a list"
    )


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (["科技 体育", "科技", "体育"], ["科技 体育"]),
        (["a|b", "b|c", "c|a"], ["a|b", "b|c", "c|a"]),
        (["New York", "New Jersey", "York"], []),
        (["Arts, Crafts & Sewing", "Arts", "Toys & Games"], []),
        (["sport, local", "sport", "politics"], []),
        (["1,000", "1", "2"], []),
        (["0,5", "1,0", "1,5", "0", "1", "5"], []),
        (["|", ",", "a"], []),
    ],
)
def test_names_of_several_words_are_no_several_labels(labels: list[str], found: list[str]) -> None:
    joined = look(train=texts(*labels * 2)).get("joined labels")
    assert (joined.said.partition(": ")[2] if joined else "") == ", ".join(map(repr, found))


def test_one_label_nearly_everywhere_is_a_warning() -> None:
    uneven = look(train=texts(*"a" * 19, "b"))["uneven labels"]
    assert uneven.said.startswith("95.0% of train have the label 'a'")
    assert "uneven labels" not in look(train=texts(*"aaab"))


def test_tags_are_counted_by_words_and_intents_by_texts() -> None:
    rows = [
        TaggedExample("a b", ((0, 1), (2, 3)), ("O", "B-X"), intent="go", line=1),
        TaggedExample("c", ((0, 1),), ("O",), intent="stop", line=2),
    ]
    found = look(rare=1, train=rows)
    assert found["tag counts"].said == "2 different tags, 3 in train"
    assert found["intent counts"].said == "2 different intents, 2 in train"


def test_spans_of_one_label_can_be_learned_and_none_at_all_cannot() -> None:
    one = [TaggedExample("a b", spans=(Span(0, 1, "X"),), line=1)]
    assert list(look(rare=1, train=one)) == ["span label counts"]
    none = [TaggedExample("a b", spans=(), line=1)]
    assert look(train=none)["no span label at all"].severity == "error"
