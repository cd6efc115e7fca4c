"""Answers drawn by chance: how often each piece comes, which may come at all, and whose draws."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from torch import Tensor

from bertworks.core.errors import UsageError
from bertworks.model import sampling
from bertworks.model.sampling import Chance, write_sampled
from bertworks.model.search import Search

END = 3
LOGITS = torch.tensor([2.0, 1.0, 0.0, -1.0])


@dataclass
class Same:
    """A draft after which each piece is as likely as ever."""

    logits: Tensor = field(default_factory=lambda: LOGITS)

    def step(self, tokens: Tensor) -> Tensor:
        return self.logits.repeat(len(tokens), 1)

    def keep(self, answers: Tensor, texts: Tensor | None = None) -> None:
        assert texts is None or answers.equal(texts)  # there is one answer to each text


def drawn(count: int, *, most: int = 1, **how: float) -> list[list[int]]:
    prompt, search = torch.zeros(count, 1, dtype=torch.long), Search(end=END, most=most)
    names = [f"text {n}" for n in range(count)]
    found = write_sampled(Same(), prompt, search, Chance(**how), names=names)
    return [own[0].tokens for own in found]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_pieces_come_as_often_as_they_are_likely(temperature: float) -> None:
    counts = Counter(tuple(tokens) for tokens in drawn(4000, temperature=temperature))
    expected = (LOGITS / temperature).softmax(0).tolist()
    shares = [counts[(piece,)] / 4000 for piece in range(3)] + [counts[()] / 4000]
    assert shares == pytest.approx(expected, abs=0.03)


def test_next_to_no_temperature_draws_the_likeliest() -> None:
    assert {tuple(tokens) for tokens in drawn(50, temperature=1e-38)} == {(0,)}


def test_only_the_likeliest_may_be_drawn() -> None:
    assert {tuple(tokens) for tokens in drawn(300, top_k=2)} == {(0,), (1,)}
    # The first has 0.64 and the first two 0.88 of all chances.
    assert {tuple(tokens) for tokens in drawn(300, top_p=0.6)} == {(0,)}
    assert {tuple(tokens) for tokens in drawn(300, top_p=0.7)} == {(0,), (1,)}
    assert {tuple(tokens) for tokens in drawn(300, top_p=1e-9)} == {(0,)}


def test_a_text_gets_the_same_answer_whoever_stands_beside_it() -> None:
    together = drawn(50, most=9)
    search, chance = Search(end=END, most=9), Chance()
    for number in (0, 17, 49):
        prompt = torch.zeros(1, 1, dtype=torch.long)
        alone = write_sampled(Same(), prompt, search, chance, names=[f"text {number}"])
        assert alone[0][0].tokens == together[number]
    assert len({tuple(tokens) for tokens in together}) > 20
    assert drawn(50, most=9, seed=1) != together


def test_an_answer_ends_with_the_end_or_at_its_most_and_begins_with_nothing_else() -> None:
    answers = drawn(200, most=5)
    assert {len(tokens) for tokens in answers} == {0, 1, 2, 3, 4, 5}
    assert all(END not in tokens for tokens in answers)


def test_what_may_not_follow_is_not_drawn() -> None:
    search = Search(end=END, most=3, least=2, no_repeat=1)
    prompt = torch.zeros(100, 1, dtype=torch.long)
    names = [str(n) for n in range(100)]
    found = write_sampled(Same(), prompt, search, Chance(temperature=50.0), names=names)
    for (own,) in found:
        assert len(own.tokens) >= 2
        assert len({0, *own.tokens}) == len(own.tokens) + 1


@pytest.mark.parametrize(
    "how", [{"temperature": 0.0}, {"top_k": -1}, {"top_p": 0.0}, {"top_p": 1.1}]
)
def test_what_cannot_be_drawn_by_is_refused(how: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(how))):
        Chance(**how)


def test_what_has_no_chance_is_never_drawn_though_chances_are_rounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Highest:
        def random(self, size: int) -> np.ndarray:
            return np.full(size, np.nextafter(1.0, 0.0))

    monkeypatch.setattr(sampling, "random_at", lambda *seed: Highest())
    logits = torch.randn(1000, generator=torch.Generator().manual_seed(1))
    prompt, search = torch.zeros(1, 1, dtype=torch.long), Search(end=END, most=1)
    for share in (0.1, 0.3, 0.5, 0.7, 0.9):
        chance = Chance(top_p=share)
        chances, pieces = chance.probabilities(logits.unsqueeze(0))
        allowed = pieces[chances > 0].tolist()
        ((found,),) = write_sampled(Same(logits), prompt, search, chance, names=["a"])
        assert found.tokens[0] in allowed
