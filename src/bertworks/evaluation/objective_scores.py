"""Scores of pre-training: each objective on held-out text, and how sure they are."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from bertworks.core.batch import Batch, Layout, Target
from bertworks.core.device import Machine
from bertworks.core.pieces import IGNORE
from bertworks.evaluation.bootstrap import intervals
from bertworks.evaluation.statistics import Interval
from bertworks.tasks.statistic import Sample, Score, Statistic
from bertworks.tasks.task import Learner, Task
from bertworks.training.plan import Evaluation

LOSS, COUNT, HITS, RIGHT, SAID, THERE = range(6)  # what is summed; the last three of yes alone
NUM_SUMS = 6


@torch.inference_mode()
def evaluate_objectives(
    model: Learner,
    batches: Sequence[Batch],
    *,
    machine: Machine,
    weights: Mapping[str, float] | None = None,
    documents: "DocumentSums | None" = None,
) -> Evaluation:
    """Return each objective's loss and accuracy on held-out text; the weighted loss is to fall.

    An objective that the text has nothing for is left out. Where a generator makes the task, the
    loss of finding what it replaced rises as it gets better: there is no score. What each document
    adds is put into `documents`, if they are given.
    """
    was_training = model.training
    model.train(False)
    torch.manual_seed(0)  # a generator draws the same each time
    found = {name: _Tally() for name in model.tasks}
    for batch in batches:
        with machine.autocast():
            for name, (logits, target) in model.judged(batch.to(machine.device)).items():
                found[name].add(model.tasks[name], logits, target)
                if documents is not None:
                    documents.add(name, model.tasks[name], (logits, target), batch)
    model.train(was_training)
    found = {name: tally for name, tally in found.items() if tally.sums[COUNT]}
    metrics = {"loss": sum(tally.mean_loss for tally in found.values())}
    for name, tally in found.items():
        metrics |= {f"{name}_{metric}": value for metric, value in tally.metrics().items()}
    if "replaced_token" in found:
        return Evaluation(None, metrics)
    weighted = ((weights or {}).get(name, 1.0) * tally.mean_loss for name, tally in found.items())
    return Evaluation(-sum(weighted), metrics)


class DocumentSums:
    """What each held-out document adds to the sums of every objective; the ids of texts name it."""

    def __init__(self) -> None:
        self._sums: dict[int, dict[str, np.ndarray]] = {}
        self._is_binary: dict[str, bool] = {}

    def __len__(self) -> int:
        return len(self._sums)

    def add(self, name: str, task: Task, judged: tuple[Tensor, Target], batch: Batch) -> None:
        """Take what one objective came to on the texts of a batch; two may have the same head."""
        self._is_binary[name] = judged[0].shape[-1] == 1
        rows = _sums_by_text(task, *judged, batch.layout).cpu().double().numpy()
        for document, row in zip(batch.ids, rows, strict=True):
            own = self._sums.setdefault(document, {})
            own[name] = own.get(name, 0.0) + row

    def intervals(self) -> dict[str, Interval]:
        """Return the scores with their ranges over drawn documents; of one there are none."""
        names, nothing = list(self._is_binary), np.zeros(NUM_SUMS)
        rows = [[own.get(name, nothing) for name in names] for own in self._sums.values()]
        table = np.array(rows).reshape(len(rows), -1)
        totals = table.sum(axis=0).reshape(-1, NUM_SUMS)
        asked = [at for at in range(len(names)) if totals[at, COUNT]]
        scores: dict[str, Score] = {"loss": _added([_mean(at, LOSS, totals) for at in asked])}
        for at in asked:
            own = _scores_of(at, totals, is_binary=self._is_binary[names[at]])
            scores |= {f"{names[at]}_{metric}": score for metric, score in own.items()}
        sample = Sample.of(table)
        found = {name: Statistic(sample, score) for name, score in scores.items()}
        return intervals(found, np.arange(len(table)))


class _Tally:
    """What one objective came to on all batches."""

    def __init__(self) -> None:
        self.sums = [0.0] * NUM_SUMS
        self.is_binary = False

    def add(self, task: Task, logits: Tensor, target: Target) -> None:
        """Count one batch."""
        self.is_binary = logits.shape[-1] == 1
        counted = _counts(logits, target).sum(dim=0).tolist()
        added = [float(task.loss(logits, target)), target.count, *counted[1:]]
        self.sums = [had + more for had, more in zip(self.sums, added, strict=True)]

    @property
    def mean_loss(self) -> float:
        return self.sums[LOSS] / self.sums[COUNT]

    def metrics(self) -> dict[str, float]:
        """Return the scores; of yes and no also how often yes was right, and found."""
        sums = np.array(self.sums)
        found = _scores_of(0, sums[None], is_binary=self.is_binary)
        return {name: float(score(sums)) for name, score in found.items()}


def _counts(logits: Tensor, target: Target) -> Tensor:
    """Return for each row of a target what it adds beside its loss; a logit above zero says yes."""
    asked, gold = target.values != IGNORE, target.values
    is_binary = logits.shape[-1] == 1
    answers = (logits[:, 0] > 0).long() if is_binary else logits.argmax(-1)
    said, there = (asked & is_binary & (side == 1) for side in (answers, gold))
    return torch.stack([asked, asked & (answers == gold), said & there, said, there], dim=1).long()


def _sums_by_text(task: Task, logits: Tensor, target: Target, layout: Layout) -> Tensor:
    """Return what each text of a batch adds, [N, sums]; the rows of a target are in their order."""
    num_texts = len(layout.lengths)
    texts = torch.arange(num_texts, device=logits.device)
    if target.at is not None:
        ends = layout.starts[1:].to(target.at)
        texts = torch.searchsorted(ends, target.at, right=True)
    sizes = texts.bincount(minlength=num_texts).tolist()
    parts = zip(logits.split(sizes), target.values.split(sizes), strict=True)
    losses = [
        task.loss(rows, Target(values)).float()
        if len(values)
        else rows.new_zeros((), dtype=torch.float)
        for rows, values in parts
    ]
    counts = _counts(logits, target)
    found = counts.new_zeros(num_texts, counts.shape[1]).index_add_(0, texts, counts)
    return torch.cat([torch.stack(losses)[:, None], found], dim=1)


def _scores_of(at: int, totals: np.ndarray, *, is_binary: bool) -> dict[str, Score]:
    """Return the scores of one objective, whose sums stand behind those of `at` others."""
    scores = {"loss": _mean(at, LOSS, totals), "accuracy": _mean(at, HITS, totals)}
    if not is_binary:
        return scores
    first = at * NUM_SUMS

    def share(sums: np.ndarray, part: int, *whole: int) -> np.ndarray:
        return sums[..., first + part] / np.maximum(sum(sums[..., first + one] for one in whole), 1)

    return scores | {
        "share": _mean(at, THERE, totals),
        "precision": lambda sums: share(sums, RIGHT, SAID),
        "recall": lambda sums: share(sums, RIGHT, THERE),
        "f1": lambda sums: 2 * share(sums, RIGHT, SAID, THERE),
    }


def _mean(at: int, column: int, totals: np.ndarray) -> Score:
    """Return the mean of a column over what was asked; that of all where a sample asks nothing."""
    of_all = totals[at, column] / totals[at, COUNT]

    def mean(sums: np.ndarray) -> np.ndarray:
        count = sums[..., at * NUM_SUMS + COUNT]
        found = sums[..., at * NUM_SUMS + column] / np.maximum(count, 1)
        return np.where(count > 0, found, of_all)

    return mean


def _added(scores: Sequence[Score]) -> Score:
    return lambda sums: np.sum([score(sums) for score in scores], axis=0)
