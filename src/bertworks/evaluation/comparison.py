"""Two reports of the same examples side by side: by score, by label and by slice."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bertworks.core.errors import DataError
from bertworks.evaluation.bootstrap import join_units
from bertworks.evaluation.paired_tests import Difference, compare_scores, holm
from bertworks.evaluation.verdicts import Verdicts, refuse_other_data
from bertworks.tasks.statistic import Statistic
from bertworks.tasks.task import LabelTable, Scorer

LEAST_TEXTS = 10  # that a label or a slice is judged by
NUM_LENGTHS = 4
UNDEFINED = "the score is not defined for both"
Slices = Mapping[str, np.ndarray]  # the numbers of their examples
Sides = tuple[Mapping[str, Statistic], Mapping[str, Statistic]]  # of the first report, the second


@dataclass(frozen=True)
class Compared:
    """A label or a slice of the examples, compared; or why it is not."""

    name: str
    num_examples: int
    difference: Difference | None
    note: str = ""


@dataclass(frozen=True)
class Comparison:
    """What two reports differ in."""

    num_examples: int
    num_texts: int
    scores: dict[str, Difference]
    sliced_by: str  # the score that slices are compared by
    labels: list[Compared]  # by their F1
    slices: list[Compared]
    undefined: tuple[str, ...] = ()  # scores that one of both does not have


def compare(first: Verdicts, second: Verdicts, *, seed: int = 0) -> Comparison:
    """Compare two reports of the same examples.

    The p-values of labels and slices are corrected for that they are many.
    """
    refuse_other_data(first, second)
    units = _numbered(first.units)
    num_texts = int(units.max()) + 1 if len(units) else 0
    if num_texts < 2:
        raise DataError(
            f"{first.folder} is of {num_texts} text only, by which no two models can be told "
            "apart; evaluate both on more"
        )
    cuts = [{"all": np.arange(len(units))}, *filter(None, slices_of(first))]
    parts = [list(cut.values()) for cut in cuts]
    read = [side.scorers(parts, count=len(units)) for side in (first, second)]
    scorers = read[0][0][0], read[1][0][0]
    sides = scorers[0].statistics(), scorers[1].statistics()
    if not sides[0].keys() & sides[1].keys():
        raise DataError(
            f"{first.folder} and {second.folder} have no score that is defined for both, as where "
            "all gold is the same; evaluate both on other examples"
        )
    scores = _differences(sides, units, seed=seed)
    sliced_by = "accuracy" if "accuracy" in scores else next(iter(scores))
    labels = list(_compare_labels(scorers, units, seed=seed))
    by_slice = [own[1:] for own in read]
    slices = list(_compare_slices(cuts[1:], by_slice, units, sliced_by, seed=seed))
    both = _corrected([*labels, *slices])
    return Comparison(
        len(units),
        num_texts,
        scores,
        sliced_by,
        both[: len(labels)],
        both[len(labels) :],
        tuple(name for name in {**sides[0], **sides[1]} if name not in scores),
    )


def _differences(sides: Sides, units: np.ndarray, *, seed: int) -> dict[str, Difference]:
    """Compare every score that both have."""
    first, second = (join_units(side, units) for side in sides)
    return compare_scores(first, second, seed=seed)


def _compare_labels(
    scorers: tuple[Scorer, Scorer], units: np.ndarray, *, seed: int
) -> Iterator[Compared]:
    first, second = scorers
    if not isinstance(first, LabelTable) or not isinstance(second, LabelTable):
        return
    support = {label: int(row["support"]) for label, row in first.by_label().items()}
    sides = first.label_statistics(), second.label_statistics()
    judged = [label for label, count in support.items() if count >= LEAST_TEXTS]
    found = _differences(_only(judged, sides), units, seed=seed)
    for label in sorted({*sides[0], *sides[1]}, key=lambda name: (-support.get(name, 0), name)):
        note = "" if label in found else UNDEFINED
        if label not in judged:
            few = f"fewer than {LEAST_TEXTS} examples have it"
            note = few if support.get(label) else "no example has it"
        yield Compared(label, support.get(label, 0), found.get(label), note)


def _compare_slices(
    cuts: Sequence[Slices],
    read: Sequence[list[list[Scorer]]],
    units: np.ndarray,
    score: str,
    *,
    seed: int,
) -> Iterator[Compared]:
    for cut, *sides in zip(cuts, *read, strict=True):
        for (name, chosen), first, second in zip(cut.items(), *sides, strict=True):
            own = _numbered(units[chosen])
            if own.max() + 1 < LEAST_TEXTS:
                yield Compared(name, len(chosen), None, f"fewer than {LEAST_TEXTS} texts are in it")
                continue
            both = first.statistics(), second.statistics()
            found = _differences(_only([score], both), own, seed=seed)
            yield Compared(name, len(chosen), found.get(score), "" if found else UNDEFINED)


def _only(names: Sequence[str], sides: Sides) -> Sides:
    first, second = ({n: side[n] for n in names if n in side} for side in sides)
    return first, second


def slices_of(verdicts: Verdicts) -> Iterator[dict[str, np.ndarray]]:
    """Yield the slices by length, by source and by gold, with the numbers of their examples."""
    columns = verdicts.columns
    yield _by_length(columns.lengths)
    yield {f"source {name}": chosen for name, chosen in columns.sources.parts().items()}
    yield {f"gold {name}": chosen for name, chosen in columns.labels.parts().items()}


def _by_length(lengths: np.ndarray) -> dict[str, np.ndarray]:
    found = {}
    bounds = np.unique(np.quantile(lengths, np.linspace(0, 1, NUM_LENGTHS + 1), method="lower"))
    for low, high in zip([-1, *bounds[1:-1]], bounds[1:], strict=True) if len(bounds) > 2 else ():
        chosen = np.flatnonzero((lengths > low) & (lengths <= high))
        found[f"{lengths[chosen].min()} to {high} characters"] = chosen
    return found


def _corrected(parts: Sequence[Compared]) -> list[Compared]:
    """Correct all p-values together."""
    judged = [part for part in parts if part.difference]
    p_values = holm([part.difference.p_value for part in judged if part.difference])
    found = dict(zip(map(id, judged), p_values, strict=True))
    return [
        replace(part, difference=replace(part.difference, p_value=found[id(part)]))
        if part.difference
        else part
        for part in parts
    ]


def _numbered(units: np.ndarray) -> np.ndarray:
    """Return the numbers of texts without gaps."""
    return np.unique(units, return_inverse=True)[1].reshape(-1)
