"""Written texts are judged by their references, one by one and all together."""

import json

import numpy as np
import pytest

from bertworks.data.examples import SourceExample
from bertworks.tasks.task import Alike, Noted, Partial, Scorer
from bertworks.tasks.text_scores import TextScorer

ROWS = [
    ("A dog runs.", ("Ein Hund läuft.",), "Ein Hund rennt."),
    ("Two cats sleep on it.", ("Zwei Katzen schlafen darauf.", "Darauf schlafen zwei Katzen."), ""),
    ("No.", ("Nein.", "Nö."), "Nö."),
]


def scored(rows: list[tuple[str, tuple[str, ...], str]]) -> TextScorer:
    scorer = TextScorer()
    for source, targets, text in rows:
        scorer.add(SourceExample(source, targets), {"text": text})
    return scorer


def test_a_verdict_shows_the_first_reference_and_scores_by_characters() -> None:
    scorer: Scorer = TextScorer()
    verdicts = [scorer.add(SourceExample(s, t), {"text": text}) for s, t, text in ROWS]
    assert [(verdict.gold, verdict.given) for verdict in verdicts] == [
        ("Ein Hund läuft.", "Ein Hund rennt."),
        ("Zwei Katzen schlafen darauf.", ""),
        ("Nein.", "Nö."),
    ]
    assert [verdict.score for verdict in verdicts] == pytest.approx([0.4523, 0, 1], abs=0.001)


def test_the_first_score_is_bleu() -> None:
    names = ["bleu", "chrf", "rouge1", "rouge2", "rougeL", "exact_match", "length_ratio"]
    assert list(scored(ROWS).metrics()) == names


def test_exact_match_and_the_ratio_of_lengths_are_counted() -> None:
    metrics = scored(ROWS).metrics()
    assert metrics["exact_match"] == pytest.approx(1 / 3)
    assert metrics["length_ratio"] == pytest.approx((4 + 0 + 2) / (4 + 5 + 2))
    assert metrics["rougeL"] == pytest.approx((2 / 3 + 0 + 1) / 3)


def test_parts_that_were_written_down_give_the_same_scores() -> None:
    again = TextScorer()
    scorer = TextScorer()
    for source, targets, text in ROWS:
        verdict = scorer.add(SourceExample(source, targets), {"text": text})
        again.take(json.loads(json.dumps(verdict.parts)))
    assert again.metrics() == scorer.metrics()


def test_the_right_texts_have_full_scores_and_nothing_has_none() -> None:
    rows = [("a", ("one two three four five",), "one two three four five")] * 3
    assert [*scored(rows).metrics().values()] == pytest.approx([1.0] * 7)
    assert set(scored([]).metrics().values()) == {0.0}


def test_scores_of_a_sample_are_those_of_its_texts() -> None:
    statistics = scored(ROWS).statistics()
    for name, one in statistics.items():
        chosen = one.sample.values[[0, 2, 2]].sum(axis=0)
        alone = scored([ROWS[0], ROWS[2], ROWS[2]]).metrics()[name]
        assert float(one.score(np.array(chosen))) == pytest.approx(alone), name


def test_chinese_references_are_told_by_most_of_their_letters() -> None:
    rows = [("a cat", ("一只猫。",), "一只狗。"), ("Bob", ("Bob来了",), "Bob来了")]
    chinese = scored(rows)
    assert isinstance(chinese, Noted)
    assert "tokenization zh" in chinese.note
    assert "tokenization 13a" in scored(ROWS).note
    assert chinese.metrics()["bleu"] > 0
    mostly_other = scored([*rows, *ROWS])
    assert "tokenization 13a" in mostly_other.note
    assert mostly_other.metrics()["bleu"] != chinese.metrics()["bleu"]


def test_bleu_is_not_told_where_no_reference_has_four_words() -> None:
    short = [("a", ("Guten Tag.", "Hallo"), "Guten Tag."), ("b", ("Nein",), "Ja")]
    scorer = scored(short)
    assert isinstance(scorer, Partial)
    assert next(iter(scorer.metrics())) == "chrf"
    assert "bleu" not in scorer.metrics()
    assert scorer.lacking.startswith("no reference has four words")
    assert scorer.note == ""
    for more in (("c", ("Eins", "Eins zwei drei vier"), ""), ("c", ("我们学习",), "")):
        longer = scored([*short[1:], more] if more[1][0] == "Eins" else [more])
        assert next(iter(longer.metrics())) == "bleu"
        assert longer.lacking == ""
    assert scored([("c", ("北京",), "北京")]).lacking
    assert scored([]).lacking == ""


def test_nearly_all_texts_are_alike_only_where_their_references_are_not() -> None:
    def are_alike(texts: list[str], golds: list[str]) -> bool:
        scorer = scored([("a", (gold,), text) for text, gold in zip(texts, golds, strict=True)])
        assert isinstance(scorer, Alike)
        return scorer.are_alike

    golds = [f"dog {n}" for n in range(10)]
    assert are_alike(["cat"] * 10, golds)
    assert are_alike(["cat"] * 9 + ["dog"], golds)
    assert not are_alike(["cat"] * 8 + ["dog", "sun"], golds)
    assert not are_alike(["cat"] * 10, ["dog"] * 9 + ["sun"])
    assert not are_alike(["cat"], ["dog"])
    assert not are_alike([], [])
