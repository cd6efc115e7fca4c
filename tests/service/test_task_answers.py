"""Answers of tasks: the one that is asked, and what is told of its answer."""

from typing import Any

import numpy as np
import pytest
import torch

from bertworks.model.decoder import Decoder
from bertworks.service import task_answers
from bertworks.service.asked import Asked
from bertworks.service.failures import Failure
from bertworks.service.jobs import Item
from bertworks.service.lengths import Lengths
from bertworks.service.task_answers import KINDS_OF, TaskAnswers, told
from bertworks.serving.predictor import Predictor
from bertworks.tasks.catalog import KINDS
from bertworks.tasks.choose import Choose

LABELS = {"labels": ["a"], "probabilities": {"a": 0.7, "b": 0.2, "c": 0.4}}
SPANS = {"spans": [{"text": "x", "probability": 0.3}, {"text": "y", "probability": 0.6}]}
ABILITY_OF = {kind: ability for ability, kinds in KINDS_OF.items() for kind in kinds}
CANDIDATES = {"candidates": [{"answer": str(n), "probability": 0.5 / n} for n in (1, 2, 3)]}


def answers_of(predictor: Predictor, together: int = 1 << 16) -> TaskAnswers:
    return TaskAnswers(predictor, Lengths(predictor.tokenizer, 500, together))


def test_every_kind_of_task_that_is_fine_tuned_has_an_ability() -> None:
    served = {kind for kinds in KINDS_OF.values() for kind in kinds}
    learned = {name for name, kind in KINDS.items() if kind.learn}
    assert learned - served == {"embed"}  # which all encoders do
    assert served - learned == {"fill_mask"}


def test_an_answer_is_told_whole_where_nothing_else_is_asked() -> None:
    for answer in (LABELS, SPANS, CANDIDATES):
        assert told(answer) == answer


def test_the_likeliest_are_told_best_first() -> None:
    assert list(told(LABELS, top_k=2)["probabilities"].items()) == [("a", 0.7), ("c", 0.4)]
    assert told(LABELS, top_k=2)["labels"] == ["a"]
    assert told(CANDIDATES, top_k=1)["candidates"] == CANDIDATES["candidates"][:1]
    assert told(SPANS, top_k=1) == SPANS


def test_what_is_likely_enough_is_told() -> None:
    assert told(LABELS, threshold=0.3)["labels"] == ["a", "c"]
    assert told(SPANS, threshold=0.5)["spans"] == SPANS["spans"][1:]
    assert told(CANDIDATES, threshold=0.2)["candidates"] == CANDIDATES["candidates"][:2]
    assert told({"label": "a", "probabilities": {"a": 0.1}}, threshold=0.5)["label"] == "a"


def test_the_task_is_chosen_by_name_among_those_of_an_ability(predictor_of) -> None:
    tasks = answers_of(predictor_of("multilabel", "classify", "tag"))
    assert tasks.abilities == {"classify", "tag"}
    keys = {
        name: tasks.ask("classify", ["the cat"], Asked(task=name))[0].key
        for name in (None, "multilabel", "classify")
    }
    assert keys == {
        None: ("task", "multilabel"),
        "multilabel": ("task", "multilabel"),
        "classify": ("task", "classify"),
    }
    with pytest.raises(Failure, match="task is 'tag'; to classify there is multilabel, classify"):
        tasks.ask("classify", ["the cat"], Asked(task="tag"))


def test_masks_get_as_many_candidates_as_are_asked_for(predictor_of) -> None:
    tasks = answers_of(predictor_of("fill_mask"))
    counts = {}
    for asked in (Asked(), Asked(num_candidates=2), Asked(top_k=3)):
        (item,) = tasks.ask("fill_mask", ["the [MASK] sat on the [MASK]"], asked)
        (answer,) = tasks.compute(item.key, [item.content])
        counts[asked] = [len(mask) for mask in answer["masks"]]
    assert list(counts.values()) == [[5, 5], [2, 2], [3, 3]]


