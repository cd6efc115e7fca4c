"""The usual failures of pre-training, named with their numbers.

Every function returns what it sees: a sentence for each failure, by a name; a sound run has none.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np

from bertworks.evaluation.statistics import wilson

Found = dict[str, str]  # a failure's name -> a sentence about it
LARGEST_DUPLICATE_SHARE = 0.1
PINNED = 0.97  # times the loss of a guess that knows only how often each answer comes
WIDEST = 0.1  # half of an interval; a wider one tells nothing
FEWEST_REPLACED = 0.2  # of what was hidden
TOO_EASY = 0.95  # F1 of the discriminator
FEWEST_STEPS = 40  # that tell a course
ALWAYS, FAR = 0.95, 5.0  # share of the steps that are clipped; times that the norm is too large
# What an objective asks about; all others ask about known pieces.
ASKED_ABOUT = {
    "next_sentence": "two documents with two sentences in a row that fit into --longest",
    "sentence_order": "two sentences in a row that fit into --longest",
}


def unigram_loss(counts: np.ndarray, hidden: np.ndarray) -> float:
    """Return the mean loss of guessing hidden pieces by how often each piece comes."""
    shares = (counts + 1) / (counts.sum() + len(counts))
    return float(-np.log(shares[hidden]).mean()) if len(hidden) else math.inf


def diagnose_corpus(duplicate_share: float) -> Found:
    """Look at what is learned from."""
    if duplicate_share <= LARGEST_DUPLICATE_SHARE:
        return {}
    said = (
        f"{duplicate_share:.0%} of the passages are copies of others, so they are learned by "
        "heart; remove duplicates with bertworks clean"
    )
    return {"duplicates": said}


def diagnose_scores(
    metrics: Mapping[str, float], counts: Mapping[str, float], *, unigram: float
) -> Found:
    """Look at the scores on held-out text, over so many targets of each objective."""
    found = _unasked(counts)
    if "fill_mask_loss" in metrics:
        found |= _pinned(metrics["fill_mask_loss"], unigram)
    for name in ("next_sentence", "sentence_order"):
        if f"{name}_accuracy" in metrics:
            found |= _at_chance(name, metrics[f"{name}_accuracy"], counts[name])
    if "replaced_token_f1" in metrics:
        hidden_share = counts["fill_mask"] / max(counts["replaced_token"], 1)
        found |= _generator(metrics, hidden_share) | _discriminator(metrics)
    return found


def diagnose_course(log: Sequence[Mapping[str, Any]], *, clip: float, weight: float = 1.0) -> Found:
    """Look at the steps of a run, by its log; gradients grow with the largest weight of a loss."""
    steps = [entry for entry in log if "gradient_norm" in entry]
    if len(steps) < FEWEST_STEPS:
        return {}
    losses = [float(entry["fill_mask"]) for entry in steps if "fill_mask" in entry]
    norms = [float(entry["gradient_norm"]) for entry in steps[len(steps) // 2 :]]
    return _not_falling(np.array(losses)) | _clipped(np.array(norms), clip, max(weight, 1.0))


class Watch:
    """Tells in the middle of a run what is wrong at two evaluations in a row, and tells it once."""

    def __init__(self) -> None:
        self._before: set[str] = set()
        self._told: set[str] = set()

    def look(self, found: Found) -> list[str]:
        """Return what is to be said after an evaluation."""
        lasting = [name for name in found if name in self._before and name not in self._told]
        self._before = set(found)
        self._told.update(lasting)
        return [found[name] for name in lasting]


def _unasked(counts: Mapping[str, float]) -> Found:
    found = {}
    for name in (name for name, count in counts.items() if not count):
        lacking = ASKED_ABOUT.get(name, "pieces that the vocabulary knows")
        found[f"no_{name}"] = (
            f"{name} has nothing to ask about: the held-out text lacks {lacking}; leave {name} "
            "out, or tokenize other text"
        )
    return found


def _pinned(loss: float, unigram: float) -> Found:
    if loss < PINNED * unigram:
        return {}
    little, below = _told(loss, unigram)
    said = (
        f"the loss of fill_mask is {loss:.3f}, {below} {unigram:.3f}, which needs no more than to "
        f"know how often each piece comes: {little} was learned from context; train longer, or "
        "look at --lr and the text"
    )
    return {"unigram": said}


def _at_chance(name: str, accuracy: float, count: float) -> Found:
    """Compare with guessing, by Wilson's interval."""
    _, low, high = astuple(wilson(accuracy * count, count))
    if not (high - low) / 2 <= WIDEST or low > 0.5:
        return {}
    said = (
        f"the accuracy of {name} is {accuracy:.3f} [{low:.3f}, {high:.3f}] on {count:.0f} pairs, "
        f"no better than chance; train longer, or leave {name} out"
    )
    return {name: said}


def _generator(metrics: Mapping[str, float], hidden_share: float) -> Found:
    replaced = metrics["replaced_token_share"] / max(hidden_share, 1e-9)
    if replaced < FEWEST_REPLACED:
        said = (
            f"the generator is too strong: only {replaced:.0%} of what was hidden came out as "
            "another piece, so there is little to find; lower --generator-size"
        )
        return {"strong_generator": said}
    f1 = metrics["replaced_token_f1"]
    if f1 <= TOO_EASY:
        return {}
    said = (
        f"the generator is too weak: what it replaced is found with an F1 of {f1:.3f}, so there is "
        "little to learn; raise --generator-size"
    )
    return {"weak_generator": said}


def _discriminator(metrics: Mapping[str, float]) -> Found:
    share, loss = metrics["replaced_token_share"], metrics["replaced_token_loss"]
    guess = -sum(chance * math.log(chance) for chance in (share, 1 - share) if chance)
    if not guess or loss < PINNED * guess:
        return {}
    little, below = _told(loss, guess)
    said = (
        f"the loss of replaced_token is {loss:.3f}, {below} {guess:.3f}, that of knowing that "
        f"{share:.1%} are replaced (accuracy {metrics['replaced_token_accuracy']:.3f}): the "
        f"discriminator has learned {little}; train longer, or raise the weight of replaced_token"
    )
    return {"discriminator": said}


def _told(loss: float, guess: float) -> tuple[str, str]:
    """Say how much more than a guess was learned, and where the loss lies beside that of it."""
    share = f"{1 - loss / guess:.1%}"
    return (
        ("nothing", "not below")
        if share in ("-0.0%", "0.0%") or loss > guess
        else ("little", f"{share} below")
    )


def _not_falling(losses: np.ndarray) -> Found:
    """Compare the halves of the run; what differs by chance is no fall."""
    losses = losses[np.isfinite(losses)]
    if len(losses) < FEWEST_STEPS:
        return {}
    first, second = np.array_split(losses, 2)
    error = math.sqrt(first.var() / len(first) + second.var() / len(second))
    if second.mean() < first.mean() - 2 * error:
        return {}
    said = (
        f"the loss of fill_mask does not fall: it is {first.mean():.3f} in the first half of the "
        f"run and {second.mean():.3f} in the second; try another --lr"
    )
    return {"loss_not_falling": said}


def _clipped(norms: np.ndarray, clip: float, weight: float) -> Found:
    share = float((norms > clip).mean())
    if share < ALWAYS or np.median(norms) < FAR * clip * weight:
        return {}
    said = (
        f"the gradient was clipped in {share:.0%} of the steps of the second half (the middle norm "
        f"is {np.median(norms):.2f}, --clip {clip:g}), so the clip sets the pace; lower --lr or "
        "raise --clip"
    )
    return {"clipping": said}
