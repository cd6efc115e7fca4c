"""How near the answers of one predictor are to those of another."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from bertworks.core.errors import ArtifactError
from bertworks.serving.predictor import Predictor
from bertworks.tasks.statistic import ranks_of
from bertworks.tasks.task import Answer

FEWEST = 20  # answers whose agreement is judged
MOST_ALONE = 64  # texts that are embedded by themselves too
MOST_MASKED = 32  # texts in which a piece is hidden


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """How far vectors and answers may lie apart."""

    difference: float | None = None  # of any number of a vector; None: as may be
    cosine: float
    agreement: float
    spearman: float
    masks: float  # half of what the chances behind a mask differ by, in the mean
    remedy: str  # what to do where they are farther apart


COMPARED = "compared.json"  # how near a model that was written is to the one it was made of
EXACT = Tolerance(
    difference=1e-4,
    cosine=0.9999,
    agreement=0.99,
    spearman=0.999,
    masks=0.001,
    remedy="this is a fault of bertworks: report it with the config.json",
)
ROUNDED = Tolerance(
    cosine=0.99,
    agreement=0.95,
    spearman=0.95,
    masks=0.25,
    remedy="export with --precision fp32",
)
TOLERANCES = {
    "fp32": EXACT,
    "int8": ROUNDED,
    # Of what a model has beside its base: moves in half precision, or the strongest of them alone.
    "difference": replace(EXACT, difference=None, masks=0.01, remedy="leave --base out"),
    "strongest": replace(ROUNDED, remedy="give a larger --rank, or leave --base out"),
}


@dataclass(frozen=True, kw_only=True)
class Parity:
    """What was compared, in numbers."""

    texts: int
    largest_difference: float
    mean_cosine: float
    lowest_cosine: float
    mean_cosine_alone: float | None = None  # of vectors among neighbours with those of texts alone
    lowest_cosine_alone: float | None = None
    answers: int = 0
    label_agreement: float | None = None
    spearman: float | None = None  # of the scores that both answer with
    spearman_of_cosines: float | None = None  # of the cosines of each text with the next one
    mask_distance: float | None = None  # half of what the chances behind a mask differ by
    scores_before: dict[str, float] | None = None
    scores_after: dict[str, float] | None = None

    @classmethod
    def of(cls, before: np.ndarray, after: np.ndarray, **other: Any) -> Self:
        """Compare the vectors of the same texts."""
        cosines = _cosines(before, after)
        return cls(
            texts=len(before),
            largest_difference=float(np.abs(before - after).max()),
            mean_cosine=float(cosines.mean()),
            lowest_cosine=float(cosines.min()),
            spearman_of_cosines=_spearman(*(_cosines(v[:-1], v[1:]) for v in (before, after))),
            **other,
        )

    def check(self, tolerance: Tolerance) -> None:
        """Stop where the two lie too far apart."""
        if found := self._too_far(tolerance):
            what, number, limit = found
            raise ArtifactError(
                f"the exported file gives {what} {number}, and {limit} is asked for, so it was "
                f"thrown away; {tolerance.remedy}"
            )

    def _too_far(self, tolerance: Tolerance) -> tuple[str, str, str] | None:
        """Return what lies too far apart, how far, and how far it may; None: nothing does."""
        limit = tolerance.difference
        if limit is not None and not self.largest_difference <= limit:
            return "vectors that differ by", f"{self.largest_difference:.1e}", f"{limit}"
        if not self.mean_cosine >= tolerance.cosine:
            found = f"{self.mean_cosine:.4f}"
            return "vectors whose mean cosine is", found, f"{tolerance.cosine} or more"
        moved = self.mask_distance
        if moved is not None and not moved <= tolerance.masks:
            most = f"{tolerance.masks} or less"
            return "chances behind masks that differ by a share of", f"{moved:.3f}", most
        share = self.label_agreement
        if share is not None and self.answers >= FEWEST and share < tolerance.agreement:
            least = f"{tolerance.agreement} or more"
            return "answers that agree with the model's in a share of", f"{share:.3f}", least
        ranks = self.spearman
        if ranks is not None and self.answers >= FEWEST and ranks < tolerance.spearman:
            least = f"{tolerance.spearman} or more"
            return "scores whose Spearman with the model's is", f"{ranks:.4f}", least
        return None


def compare(
    before: Predictor,
    after: Predictor,
    texts: Sequence[str],
    examples: Sequence[Any] = (),
    *,
    labelled: bool = False,
) -> Parity:
    """Compare two predictors: the vectors of texts, the answers to examples and their scores."""
    vectors = [side.embed(texts) for side in (before, after)]
    beside = _alone(after, texts, vectors[1]) | _behind_masks(before, after, texts)
    if not examples:
        return Parity.of(*vectors, **beside)
    first, second = (side.answer_examples(examples) for side in (before, after))
    pairs = [(decision(a), decision(b)) for a, b in zip(first, second, strict=True)]
    return Parity.of(
        *vectors,
        **beside,
        answers=len(examples),
        label_agreement=float(np.mean([a == b for a, b in pairs])) if any(pairs[0]) else None,
        spearman=_spearman(*(_numbers(answers) for answers in (first, second))),
        scores_before=_scores(before, examples, first) if labelled else None,
        scores_after=_scores(after, examples, second) if labelled else None,
    )


def _alone(after: Predictor, texts: Sequence[str], together: np.ndarray) -> dict[str, Any]:
    """Tell how near the vectors of some texts by themselves are to those among neighbours."""
    some = slice(None, None, -(-len(texts) // MOST_ALONE))
    alone = np.concatenate([after.embed([text]) for text in texts[some]])
    cosines = _cosines(alone, together[some])
    return {
        "mean_cosine_alone": float(cosines.mean()),
        "lowest_cosine_alone": float(cosines.min()),
    }


def _behind_masks(before: Predictor, after: Predictor, texts: Sequence[str]) -> dict[str, Any]:
    """Tell how far apart the chances behind a mask in some texts are, where masks are filled."""
    if "fill_mask" not in before.model.tasks:
        return {}
    some = texts[:: -(-len(texts) // MOST_MASKED)]
    masked = [_masked(before, text) for text in some if text.strip()]
    if not masked:
        return {}
    sides = [[_chances(side, text) for text in masked] for side in (before, after)]
    apart = [np.abs(a - b).sum() / 2 for a, b in zip(*sides, strict=True)]
    return {"mask_distance": float(np.mean(apart))}


def _masked(predictor: Predictor, text: str) -> str:
    """Return a text whose middle piece is hidden, or one mask alone where there is no piece."""
    offsets = predictor.tokenizer.encode(text).offsets[: predictor.window // 2]
    start, end = offsets[len(offsets) // 2] if offsets else (0, len(text))
    return f"{text[:start]} [MASK] {text[end : offsets[-1][1] if offsets else end]}"


def _chances(predictor: Predictor, text: str) -> np.ndarray:
    """Return the chance of every piece behind the first mask of a text, by its id."""
    chances = np.zeros(predictor.tokenizer.vocab_size)
    found = predictor.fill_mask(text, num_candidates=len(chances))
    for candidate in found[0] if isinstance(found[0], list) else found:
        chances[candidate.id] = candidate.probability
    return chances


def _cosines(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    before, after = before.astype(np.float64), after.astype(np.float64)
    lengths = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
    return (before * after).sum(1) / np.maximum(lengths, 1e-12)


def _numbers(answers: Sequence[Answer]) -> np.ndarray:
    """Return the scores that answers are made of; of other answers none."""
    return np.array([answer["score"] for answer in answers if "score" in answer])


def _spearman(before: np.ndarray, after: np.ndarray) -> float | None:
    """Return how alike two rows of numbers are ordered; None: one of them has no order."""
    if min(len(np.unique(before)), len(np.unique(after))) < 2:
        return None
    return float(np.corrcoef(ranks_of(before), ranks_of(after))[0, 1])


def decision(answer: Any) -> Any:
    """Return an answer without the numbers that say how sure it is."""
    if isinstance(answer, dict):
        kept = {key: decision(value) for key, value in answer.items()}
        return {key: value for key, value in kept.items() if value is not None}
    if isinstance(answer, list):
        return [decision(value) for value in answer]
    return None if isinstance(answer, float) else answer


def _scores(
    predictor: Predictor, examples: Sequence[Any], answers: Sequence[Answer]
) -> dict[str, float]:
    scorer = predictor.task.scorer()
    for example, answer in zip(examples, answers, strict=True):
        scorer.add(example, answer)
    return scorer.metrics()
