"""Answer: a question and a passage -> the part of the passage that answers, or nothing."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor, nn

from bertworks.core.batch import Target
from bertworks.core.errors import DataError
from bertworks.core.pieces import IGNORE
from bertworks.data.examples import QuestionExample
from bertworks.data.packing import Features, Goal, join_pieces
from bertworks.data.windows import View, cut_beside
from bertworks.model.config import EncoderConfig
from bertworks.model.groups import grouped_log_softmax
from bertworks.model.heads import PlaceHead
from bertworks.tasks.answer_scores import SEGMENT, AnswerScorer, best_scores
from bertworks.tasks.task import Answer, Options, Rows
from bertworks.tokenizer.tokenizer import Tokenizer

START, END = 1, 2  # what a candidate is, as bits
NUM_CANDIDATES = 5
MAX_ANSWER = 30  # pieces, where answers are not longer
NEARLY_ALL = 0.99
NEVER = -1e4  # what a span loses that may be no answer
CUT_QUESTION = "no window shows the whole question; raise --longest"
CUT_ANSWER = "no window shows the whole answer; raise --longest"
LONG_ANSWER = "the answer has more pieces than may be given; raise --max-answer"
Span = tuple[int, int]  # of the passage: the first piece, and the one behind the last


class FindAnswer:
    """Question and passage -> a span of the passage, with the likeliest others."""

    kind = "answer"
    labels: tuple[str, ...] = ()

    def __init__(
        self,
        *,
        name: str = kind,
        nullable: bool = False,
        threshold: float = 0.0,
        stride: int | None = None,
        max_answer: int = MAX_ANSWER,
    ) -> None:
        self.name = name
        self.options: Options = {
            "nullable": nullable,  # whether a question may have no answer
            "threshold": threshold,  # log-odds against none from which an answer is given
            "stride": stride,
            "max_answer": max_answer,
        }

    def features(
        self, example: QuestionExample, tokenizer: Tokenizer, *, longest: int
    ) -> list[Features]:
        """Repeat the question before each window of the passage; ask where the answer is.

        The candidates are the pieces of the passage, and before them the first piece of all, which
        stands for no answer. A window that does not show the answer says so.
        """
        question = np.array(tokenizer.ids_of([example.question])[0], dtype=np.int64)
        passage = tokenizer.encode(example.passage)
        if not passage.ids:
            raise DataError("the passage holds nothing that the tokenizer knows; mend it")
        room = longest - tokenizer.specials.num_added(pair=True)
        (asked,), spans = cut_beside(
            [question], len(passage.ids), room=room, step=self.options["stride"]
        )
        gold = _gold(example, np.array(passage.offsets))
        widest = max(_shared(gold, span) for span in spans)
        length = gold[1] - gold[0] if gold else 0
        losses = (CUT_QUESTION,) * (len(asked) < len(question))
        losses += (CUT_ANSWER,) * (widest < length)
        losses += (LONG_ANSWER,) * (length > self.options["max_answer"])
        pieces, first = np.array(passage.ids), 1 + len(asked) + tokenizer.specials.num_between
        windows = []
        for number, (start, end) in enumerate(spans):
            is_told = gold is not None and _shared(gold, (start, end)) == widest
            values = _values(gold if is_told else None, start, end)
            if example.answers is None:
                values.fill(IGNORE)
            goal = Goal(values, _places(first, end - start), 1 / len(spans), group=number)
            joined = join_pieces(asked, pieces[start:end], tokenizer.specials)
            view = View(start, losses)
            windows.append(Features(*joined, {self.name: goal}, example.line, view))
        return windows

    def head(self, config: EncoderConfig) -> nn.Module:
        """Make a linear layer that says of each place how well an answer begins or ends there."""
        return PlaceHead(config, target=self.name, num_labels=2)

    def loss(self, logits: Tensor, target: Target) -> Tensor:
        """Return the summed cross-entropy of start and end among each window's candidates."""
        assert target.groups is not None  # our features have them
        chances = grouped_log_softmax(logits.float(), target.groups)
        kinds = target.values.clamp(min=0)
        starts, ends = target.softened(kinds & START), target.softened((kinds & END) / END)
        wanted = starts * chances[:, 0] + ends * chances[:, 1]
        return -(wanted if target.weights is None else wanted * target.weights).sum() / 2

    def decode(
        self,
        example: QuestionExample,
        windows: Sequence[Features],
        logits: Sequence[Rows],
        tokenizer: Tokenizer,
    ) -> Answer:
        """Return the best span of all windows, unless no answer is likelier by the threshold."""
        offsets = np.array(tokenizer.encode(example.passage).offsets)
        scores = _span_scores(windows, logits, shape=(len(offsets), self.options["max_answer"]))
        scores += _penalties(example.passage, offsets, longest=scores.shape[1])
        nullable = self.options["nullable"]
        total = np.logaddexp.reduce(np.append(scores, 0.0 if nullable else -np.inf), axis=None)
        order = np.argsort(-scores, axis=None, kind="stable")[:NUM_CANDIDATES]
        candidates: list[Answer] = []
        for first, length in zip(*np.unravel_index(order, scores.shape), strict=True):
            if scores[first, length] > NEVER / 2 or not candidates:
                place = _trimmed(example.passage, offsets[first][0], offsets[first + length][1])
                probability = float(np.exp(scores[first, length] - total))
                candidates.append({**place, "probability": probability})
        if not nullable:
            return {**candidates[0], "candidates": candidates}
        score, no_answer = float(scores.max()), float(np.exp(-total))
        told = {"no_answer": no_answer, "score": score, "candidates": candidates}
        if score > self.options["threshold"]:
            return {**candidates[0], **told}
        return {"answer": "", "start": None, "end": None, "probability": no_answer, **told}

    def scorer(self) -> AnswerScorer:
        """Return what compares the words of answers."""
        return AnswerScorer()

    def tuned(self, examples: Sequence[QuestionExample], answers: Sequence[Answer]) -> Self:
        """Return the task with the threshold by which these answers have the best F1."""
        has_gold = np.array([bool(example.answers) for example in examples])
        if not self.options["nullable"] or has_gold.all() or not has_gold.any():
            return self
        scores = np.array([answer["score"] for answer in answers])
        worth = [
            best_scores(example, answer["candidates"][0]["answer"])[0]
            for example, answer in zip(examples, answers, strict=True)
        ]
        threshold = best_threshold(scores, np.array(worth) - ~has_gold)
        return type(self)(name=self.name, **{**self.options, "threshold": threshold})


