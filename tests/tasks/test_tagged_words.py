"""Words, windows, tags and spans of tagged texts, and how they are counted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.errors import DataError
from bertworks.core.pieces import IGNORE
from bertworks.data.examples import Span, TaggedExample
from bertworks.data.forms import places_of
from bertworks.data.tag_schemes import find_spans
from bertworks.tasks.tagged_words import (
    LabelNumbers,
    Tagged,
    TagScores,
    TagSet,
    cut_windows,
    join_rows,
    kind_of_words,
    learn_tag_set,
    words_to_ask,
    words_to_learn,
)

TAGS = ("O", "B-X", "I-X", "B-Y", "I-Y")
words = st.lists(
    st.sampled_from(["cat", "läuft", "北京", "\x01", "unseen", "x" * 99, "!"]),
    min_size=1,
    max_size=60,
)


def of_words(*found: str, tags: str | None = None) -> TaggedExample:
    return TaggedExample(" ".join(found), places_of(found), tuple(tags.split()) if tags else None)


@pytest.mark.parametrize("kind", ["wordpiece", "byte-bpe", "unigram"])
@given(words, st.integers(5, 40))
def test_every_word_is_asked_for_once_however_long_the_text(kind, kinds, found, longest) -> None:
    tokenizer, example = kinds[kind], of_words(*found)
    windows = list(
        cut_windows(example, words_to_learn(example, "text"), tokenizer, longest=longest)
    )
    asked = [int(word) for window in windows for word in window.words]
    assert asked == [*range(len(found))]
    for window in windows:
        assert len(window.tokens) <= longest
        assert len(window.at) == len(window.words)
        assert all(0 < at < len(window.tokens) - 1 for at in window.at)


def test_a_word_longer_than_a_window_is_asked_for_at_its_first_piece(tokenizer) -> None:
    word = "ketzatmat" * 9
    example = of_words("the", word, "sat")
    windows = list(cut_windows(example, words_to_learn(example, "text"), tokenizer, longest=9))
    assert len(windows) > 2
    (first,) = (w for w in windows if 1 in w.words)
    piece = tokenizer.ids_of([word])[0][0]
    assert first.tokens[first.at[first.words.tolist().index(1)]] == piece


def test_words_are_as_given_or_as_the_text_tells() -> None:
    assert words_to_learn(of_words("Ada's", "cat"), "text") == ((0, 5), (6, 9))
    assert words_to_learn(TaggedExample("Ada's cat"), "text") == ((0, 3), (3, 4), (4, 5), (6, 9))
    spans = (Span(1, 3, "X"),)
    assert words_to_learn(TaggedExample("Ada's cat", spans=spans), "text")[:2] == ((0, 1), (1, 3))


def test_words_to_ask_for_are_not_told_by_spans() -> None:
    example = TaggedExample("Ada's cat", spans=(Span(1, 3, "X"),))
    assert words_to_ask(example, "text") == words_to_learn(TaggedExample("Ada's cat"), "text")
    assert words_to_ask(of_words("Ada's", "cat"), "text") == ((0, 5), (6, 9))


def test_where_characters_were_learned_texts_are_cut_into_them() -> None:
    learned = [of_words(*"买了iPhone14", tags="O O B I I I I I I I"), of_words("在", "第", "3")]
    assert kind_of_words(learned) == "characters"
    assert words_to_ask(TaggedExample("a 北"), "characters") == ((0, 1), (2, 3))
    whole = of_words("买", "iPhone14", "了")
    assert kind_of_words([whole, of_words(*"今天天气很好" * 99)]) == "text"
    assert kind_of_words([of_words("Ada", "has", "a", "b", "c"), whole]) == "text"
    assert kind_of_words([TaggedExample("北京"), of_words("北", "京")]) == "text"
    assert kind_of_words([]) == "text"


def test_a_span_that_cuts_words_has_no_tags_and_is_missed() -> None:
    example = TaggedExample("用Windows7 ", spans=(Span(0, 1, "X"), Span(1, 8, "Y")))
    asked, known = words_to_ask(example, "text"), TagSet(TAGS, None)
    assert (known.gold(example, asked), known.beyond(example, asked)) == (["B-X", "O"], ["Y"])
    scores = TagScores(find_spans)
    parts = scores.add(["B-X", "O"], ["B-X", "O"], beyond=["Y"])
    found = scores.metrics()
    assert (found["precision"], found["recall"]) == (1.0, 0.5)
    assert scores.note.startswith("1 of 2 spans of gold begin or end inside a word")
    again = TagScores(find_spans)
    again.take(parts)
    assert (again.metrics(), again.note) == (found, scores.note)


def test_spans_become_tags_and_unknown_ones_are_said_once(capsys) -> None:
    known = TagSet(TAGS, None)
    assert known.scheme == "bio"
    example = TaggedExample("New York is", spans=(Span(0, 8, "X"), Span(9, 11, "Z")))
    assert known.gold(example, words_to_learn(example, "text")) == ["B-X", "I-X", "B-Z"]
    for _ in range(2):
        assert known.values(example, words_to_learn(example, "text")).tolist() == [1, 2, IGNORE]
    other = TaggedExample("New", spans=(Span(0, 3, "Q"),))
    assert known.values(other, words_to_learn(other, "text")).tolist() == [IGNORE]
    (said,) = capsys.readouterr().err.splitlines()
    assert "the tag 'B-Z' is not in the training data" in said
    bare = TaggedExample("New York")
    assert known.gold(bare, words_to_learn(bare, "text")) is None
    assert known.values(bare, words_to_learn(bare, "text")).tolist() == [IGNORE, IGNORE]


def test_spans_cannot_be_read_by_tags_that_speak_of_none() -> None:
    example = TaggedExample("New York", spans=(Span(0, 8, "X"),))
    with pytest.raises(DataError, match="has spans, but the tags"):
        TagSet(("NOUN", "VERB"), None).gold(example, words_to_learn(example, "text"))
    with pytest.raises(DataError, match="the scheme 'bies' of tags is not known"):
        TagSet(TAGS, "bies")  # type: ignore[arg-type]


def test_a_known_label_has_its_number() -> None:
    numbers = LabelNumbers(("a", "b"), "intent")
    assert [numbers.of(label) for label in "ab"] == [0, 1]


def test_a_span_is_as_likely_as_its_tags_together() -> None:
    tagged = Tagged(
        "in New York now",
        ((0, 2), (3, 6), (7, 11), (12, 15)),
        ["O", "B-X", "I-X", "O"],
        np.array([0.9, 0.8, 0.7, 0.6]),
        np.array([0.9, 0.5, 0.25, 0.5]),
    )
    assert tagged.tokens == ["in", "New", "York", "now"]
    assert tagged.spans() == [
        {"start": 3, "end": 11, "label": "X", "text": "New York", "probability": 0.8 * 0.25}
    ]


def test_rows_of_windows_come_in_the_order_of_their_words() -> None:
    rows = [np.array([[0.0], [2.0]]), np.array([[1.0], [3.0]])]
    asked = [np.array([0, 2]), np.array([1, 3])]
    assert join_rows(rows, asked).ravel().tolist() == [0, 1, 2, 3]


@given(st.lists(st.tuples(*[st.lists(st.sampled_from(TAGS), min_size=6, max_size=6)] * 2)))
def test_spans_are_counted_as_whole_ones_that_are_the_same(texts) -> None:
    scores = TagScores(find_spans)
    gold, given = set(), set()
    for number, (sought, found) in enumerate(texts):
        scores.add(sought, found)
        gold |= {(number, *span) for span in find_spans(sought)}
        given |= {(number, *span) for span in find_spans(found)}
    metrics = scores.metrics()
    precision = len(gold & given) / len(given) if given else 0.0
    recall = len(gold & given) / len(gold) if gold else 0.0
    mean = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    if gold:
        assert metrics["precision"] == pytest.approx(precision)
        assert metrics["recall"] == pytest.approx(recall)
        assert metrics["f1"] == pytest.approx(mean)
    else:
        assert [*metrics] == ["accuracy"]
        assert "no example has a span" in scores.lacking
    right = sum(a == b for sought, found in texts for a, b in zip(sought, found, strict=True))
    assert metrics["accuracy"] == pytest.approx(right / (6 * len(texts)) if texts else 0.0)
    by_label = scores.by_label()
    for label in {span[-1] for span in gold | given}:
        own, told = ({s for s in spans if s[-1] == label} for spans in (gold, given))
        expected = 2 * len(own & told) / (len(own) + len(told))
        assert by_label[label]["f1"] == pytest.approx(expected)
        assert by_label[label]["support"] == len(own)


def test_tags_are_learned_with_their_scheme_and_in_order() -> None:
    tagged = [of_words("a", "b", "c", tags="B-Y I-Y O"), of_words("a", tags="B-X")]
    assert learn_tag_set(tagged) == (["O", "B-X", "B-Y", "I-Y"], "bio")
    assert learn_tag_set([of_words("a", "b", tags="VERB NOUN")]) == (["NOUN", "VERB"], "plain")
    spans = [TaggedExample("a b", spans=(Span(0, 1, "Z"),))]
    assert learn_tag_set(spans) == (["O", "B-Z", "I-Z"], "bio")
    both = [*tagged, *spans]
    assert learn_tag_set(both)[0] == ["O", "B-X", "B-Y", "I-Y", "B-Z", "I-Z"]


def test_tags_that_tell_nothing_apart_are_refused() -> None:
    with pytest.raises(DataError, match=r"one tag only \(O\)"):
        learn_tag_set([of_words("a", "b", tags="O O")])
    with pytest.raises(DataError, match=r"one tag only \(none\)"):
        learn_tag_set([TaggedExample("a", spans=())])
    with pytest.raises(DataError, match="rows with spans and rows with tags"):
        learn_tag_set(
            [of_words("a", "b", tags="VERB NOUN"), TaggedExample("a", spans=(Span(0, 1, "X"),))]
        )
