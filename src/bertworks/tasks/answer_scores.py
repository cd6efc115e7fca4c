"""How right an answer is by its words: as SQuAD counts, and for Chinese as CMRC 2018 does."""

import re
import string
from array import array
from collections import Counter
from difflib import SequenceMatcher

import numpy as np

from bertworks.core.scripts import EAST_ASIAN, EAST_ASIAN_CHARS, script_of
from bertworks.data.examples import QuestionExample
from bertworks.tasks.claims import Claims
from bertworks.tasks.statistic import Statistic, mean_of, share_of
from bertworks.tasks.task import Answer, Parts, Verdict

NO_ANSWER = "(no answer)"
ARTICLES = re.compile(r"\b(a|an|the)\b")
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
WITHOUT_CHINESE_PUNCTUATION = str.maketrans(
    "", "", "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』"
)
# A character of Chinese, a word or number of other scripts, or another sign.
SEGMENT = re.compile(
    rf"[{EAST_ASIAN_CHARS}]|[^\W{EAST_ASIAN_CHARS}]+(?:[.,][^\W{EAST_ASIAN_CHARS}]+)*|[^\w\s]"
)


class AnswerScorer:
    """Adds up F1 and exact match, of questions with and without an answer apart."""

    def __init__(self) -> None:
        self._scores = array("d")  # of each question: F1, exact match, whether there is an answer

    def add(self, example: QuestionExample, answer: Answer) -> Verdict:
        """Judge one answer by the gold that it is nearest to."""
        f1, exact = best_scores(example, answer["answer"])
        parts = {"f1": f1, "exact": exact, "has_gold": bool(example.answers)}
        self.take(parts)
        gold = example.answers[0].text if example.answers else NO_ANSWER
        return Verdict(
            gold,
            answer["answer"] or NO_ANSWER,
            f1,
            answer["probability"],
            parts,
            Claims.each([answer["probability"]], [exact == 1]),
            "with an answer" if example.answers else "without an answer",
        )

    def take(self, parts: Parts) -> None:
        """Take one answer by its parts."""
        self._scores.extend((parts["f1"], parts["exact"], parts["has_gold"]))

    def metrics(self) -> dict[str, float]:
        """Return the means over all questions, and over both kinds where both occur."""
        return {name: one.value for name, one in self.statistics().items()}

    def statistics(self) -> dict[str, Statistic]:
        """Return the means with what each question adds."""
        f1, exact, known = np.array(self._scores).reshape(-1, 3).T
        found = {"f1": mean_of(f1), "exact_match": mean_of(exact)}
        if not known.any() or known.all():
            return found
        return found | {
            "answerable_f1": share_of(f1 * known, known),
            "answerable_exact_match": share_of(exact * known, known),
            "unanswerable_accuracy": share_of(f1 * (1 - known), 1 - known),
        }


def best_scores(example: QuestionExample, given: str) -> tuple[float, float]:
    """Return F1 and exact match with the gold that each is highest with."""
    is_chinese = script_of(example.passage) in EAST_ASIAN
    normalize, f1 = (plain_chinese, chinese_f1) if is_chinese else (plain, word_f1)
    texts = [answer.text for answer in example.answers or () if normalize(answer.text)]
    golds = texts or [""]  # nothing else is right where there is no answer
    exact = max(normalize(given) == normalize(gold) for gold in golds)
    return max(f1(given, gold) for gold in golds), float(exact)


def plain(text: str) -> str:
    """Return words in lower case without punctuation and English articles."""
    bare = text.lower().translate(WITHOUT_PUNCTUATION)
    return " ".join(ARTICLES.sub(" ", bare).split())


def word_f1(given: str, gold: str) -> float:
    """Return the F1 of the words that both have, however they are ordered."""
    first, second = plain(given).split(), plain(gold).split()
    shared = (Counter(first) & Counter(second)).total()
    return _f1(shared, len(first), len(second))


def plain_chinese(text: str) -> str:
    """Return a text in lower case without the punctuation that CMRC 2018 removes."""
    return text.lower().strip().translate(WITHOUT_CHINESE_PUNCTUATION)


def chinese_f1(given: str, gold: str) -> float:
    """Return the F1 of the longest run of characters and words that both have."""
    first, second = (SEGMENT.findall(plain_chinese(text)) for text in (given, gold))
    longest = SequenceMatcher(None, first, second, autojunk=False).find_longest_match()
    return _f1(longest.size, len(first), len(second))


def _f1(shared: int, num_given: int, num_gold: int) -> float:
    if not num_given or not num_gold:
        return float(num_given == num_gold)
    return 2 * shared / (num_given + num_gold)
