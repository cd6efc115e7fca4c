"""Two predictors are compared in numbers, and too far apart is too far."""

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from bertworks.core.errors import ArtifactError
from bertworks.data.examples import TextExample
from bertworks.serving.model_folder import OpenModel
from bertworks.serving.parity import TOLERANCES, Parity, compare, decision
from bertworks.serving.predictor import Predictor

TEXTS = ["The cat sat on the mat.", "北京", "", "the dog ran"]
EXAMPLES = [TextExample(text, label="warm") for text in TEXTS]


@pytest.fixture(scope="module")
def predictor(make_model, tokenizer, machine):
    """Make a predictor of a task with weights by a seed."""
    return lambda task, seed: Predictor(
        OpenModel(make_model(task, seed=seed), tokenizer, None), machine
    )


def test_a_model_is_at_one_with_itself(predictor) -> None:
    both = predictor("classify", 1), predictor("classify", 1)
    parity = compare(*both, TEXTS, EXAMPLES, labelled=True)
    assert parity.largest_difference == 0
    assert parity.mean_cosine == pytest.approx(1)
    assert parity.mean_cosine_alone == pytest.approx(1)
    assert parity.lowest_cosine_alone == pytest.approx(1)
    assert parity.label_agreement == 1
    assert parity.scores_before == parity.scores_after
    assert parity.scores_before is not None
    for tolerance in TOLERANCES.values():
        parity.check(tolerance)


def test_another_model_is_not(predictor) -> None:
    parity = compare(predictor("classify", 1), predictor("classify", 2), TEXTS, EXAMPLES)
    assert parity.scores_before is None
    assert parity.lowest_cosine <= parity.mean_cosine < 0.9
    with pytest.raises(ArtifactError, match=r"vectors that differ by .* was thrown away"):
        parity.check(TOLERANCES["fp32"])
    with pytest.raises(ArtifactError, match=r"vectors whose mean cosine is .* 0\.99 or more"):
        parity.check(TOLERANCES["int8"])


def test_what_stands_behind_masks_is_compared(predictor) -> None:
    before, after = predictor("fill_mask", 1), predictor("fill_mask", 1)
    assert compare(before, after, [*TEXTS, "[MASK] sat on [MASK]", "[MASK]"]).mask_distance == 0
    with torch.no_grad():
        after.model.heads["fill_mask"].transform.weight[:, 0] += 30
    parity = compare(before, after, TEXTS)
    assert parity.mean_cosine == pytest.approx(1)
    with pytest.raises(ArtifactError, match="chances behind masks that differ by a share of"):
        parity.check(TOLERANCES["int8"])
    assert compare(predictor("classify", 1), predictor("classify", 1), TEXTS).mask_distance is None


def test_answers_that_are_only_numbers_have_no_agreement(predictor) -> None:
    pairs = [TextExample("a cat", "a dog")]
    parity = compare(predictor("score", 1), predictor("score", 2), TEXTS, pairs)
    assert parity.answers == 1
    assert parity.label_agreement is None
    assert parity.spearman is None  # one number has no order


def test_scores_are_compared_by_their_order(predictor) -> None:
    pairs = [TextExample(text, other) for text in TEXTS[:3] for other in TEXTS]
    before = predictor("score", 1)
    assert compare(before, before, TEXTS, pairs).spearman == pytest.approx(1)
    assert compare(before, predictor("score", 2), TEXTS, pairs).spearman < 0.99
    numbers = [answer["score"] for answer in before.answer_examples(pairs)]
    others = [answer["score"] for answer in predictor("score", 2).answer_examples(pairs)]
    found = compare(before, predictor("score", 2), TEXTS, pairs).spearman
    assert found == pytest.approx(spearmanr(numbers, others).statistic)


def test_vectors_are_compared_by_the_order_of_their_cosines(predictor) -> None:
    sides = predictor("classify", 1), predictor("classify", 2)
    cosines = [(v[:-1] * v[1:]).sum(1) for v in (side.embed(TEXTS) for side in sides)]
    found = compare(*sides, TEXTS).spearman_of_cosines
    assert found == pytest.approx(spearmanr(*cosines).statistic)
    assert compare(*sides, TEXTS[:2]).spearman_of_cosines is None


@pytest.mark.parametrize(("ranks", "fails"), [(0.96, False), (0.94, True), (None, False)])
def test_scores_must_be_ordered_alike_where_there_are_enough(
    ranks: float | None, fails: bool
) -> None:
    same = np.eye(3)
    Parity.of(same, same, answers=19, spearman=0.5).check(TOLERANCES["int8"])
    parity = Parity.of(same, same, answers=50, spearman=ranks)
    if not fails:
        parity.check(TOLERANCES["int8"])
        return
    with pytest.raises(ArtifactError, match=r"Spearman with the model's is 0\.9400, and 0\.95 or"):
        parity.check(TOLERANCES["int8"])


@pytest.mark.parametrize(("share", "fails"), [(0.96, False), (0.94, True)])
def test_answers_must_agree_where_there_are_enough(share: float, fails: bool) -> None:
    same = np.eye(3)
    Parity.of(same, same, answers=19, label_agreement=0.5).check(TOLERANCES["int8"])
    parity = Parity.of(same, same, answers=50, label_agreement=share)
    if not fails:
        parity.check(TOLERANCES["int8"])
        return
    with pytest.raises(ArtifactError, match=r"a share of 0\.940"):
        parity.check(TOLERANCES["int8"])


def test_numbers_that_are_none_never_pass() -> None:
    broken = Parity.of(np.full((2, 3), np.nan), np.ones((2, 3)))
    for tolerance in TOLERANCES.values():
        with pytest.raises(ArtifactError):
            broken.check(tolerance)


def test_a_decision_is_an_answer_without_its_chances() -> None:
    answer = {"label": "a", "probabilities": {"a": 0.7, "b": 0.3}, "score": 0.5}
    assert decision(answer) == {"label": "a", "probabilities": {}}
    spans = [{"start": 3, "text": "x", "probability": 0.5}]
    assert decision({"spans": spans}) == {"spans": [{"start": 3, "text": "x"}]}
