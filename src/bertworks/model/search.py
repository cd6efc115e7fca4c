"""How an answer is chosen among all that could be written: by beams, or by chance.

Legend: N texts that are answered, W beams of each, R = N * W, L tokens written so far, V pieces.
Scores are sums of log-chances. What is chosen for a text never depends on the other texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Literal, Protocol

import torch
from torch import Tensor

from bertworks.core.errors import UsageError

NEVER = -torch.inf  # the score of what cannot be
MOST_POWER = 10  # of a length by which scores are divided
EarlyStop = Literal["full", "likely", "never"]


class Draft(Protocol):
    """Answers that are being written, a token of each at a time."""

    def step(self, tokens: Tensor) -> Tensor:
        """Write one more token of each answer; return the logits of the next ones, [R, V]."""

    def keep(self, answers: Tensor, texts: Tensor | None = None) -> None:
        """Go on with these answers; and where some texts are done, with those of others only."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """What is looked for."""

    end: int  # the piece that ends an answer
    most: int  # pieces that are written, with the last
    least: int = 0  # pieces that are written before the end may come
    beams: int = 1  # 1: always the likeliest piece
    length_penalty: float = 1.0  # the power of the length by which a score is divided
    no_repeat: int = 0  # no run of so many pieces comes twice; 0: any may
    # When beams stop: as soon as there are enough ends, when better ones are unlikely, or when they
    # are impossible.
    stop: EarlyStop = "likely"

    def __post_init__(self) -> None:
        for name, least in (("most", 1), ("least", 0), ("beams", 1), ("no_repeat", 0)):
            if getattr(self, name) < least:
                raise UsageError(f"{name} is {getattr(self, name)}; the least is {least}")
        if self.least > self.most:
            raise UsageError(
                f"at least {self.least} pieces are asked for, but at most {self.most}; lower the "
                "shortest reply or raise the longest"
            )
        if not -MOST_POWER <= self.length_penalty <= MOST_POWER:
            raise UsageError(
                f"length_penalty is {self.length_penalty}; it must lie from {-MOST_POWER} to "
                f"{MOST_POWER}"
            )

    def forbid(self, chances: Tensor, written: Tensor, *, begun: int) -> Tensor:
        """Take the chance from what may not follow, [R, V], of what was written, [R, L]."""
        if written.shape[1] - begun < self.least:
            chances[:, self.end] = NEVER
        size = self.no_repeat
        if size and written.shape[1] >= size:
            runs = written.unfold(1, size, 1)  # [R, L - size + 1, size]
            is_again = (runs[..., :-1] == written[:, None, written.shape[1] - size + 1 :]).all(-1)
            is_again &= runs[..., -1] != self.end  # with which an answer may have begun
            rows, places = is_again.nonzero(as_tuple=True)
            chances[rows, runs[rows, places, -1]] = NEVER
        return chances

    def normed(self, scores: Tensor, length: int) -> Tensor:
        """Return scores of answers of a length as they are compared."""
        return scores / length**self.length_penalty


@dataclass(frozen=True)
class Written:
    """An answer: the pieces behind what it had to begin with, without the end, and its score."""

    tokens: list[int]
    score: float


def write_best(draft: Draft, prompt: Tensor, search: Search) -> list[list[Written]]:
    """Return the best answers to each text, as many as there are beams, best first.

    `prompt` is what every answer begins with, [N, P]. Where nothing has a chance there are none.
    """
    begun = prompt.shape[1]
    for tokens in prompt.T[:-1]:
        draft.step(tokens)
    beams = _Beams.of(prompt, search)
    found: list[list[Written]] = [[] for _ in prompt]
    while len(beams.texts):
        chances = draft.step(beams.written[:, :, -1].flatten()).log_softmax(-1, dtype=torch.float32)
        search.forbid(chances, beams.written.flatten(0, 1), begun=begun)
        parents = beams.grow(chances, begun=begun)
        is_done = beams.is_done(begun=begun).tolist()
        for text in compress(range(len(is_done)), is_done):
            found[beams.texts[text]] = beams.ended(text, begun=begun)
        if not any(is_done):
            draft.keep(parents.flatten())
            continue
        left = [text for text, done in enumerate(is_done) if not done]
        beams.keep(left)
        texts = torch.tensor(left, dtype=torch.long, device=parents.device)
        draft.keep(parents[texts].flatten(), texts)
    return found


class _Beams:
    """The answers to each text that are being written, and the best that have ended."""

    def __init__(self, texts: Sequence[int], written: Tensor, search: Search) -> None:
        self.texts = list(texts)  # which they answer
        self.search = search
        self.written = written  # [N, W, L]
        self.scores = torch.zeros(written.shape[:2], device=written.device)
        shape = (len(texts), search.beams)
        self.ends = written.new_full((*shape, written.shape[2] + search.most), search.end)
        self.end_scores = torch.full(shape, NEVER, device=written.device)

    @classmethod
    def of(cls, prompt: Tensor, search: Search) -> "_Beams":
        """Begin with one answer to each text."""
        return cls(range(len(prompt)), prompt.unsqueeze(1), search)

    def grow(self, chances: Tensor, *, begun: int) -> Tensor:
        """Write one more piece; return which answers go on, [N, W], numbered through all texts.

        Twice as many are looked at as there are beams, for half of them may end here.
        """
        search, (num_texts, width, length) = self.search, self.written.shape
        likely, at = chances.topk(min(2 * search.beams, chances.shape[1]))  # [R, 2 W]
        total = (likely.view(num_texts, width, -1) + self.scores.unsqueeze(-1)).flatten(1)
        best, chosen = total.topk(min(2 * search.beams, total.shape[1]))
        parents, pieces = chosen // likely.shape[1], at.view(num_texts, -1).gather(1, chosen)
        grown = torch.cat([_gather(self.written, parents), pieces.unsqueeze(-1)], dim=-1)
        ends = (pieces == search.end) & (best > NEVER)
        if length + 1 - begun == search.most:
            ends = torch.ones_like(ends)
        self._end(best[:, : search.beams], ends[:, : search.beams], grown[:, : search.beams], begun)
        self.scores, chosen = best.masked_fill(ends, NEVER).topk(min(search.beams, best.shape[1]))
        self.written = _gather(grown, chosen)
        first = torch.arange(num_texts, device=parents.device).unsqueeze(1) * width
        return first + parents.gather(1, chosen)

    def _end(self, scores: Tensor, ends: Tensor, grown: Tensor, begun: int) -> None:
        """Take those that end here among the ended, if they are better."""
        length = grown.shape[-1]
        normed = self.search.normed(scores, length - begun).masked_fill(~ends, NEVER)
        padded = torch.nn.functional.pad(
            grown, (0, self.ends.shape[-1] - length), value=self.search.end
        )
        everything = torch.cat([self.end_scores, normed], dim=1)
        self.end_scores, chosen = everything.topk(self.search.beams)
        self.ends = _gather(torch.cat([self.ends, padded], dim=1), chosen)

    def is_done(self, *, begun: int) -> Tensor:
        """Tell which texts need no more writing, [N]."""
        search, length = self.search, self.written.shape[-1] - begun
        if length == search.most:
            return torch.ones(len(self.texts), dtype=torch.bool, device=self.scores.device)
        is_full = (self.end_scores > NEVER).all(1)
        if search.stop == "full" or search.beams == 1:
            return is_full
        hopes_long = search.stop == "never" and search.length_penalty > 0
        hope = search.normed(self.scores[:, 0], search.most if hopes_long else length)
        return is_full & (hope <= self.end_scores.amin(1))

    def ended(self, text: int, *, begun: int) -> list[Written]:
        """Return the answers to a text that have ended, best first."""
        rows = zip(self.ends[text].tolist(), self.end_scores[text].tolist(), strict=True)
        end = self.search.end
        answers = ((row[begun:], score) for row, score in rows if score > NEVER)
        return [
            Written(row[: row.index(end)] if end in row else row, score) for row, score in answers
        ]

    def keep(self, texts: Sequence[int]) -> None:
        """Go on with these texts only."""
        self.texts = [self.texts[text] for text in texts]
        for name in ("written", "scores", "ends", "end_scores"):
            setattr(self, name, getattr(self, name)[texts])


def _gather(rows: Tensor, chosen: Tensor) -> Tensor:
    """Return some rows of each text, [N, M, L], [N, W] -> [N, W, L]."""
    return rows.gather(1, chosen.unsqueeze(-1).expand(-1, -1, rows.shape[-1]))
