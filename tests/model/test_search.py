"""Beams find what trying everything finds, keep to what is asked, and texts do not meet in them."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bertworks.core.errors import UsageError
from bertworks.model.search import EarlyStop, Search, Written, write_best

END, FIRST, NUM_PIECES = 3, 0, 4
STOPS: tuple[EarlyStop, ...] = ("full", "likely", "never")
seeds = st.integers(0, 2**31)
penalties = st.sampled_from([-0.5, 0.0, 0.6, 1.0, 2.0])


class Dice:
    """Answers whose chances hang on the text and on everything written before."""

    def __init__(self, texts: Sequence[int], *, num_pieces: int = NUM_PIECES) -> None:
        self.rows: list[tuple[int, ...]] = [(text,) for text in texts]
        self.num_pieces = num_pieces
        self.num_kept = 0

    def step(self, tokens: Tensor) -> Tensor:
        self.rows = [(*row, token) for row, token in zip(self.rows, tokens.tolist(), strict=True)]
        return torch.stack([self.logits(row) for row in self.rows])

    def logits(self, row: tuple[int, ...]) -> Tensor:
        drawn = np.random.default_rng(row).normal(scale=1.5, size=self.num_pieces)
        return torch.from_numpy(drawn).float()

    def keep(self, answers: Tensor, texts: Tensor | None = None) -> None:
        self.rows = [self.rows[answer] for answer in answers.tolist()]
        self.num_kept += 1


class Endless(Dice):
    """Answers that never end by themselves."""

    def logits(self, row: tuple[int, ...]) -> Tensor:
        return super().logits(row).index_fill(0, torch.tensor([END]), -torch.inf)


def begin(draft: Dice, search: Search, prompt: Sequence[int] = (FIRST,)) -> list[list[Written]]:
    return write_best(draft, torch.tensor([list(prompt)] * len(draft.rows)), search)


def try_everything(text: int, search: Search) -> list[tuple[list[int], float]]:
    """Return all answers that there are, best first."""
    found = []
    for length in range(1, search.most + 1):
        for pieces in product(range(NUM_PIECES), repeat=length):
            is_whole = pieces[-1] == END or length == search.most
            if END in pieces[:-1] or not is_whole:
                continue
            score, row = 0.0, (text, FIRST)
            for piece in pieces:
                score += float(Dice([]).logits(row).log_softmax(-1)[piece])
                row = (*row, piece)
            written = list(pieces[:-1] if pieces[-1] == END else pieces)
            found.append((written, score / length**search.length_penalty))
    return sorted(found, key=lambda pair: -pair[1])


def write_greedily(text: int, search: Search) -> list[int]:
    row: tuple[int, ...] = (text, FIRST)
    for _ in range(search.most):
        piece = int(Dice([]).logits(row).argmax())
        if piece == END:
            break
        row = (*row, piece)
    return list(row[2:])


@settings(max_examples=8)
@given(seeds, penalties)
def test_beams_for_everything_find_the_best_of_all_answers(text: int, penalty: float) -> None:
    search = Search(end=END, most=3, beams=64, length_penalty=penalty, stop="never")
    (found,) = begin(Dice([text]), search)
    expected = try_everything(text, search)
    assert [best.tokens for best in found] == [pieces for pieces, _ in expected]
    assert [best.score for best in found] == pytest.approx([score for _, score in expected])


def test_a_few_beams_come_near_the_best_and_one_is_often_worse() -> None:
    search = Search(end=END, most=4, beams=2, stop="never")
    found, greedy = (
        [best[0].score for best in begin(Dice(range(40)), one)]
        for one in (search, replace(search, beams=1))
    )
    best = [try_everything(text, search)[0][1] for text in range(40)]
    hits = np.isclose(found, best)
    assert 0.5 < hits.mean() < 1.0
    assert np.isclose(greedy, best).mean() < hits.mean()
    assert np.all(np.array(found) <= np.array(best) + 1e-5)


@settings(max_examples=25)
@given(seeds, penalties, st.sampled_from(STOPS))
def test_one_beam_takes_the_likeliest_piece_whenever_beams_stop(
    text: int, penalty: float, stop: EarlyStop
) -> None:
    search = Search(end=END, most=7, length_penalty=penalty, stop=stop)
    ((found,),) = begin(Dice([text]), search)
    assert found.tokens == write_greedily(text, search)


@settings(max_examples=25)
@given(seeds, st.integers(1, 4), st.sampled_from(STOPS), penalties, st.integers(0, 2))
def test_neighbours_change_nothing_in_an_answer(
    first: int, beams: int, stop: EarlyStop, penalty: float, no_repeat: int
) -> None:
    search = Search(
        end=END, most=6, beams=beams, stop=stop, length_penalty=penalty, no_repeat=no_repeat
    )
    texts = [first + number for number in range(5)]
    together = begin(Dice(texts), search)
    assert together == [begin(Dice([text]), search)[0] for text in texts]


@pytest.mark.parametrize("beams", [1, 3])
def test_answers_are_as_long_as_asked(beams: int) -> None:
    free = Search(end=END, most=6, beams=beams)
    lengths = [len(best[0].tokens) for best in begin(Dice(range(60)), free)]
    assert min(lengths) < 3 < max(lengths) <= 6  # nothing was asked
    held = begin(Dice(range(60)), replace(free, least=3))
    assert min(len(one.tokens) for best in held for one in best) == 3
    exact = begin(Dice(range(60)), replace(free, least=6))
    assert {len(one.tokens) for best in exact for one in best} == {6}


@pytest.mark.parametrize(("size", "beams"), [(1, 2), (2, 1), (2, 3), (3, 2)])
def test_no_run_comes_twice_where_none_may(size: int, beams: int) -> None:
    def has_twice(answer: Written) -> bool:
        row = [FIRST, *answer.tokens]
        runs = [tuple(row[at : at + size]) for at in range(len(row) - size + 1)]
        return len(set(runs)) < len(runs)

    search = Search(end=END, most=9, beams=beams)
    free, held = (
        [one for best in begin(Dice(range(30)), how) for one in best]
        for how in (search, replace(search, no_repeat=size))
    )
    assert any(map(has_twice, free))
    assert not any(map(has_twice, held))
    assert any(not has_twice(one) for one in free)


@pytest.mark.parametrize("beams", [1, 3])
def test_an_answer_begins_with_its_prompt_which_is_no_part_of_it(beams: int) -> None:
    search = Search(end=END, most=5, beams=beams)
    draft = Dice(range(20))
    found = begin(draft, search, [FIRST, 2, 1])
    lone = Dice([7])
    lone.rows = [(7, FIRST, 2)]
    assert begin(lone, search, [1])[0] == found[7]
    assert max(len(best[0].tokens) for best in found) <= 5


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("beams", [1, 4])
def test_answers_without_an_end_are_cut_at_the_most(beams: int, stop: EarlyStop) -> None:
    found = begin(Endless(range(3)), Search(end=END, most=8, beams=beams, stop=stop))
    assert [len(best) for best in found] == [beams] * 3
    assert {len(one.tokens) for best in found for one in best} == {8}
    assert all(one.score > -torch.inf for best in found for one in best)


@pytest.mark.parametrize("stop", STOPS)
def test_writing_stops_as_early_as_is_asked(stop: EarlyStop) -> None:
    search = Search(end=END, most=30, beams=2, stop=stop, length_penalty=0.5)
    draft = Dice(range(4))
    begin(draft, search)
    steps = {}
    for other in STOPS:
        counted = Dice(range(4))
        begin(counted, replace(search, stop=other))
        steps[other] = counted.num_kept
    assert steps[stop] == draft.num_kept < 30
    assert steps["full"] <= steps["likely"] <= steps["never"]


def test_better_answers_come_first_and_none_comes_twice() -> None:
    for best in begin(Dice(range(20)), Search(end=END, most=5, beams=4)):
        scores = [one.score for one in best]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(one.tokens) for one in best}) == len(best) == 4


def test_more_beams_than_pieces_are_filled_as_answers_branch() -> None:
    (found,) = begin(Dice([1], num_pieces=NUM_PIECES), Search(end=END, most=4, beams=7))
    assert len(found) == 7


def test_where_nothing_may_follow_there_is_no_answer() -> None:
    search = Search(end=1, most=4, least=4, beams=2, no_repeat=1)
    assert begin(Dice([0, 1], num_pieces=2), search) == [[], []]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"beams": 0}, "beams is 0; the least is 1"),
        ({"most": 0}, "most is 0; the least is 1"),
        ({"least": -1}, "least is -1"),
        ({"no_repeat": -2}, "no_repeat is -2"),
        ({"least": 9}, "at least 9 pieces are asked for, but at most 5"),
    ],
)
def test_what_cannot_be_looked_for_is_refused(said: dict[str, int], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Search(**{"end": END, "most": 5, **said})


def test_an_answer_may_end_with_the_piece_it_began_with() -> None:
    search = Search(end=3, most=5, no_repeat=1)
    found = search.forbid(torch.zeros(1, 5), torch.tensor([[3, 1]]), begun=1)
    assert found.tolist() == [[0.0, -torch.inf, 0.0, 0.0, 0.0]]
