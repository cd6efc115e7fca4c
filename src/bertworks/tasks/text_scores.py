"""How near written texts are to their references: BLEU, chrF, ROUGE, exact match."""

import re
from array import array
from collections import Counter

import numpy as np

from bertworks.core.scripts import EAST_ASIAN, pattern_of
from bertworks.data.examples import SourceExample
from bertworks.tasks.ngram_scores import (
    LEAST,
    NUM_BLEU_SUMS,
    NUM_CHRF_SUMS,
    WORD_ORDER,
    WordRuns,
    bleu_of,
    chrf_of,
    chrf_sums,
)
from bertworks.tasks.rouge import rouge_scores
from bertworks.tasks.statistic import Sample, Statistic, mean_of
from bertworks.tasks.task import Answer, Parts, Verdict

# What is kept of each answer, and how many numbers it is.
WIDTHS = {
    "bleu": NUM_BLEU_SUMS,
    "bleu_zh": NUM_BLEU_SUMS,
    "chrf": NUM_CHRF_SUMS,
    "rouge": 3,
    "exact": 1,
    "letters": 2,  # of the references: East Asian ones, and all
    "words": 2,  # of the longest reference, by both tokenizations
}
ROUGE = ("rouge1", "rouge2", "rougeL")
EAST_ASIAN_LETTER = re.compile(f"[{pattern_of(EAST_ASIAN)}]")
LETTER = re.compile(r"[^\W\d_]")
NEARLY_ALL = 0.9  # the share of answers that are one text where a network says the same of all


class TextScorer:
    """Adds up what texts share with their references; of several each score takes the best."""

    def __init__(self) -> None:
        self._runs, self._runs_zh = WordRuns("13a"), WordRuns("zh")
        self._kept = {name: array("d") for name in WIDTHS}
        self._given, self._golds = array("q"), array("q")  # hashes, so that no text is kept

    def add(self, example: SourceExample, answer: Answer) -> Verdict:
        """Judge one text by itself, by chrF."""
        given, golds = answer["text"], example.targets or ("",)
        sums = chrf_sums(given, golds)
        together = "".join(golds)
        parts = {
            "bleu": self._runs.sums(given, golds),
            "bleu_zh": self._runs_zh.sums(given, golds),
            "chrf": sums,
            "rouge": list(rouge_scores(given, golds)),
            "exact": [int(given.split() in [gold.split() for gold in golds])],
            "letters": [len(p.findall(together)) for p in (EAST_ASIAN_LETTER, LETTER)],
            "words": [runs.longest(golds) for runs in (self._runs, self._runs_zh)],
        }
        self.take(parts)
        self._given.append(hash(given))
        self._golds.append(hash(golds[0]))
        score = float(chrf_of(np.array(sums)))
        return Verdict(golds[0], given, score, answer.get("probability", 1.0), parts)

    def take(self, parts: Parts) -> None:
        """Take one text by its parts."""
        for name, kept in self._kept.items():
            kept.extend(parts[name])

    def metrics(self) -> dict[str, float]:
        """Return the scores of all texts."""
        return {name: one.value for name, one in self.statistics().items()}

    def statistics(self) -> dict[str, Statistic]:
        """Return the scores with what each text adds."""
        words = Sample.of(self._column("bleu_zh" if self._is_chinese else "bleu"))
        rouge = self._column("rouge").T
        bleu = {} if self.lacking else {"bleu": Statistic(words, bleu_of)}
        return bleu | {
            "chrf": Statistic(Sample.of(self._column("chrf")), chrf_of),
            **{name: mean_of(own, low=0, high=1) for name, own in zip(ROUGE, rouge, strict=True)},
            "exact_match": mean_of(self._column("exact")[:, 0], low=0, high=1),
            "length_ratio": Statistic(words, _length_ratio),
        }

    @property
    def lacking(self) -> str:
        """Which scores the references do not tell, and why; empty where they tell all."""
        longest = self._column("words")[:, int(self._is_chinese)].max(initial=0)
        if not len(self._kept["words"]) or longest >= WORD_ORDER:
            return ""
        return "no reference has four words, which BLEU counts together, so BLEU is not told"

    @property
    def note(self) -> str:
        """Which words BLEU counts, for it depends on them; empty where it is not told."""
        if self.lacking:
            return ""
        if self._is_chinese:
            return (
                "BLEU is of sacrebleu's tokenization zh, for most letters of the references are "
                "Chinese; ROUGE counts Chinese characters"
            )
        return "BLEU is of sacrebleu's tokenization 13a"

    @property
    def are_alike(self) -> bool:
        """Whether nearly all texts are one and the same, though their references are not."""
        return _commonest(self._given) >= NEARLY_ALL > _commonest(self._golds)

    @property
    def _is_chinese(self) -> bool:
        num_east_asian, num_letters = self._column("letters").sum(axis=0)
        return bool(2 * num_east_asian > num_letters)

    def _column(self, name: str) -> np.ndarray:
        return np.array(self._kept[name]).reshape(-1, WIDTHS[name])


def _length_ratio(sums: np.ndarray) -> np.ndarray:
    return sums[..., 0] / np.maximum(sums[..., 1], LEAST)


def _commonest(hashes: "array[int]") -> float:
    """Return the share of the commonest among all."""
    return max(Counter(hashes).values(), default=0) / max(len(hashes), 1)
