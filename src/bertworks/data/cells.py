"""Values as files have them -> values as forms read them: lists, spans, choices."""

import ast
import io
import json
import re
import string
import tokenize
import warnings
from collections.abc import Callable, Container, Mapping
from itertools import pairwise
from typing import Any

from bertworks.core.errors import DataError
from bertworks.data.answer_places import is_whole
from bertworks.data.span_words import require_at

NO_AGREEMENT = "-"  # a label of SNLI, MNLI and OCNLI: their annotators did not agree on one
HYPOTHESES = ("sentence2", "hypothesis")  # how these sets name their second text
START_NAMES = ("answer_start", "start")  # of a column beside answers that are bare texts
_OPENINGS = ("[", "{", "('", '("')  # of lists and objects, and of tuples of texts
# What is meant as a list where words may also begin with a bracket, as [CLS] and [ 1 ] do: quoted
# texts, commas from the first word on, or nothing but numbers.
_LISTED = re.compile(r"""[\[{](?:['"]|[^\s|\]}]*,.*[\]}]$|[\d\s.]+\]$)""", re.DOTALL)
_MOST_DIGITS = 9  # of a label that is the number of a choice


def arrange(
    row: Mapping[str, Any], columns: Mapping[str, str], wanted: Container[str]
) -> dict[str, Any]:
    """Return a row with lists in the wanted columns that hold some, or raise why it cannot be."""
    found = dict(row)
    if "label" in wanted and _is_disputed(row, columns):
        raise DataError(f"the label is {NO_AGREEMENT!r}: its annotators agreed on none")
    if "choices" in wanted:
        choices, label = (columns.get(ours, ours) for ours in ("choices", "label"))
        found |= _choices_and_label(row, choices, label if "label" in wanted else None)
    for ours, convert in _CONVERT.items():
        theirs = columns.get(ours, ours)
        if ours in wanted and found.get(theirs) is not None:
            found[theirs] = convert(found[theirs], row)
    return found


def _is_disputed(row: Mapping[str, Any], columns: Mapping[str, str]) -> bool:
    is_inference = columns.get("text_b", "").casefold() in HYPOTHESES
    return is_inference and row.get(columns.get("label", "label")) == NO_AGREEMENT


def _choices_and_label(row: Mapping[str, Any], choices: str, label: str | None) -> dict[str, Any]:
    """Return choices from columns of their own or with marks, and which one a label names."""
    said = row.get(label) if label else None
    found: dict[str, Any]
    if choices not in row and "," in choices:
        parts = choices.split(",")
        found = {choices: _choices(row, parts)}
        if label and isinstance(said, str):
            found[label] = _chosen(said.strip(), parts, found[choices])
        return found
    marked = _marked_choices(row.get(choices))
    if marked is None:
        return {}
    found = {choices: list(marked.values())}
    if label and isinstance(said, str) and said in marked:
        found[label] = list(marked).index(said)
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


def _chosen(said: str, parts: list[str], choices: list[Any]) -> int | str:
    """Return a label that names a column of choices, or is its letter, as a number from 0 on."""
    for names in (parts, list(string.ascii_uppercase[: len(parts)])):
        if said in names and not said.isdecimal():
            return names.index(said)
    if not said.isdecimal() or len(said) > _MOST_DIGITS:
        return said
    texts = [str(choice).strip() for choice in choices]
    if all(part.isdecimal() for part in parts) or said not in texts:
        return int(said)
    if int(said) < len(texts) and texts[int(said)] != said:
        text, number = (parts[at] for at in (texts.index(said), int(said)))
        raise DataError(
            f"the label {said!r} is the text of the choice {text!r} and the number of {number!r}; "
            "write the name of the column that is meant"
        )
    return said


def _list(found: Any, row: Mapping[str, Any]) -> Any:
    """Return the list or object that a cell of a table writes."""
    written = _written(found)
    if written is None and isinstance(found, str) and found.lstrip().startswith(("[", "{")):
        raise _no_list(found)
    return found if written is None else written


def _words(found: Any, row: Mapping[str, Any]) -> Any:
    listed = _list_or_text(found)
    return listed.split() if isinstance(listed, str) else listed


def _labels(found: Any, row: Mapping[str, Any]) -> Any:
    return [] if found == "" else _list_or_text(found)


def _answers(found: Any, row: Mapping[str, Any]) -> Any:
    """Return answers as objects where they are bare texts, with starts that stand beside them."""
    written = _written(found)
    listed = found if written is None else written
    if isinstance(listed, str):
        listed = [listed] if listed.strip() else []
    if not isinstance(listed, list) or not any(isinstance(item, str) for item in listed):
        return listed
    pairs = zip(listed, _starts(row, len(listed)), strict=True)
    return [{"text": item} | start if isinstance(item, str) else item for item, start in pairs]


def _starts(row: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """Return the start of each answer as a column of its own tells it, or nothing of each."""
    folded = {name.strip().casefold(): value for name, value in row.items()}
    said = [name for name in START_NAMES if folded.get(name) not in (None, "")]
    if not said:
        return [{}] * count
    written = _written(folded[said[0]])
    listed = folded[said[0]] if written is None else written
    starts = listed if isinstance(listed, list) else [listed]
    if said[0] == "start" and not all(map(is_whole, starts)):
        return [{}] * count  # of something else, such as a time
    if len(starts) != count:
        raise DataError(f"{count} answers but {len(starts)} starts; each answer needs one")
    return [{"start": start} for start in starts]


def _list_or_text(found: Any) -> Any:
    """Return the list that a cell writes, or its text where that is not meant as a list."""
    written = _written(found)
    if written is None and isinstance(found, str) and _LISTED.match(found.strip()):
        raise _no_list(found)
    return found if written is None else written


def _written(found: Any) -> Any:
    """Return the list or object that a text writes as JSON or as Python does, or None."""
    if not isinstance(found, str) or not found.lstrip().startswith(_OPENINGS):
        return None
    try:
        return json.loads(found)
    except (ValueError, RecursionError):
        return _python_list(found.strip())


def _python_list(text: str) -> Any:
    """Return what pandas writes of a list, with lists for its tuples, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about signs such as \\d in a text
            found = json.loads(json.dumps(ast.literal_eval(text)))
        is_joined = _joins_texts(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError, tokenize.TokenError):
        return None
    return found if isinstance(found, list | dict) and not is_joined else None


def _joins_texts(text: str) -> bool:
    """Tell whether texts stand side by side without a comma: Python makes one of them."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    kinds = [token.type for token in tokens if token.type not in (tokenize.NL, tokenize.NEWLINE)]
    return (tokenize.STRING, tokenize.STRING) in pairwise(kinds)


def _no_list(found: str) -> DataError:
    return DataError(f'{found!r:.60} looks like a list but is no JSON; write ["a", "b"]')


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
                    if isinstance(row.get("text"), str):
                        require_at(words, row["text"], first, last + 1)
                    spans.append([first, last + 1, kind])
    except (AttributeError, TypeError, ValueError):
        raise DataError(f"the spans {listed!r:.60} are not {{kind: {{words: places}}}}") from None
    return spans


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
