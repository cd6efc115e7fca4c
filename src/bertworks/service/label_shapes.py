"""Answers of tasks as other servers tell them: labels, entities, answers, candidates."""

from collections.abc import Sequence
from typing import Any

from bertworks.service.failures import Failure
from bertworks.service.models import ServedModel
from bertworks.service.task_answers import KINDS_OF
from bertworks.tokenizer.words import CONTINUATION

LABELLING = ("classify", "match", "aspect", "relate", "score", "intent_slots")
TAGGING = ("tag", "intent_slots")


def ability_for(wanted: Sequence[str], served: ServedModel, *, task: str | None = None) -> str:
    """Return the first of some abilities that a model has, or that of a task which is named."""
    able = [ability for ability in wanted if ability in served.abilities]
    if not able:
        can = ", ".join(sorted(served.abilities))
        raise Failure("cannot_do", f"the model {served.name!r} cannot {wanted[0]}; it can: {can}")
    named = served.predictor.model.tasks.get((task or "").replace("-", "_"))
    return next((one for one in able if named and named.kind in KINDS_OF[one]), able[0])


def labels_of(answer: dict[str, Any]) -> list[tuple[str, float]]:
    """Return labels and their chances, likeliest first; a number is the label `score`."""
    if "probabilities" in answer and isinstance(answer["probabilities"], dict):
        return sorted(answer["probabilities"].items(), key=lambda pair: -pair[1])
    if "intent" in answer:
        return [(answer["intent"], answer["probability"])]
    return [("score", answer["score"])]


def entities_of(text: str, answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the spans of a text, or its words where the tags speak of none."""
    spans = answer.get("spans", answer.get("slots"))
    if spans is None:
        return _tagged_words(text, answer)
    return [
        {
            "entity_group": span["label"],
            "score": span["probability"],
            "word": span["text"],
            "start": span["start"],
            "end": span["end"],
        }
        for span in spans
    ]


def _tagged_words(text: str, answer: dict[str, Any]) -> list[dict[str, Any]]:
    found, end = [], 0
    columns = answer["tokens"], answer["tags"], answer["probabilities"]
    for word, tag, chance in zip(*columns, strict=True):
        start = text.index(word, end)
        end = start + len(word)
        place = {"word": word, "start": start, "end": end}
        found.append({"entity": tag, "score": chance, **place})
    return found


def found_answers(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the answers to a question, the one to give first; no answer is an empty text."""
    place = answer["start"], answer["end"]
    others = [row for row in answer["candidates"] if (row["start"], row["end"]) != place]
    return [
        {
            "answer": row["answer"],
            "score": row["probability"],
            "start": row["start"] or 0,
            "end": row["end"] or 0,
        }
        for row in [answer, *others]
    ]


def candidates_of(text: str, answer: dict[str, Any], served: ServedModel) -> list[Any]:
    """Return the candidates of a mask with the text they make; of several masks, lists."""
    found, mask_piece = [], served.predictor.tokenizer.mask_piece
    parts = text.replace("[MASK]", mask_piece).split(mask_piece)
    for number, mask in enumerate(answer["masks"], 1):
        around = mask_piece.join(parts[:number]), mask_piece.join(parts[number:])
        found.append([_candidate(one, around) for one in mask])
    return found[0] if len(found) == 1 else found


def _candidate(candidate: dict[str, Any], around: tuple[str, str]) -> dict[str, Any]:
    token, (before, after) = candidate["token"], around
    if token.startswith(CONTINUATION):
        before = before.rstrip()
    return {
        "score": candidate["probability"],
        "token": candidate["id"],
        "token_str": token,
        "sequence": before + token.removeprefix(CONTINUATION) + after,
    }
