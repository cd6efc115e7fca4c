"""Tags and the spans they stand for, in every scheme."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.data.examples import Span
from bertworks.data.tag_schemes import (
    LETTERS,
    WordSpan,
    covered,
    cut_at_spans,
    find_misplaced,
    find_misspelt,
    find_runs,
    find_scheme,
    find_spans,
    find_strays,
    may_follow,
    tags_for,
    write_tags,
)

SCHEMES = sorted(LETTERS)
TAGS = ("O", "B-X", "I-X", "E-X", "S-X", "B-Y", "I-Y", "E-Y", "S-Y")


@st.composite
def spans(draw: st.DrawFn) -> tuple[list[WordSpan], int]:
    """Draw spans that are apart, and how many words there are."""
    found, place = [], 0
    for _ in range(draw(st.integers(0, 5))):
        first = place + draw(st.integers(0, 2))
        place = first + draw(st.integers(1, 4))
        found.append(WordSpan(first, place, draw(st.sampled_from(["PER", "L-OC", ""]))))
    return found, place + draw(st.integers(0, 3))


@given(spans(), st.sampled_from(SCHEMES))
def test_spans_come_back_from_their_tags(drawn, scheme) -> None:
    found, num_words = drawn
    tags = write_tags(found, num_words, scheme)
    assert len(tags) == num_words
    assert find_spans(tags) == found
    assert find_misplaced(tags, scheme) == []


def test_each_scheme_has_its_letters() -> None:
    found = [WordSpan(0, 3, "X"), WordSpan(3, 4, "X"), WordSpan(5, 7, "Y")]
    written = {scheme: " ".join(write_tags(found, 7, scheme)) for scheme in SCHEMES}
    assert written == {
        "bio": "B-X I-X I-X B-X O B-Y I-Y",
        "iob1": "I-X I-X I-X B-X O I-Y I-Y",
        "bioes": "B-X I-X E-X S-X O B-Y E-Y",
        "bmes": "B-X M-X E-X S-X O B-Y E-Y",
        "bilou": "B-X I-X L-X U-X O B-Y L-Y",
    }


def begins(before: str, tag: str) -> bool:
    """Tell whether a chunk begins, by the rules of the CoNLL evaluation as they are listed."""
    (old, old_type), (new, new_type) = ((*t.split("-"), "")[:2] for t in (before, tag))
    listed = {("E", "E"), ("E", "I"), ("S", "E"), ("S", "I"), ("O", "E"), ("O", "I")}
    return new in "BS" or (old, new) in listed or (new != "O" and old_type != new_type)


def ends(before: str, tag: str) -> bool:
    """Tell whether a chunk has ended, by the same rules."""
    (old, old_type), (new, new_type) = ((*t.split("-"), "")[:2] for t in (before, tag))
    listed = {(old, new) for old in "BI" for new in "BSO"}
    return old in "ES" or (old, new) in listed or (old != "O" and old_type != new_type)


def chunks(tags: list[str]) -> set[tuple[int, int, str]]:
    """Find the chunks of any tags by both lists of rules."""
    found, first = set(), 0
    padded = ["O", *tags, "O"]
    for place in range(1, len(padded)):
        if ends(padded[place - 1], padded[place]) and padded[place - 1] != "O":
            found.add((first, place - 1, padded[place - 1].split("-")[1]))
        if begins(padded[place - 1], padded[place]):
            first = place - 1
    return found


@given(st.lists(st.sampled_from(TAGS), max_size=9))
def test_any_tags_have_the_spans_that_the_conll_evaluation_finds(tags: list[str]) -> None:
    assert {tuple(span) for span in find_spans(tags)} == chunks(tags)


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        ("NOUN VERB O", "plain"),
        ("B-X I-X O", "bio"),
        ("B-X O", "bio"),
        ("I-X O", "iob1"),
        ("B-X I-X E-X S-X O", "bioes"),
        ("B-X M-X E-X S-X O", "bmes"),
        ("B M E S", "bmes"),
        ("B I", "bio"),
        ("U-X O", "bilou"),
        ("B-X NOUN", "plain"),
        ("S U X", "plain"),
        ("S", "plain"),
        ("O", "plain"),
        ("", "plain"),
    ],
)
def test_tags_tell_their_scheme(tags: str, scheme: str) -> None:
    assert find_scheme(tags.split()) == scheme


@pytest.mark.parametrize(
    ("tags", "scheme", "strays"),
    [
        ("O B-X I-X", "bio", ""),
        ("O B-X X", "bio", "X"),
        ("B-X I-X I", "bio", "I"),
        ("B-X E-X S-X U-X", "bioes", "U-X"),
        ("NOUN VERB I-X", "plain", "I-X"),
        ("NOUN VERB -LRB- E S", "plain", ""),
        ("B M E S", "bmes", ""),
        ("S U X", "plain", ""),
        ("O", "plain", ""),
    ],
)
def test_tags_that_are_written_otherwise_than_most_are_strays(
    tags: str, scheme: str, strays: str
) -> None:
    assert find_strays(Counter(tags.split())) == (scheme, strays.split())


@given(st.lists(st.sampled_from([*TAGS, "NOUN", "X", "B", "-"])))
def test_without_strays_tags_are_of_the_scheme_that_is_found(tags: list[str]) -> None:
    meant, strays = find_strays(Counter(tags))
    if tags and not strays and find_scheme(tags) != "plain":
        assert find_scheme(tags) in (meant, "iob1")


def test_only_sequences_tell_the_two_kinds_of_b_and_i_apart() -> None:
    tags = ("B-X", "I-X", "O")
    assert find_scheme(tags, [("O", "I-X", "I-X", "B-X", "I-X")]) == "iob1"
    assert find_scheme(tags, [("O", "I-X"), ("B-X", "I-X")]) == "bio"
    assert find_scheme(tags, [("B-X", "I-X")]) == "bio"
    assert find_scheme(tags, [("I-X", "B-X"), ("O", "O")]) == "iob1"


@pytest.mark.parametrize(
    ("tags", "scheme", "places"),
    [
        ("O I-X B-X I-Y", "bio", [1, 3]),
        ("O I-X B-X I-Y", "iob1", []),
        ("O B-X", "iob1", [1]),
        ("B-X O S-X E-X", "bioes", [1, 3]),
        ("B-X I-X", "bioes", [2]),
        ("S E B E", "bmes", [1]),
        ("I-X B", "plain", []),
    ],
)
def test_tags_that_may_not_stand_there_are_found(tags: str, scheme, places: list[int]) -> None:
    assert find_misplaced(tags.split(), scheme) == places


@given(st.lists(st.sampled_from(["O", "city", "date"]), max_size=9))
def test_runs_are_equal_neighbors_and_nothing_is_left_over(tags: list[str]) -> None:
    runs = find_runs(tags)
    again = ["O"] * len(tags)
    for first, end, label in runs:
        again[first:end] = [label] * (end - first)
    assert again == tags
    assert all(
        before.end < after.first or before.label != after.label for before, after in pairwise(runs)
    )


@given(spans(), st.sampled_from(SCHEMES))
def test_all_tags_that_spans_need_are_known_beforehand(drawn, scheme) -> None:
    found, num_words = drawn
    known = {"O", *tags_for(sorted({span.label for span in found}), scheme)}
    assert set(write_tags(found, num_words, scheme)) <= known


def test_the_edges_of_a_text_are_outside() -> None:
    assert may_follow(None, "B-X", "bio")
    assert not may_follow(None, "I-X", "bio")
    assert may_follow("I-X", None, "bio")
    assert not may_follow("I-X", None, "bioes")


WORDS = ((0, 3), (4, 7), (7, 8), (9, 15))  # "the cat. sitting"


@pytest.mark.parametrize(
    ("parts", "words", "runs"),
    [
        ([(4, 7)], WORDS, [(1, 2)]),
        ([(3, 8)], WORDS, [(1, 3)]),  # from a space on
        ([(9, 12), (13, 15)], (*WORDS[:3], (9, 12), (12, 13), (13, 15)), [(3, 4), (5, 6)]),
        ([(2, 5)], ((0, 2), (2, 3), (4, 5), (5, 7), *WORDS[2:]), [(1, 3)]),
        ([(3, 4)], ((0, 3), (3, 4), *WORDS[1:]), [(1, 2)]),  # a space and nothing else
        ([], WORDS, []),
    ],
)
def test_words_are_cut_where_spans_end_so_that_none_is_lost(parts, words, runs) -> None:
    wanted = [Span(*part, "X") for part in parts]
    assert cut_at_spans(WORDS, wanted) == words
    assert covered(wanted, words) == [WordSpan(*run, "X") for run in runs]


def test_a_text_without_words_has_those_of_its_spans() -> None:
    assert cut_at_spans((), [Span(2, 4, "X")]) == ((2, 4),)
    assert covered([], ()) == []


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O B_PER I_PER O B_LOC", "B-PER I-PER B-LOC"),
        ("PER-B PER-I O", "B-PER I-PER"),
        ("o b-per i-per o", "B-per I-per"),
        ("n/B n/M n/E v/S O", "B-n M-n E-n S-v"),
        ("B_x-y O", "B-x-y"),
        ("NOUN VERB ADP", ""),
        ("B_PER NOUN VERB", ""),  # one of three
        ("I_PER I_LOC O", ""),  # no B
        ("B_PER M_PER L_PER", ""),  # letters of no scheme
        ("b m s o", ""),  # kinds of Chinese words
        ("O O", ""),
        ("", ""),
    ],
)
def test_tags_in_another_form_are_told_as_they_should_be(tags: str, expected: str) -> None:
    assert list(find_misspelt(Counter(tags.split())).values()) == expected.split()