def test_many_masks_are_computed_in_parts_and_too_many_refused(
    predictor_of, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = predictor_of("fill_mask")
    tasks, texts = answers_of(predictor), ["the [MASK] [MASK]", "[MASK]"] * 4
    items = tasks.ask("fill_mask", texts, Asked())
    together = tasks.compute(items[0].key, [item.content for item in items])
    monkeypatch.setattr(task_answers, "MOST_MASKS", 2)
    assert [len(part) for part in tasks._parts("fill_mask", texts_of(items))] == [1, 1] * 4
    apart = tasks.compute(items[0].key, texts_of(items))
    for one, other in zip(together, apart, strict=True):
        for first, second in zip(one["masks"], other["masks"], strict=True):
            chances = [[best["probability"] for best in mask] for mask in (first, second)]
            assert chances[0] == pytest.approx(chances[1], abs=1e-5)
    with pytest.raises(Failure, match=r"input 2 has 3 masks, and 2 are the most; send") as failed:
        tasks.ask("fill_mask", ["[MASK]", "[MASK] " * 3], Asked())
    assert failed.value.code == "too_large"


def texts_of(items: list[Item]) -> list[Any]:
    return [item.content for item in items]


def test_an_input_of_which_no_window_shows_all_counts_as_cut(predictor_of) -> None:
    tasks = answers_of(predictor_of("answer"))
    rows = [("the cat?", "dog " * 90), ("the cat " * 40 + "?", "dog " * 90)]
    assert [item.is_cut for item in tasks.ask("answer", rows, Asked())] == [False, True]


def test_inputs_are_cut_only_until_they_are_too_many(
    predictor_of, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor, num_cut = predictor_of("choose"), []
    tasks, features = answers_of(predictor, 90), Choose.features

    def counted(self: Choose, *arguments: Any, **named: Any) -> Any:
        num_cut.append(1)
        return features(self, *arguments, **named)

    monkeypatch.setattr(Choose, "features", counted)
    rows = [{"question": "who?", "choices": ["the cat", "a dog"]}] * 500
    with pytest.raises(Failure, match="more than 90 tokens, which is the most; send") as failed:
        tasks.ask("choose", rows, Asked())
    assert failed.value.code == "too_large"
    assert len(num_cut) < 20


def test_no_more_is_told_than_can_be_made_ready(
    predictor_of, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_answers, "MOST_TOLD", 30)
    tasks, asked = answers_of(predictor_of("fill_mask")), Asked(num_candidates=10)
    assert len(tasks.ask("fill_mask", ["[MASK]"] * 3, asked)) == 3
    with pytest.raises(Failure, match="would tell 40 labels or candidates, but 30 are") as failed:
        tasks.ask("fill_mask", ["[MASK]", "[MASK] [MASK] [MASK]"], asked)
    assert failed.value.code == "too_large"


@pytest.mark.parametrize("kind", ABILITY_OF)
def test_logits_of_any_size_give_chances_that_sum_to_one(
    kind: str, predictor_of, make_samples
) -> None:
    predictor, loudest = predictor_of(kind, seed=41), []
    with torch.no_grad():
        for parameter in predictor.model.heads.parameters():
            parameter.mul_(1e4)
    for head in predictor.model.heads.values():
        last = head.output.norm if isinstance(head, Decoder) else head
        last.register_forward_hook(lambda *call: loudest.append(float(call[2].abs().max())))
    tasks, ability = answers_of(predictor), ABILITY_OF[kind]
    items = tasks.ask(ability, make_samples(5).rows(kind, 9), Asked(num_candidates=307))
    found = tasks.compute(items[0].key, texts_of(items))
    assert max(loudest) > 1e4
    with np.errstate(all="ignore"):
        plain = np.exp(np.float32(max(loudest)))
        assert np.isnan(plain / plain)  # what the plain formula would say
    for answer in found:
        chances = answer.get("probabilities", [])
        told = list(chances.values()) if isinstance(chances, dict) else chances
        told += [answer[name] for name in ("probability", "score") if name in answer]
        for mask in answer.get("masks", ()):
            assert sum(one["probability"] for one in mask) == pytest.approx(1, abs=1e-6)
        assert np.isfinite(told).all()
        if kind in ("classify", "match", "aspect", "relate", "choose"):
            assert sum(told) - answer["probability"] == pytest.approx(1, abs=1e-6)
