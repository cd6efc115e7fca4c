"""A comparison in words and tables, for a terminal and as JSON."""

from typing import Any

from bertworks.evaluation.comparison import Compared, Comparison
from bertworks.evaluation.paired_tests import SAME, Difference
from bertworks.evaluation.statistics import CONFIDENCE
from bertworks.tasks.metrics import ERRORS

Row = dict[str, Any]


def comparison_rows(found: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON data: what it says, and its tables."""
    result: dict[str, Any] = {
        "examples": found.num_examples,
        "texts": found.num_texts,
        "verdict": verdict(found),
        "scores": [
            {
                "score": name,
                **_told(one),
                "test": one.test,
                "more_texts": one.num_more,
            }
            for name, one in found.scores.items()
        ],
    }
    for kind, parts in (("labels", found.labels), ("slices", found.slices)):
        if parts:
            result[kind] = [_row(kind.removesuffix("s"), part) for part in parts]
    return result | {"notes": notes(found)}


def verdict(found: Comparison) -> str:
    """Say by the first score whether the two are told apart."""
    name, one = next(iter(found.scores.items()))
    shown = f"{one.interval.mean:+.4f} [{one.interval.low:+.4f}, {one.interval.high:+.4f}]"
    tested = f"p = {_shown(one.p_value)}, {one.test}"
    if one.p_value < 1 - CONFIDENCE:
        better = "second" if (one.interval.mean > 0) != (name in ERRORS) else "first"
        return f"the {better} is better in {name}: {shown}, {tested}"
    if one.num_needed is None:
        is_same = abs(one.interval.mean) < SAME
        why = "it is the same for both" if is_same else f"{one.num_units} texts are too few to tell"
        return f"{name} does not tell them apart: {shown}, {tested}; {why}"
    said = f"{name} does not tell them apart: {shown}, {tested}"
    if not one.num_more:
        return f"{said}; the data are just about enough for a difference so large"
    return (
        f"{said}; a difference so large would take about {one.num_more:,} more texts "
        f"({one.num_needed:,} in all) to be found four times in five"
    )


def notes(found: Comparison) -> list[str]:
    """Return what a reader must know of the numbers."""
    judged = [part for part in (*found.labels, *found.slices) if part.difference]
    said = [
        "differences are the second less the first, with the 95 % interval of a paired bootstrap "
        "over texts",
        "the p-values of scores are not corrected: decide beforehand by which one to judge",
    ]
    if found.undefined:
        told = ", ".join(found.undefined)
        said.append(f"not compared, for they are not defined for both: {told}")
    if judged:
        said.append(
            f"the p-values of labels and slices are corrected for {len(judged)} comparisons (Holm)"
        )
    if found.labels:
        said.append("labels are compared by their F1")
    if found.slices:
        said.append(f"slices are compared by {found.sliced_by}")
    return said


def _told(one: Difference) -> Row:
    return {
        "first": one.first,
        "second": one.second,
        "difference": one.interval.mean,
        "low": one.interval.low,
        "high": one.interval.high,
        "p": one.p_value,
    }


def _row(kind: str, part: Compared) -> Row:
    names = ("first", "second", "difference", "low", "high", "p")
    told = _told(part.difference) if part.difference else dict.fromkeys(names)
    return {kind: part.name, "examples": part.num_examples, **told, "note": part.note}


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.1e}" if 0 < abs(value) < 5e-4 else f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value).replace("|", "\\|")
