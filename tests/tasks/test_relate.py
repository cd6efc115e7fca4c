"""Relations: two marked places of a text, and a tiny network that learns what lies between."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.errors import DataError
from bertworks.core.pieces import IGNORE
from bertworks.data.examples import RelationExample
from bertworks.data.packing import flatten
from bertworks.tasks.answering import Answerer, windows_of
from bertworks.tasks.catalog import learn_task
from bertworks.tasks.relate import NUM_MARKS, Relate, mark, marks_of
from bertworks.tasks.task import TaskModel

LABELS = ("before", "behind")
PEOPLE = ("cat", "dog", "mat", "hill", "river", "city", "Paris", "北京")


def draw_relations(count: int, *, seed: int) -> list[RelationExample]:
    """Make sentences of three names; who stands before whom is asked of two of them."""
    random = np.random.default_rng(seed)
    made = []
    for line in range(1, count + 1):
        names = random.choice(PEOPLE, size=3, replace=False)
        text = "the {} and the {} where the {} was".format(*names)
        starts = [text.index(f"the {name}") + 4 for name in names]
        first, second = random.permutation(3)[:2]
        places = [(starts[n], starts[n] + len(names[n])) for n in (first, second)]
        made.append(RelationExample(text, *places, LABELS[int(first > second)], line=line))
    return made


def shown(task: Relate, example: RelationExample, tokenizer, longest: int = 67) -> str:
    """Return the one window of an example, as pieces."""
    (window,) = task.features(example, tokenizer, longest=longest)
    assert len(window.tokens) <= longest
    return " ".join(tokenizer.piece(int(index)) for index in window.tokens)


@pytest.fixture
def task() -> Relate:
    return Relate(LABELS)


def test_both_places_stand_between_their_marks(task, tokenizer) -> None:
    one, two = (tokenizer.piece(index) for index in marks_of(tokenizer))
    assert one != two
    example = RelationExample("the cat sat on the mat", (4, 7), (19, 22))
    expected = f"[CLS] the {one} cat {one} sat on the {two} mat {two} [SEP]"
    assert shown(task, example, tokenizer) == expected
    turned = RelationExample(example.text, example.second, example.first)
    expected = f"[CLS] the {two} cat {two} sat on the {one} mat {one} [SEP]"
    assert shown(task, turned, tokenizer) == expected


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        (((4, 7), (4, 7)), "the $ # cat $ # sat"),
        (((0, 11), (4, 7)), "$ the # cat # sat $"),
        (((0, 7), (4, 11)), "$ the # cat $ sat #"),
        (((4, 7), (0, 3)), "# the # $ cat $ sat"),
        (((5, 6), (8, 9)), "the $ cat $ # sat #"),  # a part of a word is the word
    ],
)
def test_places_may_touch_and_overlap(task, tokenizer, places, expected: str) -> None:
    one, two = (tokenizer.piece(index) for index in marks_of(tokenizer))
    pieces = shown(task, RelationExample("the cat sat", *places), tokenizer)
    assert pieces == f"[CLS] {expected.replace('$', one).replace('#', two)} [SEP]"


@given(
    st.lists(st.sampled_from(["cat", "the", "北京", "xyz", "mat"]), min_size=2, max_size=150),
    st.data(),
    st.integers(13, 67),
)
def test_one_window_shows_both_places_and_the_head_looks_at_their_marks(
    task, tokenizer, words: list[str], data, longest: int
) -> None:
    starts = np.cumsum([0, *(len(word) + 1 for word in words)])
    picked = [data.draw(st.integers(0, len(words) - 1)) for _ in range(2)]
    places = [(int(starts[n]), int(starts[n]) + len(words[n])) for n in picked]
    example = RelationExample(" ".join(words), *places, "behind", line=7)
    (window,) = task.features(example, tokenizer, longest=longest)
    assert len(window.tokens) <= longest
    goal = window.goals["relate"]
    assert goal.values == (1,)
    assert window.tokens[goal.at[0]].tolist() == list(marks_of(tokenizer))
    for place, at in zip(picked, goal.at[0], strict=True):
        behind = window.tokens[at + 1 :]
        pieces = behind[~np.isin(behind, marks_of(tokenizer))]
        expected = tokenizer.ids_of([words[place]])[0]
        assert pieces[: len(expected)].tolist() == expected
    whole = len(tokenizer.ids_of([example.text])[0]) + NUM_MARKS + 2
    assert len(window.tokens) == min(whole, longest)


def test_far_places_are_shown_without_the_middle_of_what_lies_between(task, tokenizer) -> None:
    text = "the cat " + "北京 " * 90 + "sat on the mat " + "中文 " * 90
    example = RelationExample(text, (4, 7), (text.index("mat"), text.index("mat") + 3))
    pieces = shown(task, example, tokenizer, longest=24)
    one, two = (tokenizer.piece(index) for index in marks_of(tokenizer))
    assert f"the {one} cat {one} 北" in pieces
    assert f"sat on the {two} mat {two} 中" in pieces


def test_places_that_no_window_holds_are_named(task, tokenizer) -> None:
    text = "cat " * 100
    with pytest.raises(DataError, match=r"places take \d+ pieces, .* room for 14; shorten"):
        task.features(RelationExample(text, (0, 80), (300, 340)), tokenizer, longest=20)


def test_a_place_without_anything_to_read_is_named(task, tokenizer) -> None:
    with pytest.raises(DataError, match=r"the place 3\.\.4 holds nothing"):
        task.features(RelationExample("the cat", (3, 4), (4, 7)), tokenizer, longest=67)


def test_an_unknown_relation_is_named_and_none_is_asked_for(task, tokenizer) -> None:
    example = RelationExample("the cat", (0, 3), (4, 7))
    (window,) = task.features(example, tokenizer, longest=67)
    assert window.goals["relate"].values == (IGNORE,)
    with pytest.raises(DataError, match=r"the label 'beside'.*\(before, behind\)"):
        task.features(replace(example, label="beside"), tokenizer, longest=67)


@pytest.mark.parametrize("kind", ["wordpiece", "byte-bpe", "unigram"])
def test_every_vocabulary_has_two_marks(kinds, task, kind: str) -> None:
    first, second = marks_of(kinds[kind])
    assert first != second
    example = RelationExample("Die Katze läuft über den Hügel", (4, 9), (25, 30))
    (window,) = task.features(example, kinds[kind], longest=67)
    assert (window.tokens == first).sum() >= 2
    assert (window.tokens == second).sum() >= 2


def test_marks_tell_where_the_first_of_each_stands() -> None:
    marked, starts = mark(np.array([5, 6, 7]), [(2, 3), (0, 1)], (1, 2))
    assert marked.tolist() == [2, 5, 2, 6, 1, 7, 1]
    assert starts.tolist() == [4, 0]


def test_the_head_reads_the_marks_of_each_text(config, tokenizer) -> None:
    task = Relate(LABELS, name="order", dropout=0.25)
    model = TaskModel(config, [task], seed=3, deviation=0.3).eval()
    examples = draw_relations(5, seed=2)
    windows = windows_of(task, examples, tokenizer, longest=67)
    batch = flatten([window for own in windows for window in own])
    with torch.no_grad():
        logits = model.logits(batch, "order")
        alone = [model.logits(flatten(own), "order") for own in windows]
    assert logits.shape == (5, 2)
    torch.testing.assert_close(logits, torch.cat(alone), atol=1e-5, rtol=1e-5)
    assert model.heads["order"].dropout.p == 0.25


def test_a_tiny_network_learns_relations(config, tokenizer, machine, score) -> None:
    training, held_out = draw_relations(160, seed=4), draw_relations(60, seed=5)
    task = learn_task("relate", training, class_weights="balanced")
    assert task.labels == LABELS
    torch.manual_seed(0)
    model = TaskModel(replace(config, dropout=0.0), [task], seed=1, deviation=0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    windows = windows_of(task, training, tokenizer, longest=67)
    texts = [window for own in windows for window in own]
    for step in range(60):
        batch = flatten(texts[step % 8 :: 8])
        loss = model(batch)["relate"] / batch.targets["relate"].count
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    answerer = Answerer(model, task, tokenizer, machine)
    answers = answerer.answer(held_out, windows_of(task, held_out, tokenizer, longest=67))
    found = score(task, answers, held_out)
    assert list(found)[:2] == ["macro_f1", "accuracy"]
    assert found["macro_f1"] > 0.9