def best_threshold(scores: np.ndarray, gains: np.ndarray) -> float:
    """Return the score above which the gains sum to the most, midway between two that occur."""
    order = np.argsort(-scores, kind="stable")
    ranked, sums = scores[order], np.concatenate([[0.0], np.cumsum(gains[order])])
    ranked = np.concatenate([[ranked[0] + 2.0], ranked, [ranked[-1] - 2.0]])
    sums[ranked[:-1] == ranked[1:]] = -np.inf  # equal scores are answered together or not at all
    best = int(sums.argmax())
    return float((ranked[best] + ranked[best + 1]) / 2)


def learn_answers(examples: Sequence[QuestionExample], **chosen: int) -> Options:
    """Return whether questions may have no answer, and how long nearly all answers are.

    Pieces are guessed by words and, in Chinese, by characters.
    """
    lengths = [len(SEGMENT.findall(e.answers[0].text)) for e in examples if e.answers]
    if not lengths:
        raise DataError("has no question with an answer, so there is nothing to find; add some")
    longest = int(np.quantile(lengths, NEARLY_ALL, method="higher"))
    nullable = any(example.answers == () for example in examples)
    return {"nullable": nullable, "max_answer": max(longest, MAX_ANSWER), **chosen}


def _gold(example: QuestionExample, offsets: np.ndarray) -> Span | None:
    """Return the pieces of the first answer that is found; it takes every piece it touches."""
    for found in example.answers or ():
        if found.start is not None:
            place = _trimmed(example.passage, found.start, found.start + len(found.text))
            first = int(np.searchsorted(offsets[:, 1], place["start"], side="right"))
            behind = int(np.searchsorted(offsets[:, 0], place["end"]))
            first = min(first, len(offsets) - 1)
            return first, max(first + 1, behind)
    if example.answers:
        raise DataError(f"the answer {example.answers[0].text!r:.60} is not in its passage")
    return None


def _shared(gold: Span | None, span: Span) -> int:
    """Return how many pieces of the answer a window shows."""
    return 0 if gold is None else max(min(gold[1], span[1]) - max(gold[0], span[0]), 0)


def _values(gold: Span | None, start: int, end: int) -> np.ndarray:
    values = np.zeros(1 + end - start, dtype=np.int8)
    if gold is None:
        values[0] = START | END
    else:
        values[1 + max(gold[0], start) - start] |= START
        values[min(gold[1], end) - start] |= END
    return values


@lru_cache(maxsize=2048)
def _places(first: int, count: int) -> np.ndarray:
    """Return where the candidates stand; windows of one shape share them."""
    places = np.concatenate([[0], np.arange(first, first + count)]).astype(np.int32)
    places.flags.writeable = False
    return places


def _span_scores(
    windows: Sequence[Features], logits: Sequence[Rows], *, shape: tuple[int, int]
) -> np.ndarray:
    """Return the log-odds against no answer of each span by first piece and length, less one.

    A span that several windows show has its best score. Each window weighs its spans against its
    own first piece, for only those were compared in training.
    """
    num_pieces, longest = shape[0], min(shape)
    best = np.full((num_pieces, longest), -np.inf)
    beyond = np.full(longest - 1, -np.inf)
    for window, rows in zip(windows, logits, strict=True):
        none, (starts, ends) = rows[0].sum(dtype=np.float64), rows[1:].T.astype(np.float64)
        spans = starts[:, None] + sliding_window_view(np.append(ends, beyond), longest) - none
        own = best[window.note.start :][: len(spans)]
        np.maximum(own, spans, out=own)
    return best


def _penalties(passage: str, offsets: np.ndarray, *, longest: int) -> np.ndarray:
    """Return what each span loses: nothing if it takes all pieces of its text, and no space around.

    So every text has one span, though pieces may be spaces, or parts of one character.
    """
    places = [_trimmed(passage, start, end) for start, end in offsets]
    starts, ends = (np.array([place[edge] for place in places]) for edge in ("start", "end"))
    is_text = starts < ends
    highest = np.maximum.accumulate(np.where(is_text, starts, -1))
    lowest = np.minimum.accumulate(np.where(is_text, ends, len(passage) + 1)[::-1])[::-1]
    begins = is_text & (starts > np.append(-1, highest[:-1]))
    closes = is_text & (ends < np.append(lowest[1:], len(passage) + 1))
    closed = sliding_window_view(np.append(closes, np.zeros(longest - 1, bool)), longest)
    return np.where(begins[:, None] & closed, 0.0, NEVER)


def _trimmed(passage: str, start: int, end: int) -> Answer:
    """Return a part of the passage without the white space around it."""
    text = passage[start:end]
    start = int(start) + len(text) - len(text.lstrip())
    text = text.strip()
    return {"answer": text, "start": start, "end": start + len(text)}
