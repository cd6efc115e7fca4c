"""Scores of written texts equal those of sacrebleu and rouge-score."""

import random

import numpy as np
import pytest
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics import BLEU, CHRF

from bertworks.data.examples import SourceExample
from bertworks.tasks.ngram_scores import WordRuns, bleu_of
from bertworks.tasks.rouge import rouge_scores
from bertworks.tasks.text_scores import TextScorer

ENGLISH = (
    'the a dog runs over two, three. 3.5 1,000 U.S. don\'t "no" well-known (it) &amp; -- $5 '
    "A man's <b> 50% what? yes! end... http://x.y/z _a_ e.g. 10:30"
)
GERMAN = "der Hund läuft über die Straße, „wohl“ - U-Bahn z.B. 3,5 und Größe! Ä ß nicht."
CHINESE = "我们今天在北京学习中文，是的。！？“”3.5%ＡＢ《》 A1、（）"
NUM_SENTENCES = 400


def drawn(said: str, between: str, seed: int) -> tuple[list[str], list[tuple[str, ...]]]:
    """Draw texts with one to three references each, some of them empty, equal or blank."""
    chance, words = random.Random(seed), said.split(between) if between else list(said)

    def sentence() -> str:
        return between.join(chance.choices(words, k=chance.choice([0, 1, 2, 3, 5, 8, 13, 30])))

    def changed(text: str) -> str:
        parts = text.split(between) if between else list(text)
        kept = [chance.choice(words) if chance.random() < 0.3 else part for part in parts]
        return between.join(part for part in kept if chance.random() > 0.1)

    golds = [tuple(sentence() for _ in range(3)) for _ in range(NUM_SENTENCES)]
    texts = [changed(chance.choice(own)) if chance.random() < 0.8 else sentence() for own in golds]
    return texts, golds


def scored(texts: list[str], golds: list[tuple[str, ...]]) -> TextScorer:
    scorer = TextScorer()
    for text, own in zip(texts, golds, strict=True):
        scorer.add(SourceExample("source", own), {"text": text})
    return scorer


@pytest.mark.parametrize("num_references", [1, 3])
@pytest.mark.parametrize(
    ("said", "between", "tokenization"),
    [(ENGLISH, " ", "13a"), (GERMAN, " ", "13a"), (CHINESE, "", "zh")],
)
def test_bleu_and_chrf_of_drawn_texts_are_those_of_sacrebleu(
    said: str, between: str, tokenization: str, num_references: int
) -> None:
    texts, golds = drawn(said, between, seed=3)
    golds = [own[:num_references] for own in golds]
    scorer = scored(texts, golds)
    streams = [list(stream) for stream in zip(*golds, strict=True)]
    bleu = BLEU(tokenize=tokenization).corpus_score(texts, streams)
    chrf = CHRF().corpus_score(texts, streams)
    metrics = scorer.metrics()
    assert tokenization in scorer.note
    assert 100 * metrics["bleu"] == pytest.approx(bleu.score, abs=1e-9)
    assert 100 * metrics["chrf"] == pytest.approx(chrf.score, abs=1e-9)
    assert metrics["length_ratio"] == pytest.approx(bleu.sys_len / bleu.ref_len)


def test_few_and_bad_texts_are_smoothed_as_sacrebleu_does() -> None:
    texts, golds = drawn(GERMAN, " ", seed=7)
    for text, own in zip(texts[:100], golds, strict=False):
        corpus = BLEU().corpus_score([text], [[gold] for gold in own])
        sums = np.array(WordRuns("13a").sums(text, own))
        assert 100 * float(bleu_of(sums)) == pytest.approx(corpus.score)


def test_a_verdict_is_the_chrf_of_its_sentence() -> None:
    texts, golds = drawn(ENGLISH, " ", seed=5)
    scorer, chrf = TextScorer(), CHRF()
    for text, own in zip(texts[:100], golds, strict=False):
        score = scorer.add(SourceExample("source", own), {"text": text}).score
        assert score == pytest.approx(chrf.sentence_score(text, own).score / 100)


def test_rouge_of_plain_letters_is_that_of_rouge_score() -> None:
    texts, golds = drawn(ENGLISH, " ", seed=9)
    theirs = RougeScorer(["rouge1", "rouge2", "rougeL"])
    for text, own in zip(texts, golds, strict=True):
        expected = [one.fmeasure for one in theirs.score_multi(own, text).values()]
        assert rouge_scores(text, own) == pytest.approx(expected), (text, own)
