"""Embed: two texts -> two vectors and their cosine, learned from pairs or from texts alone."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from bertworks.core.batch import Target
from bertworks.core.errors import DataError, UsageError
from bertworks.data.examples import TextExample
from bertworks.data.packing import Features, Goal
from bertworks.data.windows import View
from bertworks.model.config import EncoderConfig
from bertworks.model.embedding import EmbeddingRecipe, VectorPooling
from bertworks.model.heads import VectorHead
from bertworks.tasks.classify import in_order
from bertworks.tasks.metrics import LabelScores, NumberScores
from bertworks.tasks.statistic import Statistic
from bertworks.tasks.task import Answer, Options, Parts, Rows, Verdict
from bertworks.tasks.vector_losses import FIRST, SECOND, contrast, pair_vectors, rank_cosines
from bertworks.tasks.vector_texts import VectorReader
from bertworks.tokenizer.tokenizer import Tokenizer

VectorLoss = Literal["contrastive", "ranking", "simcse"]
PLAIN_LABELS = ("0", "1")  # different and same, where the training data name none
# Usual names of the label of pairs that belong together.
SAME = {"same", "true", "yes", "y", "equal", "equivalent", "duplicate", "similar", "match"}
SAME |= {"related", "paraphrase", "entailment", "positive", "是", "对", "同", "正", "正例"}
SAME |= {"相同", "相似", "同义", "匹配", "相关", "重复"}
REVERSED = 0.35  # an auc below it says rather that labels are the wrong way round
LEAST_REVERSED = 30  # pairs that tell so
JUDGED = ("accuracy", "f1", "precision", "recall", "mcc")  # by the threshold
LARGEST_KEY = 0xFFFFFF  # a whole number that single precision still tells from its neighbours


@dataclass(frozen=True)
class VectorLesson:
    """How vectors are learned; not saved with the model."""

    loss: VectorLoss = "ranking"
    temperature: float = 0.05
    is_symmetric: bool = False  # whether second texts look for their first ones too


class Embed:
    """Two texts -> the cosine of their vectors, and by a threshold whether they are the same."""

    def __init__(
        self,
        labels: Sequence[str] = (),
        *,
        name: str = "embed",
        pooling: VectorPooling = "mean",
        threshold: float | None = None,
        lesson: VectorLesson | None = None,
    ) -> None:
        self.kind = "embed"
        self.name = name
        self.labels = tuple(labels) or PLAIN_LABELS
        # How the vector of a text is made, in the words of a model folder.
        self.recipe = EmbeddingRecipe(pooling=pooling, similarity="cosine")
        self.threshold = threshold  # None: cosines are not judged
        self.lesson = lesson or VectorLesson()
        self.options: Options = {"pooling": pooling, "threshold": threshold}
        if len(self.labels) != 2:
            raise UsageError(f"the labels of embed are two, different and same; got {self.labels}")

    @property
    def meaning(self) -> str:
        """Which label means what, and how to change that, in words."""
        return f"{self.labels[1]!r} means that texts belong together; --same names the other label"

    def reading(self, recipe: EmbeddingRecipe) -> "Embed":
        """Return the task with vectors that are made as a recipe says."""
        made = self._judging(self.threshold, recipe.pooling)
        made.recipe = recipe
        return made

    def features(
        self, example: TextExample, tokenizer: Tokenizer, *, longest: int
    ) -> list[Features]:
        """Read each of the two texts, perhaps in windows; all of them know the pair's gold."""
        second = example.text if self._reads_twice(example) else example.text_b
        if second is None:
            raise DataError(f"the task {self.name} needs a second text; add a column text_b")
        gold, texts = self._gold(example), (example.text, second)
        reader = VectorReader(tokenizer, self.recipe, self.recipe.max_length, longest)
        read = reader.read(texts)
        view = View(losses=(self._cut,) if any(text.is_cut for text in read) else ())
        found = []
        for side, (text, own) in enumerate(zip(texts, read, strict=True)):
            key = zlib.crc32(text.encode()) & LARGEST_KEY
            places = zip(own.before, own.skipped, strict=True)
            shares = own.shares(self.recipe.pooling)
            for window, share, place in zip(own.windows, shares, places, strict=True):
                values = np.array([(side, gold, key, *place)], np.float32)
                goals = {self.name: Goal(values, None, share, 0)}
                found.append(replace(window, goals=goals, example=example.line, note=view))
        return found

    def head(self, config: EncoderConfig) -> nn.Module:
        """Make the head that pools each window; it has nothing to learn."""
        asks = not self.recipe.pools_prompt or self.recipe.pooling == "weighted"
        return VectorHead(pooling=self.recipe.pooling, target=self.name if asks else None)

    def loss(self, logits: Tensor, target: Target) -> Tensor:
        """Return the mean loss of the pairs at hand, as often as they count."""
        if not target.count:
            return logits.float().sum() * 0.0
        pairs = pair_vectors(logits, target, self.recipe)
        lesson = self.lesson
        if lesson.loss == "ranking":
            return rank_cosines(pairs, temperature=lesson.temperature) * target.count
        mean = contrast(pairs, temperature=lesson.temperature, is_symmetric=lesson.is_symmetric)
        return mean * target.count

    def decode(
        self,
        example: TextExample,
        windows: Sequence[Features],
        logits: Sequence[Rows],
        tokenizer: Tokenizer,
    ) -> Answer:
        """Pool the windows of each text and compare the two vectors."""
        rows = np.concatenate(logits).astype(np.float64)
        first, second = (self._vector(rows, windows, side) for side in (FIRST, SECOND))
        lengths = np.linalg.norm(first) * np.linalg.norm(second)
        cosine = float(first @ second / max(lengths, 1e-12))
        if self.threshold is None:
            return {"score": cosine}
        return {"label": self.labels[cosine > self.threshold], "score": cosine}

    def scorer(self) -> "CosineScorer":
        """Return what compares cosines with labels or scores."""
        return CosineScorer(self)

    def tuned(self, examples: Sequence[TextExample], answers: Sequence[Answer]) -> "Embed":
        """Return the task with the threshold that judges most pairs rightly.

        Scores need none, and pairs of one label tell none.
        """
        pairs = zip(examples, answers, strict=True)
        known = [(given["score"], self.id_of(e)) for e, given in pairs if e.label is not None]
        if len({label for _, label in known}) < 2:
            return self
        threshold = best_threshold(*map(np.array, zip(*known, strict=True)))
        return self._judging(threshold, self.recipe.pooling).reading(self.recipe)

    def id_of(self, example: TextExample) -> int:
        """Return 1 for the label of texts that are the same, and 0 for the other."""
        if example.label not in self.labels:
            raise DataError(
                f"the label {example.label!r} is not among those of the model "
                f"({', '.join(self.labels)}); rename it or remove the row"
            )
        return self.labels.index(example.label)

    def _judging(self, threshold: float | None, pooling: VectorPooling) -> "Embed":
        same: Options = {"name": self.name, "lesson": self.lesson}
        return Embed(self.labels, **same, pooling=pooling, threshold=threshold)

    @property
    def _cut(self) -> str:
        """What is lost of a text that goes on behind what is read of it."""
        return f"no more than the first {self.recipe.max_length} pieces make a text's vector"

    def _reads_twice(self, example: TextExample) -> bool:
        return self.lesson.loss == "simcse" and example.text_b is None

    def _gold(self, example: TextExample) -> float:
        if example.score is not None:
            return example.score
        return 1.0 if example.label is None else float(self.id_of(example))

    def _vector(self, rows: Rows, windows: Sequence[Features], side: int) -> np.ndarray:
        """Return the vector of one of the two texts."""
        goals = [window.goals[self.name] for window in windows]
        own = np.array([np.asarray(goal.values)[0, 0] == side for goal in goals])
        if self.recipe.pooling == "max":
            merged = rows[own].max(axis=0)
        else:
            merged = np.array([goal.weight for goal in goals])[own] @ rows[own]
        return self.recipe.dense(torch.from_numpy(merged)).numpy()


