"""Answers in passages: windows that never lose the gold, the loss, spans and thresholds."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.errors import DataError
from bertworks.core.pieces import IGNORE
from bertworks.data.examples import Found, QuestionExample
from bertworks.data.packing import Features, flatten
from bertworks.model.heads import PlaceHead
from bertworks.tasks.answer import (
    CUT_ANSWER,
    CUT_QUESTION,
    END,
    LONG_ANSWER,
    NUM_CANDIDATES,
    START,
    FindAnswer,
    best_threshold,
    learn_answers,
)
from bertworks.tasks.answering import Answerer, windows_of
from bertworks.tasks.task import Answer, TaskModel

WORDS = ["cat", "dog", "北京", "mat", "xyz", "!", "läuft", "Paris"]
passages = st.lists(st.sampled_from(WORDS), min_size=1, max_size=90).map(" ".join)
questions = st.lists(st.sampled_from(WORDS), min_size=1, max_size=40).map(" ".join)


@st.composite
def examples(draw) -> QuestionExample:
    """Draw a question whose answer lies anywhere in its passage, or nowhere."""
    passage, question = draw(passages), draw(questions)
    if draw(st.booleans()):
        return QuestionExample(question, passage, (), line=3)
    start = draw(st.integers(0, len(passage) - 1))
    end = draw(st.integers(start + 1, min(len(passage), start + 60)))
    found = Found(passage[start:end], start)
    return QuestionExample(question, passage, (found,) if found.text.strip() else (), line=3)


def marked(window: Features, bit: int, name: str = "answer") -> int:
    """Return the candidate that a window has for the start or the end."""
    (place,) = np.flatnonzero(np.asarray(window.goals[name].values) & bit)
    return int(place)


def told(window: Features) -> tuple[int, int]:
    """Return the first and the last piece of the passage that a window marks."""
    return tuple(window.note.start + marked(window, bit) - 1 for bit in (START, END))


def gold_pieces(example: QuestionExample, tokenizer) -> list[int]:
    """Return the pieces that share a character with the gold, or the one nearest behind it."""
    (found,) = example.answers
    end = found.start + len(found.text)
    offsets = tokenizer.encode(example.passage).offsets
    touched = [n for n, (a, b) in enumerate(offsets) if a < end and b > found.start]
    behind = [n for n, (a, _) in enumerate(offsets) if a >= end]
    return touched or behind[:1] or [len(offsets) - 1]


@given(examples(), st.integers(12, 67), st.none() | st.integers(1, 40))
def test_windows_repeat_the_question_and_show_all_of_the_passage(
    tokenizer, example: QuestionExample, longest: int, stride: int | None
) -> None:
    windows = FindAnswer(stride=stride).features(example, tokenizer, longest=longest)
    question, passage = tokenizer.ids_of([example.question, example.passage])
    seen = set()
    for window in windows:
        assert len(window.tokens) <= longest
        asked = window.tokens[window.segments == 0][1:-1].tolist()
        assert asked == question[len(question) - len(asked) :]  # its end, if not all of it
        assert (CUT_QUESTION in window.note.losses) == (len(asked) < len(question))
        at = window.goals["answer"].at
        assert at[0] == 0
        places = range(window.note.start, window.note.start + len(at) - 1)
        assert window.tokens[at[1:]].tolist() == [passage[place] for place in places]
        seen.update(places)
    assert seen == set(range(len(passage)))
    assert math.isclose(sum(window.goals["answer"].weight for window in windows), 1.0)


@given(examples(), st.integers(12, 67), st.none() | st.integers(1, 40))
def test_the_gold_is_marked_wherever_it_is_shown_whole_and_never_lost(
    tokenizer, example: QuestionExample, longest: int, stride: int | None
) -> None:
    windows = FindAnswer(stride=stride).features(example, tokenizer, longest=longest)
    says = [window for window in windows if marked(window, START)]
    assert all(bool(marked(w, START)) == bool(marked(w, END)) for w in windows)
    if not example.answers:
        assert not says
        return
    gold = gold_pieces(example, tokenizer)
    assert (LONG_ANSWER in windows[0].note.losses) == (len(gold) > 30)
    if CUT_ANSWER not in windows[0].note.losses:
        assert {told(window) for window in says} == {(gold[0], gold[-1])}
        shown = [w for w in windows if w.note.start <= gold[0]]
        shown = [w for w in shown if gold[-1] < w.note.start + len(w.goals["answer"].at) - 1]
        assert says == shown
        return
    # Cut by every window: the widest part is marked, and it lies within the gold.
    widths = {last - first + 1 for first, last in map(told, says)}
    assert len(widths) == 1
    assert all(gold[0] <= first <= last <= gold[-1] for first, last in map(told, says))
    assert widths.pop() < len(gold)
    sizes = [len(window.goals["answer"].at) - 1 for window in windows]
    overlaps = [
        before.note.start + size - after.note.start
        for (before, after), size in zip(itertools.pairwise(windows), sizes, strict=False)
    ]
    assert len(gold) > min(overlaps)


@pytest.mark.parametrize("more", [0, 1])
def test_an_answer_that_is_one_piece_too_long_for_a_window_is_counted(tokenizer, more: int) -> None:
    passage, longest = "cat " * 40, 30
    room = longest - 3 - len(tokenizer.ids_of(["what?"])[0])
    answer = " ".join(["cat"] * (room + more))
    example = QuestionExample("what?", passage, (Found(answer, 0),))
    windows = FindAnswer(max_answer=room).features(example, tokenizer, longest=longest)
    assert windows[0].note.losses == ((CUT_ANSWER, LONG_ANSWER) if more else ())
    assert told(windows[0]) == (0, room - 1)


def test_an_answer_that_begins_and_ends_within_pieces_takes_them_whole(tokenizer) -> None:
    passage = "Paris is the capital of France"
    start = passage.index("apita")
    example = QuestionExample("what?", passage, (Found("apita", start),))
    (window,) = FindAnswer().features(example, tokenizer, longest=67)
    first, last = told(window)
    offsets = tokenizer.encode(passage).offsets
    assert offsets[first][0] <= start < offsets[first][1]
    assert offsets[last][0] < start + 5 <= offsets[last][1]


def test_the_first_answer_that_is_in_the_passage_is_learned(tokenizer) -> None:
    found = (Found("a hound", None), Found("dog", 4), Found("cat", 0))
    (window,) = FindAnswer().features(
        QuestionExample("what?", "cat dog", found), tokenizer, longest=67
    )
    offsets = tokenizer.encode("cat dog").offsets
    assert offsets[told(window)[0]][0] == 4


def test_an_answer_that_is_nowhere_is_refused(tokenizer) -> None:
    example = QuestionExample("what?", "the cat", (Found("a dog", None),))
    with pytest.raises(DataError, match="the answer 'a dog' is not in its passage"):
        FindAnswer().features(example, tokenizer, longest=67)


def test_a_passage_without_pieces_is_refused(tokenizer) -> None:
    with pytest.raises(DataError, match="holds nothing that the tokenizer knows"):
        FindAnswer().features(QuestionExample("what?", "\x00\x01"), tokenizer, longest=67)


def test_a_question_without_gold_asks_without_a_target(tokenizer) -> None:
    windows = FindAnswer().features(QuestionExample("what?", "cat " * 80), tokenizer, longest=20)
    assert len(windows) > 1
    assert all(set(window.goals["answer"].values) == {IGNORE} for window in windows)
    target = flatten(windows).targets["answer"]
    assert target.count == 0
    assert FindAnswer().loss(torch.randn(len(target.values), 2), target) == 0


def test_the_loss_is_the_mean_cross_entropy_of_both_ends_in_each_window(tokenizer) -> None:
    passage = "dog " * 30 + "cat sat " + "mat " * 40
    asked = [
        QuestionExample("what?", passage, (Found("cat sat", 120),), line=1),
        QuestionExample("who?", "the cat", (), line=2),
    ]
    task = FindAnswer(name="quiz")
    windows = [w for e in asked for w in task.features(e, tokenizer, longest=33)]
    assert len(windows) > 4
    target = flatten(windows).targets["quiz"]
    assert target.count == pytest.approx(2)
    random = torch.Generator().manual_seed(5)
    each = [torch.randn(len(w.goals["quiz"].values), 2, generator=random) for w in windows]
    expected = sum(
        -rows.log_softmax(0)[marked(window, bit, "quiz"), column] * window.goals["quiz"].weight / 2
        for rows, window in zip(each, windows, strict=True)
        for bit, column in ((START, 0), (END, 1))
    )
    torch.testing.assert_close(task.loss(torch.cat(each), target), expected)


def test_the_head_gives_two_logits_to_each_candidate(config) -> None:
    head = FindAnswer(name="quiz").head(config)
    assert isinstance(head, PlaceHead)
    assert (head.target, head.output.out_features) == ("quiz", 2)


def test_windows_are_small_in_memory(tokenizer) -> None:
    example = QuestionExample("what?", "the cat " * 300, (Found("cat", 4),))
    windows = FindAnswer().features(example, tokenizer, longest=67)
    kept = [(w.tokens, w.segments, w.goals["answer"].values) for w in windows]
    assert sum(array.nbytes for arrays in kept for array in arrays) <= 6 * 67 * len(windows)
    assert len({id(window.goals["answer"].at) for window in windows}) <= 2  # shared but by the last


# Decoding


@pytest.fixture
def decode(tokenizer) -> Callable[..., Answer]:
    """Return a way to answer from logits that a function draws for each window."""

    def decode(
        example: QuestionExample, draw: Callable[[int], np.ndarray], *, longest: int, **options: Any
    ) -> tuple[Answer, list[Features], list[np.ndarray]]:
        task = FindAnswer(**options)
        windows = task.features(example, tokenizer, longest=longest)
        rows = [draw(len(window.goals["answer"].at)) for window in windows]
        return task.decode(example, windows, rows, tokenizer), windows, rows

    return decode


def by_hand(
    windows: list[Features], rows: list[np.ndarray], longest: int
) -> dict[tuple[int, int], float]:
    """Return the score of every span that some window shows, the slow way."""
    best: dict[tuple[int, int], float] = {}
    for window, own in zip(windows, rows, strict=True):
        none = float(own[0, 0]) + float(own[0, 1])
        for first in range(1, len(own)):
            for last in range(first, min(first + longest, len(own))):
                span = (window.note.start + first - 1, window.note.start + last - 1)
                score = float(own[first, 0]) + float(own[last, 1]) - none
                best[span] = max(best.get(span, -math.inf), score)
    return best


@given(passages, st.integers(12, 67), st.integers(1, 9), st.booleans(), st.integers(0, 999))
def test_the_best_spans_of_all_windows_are_as_the_slow_way_finds_them(
    tokenizer, decode, passage: str, longest: int, max_answer: int, nullable: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    found, windows, rows = decode(
        QuestionExample("cat dog?", passage),
        lambda count: random.normal(0, 3, (count, 2)).astype(np.float32),
        longest=longest,
        max_answer=max_answer,
        nullable=nullable,
    )
    spans = by_hand(windows, rows, max_answer)
    total = math.fsum(map(math.exp, spans.values())) + nullable
    offsets = tokenizer.encode(passage).offsets
    ranked = sorted(spans.items(), key=lambda item: -item[1])[:NUM_CANDIDATES]
    assert [(c["start"], c["end"]) for c in found["candidates"]] == [
        (offsets[first][0], offsets[last][1]) for (first, last), _ in ranked
    ]
    assert [c["probability"] for c in found["candidates"]] == pytest.approx(
        [math.exp(score) / total for _, score in ranked]
    )
    best = found["candidates"][0]
    if nullable:
        assert found["no_answer"] == pytest.approx(1 / total)
        assert found["score"] == pytest.approx(ranked[0][1])
        assert (found["answer"] == "") == (ranked[0][1] <= 0)
    if found["answer"]:
        assert {name: found[name] for name in best} == best
        assert passage[found["start"] : found["end"]] == found["answer"]
    else:
        assert (found["start"], found["end"]) == (None, None)
        assert found["probability"] == found["no_answer"]


def test_windows_with_any_shift_of_their_logits_give_the_same_answer(decode) -> None:
    example = QuestionExample("what?", "cat dog mat " * 30)

    def answer(shifts: float) -> Answer:
        random, number = np.random.default_rng(4), itertools.count()
        return decode(
            example,
            lambda count: random.normal(0, 2, (count, 2)) + shifts * next(number),
            longest=40,
            nullable=True,
        )[0]

    plain, shifted = answer(0.0), answer(7.0)
    assert plain["candidates"][0]["start"] == shifted["candidates"][0]["start"]
    assert plain["score"] == pytest.approx(shifted["score"])


def test_the_threshold_decides_between_an_answer_and_none(decode) -> None:
    example = QuestionExample("what?", "the cat sat")

    def rows(count: int) -> np.ndarray:
        logits = np.zeros((count, 2))
        logits[2] = 1.5
        return logits

    given_ = {t: decode(example, rows, longest=67, nullable=True, threshold=t)[0] for t in (2.9, 3)}
    assert given_[2.9]["answer"] == "cat"
    assert given_[3]["answer"] == ""
    assert given_[3]["candidates"][0]["answer"] == "cat"
    # A model of questions that all have answers gives one always.
    assert decode(example, lambda n: -rows(n), longest=67)[0]["answer"]


def test_spaces_that_belong_to_pieces_are_no_part_of_an_answer(kinds) -> None:
    for tokenizer in kinds.values():
        passage = "the cat  sat on 北京 today"
        task = FindAnswer()
        windows = task.features(QuestionExample("what?", passage), tokenizer, longest=67)
        random = np.random.default_rng(8)
        for _ in range(20):
            rows = [random.normal(0, 3, (len(w.goals["answer"].at), 2)) for w in windows]
            found = task.decode(QuestionExample("what?", passage), windows, rows, tokenizer)
            for candidate in found["candidates"]:
                text = candidate["answer"]
                assert text == text.strip() == passage[candidate["start"] : candidate["end"]]
                assert text


@pytest.mark.parametrize(
    "passage", ["the   \n  cat", "a 😀 b 👩‍👩‍👧", "\x1ca", "ﬁne ﬂow", "שלום  עולם"]
)
def test_every_text_is_one_candidate_though_pieces_are_spaces_or_parts_of_characters(
    kinds, passage: str
) -> None:
    example, random = QuestionExample("what?", passage), np.random.default_rng(8)
    for tokenizer in kinds.values():
        task = FindAnswer()
        windows = task.features(example, tokenizer, longest=67)
        for _ in range(20):
            rows = [random.normal(0, 3, (len(w.goals["answer"].at), 2)) for w in windows]
            found = task.decode(example, windows, rows, tokenizer)["candidates"]
            places = {(candidate["start"], candidate["end"]) for candidate in found}
            assert len(places) == len(found)
            assert all(start < end for start, end in places)


def test_a_candidate_can_be_found_for_every_gold_that_training_shows(kinds) -> None:
    passage = "a  😀b   cat  ﬁne  "
    for tokenizer in kinds.values():
        task = FindAnswer(max_answer=40)
        for start, end in itertools.combinations(range(len(passage) + 1), 2):
            text = passage[start:end]
            example = QuestionExample("what?", passage, (Found(text, start),))
            if not text.strip():
                continue
            (window,) = task.features(example, tokenizer, longest=67)
            rows = np.zeros((len(window.goals["answer"].at), 2))
            rows[marked(window, START), 0] = rows[marked(window, END), 1] = 9.0
            found = task.decode(example, [window], [rows], tokenizer)
            assert text.strip() in found["answer"]


def test_a_character_of_more_pieces_than_an_answer_may_have_is_given_nonetheless(kinds) -> None:
    example, task = QuestionExample("what?", "😀"), FindAnswer(max_answer=1)
    (window,) = task.features(example, kinds["byte-bpe"], longest=67)
    rows = np.zeros((len(window.goals["answer"].at), 2))
    assert len(rows) > 2
    assert task.decode(example, [window], [rows], kinds["byte-bpe"])["answer"] == "😀"


# Thresholds


@given(
    st.lists(
        st.tuples(st.integers(-4, 4).map(float), st.sampled_from([-1.0, 0.0, 0.25, 1.0])),
        min_size=1,
        max_size=12,
    )
)
def test_no_other_threshold_gains_more(pairs: list[tuple[float, float]]) -> None:
    scores, gains = (np.array(column) for column in zip(*pairs, strict=True))

    def gain(threshold: float) -> float:
        return float(gains[scores > threshold].sum())

    found = best_threshold(scores, gains)
    assert math.isfinite(found)
    assert found not in scores
    assert gain(found) == max(map(gain, [-99.0, *np.unique(scores)]))


def test_the_threshold_is_tuned_to_the_best_f1_of_the_answers(score) -> None:
    rows = [(2.0, "cat", "cat"), (1.0, "", "dog"), (-0.5, "big cat", "cat"), (-2.0, "", "mat")]
    asked = [
        QuestionExample("what?", "the big cat", (Found(gold, None),) if gold else ())
        for _, gold, _ in rows
    ]

    def answers(threshold: float) -> list[Answer]:
        return [
            {
                "answer": text if points > threshold else "",
                "probability": 0.5,
                "score": points,
                "candidates": [{"answer": text}],
            }
            for points, _, text in rows
        ]

    task = FindAnswer(name="quiz", nullable=True, max_answer=7)
    tuned = task.tuned(asked, answers(0.0))
    assert tuned.options == {**task.options, "threshold": tuned.options["threshold"]}
    assert tuned.name == "quiz"
    assert 1.0 < tuned.options["threshold"] < 2.0
    best = max(score(task, answers(t), asked)["f1"] for t in (-3.0, -1.0, 0.0, 1.5, 3.0))
    assert score(task, answers(tuned.options["threshold"]), asked)["f1"] == best
    # Without both kinds of questions there is nothing to weigh.
    assert task.tuned(asked[::2], answers(0.0)[::2]) is task
    known = FindAnswer()
    assert known.tuned(asked, []) is known


def test_examples_tell_whether_questions_may_have_no_answer() -> None:
    known, none = QuestionExample("q", "p", (Found("p", 0),)), QuestionExample("q", "p", ())
    assert learn_answers([known]) == {"nullable": False, "max_answer": 30}
    found = learn_answers([known, none], stride=3, max_answer=7)
    assert found == {"nullable": True, "stride": 3, "max_answer": 7}
    with pytest.raises(DataError, match="no question with an answer"):
        learn_answers([none])


def test_long_answers_in_training_may_be_given() -> None:
    def asked(*texts: str) -> list[QuestionExample]:
        return [QuestionExample("q", text, (Found(text, 0),)) for text in texts]

    assert learn_answers(asked("北" * 45, *["京 cat"] * 9))["max_answer"] == 45
    assert learn_answers(asked("cat dog " * 20, *["cat"] * 9))["max_answer"] == 40
    # One in very many is no reason.
    assert learn_answers(asked("北" * 45, *["京 cat"] * 200))["max_answer"] == 30


# With a network


def test_an_answer_never_depends_on_its_neighbours(config, tokenizer, machine, texts) -> None:
    task = FindAnswer(nullable=True)
    model = TaskModel(config, [task], seed=23, deviation=0.3).eval()
    asked = [
        QuestionExample(texts[-number], text, line=number)
        for number, text in enumerate(texts[:40], 1)
    ]
    answerer = Answerer(model, task, tokenizer, machine)

    def ask(some: list[QuestionExample]) -> list[Answer]:
        return answerer.answer(some, windows_of(task, some, tokenizer, longest=67))

    together, alone = ask(asked), [ask([example])[0] for example in asked]
    assert max(len(windows) for windows in windows_of(task, asked, tokenizer, longest=67)) > 3
    for first, second in zip(together, alone, strict=True):
        assert first["score"] == pytest.approx(second["score"], abs=1e-4)
        assert first["no_answer"] == pytest.approx(second["no_answer"], abs=1e-5)
        assert first["candidates"][0]["start"] == second["candidates"][0]["start"]
    order = np.random.default_rng(3).permutation(len(asked))
    mixed = ask([asked[i] for i in order])
    assert [a["candidates"][0]["start"] for a in mixed] == [
        together[i]["candidates"][0]["start"] for i in order
    ]
    # Another question would have had another answer.
    other = ask([replace(asked[3], question="北京 läuft the")])
    assert other[0]["score"] != pytest.approx(together[3]["score"], abs=1e-3)


def test_a_small_network_learns_to_find_answers(config, tokenizer) -> None:
    random = np.random.default_rng(2)
    task = FindAnswer(nullable=True)
    asked = []
    for line in range(60):
        passage = [*random.choice(["the", "cat", "dog"], size=6)]
        gold = int(random.integers(6))
        passage[gold] = "Paris"
        text = " ".join(passage)
        found = (Found("Paris", text.index("Paris")),) if line % 3 else ()
        asked.append(QuestionExample("where?" if found else "14 ?", text, found, line=line))
    model = TaskModel(config, [task], seed=1, deviation=0.1)
    windows = [w for e in asked for w in task.features(e, tokenizer, longest=67)]
    batch = flatten(windows)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    model.eval()
    losses = []
    for _ in range(60):
        loss = model(batch)["answer"] / batch.targets["answer"].count
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 5
