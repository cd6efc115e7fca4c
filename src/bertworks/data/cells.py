"""Values as files have them -> values as forms read them: lists, spans, choices."""

import json
import string
from collections.abc import Callable, Container, Mapping
from typing import Any

from bertworks.core.errors import DataError

NO_AGREEMENT = "-"  # a label of SNLI, MNLI and OCNLI: their annotators did not agree on one
HYPOTHESES = ("sentence2", "hypothesis")  # how these sets name their second text


def arrange(
    row: Mapping[str, Any], columns: Mapping[str, str], wanted: Container[str]
) -> dict[str, Any]:
    """Return a row with lists in the wanted columns that hold some, or raise why it cannot be."""
    found = dict(row)
    if "label" in wanted and _is_disputed(row, columns):
        raise DataError(f"the label is {NO_AGREEMENT!r}: its annotators agreed on none")
    if "choices" in wanted:
        choices, label = (columns.get(ours, ours) for ours in ("choices", "label"))
        found |= _choices_and_label(row, choices, label)
    for ours, convert in _CONVERT.items():
        theirs = columns.get(ours, ours)
        if ours in wanted and found.get(theirs) is not None:
            found[theirs] = convert(found[theirs], row)
    return found


def _is_disputed(row: Mapping[str, Any], columns: Mapping[str, str]) -> bool:
    is_inference = columns.get("text_b", "").casefold() in HYPOTHESES
    return is_inference and row.get(columns.get("label", "label")) == NO_AGREEMENT


def _choices_and_label(row: Mapping[str, Any], choices: str, label: str) -> dict[str, Any]:
    """Return choices from columns of their own or with marks, and which one a label names."""
    if choices not in row and "," in choices:
        parts = choices.split(",")
        return {choices: _choices(row, parts), **_chosen(row, parts, label)}
    marked = _marked_choices(row.get(choices))
    if marked is None:
        return {}
    found: dict[str, Any] = {choices: list(marked.values())}
    if isinstance(row.get(label), str) and row[label] in marked:
        found[label] = list(marked).index(row[label])
    return found


def _choices(row: Mapping[str, Any], parts: list[str]) -> list[Any]:
    """Return the choices of several columns; where there are fewer, the last ones are empty."""
    missing = [part for part in parts if part not in row]
    if missing:
        raise DataError(f"no {missing[0]!r} (found {', '.join(row)})")
    found = [row[part] for part in parts]
    while found and found[-1] in ("", None):
        found.pop()
    return found


def _marked_choices(found: Any) -> dict[str, Any] | None:
    """Return choices by their marks, where they are objects or lists of both, as in ARC."""
    if isinstance(found, dict):
        marks, texts = found.get("label"), found.get("text")
    elif isinstance(found, list) and found and all(isinstance(item, dict) for item in found):
        marks, texts = ([item.get(name) for item in found] for name in ("label", "text"))
    else:
        return None
    names = [mark for mark in marks if isinstance(mark, str)] if isinstance(marks, list) else []
    if not isinstance(texts, list) or len(set(names)) != len(texts) or marks != names:
        raise DataError(f"the choices {found!r:.60} are no texts with a label each")
    return dict(zip(names, texts, strict=True))


def _chosen(row: Mapping[str, Any], parts: list[str], label: str) -> dict[str, Any]:
    """Return a label that names a column of choices, or is its letter, as a number from 0 on."""
    said = row.get(label)
    if not isinstance(said, str):
        return {}
    for names in (parts, list(string.ascii_uppercase[: len(parts)])):
        if said in names and not said.isdecimal():
            return {label: names.index(said)}
    return {label: int(said)} if said.isdecimal() else {}


def _list(found: Any, row: Mapping[str, Any]) -> Any:
    """Return what a cell of a table writes as JSON."""
    if isinstance(found, str) and found.lstrip().startswith(("[", "{")):
        try:
            return json.loads(found)
        except (ValueError, RecursionError):
            return found
    return found


def _words(found: Any, row: Mapping[str, Any]) -> Any:
    listed = _list(found, row)
    return listed.split() if isinstance(listed, str) else listed


def _labels(found: Any, row: Mapping[str, Any]) -> Any:
    return [] if found == "" else _list(found, row)


def _answers(found: Any, row: Mapping[str, Any]) -> Any:
    """Return answers as objects where they are bare texts."""
    listed = _list(found, row)
    if isinstance(listed, str):
        listed = [listed] if listed.strip() else []
    if isinstance(listed, list):
        return [{"text": item} if isinstance(item, str) else item for item in listed]
    return listed


def _spans(found: Any, row: Mapping[str, Any]) -> Any:
    """Return spans from a list, or from CLUE's {kind: {words: [[first, last], ...]}}."""
    listed = _list(found, row)
    if not isinstance(listed, dict):
        return listed
    spans = []
    try:
        for kind, mentions in listed.items():
            for words, places in mentions.items():
                for first, last in places:
                    _require_words(row, words, first, last + 1)
                    spans.append([first, last + 1, kind])
    except (AttributeError, TypeError, ValueError):
        raise DataError(f"the spans {listed!r:.60} are not {{kind: {{words: places}}}}") from None
    return spans


def _require_words(row: Mapping[str, Any], words: str, start: int, end: int) -> None:
    text = row.get("text")
    if isinstance(text, str) and text[start:end] != words:
        raise DataError(f"{words!r:.60} is not what stands at {start}..{end} of the text")


_CONVERT: dict[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "tokens": _words,
    "tags": _words,
    "labels": _labels,
    "spans": _spans,
    "answers": _answers,
    "choices": _list,
    "first": _list,
    "second": _list,
}