class CosineScorer:
    """Compares cosines with what is known of the pairs: labels or scores."""

    def __init__(self, task: Embed) -> None:
        self._task = task
        self._labels, self._numbers = LabelScores(2), NumberScores()
        self._num_labelled = 0

    def add(self, example: TextExample, answer: Answer) -> Verdict:
        """Take one cosine."""
        cosine, shown = answer["score"], f"{answer['score']:.3f}"
        if example.score is not None:
            parts: Parts = {"gold": example.score, "cosine": cosine}
            self.take(parts)
            return Verdict(f"{example.score:g}", shown, parts=parts)
        label, gold, threshold = str(example.label), self._task.id_of(example), self._task.threshold
        parts = {"same": gold, "cosine": cosine}
        self.take(parts)
        if threshold is None:
            return Verdict(label, shown, parts=parts, label=label)
        given = cosine > threshold
        is_right = float(given == gold)
        return Verdict(label, self._task.labels[given], is_right, cosine, parts, label=label)

    def take(self, parts: Parts) -> None:
        """Take one cosine by its parts."""
        if "gold" in parts:
            self._numbers.add(parts["gold"], parts["cosine"])
            return
        self._num_labelled += 1
        self._numbers.add(parts["same"], parts["cosine"])
        self._labels.add(parts["same"], [self._task.threshold or 0.0, parts["cosine"]])

    def metrics(self) -> dict[str, float]:
        """Return the scores of all cosines; the first does not depend on a threshold."""
        found = self._numbers.metrics() | (self._labels.metrics() if self._num_labelled else {})
        return {name: found[name] for name in self._wanted if name in found}

    def statistics(self) -> dict[str, Statistic]:
        """Return the scores with what each example adds."""
        found = self._numbers.statistics()
        found |= self._labels.statistics() if self._num_labelled else {}
        return {name: found[name] for name in self._wanted if name in found}

    @property
    def lacking(self) -> str:
        """Which scores the gold does not tell, and why."""
        if self._labels.lacking and self._task.threshold is None:
            return "all pairs have the same label, so there is nothing to tell apart"
        return self._labels.lacking or self._numbers.lacking

    @property
    def note(self) -> str:
        """That the labels may be the wrong way round, where the cosines speak against them."""
        auc = self.metrics().get("auc", 1.0)
        if auc >= REVERSED or self._num_labelled < LEAST_REVERSED:
            return ""
        return (
            f"auc is {auc:.2f}, far below 0.5, so labels may be the wrong way round: by them "
            f"{self._task.labels[1]!r} means that texts belong together; if it does not, name the "
            "other with --same of finetune"
        )

    @property
    def _wanted(self) -> tuple[str, ...]:
        if not self._num_labelled:
            return ("spearman", "pearson")
        return ("auc", "spearman") if self._task.threshold is None else ("auc", "spearman", *JUDGED)


