"""Counts of cleaning: they add up, and survive being put aside."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.corpus.statistics import (
    EXAMPLES,
    LONGEST_EXAMPLE,
    Facts,
    Statistics,
    example,
    length_class,
)

documents = st.tuples(
    st.sampled_from(["kept", "too short", "near duplicate"]),
    st.builds(
        Facts,
        bytes_read=st.integers(0, 99),
        bytes=st.integers(0, 90),
        characters=st.integers(0, 3000),
        script=st.sampled_from(["Latin", "Han"]),
        language=st.sampled_from(["", "en", "zh"]),
        is_held_out=st.booleans(),
    ),
)


def count(statistics: Statistics, rows: list[tuple[str, Facts]]) -> Statistics:
    for reason, facts in rows:
        if reason == "kept":
            statistics.keep(facts)
        else:
            statistics.drop(reason, facts, f"{reason} {facts.bytes}")
    return statistics


@given(st.lists(documents))
def test_every_document_is_counted_once(rows: list[tuple[str, Facts]]) -> None:
    counted = count(Statistics(), rows)
    dropped = sum(amount.documents for amount in counted.dropped.values())
    assert counted.documents_read == len(rows) == counted.kept.documents + dropped
    assert counted.bytes_read == sum(facts.bytes_read for _, facts in rows)
    kept = [facts for reason, facts in rows if reason == "kept"]
    assert counted.kept.characters == sum(facts.characters for facts in kept)
    assert counted.lengths.total() == counted.scripts.total() == len(kept)
    assert counted.languages.total() == sum(bool(facts.language) for facts in kept)
    assert counted.held_out_documents == sum(facts.is_held_out for facts in kept)
    share = counted.share_dropped("too short", "near duplicate", "never seen")
    assert share == pytest.approx(dropped / max(len(rows), 1))


@given(st.lists(documents), st.lists(documents))
def test_counting_goes_on_after_a_rest(first, second) -> None:
    whole = count(Statistics(), first + second)
    resting = json.loads(json.dumps(count(Statistics(), first).as_json()))
    again = count(Statistics.from_json(resting), second)
    assert again == whole
    assert json.dumps(again.as_json()) == json.dumps(whole.as_json())


def test_the_first_examples_of_a_reason_are_shown() -> None:
    counted, facts = Statistics(), Facts(1, 1, 1, "Latin", "", False)
    for number in range(9):
        counted.drop("odd", facts, f"text {number}")
    assert counted.examples == {"odd": [f"text {number}" for number in range(EXAMPLES)]}
    assert len(example("word " * 1000)) == LONGEST_EXAMPLE
    assert example("a\n b\t\tc") == "a b c"


def test_lengths_lie_in_classes_of_powers_of_two() -> None:
    assert [length_class(n) for n in (0, 1, 2, 3, 4, 1023, 1024)] == [1, 1, 2, 2, 4, 512, 1024]
