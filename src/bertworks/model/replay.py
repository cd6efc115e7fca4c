"""Steps of writing on a GPU: recorded once, then played again and again.

A step is hundreds of small launches, and the host takes longer to ask for them than the GPU to do
them. A record asks for all of them at once. It holds as long as nothing moves and no shape changes,
so texts that are done stay with the others until half of all are done.

Legend: N texts, R answers that are being written, V pieces.
"""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

from bertworks.model.recall import Page

Play = Callable[[], Tensor]


class Still(Protocol):
    """Answers that are being written, on a page that is still."""

    page: Page

    @property
    def num_answers(self) -> int:
        """How many there are."""

    def step(self, tokens: Tensor) -> Tensor:
        """Write one more token of each answer; return the logits of the next ones, [R, V]."""

    def keep(self, answers: Tensor, texts: Tensor | None = None) -> None:
        """Go on with these answers; and where some texts are done, with those of others only."""

    def reorder(self, answers: Tensor) -> None:
        """Go on with as many answers to the same texts, in the memory of the others."""

    def widen(self) -> None:
        """Have memory for more tokens."""


AnyStill = TypeVar("AnyStill", bound=Still)


def still_place(device: torch.device) -> torch.device | None:
    """Return where a page is still, if it is: where steps can be recorded."""
    return device if device.type == "cuda" else None


def replayed(draft: AnyStill) -> "AnyStill | Replayed[AnyStill]":
    """Return a draft whose steps are recorded, if that can be."""
    return draft if draft.page.column is None else Replayed(draft, record=record_on_gpu)


def record_on_gpu(step: Play) -> Play:
    """Record what a step launches; nothing is computed before it is played."""
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            result = step()
        finally:
            graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)

    def play() -> Tensor:
        graph.replay()
        return result

    return play


class Replayed(Generic[AnyStill]):
    """A draft whose steps are played from a tape.

    The first step of every shape is done plainly, for kernels are compiled and chosen in it.
    """

    def __init__(self, draft: AnyStill, *, record: Callable[[Play], Play]) -> None:
        self._draft, self._record = draft, record
        self._num_texts = 0
        self._has_stepped = False  # in this shape
        self._tape: _Tape | None = None

    def step(self, tokens: Tensor) -> Tensor:
        """Write one more token of each answer; return the logits of the next ones, [R, V]."""
        if not self._num_texts:
            self._num_texts = len(tokens)  # each begins with one answer
        if self._draft.page.is_full:
            self._leave_tape()
            self._draft.widen()
            self._has_stepped = False
        if self._tape is None and not self._has_stepped:
            self._has_stepped = True
            return self._draft.step(tokens)
        if self._tape is None:
            self._tape = _Tape(self._draft, self._num_texts, self._record)
        return self._tape.step(tokens)

    def keep(self, answers: Tensor, texts: Tensor | None = None) -> None:
        """Go on with these answers; and where some texts are done, with those of others only."""
        if texts is not None:
            self._num_texts = len(texts)
        if self._tape is not None and len(answers) == self._num_texts * self._tape.width:
            self._tape.keep(answers, texts)
            if self._tape.is_half_done:
                self._leave_tape()
            return
        self._leave_tape()
        self._has_stepped &= len(answers) == self._draft.num_answers
        self._draft.keep(answers, texts)

    def _leave_tape(self) -> None:
        """Go on plainly, with what is left."""
        if self._tape is not None:
            self._draft.keep(*self._tape.left)
            self._tape, self._has_stepped = None, False


class _Tape:
    """The record of a step, and the tensors at which it looks.

    Every text has its place in it, also when it is done.
    """

    def __init__(self, draft: Still, num_texts: int, record: Callable[[Play], Play]) -> None:
        assert draft.page.column is not None  # it is still
        num_answers, device = draft.num_answers, draft.page.column.device
        self._draft = draft
        self.width = num_answers // num_texts  # answers to each text
        self._num_texts = num_texts
        self._tokens = torch.zeros(num_answers, dtype=torch.long, device=device)
        self._in_order = torch.arange(num_answers, device=device)
        self._order = self._in_order.clone()  # whose memory each answer goes on with
        self._texts = torch.arange(num_texts, device=device)  # that are not done
        self._answers = self._in_order  # to those texts
        length = draft.page.length
        self._play = record(self._step)
        draft.page.length = length

    def _step(self) -> Tensor:
        if self.width > 1:
            self._draft.reorder(self._order)
        return self._draft.step(self._tokens)

    def step(self, tokens: Tensor) -> Tensor:
        """Write one more token of each answer; return the logits of the next ones, [R, V]."""
        self._tokens[self._answers] = tokens
        length = self._draft.page.length
        logits = self._play()
        self._draft.page.length = length + 1
        self._order.copy_(self._in_order)
        return logits if len(tokens) == len(logits) else logits[self._answers]

    def keep(self, answers: Tensor, texts: Tensor | None) -> None:
        """Go on with these answers; and where some texts are done, with those of others only."""
        before = self._answers[answers]
        if texts is not None:
            self._texts = self._texts[texts]
            places = self._in_order[: self.width]
            self._answers = (self._texts.unsqueeze(1) * self.width + places).flatten()
        self._order[self._answers] = before

    @property
    def is_half_done(self) -> bool:
        """Whether most of what is played is for nothing."""
        return 2 * len(self._texts) <= self._num_texts

    @property
    def left(self) -> tuple[Tensor, Tensor]:
        """The answers that are being written, in the order that they have now, and their texts."""
        return self._order[self._answers], self._texts