def best_threshold(cosines: np.ndarray, is_same: np.ndarray) -> float:
    """Return a cosine between two of those given, from which on most pairs are judged rightly."""
    order = np.argsort(-cosines, kind="stable")
    ranked, same = cosines[order], is_same[order]
    # Taking the first n for the same, these are right among them and among the rest.
    right = np.r_[0, same.cumsum()] + np.r_[(1 - same)[::-1].cumsum()[::-1], 0]
    bounds = np.r_[ranked[0] + 1, (ranked[1:] + ranked[:-1]) / 2, ranked[-1] - 1]
    is_cut = np.r_[True, ranked[1:] < ranked[:-1], True]  # equal cosines are not told apart
    return float(bounds[np.where(is_cut, right, -1).argmax()])


def learn_vectors(
    examples: Sequence[TextExample],
    *,
    order: Sequence[str] = (),
    same: str | None = None,
    **chosen: Any,
) -> Options:
    """Return the labels of the pairs, different and same, and how they are learned from."""
    found = {example.label for example in examples if example.label is not None}
    labels = list(in_order(found, order))
    meant = _usual_same(labels) if same is None and not order else same
    labels.sort(key=lambda label: label == meant)
    if labels and len(labels) != 2:
        count = "one label" if len(labels) == 1 else f"{len(labels)} labels"
        shown = ", ".join(labels[:5]) + ", …" * (len(labels) > 5)
        raise DataError(
            f"has {count} ({shown}), but embed tells two apart, different and same; keep two, or "
            "leave the column out where all pairs are the same"
        )
    if same is not None and same not in labels:
        raise UsageError(f"--same is {same!r}, but the labels are {', '.join(labels) or 'none'}")
    lesson = choose_lesson(examples, has_labels=bool(labels), **chosen)
    return {"labels": tuple(labels) or PLAIN_LABELS, "lesson": lesson}


def _usual_same(labels: Sequence[str]) -> str | None:
    """Return the only label with a usual name for pairs that belong together, or None."""
    usual = [label for label in labels if label.casefold() in SAME]
    return usual[0] if len(usual) == 1 else None


def choose_lesson(
    examples: Sequence[TextExample],
    *,
    has_labels: bool,
    vector_loss: VectorLoss | None = None,
    vector_temperature: float = 0.05,
    symmetric: bool = False,
) -> VectorLesson:
    """Return how examples are learned from: as is chosen, or else as their columns allow."""
    has_scores = any(example.score is not None for example in examples)
    has_pairs = any(example.text_b is not None for example in examples)
    usual: VectorLoss = "ranking" if has_scores or has_labels else "contrastive"
    loss = vector_loss or (usual if has_pairs else "simcse")
    _refuse_unfit(loss, has_pairs=has_pairs, has_scores=has_scores, has_labels=has_labels)
    if loss == "ranking" and not has_labels and len({example.score for example in examples}) < 2:
        raise DataError("has one score only, so there is nothing to rank; add pairs of another")
    return VectorLesson(loss, vector_temperature, symmetric)


def _refuse_unfit(loss: VectorLoss, *, has_pairs: bool, has_scores: bool, has_labels: bool) -> None:
    if loss == "simcse" and has_pairs:
        raise UsageError(
            "--vector-loss simcse learns from single texts, but these are pairs; rename the column "
            "text_b, or choose contrastive"
        )
    if loss == "ranking" and not has_scores and not has_labels:
        raise UsageError(
            "--vector-loss ranking needs a label or a score of every pair, and there is none; "
            "choose contrastive for pairs that belong together, simcse for single texts"
        )
    if loss == "contrastive" and has_scores:
        raise UsageError(
            "--vector-loss contrastive takes pairs that belong together, not scores; choose ranking"
        )
