"""How a pre-training run is judged: scored on held-out text, and told what usually goes wrong."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bertworks.core.batch import Batch
from bertworks.core.device import Machine
from bertworks.core.errors import TrainingError
from bertworks.core.progress import say
from bertworks.data.corpus_counts import CorpusCounts
from bertworks.evaluation.diagnostics import (
    Found,
    Watch,
    diagnose_corpus,
    diagnose_course,
    diagnose_scores,
    unigram_loss,
)
from bertworks.evaluation.scoring import evaluate_objectives
from bertworks.tasks.task import Learner
from bertworks.training.plan import Evaluation

MoreScores = Callable[[int], dict[str, float]]  # of the network as it is after a step


class Judge:
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

    def final_score(self) -> Evaluation:
        """Score the network at the end of its run; one that came apart is an error."""
        found = self._evaluate()
        if not math.isfinite(found.metrics["loss"]):
            raise TrainingError(
                f"the loss on held-out text is {found.metrics['loss']} in the end, so the weights "
                "are broken; begin again elsewhere with a lower --lr"
            )
        return replace(found, metrics=found.metrics | self.more(0))

    def warnings(
        self, found: Evaluation, log: Sequence[Mapping[str, Any]], *, clip: float
    ) -> Found:
        """Name all that went wrong in a run, by its last scores and its log."""
        course = diagnose_course(log, clip=clip, weight=max(self.weights.values()))
        return diagnose_corpus(self.corpus.duplicate_share) | course | self._diagnose(found)

    def _evaluate(self) -> Evaluation:
        return evaluate_objectives(
            self.learner, self.batches, machine=self.machine, weights=self.weights
        )

    def _diagnose(self, found: Evaluation) -> Found:
        return diagnose_scores(found.metrics, self._counts, unigram=self._unigram_loss)
