"""Labelled data as one JSON document: SQuAD, raw CMRC 2018, DREAM, or a list of rows."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from bertworks.core.errors import DataError
from bertworks.core.lines import UNREADABLE, open_bytes
from bertworks.core.quarantine import Quarantine

Rows = Iterator[tuple[int, dict[str, Any]]]
JsonLayout = Literal["squad", "dream", "list", "lines"]
TOO_LONG = "holds a number of thousands of digits; write it as a text, or leave it out"
RAW_PASSAGE = "context_text"  # of CMRC 2018 as it was published
_RAW_NAMES = {"query_text": "question", "query_id": "id"}
_NAMES = _RAW_NAMES | {name: name for name in ("question", "answers", "id")}


def json_layout(head: Sequence[str]) -> JsonLayout:
    """Return what a JSON file holds, from its first lines: a document, or one object a line."""
    first = next((line for line in head if line.strip()), "")
    whole = "\n".join(head)
    if re.match(r"\s*\[\s*\[\s*\[", whole):
        return "dream"
    if first.lstrip().startswith("["):
        return "squad" if f'"{RAW_PASSAGE}"' in whole and '"qas"' in whole else "list"
    try:
        row = json.loads(first)
    except (ValueError, RecursionError):
        row = None  # a document that spreads over many lines, or a line longer than the head
    if isinstance(row, dict) and not isinstance(row.get("data"), list):
        return "lines"
    return "squad" if '"paragraphs"' in whole else "list"


def read_squad(file: Path, quarantine: Quarantine, columns: Mapping[str, str]) -> Rows:
    """Yield the questions of a SQuAD document, numbered from 1; impossible ones have no answers."""
    number = 0
    for paragraph in _paragraphs(read_document(file)):
        for asked in _objects(paragraph.get("qas")):
            number += 1
            row = {ours: asked[theirs] for theirs, ours in _NAMES.items() if theirs in asked}
            if asked.get("is_impossible"):
                row["answers"] = []
            passage = paragraph.get("context", paragraph.get(RAW_PASSAGE))
            yield number, {**row, "passage": passage}


def read_dream(file: Path, quarantine: Quarantine, columns: Mapping[str, str]) -> Rows:
    """Yield the questions of a DREAM document, numbered from 1, each with its whole dialogue."""
    number = 0
    for dialogue in read_document(file):
        turns, questions = dialogue[:2] if _is_dialogue(dialogue) else ([], [{}])
        for asked in questions:
            number += 1
            choices, answer = asked.get("choice"), asked.get("answer")
            row = {"question": asked.get("question"), "choices": choices, "label": answer}
            if isinstance(choices, list) and answer in choices:
                row["label"] = choices.index(answer)
            yield number, row | {"passage": "\n".join(turns)}


def read_list(file: Path, quarantine: Quarantine) -> Rows:
    """Yield the objects of a list, numbered from 1, which may stand alone or under `data`."""
    document = read_document(file)
    rows = document.get("data", document) if isinstance(document, dict) else document
    if not isinstance(rows, list):
        raise DataError(f"{file} holds no list of rows; write one object a line into a .jsonl")
    for number, row in enumerate(rows, start=1):
        if isinstance(row, dict):
            yield number, row
        else:
            quarantine.add(file, number, "not a JSON object")


def read_document(file: Path) -> Any:
    """Return a JSON file as a whole."""
    try:
        with open_bytes(file) as stream:
            return json.loads(stream.read().decode("utf-8-sig"))
    except UNREADABLE as error:
        raise DataError(f"{file} cannot be read: {error}") from error
    except (ValueError, RecursionError) as error:
        if is_too_long(error):
            raise DataError(f"{file} {TOO_LONG}") from error
        raise DataError(
            f"{file} is no JSON document ({error}); mend it, or name it .jsonl if it holds one "
            "object a line"
        ) from error


def is_too_long(error: Exception) -> bool:
    """Tell whether JSON could not be read for a number of so many digits that Python refuses it."""
    of_text = isinstance(error, json.JSONDecodeError | UnicodeError | RecursionError)
    return isinstance(error, ValueError) and not of_text


def _paragraphs(document: Any) -> Iterator[dict[str, Any]]:
    articles = document.get("data") if isinstance(document, dict) else document
    for article in _objects(articles):
        yield from [article] if RAW_PASSAGE in article else _objects(article.get("paragraphs"))


def _objects(found: Any) -> list[dict[str, Any]]:
    """Return the objects of a list; where one should be and is none, it is empty."""
    items = found if isinstance(found, list) else [found]
    return [item if isinstance(item, dict) else {} for item in items]


def _is_dialogue(found: Any) -> bool:
    """Tell whether something is a list of turns and a list of questions."""
    if not isinstance(found, list) or len(found) < 2:
        return False
    turns, questions = found[:2]
    is_list = isinstance(turns, list) and isinstance(questions, list)
    return (
        is_list
        and all(isinstance(turn, str) for turn in turns)
        and all(isinstance(asked, dict) for asked in questions)
    )
