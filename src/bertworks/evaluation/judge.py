"""How a pre-training run is judged: scored on held-out text, and told what usually goes wrong."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bertworks.core.batch import Batch
from bertworks.core.device import Machine
from bertworks.core.errors import TrainingError
from bertworks.core.progress import say
from bertworks.data.corpus_counts import CorpusCounts
from bertworks.evaluation.answer_parts import Scores
from bertworks.evaluation.diagnostics import (
    Found,
    Watch,
    diagnose_corpus,
    diagnose_course,
    diagnose_scores,
    unigram_loss,
)
from bertworks.evaluation.objective_scores import DocumentSums, evaluate_objectives
from bertworks.evaluation.statistics import Interval
from bertworks.tasks.task import Learner
from bertworks.training.plan import Evaluation

MoreScores = Callable[[int], dict[str, float]]  # of the network as it is after a step


@dataclass(frozen=True)
class FinalScores:
    """What a run came to, and how sure that is."""

    evaluation: Evaluation
    intervals: Mapping[str, Interval]  # none of one document
    num_documents: int

    @property
    def metrics(self) -> dict[str, float]:
        """The scores by name."""
        return self.evaluation.metrics

    def part(self) -> Scores:
        """Return what a report shows of them."""
        bounds = {"probe_low", "probe_high"} if "probe_accuracy" in self.intervals else set()
        return Scores.of_metrics(
            {name: value for name, value in self.metrics.items() if name not in bounds},
            self.intervals,
            of="on held-out text",
            lacking=self.lacking(),
        )

    def as_json(self) -> dict[str, Any]:
        """Return what is kept of them beside a model."""
        ranges = {name: (one.low, one.high) for name, one in self.intervals.items()}
        return {"held_out": self.metrics, "held_out_intervals": ranges}

    def lacking(self) -> list[str]:
        """Return a sentence about ranges that there cannot be."""
        said = "all held-out text is of one document, so the scores have no intervals"
        return [said] if self.num_documents < 2 else []


class HeldOutJudge:
    """Scores a network on the same held-out batches, whenever it is asked."""

    def __init__(
        self,
        learner: Learner,
        batches: Sequence[Batch],
        corpus: CorpusCounts,
        *,
        machine: Machine,
        weights: Mapping[str, float],
        more: MoreScores = lambda step: {},
    ) -> None:
        self.learner = learner
        self.batches = batches
        self.corpus = corpus
        self.machine = machine
        self.weights = weights  # of the objectives, by which the best moment is chosen
        self.more = more
        self._watch = Watch()
        self._counts: Counter[str] = Counter()
        for batch in batches:
            self._counts.update({name: t.count for name, t in batch.targets.items()})
        asked = [b.targets["fill_mask"].values for b in batches if "fill_mask" in b.targets]
        hidden = np.concatenate([values.numpy() for values in asked])
        self._unigram_loss = unigram_loss(corpus.pieces, hidden)

    def score(self, step: int) -> Evaluation:
        """Score the network after a step; say what is wrong with it and was so the last time."""
        found = self._evaluate()
        if step:  # before the first there is nothing to blame
            for sentence in self._watch.look(self._diagnose(found)):
                say(f"warning: {sentence}")
        return replace(found, metrics=found.metrics | self.more(step))

    def final_scores(self) -> FinalScores:
        """Score the network at the end of its run; one that came apart is an error."""
        documents = DocumentSums()
        found = self._evaluate(documents)
        if not math.isfinite(found.metrics["loss"]):
            raise TrainingError(
                f"the loss on held-out text is {found.metrics['loss']} in the end, so the weights "
                "are broken; begin again elsewhere with a lower --lr"
            )
        more = self.more(0)
        ranges = documents.intervals() | _told_with(more)
        return FinalScores(replace(found, metrics=found.metrics | more), ranges, len(documents))

    def warnings(
        self, found: FinalScores, log: Sequence[Mapping[str, Any]], *, clip: float
    ) -> Found:
        """Name all that went wrong in a run, by its last scores and its log."""
        course = diagnose_course(log, clip=clip, weight=max(self.weights.values()))
        return (
            diagnose_corpus(self.corpus.duplicate_share) | course | self._diagnose(found.evaluation)
        )

    def _evaluate(self, documents: DocumentSums | None = None) -> Evaluation:
        return evaluate_objectives(
            self.learner,
            self.batches,
            machine=self.machine,
            weights=self.weights,
            documents=documents,
        )

    def _diagnose(self, found: Evaluation) -> Found:
        return diagnose_scores(found.metrics, self._counts, unigram=self._unigram_loss)


def _told_with(metrics: Mapping[str, float]) -> dict[str, Interval]:
    """Return the range of a probe, whose bounds are told among its scores."""
    if "probe_low" not in metrics:
        return {}
    names = ("probe_accuracy", "probe_low", "probe_high")
    return {"probe_accuracy": Interval(*(metrics[name] for name in names))}
