"""The look at labelled data: all checks together, and what stops a training."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.core.errors import DataError
from bertworks.core.quarantine import Quarantine
from bertworks.data.examples import (
    ChoiceExample,
    Found,
    QuestionExample,
    RelationExample,
    TaggedExample,
    TextExample,
)
from bertworks.evaluation.data_check import bad_rows, check_before_training, look, make_checks

TRAIN, DEV = Path("train.jsonl"), Path("dev.jsonl")


def rows(labels: str, word: str = "text") -> list[TextExample]:
    """Make rows with labels of one letter."""
    return [TextExample(f"{word} {n}", label=label, line=n) for n, label in enumerate(labels, 1)]


TEXT = st.text(min_size=1, max_size=30)
MADE = {
    "label": st.builds(TextExample, TEXT, st.none() | TEXT, TEXT),
    "score": st.builds(TextExample, TEXT, score=st.floats(allow_nan=False, allow_infinity=False)),
    "labels": st.builds(TextExample, TEXT, labels=st.lists(TEXT, max_size=3).map(tuple)),
    "tags": st.builds(
        lambda tags: TaggedExample(
            " ".join("x" * len(tags)),
            tuple((2 * n, 2 * n + 1) for n in range(len(tags))),
            tuple(tags),
        ),
        st.lists(st.sampled_from(["O", "B-X", "I-X", "E-Y", "S", "NOUN"]), min_size=1),
    ),
    "answers": st.builds(
        QuestionExample, TEXT, TEXT, st.none() | st.tuples(st.builds(Found, TEXT, st.none()))
    ),
    "choice": st.builds(
        ChoiceExample, TEXT, st.tuples(TEXT, TEXT), st.none() | TEXT, st.none() | st.integers(0, 1)
    ),
    "relation": st.builds(
        RelationExample, TEXT, st.just((0, 1)), st.just((0, 1)), st.none() | TEXT
    ),
}


@pytest.mark.parametrize("kind", MADE)
@settings(max_examples=25)
@given(data=st.data())
def test_whatever_the_examples_are_all_checks_have_an_answer(kind: str, data: Any) -> None:
    parts = {name: data.draw(st.lists(MADE[kind], max_size=6)) for name in ("train", "dev")}
    for finding in look(parts, make_checks(similarity=0.8)):
        json.dumps(finding.as_json())
        assert str(finding)


def test_the_worst_findings_come_first() -> None:
    found = look({"train": rows("aab"), "dev": rows("cab")}, make_checks(rare=2))
    severities = [finding.severity for finding in found]
    assert severities == sorted(severities, key=["error", "warning", "note"].index)
    assert [f.check for f in found][:2] == ["unknown labels", "rare labels"]


def test_good_data_are_trained_on_without_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    check_before_training(TRAIN, DEV, (rows("ab" * 5), rows("ab", "other")))
    assert capsys.readouterr().err == ""


def test_what_is_worrying_is_said_with_the_command_that_shows_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    check_before_training(TRAIN, DEV, (rows("ab" * 5), rows("ab")))
    *warnings, more = capsys.readouterr().err.splitlines()
    assert warnings == [
        "warning: 2 rows of dev.jsonl are the same as one of train.jsonl (dev.jsonl lines 1, 2); "
        "scores on dev.jsonl flatter; remove these rows from one of them"
    ]
    assert more == "more: bertworks check train.jsonl --against dev.jsonl"


def test_a_tag_for_whose_sake_spans_are_lost_is_said_before_training(
    capsys: pytest.CaptureFixture[str],
) -> None:
    train, dev = (
        [TaggedExample(f"{name} {n}", ((0, 1),), (tag,), line=n) for n, tag in enumerate(tags, 1)]
        for name, tags in (("a", ["O", "B-X", "B-X", "X"] * 5), ("b", ["O", "B-X"]))
    )
    check_before_training(TRAIN, DEV, (train, dev))
    assert capsys.readouterr().err.startswith(
        "warning: 1 tag of train.jsonl not in BIO as the others: X; so no tag is read as part of "
        "a span (train.jsonl line 4, …); correct them, or write O\n"
    )


def test_a_file_that_is_judged_by_itself_is_a_leak(capsys: pytest.CaptureFixture[str]) -> None:
    check_before_training(TRAIN, TRAIN, (rows("ab" * 5), rows("ab" * 5)))
    leak, more = capsys.readouterr().err.splitlines()
    assert leak.startswith("warning: 10 rows of train.jsonl (as dev) are the same as one of train")
    assert more == "more: bertworks check train.jsonl"


def test_what_cannot_be_scored_stops_with_one_sentence() -> None:
    same = [TextExample(str(n), score=3.0, line=n) for n in range(3)]
    good = [TextExample(f"t{n}", score=float(n), line=n) for n in range(3)]
    with pytest.raises(DataError, match=r"every score of dev\.jsonl is 3, so nothing agrees"):
        check_before_training(TRAIN, DEV, (good, same))


def test_labels_of_dev_alone_are_left_to_the_task() -> None:
    check_before_training(TRAIN, DEV, (rows("ab" * 5), rows("c", "other")))


def test_tags_and_intents_of_dev_alone_are_said_in_one_line_with_their_rows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def tagged(tags: str, start: int) -> list[TaggedExample]:
        return [
            TaggedExample(f"word{n}", ((0, 5),), (tag,), intent=tag.lower(), line=n)
            for n, tag in enumerate(tags, start)
        ]

    check_before_training(TRAIN, DEV, (tagged("AB" * 5, 1), tagged("ACDB", 31)))
    said = capsys.readouterr().err
    assert (
        "warning: dev.jsonl has 2 tags that train.jsonl has not: C, D (dev.jsonl lines 32" in said
    )
    assert "dev.jsonl has 2 intents that train.jsonl has not: c, d (dev.jsonl lines 32" in said
    assert "add examples to train.jsonl" in said


def test_a_dev_file_with_one_label_only_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    check_before_training(TRAIN, DEV, (rows("ab" * 5), rows("bb", "other")))
    assert "warning: dev.jsonl has one label only ('b')" in capsys.readouterr().err


def test_the_command_that_shows_more_reads_the_files_in_the_same_way(
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = ("--task", "match", "--columns", "label=is same")
    check_before_training(TRAIN, DEV, (rows("ab" * 5), rows("ab")), flags=flags)
    assert capsys.readouterr().err.endswith(
        "more: bertworks check train.jsonl --against dev.jsonl --task match "
        "--columns 'label=is same'\n"
    )


def test_bad_rows_are_counted_by_reason_and_too_many_are_an_error() -> None:
    quarantine = Quarantine()
    quarantine.pass_good(30)
    assert list(bad_rows("train", quarantine)) == []
    quarantine.add(TRAIN, 3, "3 columns, but the header has 2")
    quarantine.add(TRAIN, 9, "5 columns, but the header has 2")
    (warning,) = bad_rows("train", quarantine)
    assert (warning.severity, warning.places.count) == ("warning", 2)
    assert warning.details == ({"reason": "… columns, but the header has …", "rows": "2"},)
    quarantine.pass_good(-27)
    (error,) = bad_rows("train", quarantine)
    assert str(error).startswith("2 rows of 5 in train cannot be used, the first: 3 columns, but")
    (empty,) = bad_rows("train", Quarantine())
    assert str(empty) == "train holds no rows; give a file with examples in it"
