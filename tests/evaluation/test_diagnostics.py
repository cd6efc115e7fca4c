"""Diagnoses: each failure is named with its numbers, and a sound run has none."""

import math

import numpy as np
import pytest

from bertworks.evaluation.diagnostics import (
    Watch,
    diagnose_corpus,
    diagnose_course,
    diagnose_scores,
    unigram_loss,
)

SOUND = {
    "fill_mask_loss": 3.0,
    "fill_mask_accuracy": 0.4,
    "next_sentence_accuracy": 0.8,
    "sentence_order_accuracy": 0.7,
    "replaced_token_share": 0.08,
    "replaced_token_accuracy": 0.96,
    "replaced_token_loss": 0.15,
    "replaced_token_f1": 0.7,
}
COUNTS = {
    "fill_mask": 1500,
    "next_sentence": 400,
    "sentence_order": 400,
    "replaced_token": 10_000,
}


def scores(**changed: float) -> dict[str, str]:
    return diagnose_scores(SOUND | changed, COUNTS, unigram=5.0)


def course(losses: np.ndarray, norms: np.ndarray) -> dict[str, str]:
    log = [
        {"step": n, "fill_mask": loss, "gradient_norm": norm}
        for n, (loss, norm) in enumerate(zip(losses.tolist(), norms.tolist(), strict=True))
    ]
    return diagnose_course([*log, {"step": 9, "evaluation": {}}], clip=1.0)


def test_a_sound_run_has_no_diagnosis() -> None:
    assert scores() == {}
    assert diagnose_corpus(0.05) == {}
    random = np.random.default_rng(1)
    falling = np.linspace(6, 4, 60) + random.normal(0, 0.3, 60)
    assert course(falling, random.uniform(0.2, 1.5, 60)) == {}


@pytest.mark.parametrize(
    ("changed", "name", "said"),
    [
        ({"fill_mask_loss": 4.95}, "unigram", "4.950, 1.0% below 5.000, which needs no more than"),
        ({"fill_mask_loss": 4.95}, "unigram", "comes: little was learned from context"),
        ({"fill_mask_loss": 5.0}, "unigram", "5.000, not below 5.000, which needs no more than"),
        ({"fill_mask_loss": 5.0}, "unigram", "comes: nothing was learned from context"),
        ({"next_sentence_accuracy": 0.53}, "next_sentence", "0.530 [0.481, 0.578] on 400 pairs"),
        ({"sentence_order_accuracy": 0.3}, "sentence_order", "no better than chance"),
        ({"replaced_token_share": 0.02}, "strong_generator", "only 13% of what was hidden"),
        ({"replaced_token_f1": 0.99}, "weak_generator", "an F1 of 0.990"),
        ({"replaced_token_loss": 0.275}, "discriminator", "0.275, 1.4% below 0.279, that of"),
        ({"replaced_token_loss": 0.4}, "discriminator", "discriminator has learned nothing"),
    ],
)
def test_a_failure_is_named_with_its_numbers(changed, name: str, said: str) -> None:
    found = scores(**changed)
    assert name in found
    assert said in found[name]


def test_a_run_without_an_objective_is_not_blamed_for_it() -> None:
    assert diagnose_scores({"fill_mask_loss": 3.0}, {"fill_mask": 9}, unigram=5.0) == {}


def test_few_pairs_tell_nothing_about_chance() -> None:
    few = COUNTS | {"next_sentence": 20}
    metrics = SOUND | {"next_sentence_accuracy": 0.5}
    assert diagnose_scores(metrics, few, unigram=5.0) == {}
    assert "next_sentence" in diagnose_scores(metrics, COUNTS, unigram=5.0)


def test_an_objective_that_the_text_has_nothing_for_is_named() -> None:
    without_pairs = {name: score for name, score in SOUND.items() if "next" not in name}
    found = diagnose_scores(without_pairs, COUNTS | {"next_sentence": 0}, unigram=5.0)
    assert list(found) == ["no_next_sentence"]
    assert "lacks two documents with two sentences in a row" in found["no_next_sentence"]
    unknown = diagnose_scores({"loss": 0.0}, {"fill_mask": 0.0}, unigram=math.inf)
    assert "lacks pieces that the vocabulary knows" in unknown["no_fill_mask"]


def test_a_generator_that_is_never_wrong_leaves_nothing_to_blame_the_discriminator_for() -> None:
    found = scores(replaced_token_share=0.0, replaced_token_loss=0.001, replaced_token_f1=0.0)
    assert list(found) == ["strong_generator"]


def test_copies_in_the_corpus_are_named() -> None:
    assert diagnose_corpus(0.31)["duplicates"].startswith("31% of the passages are copies")


def test_a_loss_that_does_not_fall_is_named() -> None:
    random = np.random.default_rng(2)
    level, norms = 5 + random.normal(0, 0.3, 60), np.full(60, 0.5)
    assert "does not fall: it is" in course(level, norms)["loss_not_falling"]
    assert "loss_not_falling" in course(np.linspace(4, 6, 60), norms)
    assert course(level[:30], norms[:30]) == {}  # too short to tell
    assert course(np.linspace(6, 4, 60), norms) == {}


def test_a_gradient_that_is_always_clipped_is_named() -> None:
    falling = np.linspace(6, 4, 60)
    found = course(falling, np.full(60, 7.2))["clipping"]
    assert "100% of the steps of the second half (the middle norm is 7.20, --clip 1)" in found
    early = np.where(np.arange(60) < 30, 7.2, 0.5)
    assert course(falling, early) == {}
    assert course(falling, np.full(60, 2.2)) == {}  # as small networks do


def test_a_heavy_objective_may_have_larger_gradients() -> None:
    log = [{"step": n, "fill_mask": 6 - n / 30, "gradient_norm": 23.0} for n in range(60)]
    assert list(diagnose_course(log, clip=1.0)) == ["clipping"]
    assert list(diagnose_course(log, clip=1.0, weight=0.1)) == ["clipping"]
    assert diagnose_course(log, clip=1.0, weight=50.0) == {}  # as ELECTRA's, which learns well


def test_steps_that_were_skipped_or_causal_do_not_confuse_the_course() -> None:
    log = [{"step": n, "fill_mask": 6 - n / 30, "gradient_norm": 0.5} for n in range(60)]
    log += [{"step": 60, "next_piece": 9.0, "gradient_norm": 0.5}]
    log += [{"step": 61, "fill_mask": "nan", "gradient_norm": "inf"}]
    assert diagnose_course(log, clip=1.0) == {}


def test_the_unigram_loss_is_the_entropy_on_its_own_text() -> None:
    random = np.random.default_rng(3)
    pieces = random.choice(5, p=[0.5, 0.2, 0.2, 0.1, 0.0], size=200_000)
    counts = np.bincount(pieces, minlength=5)
    shares = counts[:4] / counts.sum()
    assert unigram_loss(counts, pieces) == pytest.approx(-(shares * np.log(shares)).sum(), abs=1e-4)
    assert math.isfinite(unigram_loss(counts, np.array([4])))  # a piece that was never seen
    assert unigram_loss(counts, np.array([], dtype=int)) == math.inf


def test_in_the_middle_of_a_run_only_what_lasts_is_told_and_only_once() -> None:
    watch = Watch()
    assert watch.look({"unigram": "a 1"}) == []
    assert watch.look({"unigram": "a 2", "clipping": "b 2"}) == ["a 2"]
    assert watch.look({"unigram": "a 3"}) == []
    assert watch.look({"clipping": "b 4"}) == []
    assert watch.look({"clipping": "b 5", "unigram": "a 5"}) == ["b 5"]
