"""How right an answer is by its words: as SQuAD counts, and for Chinese as CMRC 2018 does."""

import re
import string
from collections import Counter
from difflib import SequenceMatcher

from bertworks.core.scripts import EAST_ASIAN, pattern_of, script_of
from bertworks.data.examples import QuestionExample
from bertworks.tasks.task import Answer, Verdict

ARTICLES = re.compile(r"\b(a|an|the)\b")
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
WITHOUT_CHINESE_PUNCTUATION = str.maketrans(
    "", "", "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』"
)
EAST_ASIAN_CHARS = pattern_of(EAST_ASIAN)
# A character of Chinese, a word or number of other scripts, or another sign.
SEGMENT = re.compile(
    rf"[{EAST_ASIAN_CHARS}]|[^\W{EAST_ASIAN_CHARS}]+(?:[.,][^\W{EAST_ASIAN_CHARS}]+)*|[^\w\s]"
)


class AnswerScorer:
    """Adds up F1 and exact match, of questions with and without an answer apart."""

    mean_metric = "f1"

    def __init__(self) -> None:
        self._sums = {has_gold: [0.0, 0.0, 0] for has_gold in (True, False)}

    def add(self, example: QuestionExample, answer: Answer) -> Verdict:
        """Judge one answer by the gold that it is nearest to."""
        f1, exact = best_scores(example, answer["answer"])
        sums = self._sums[bool(example.answers)]
        sums[:] = sums[0] + f1, sums[1] + exact, sums[2] + 1
        gold = example.answers[0].text if example.answers else "(no answer)"
        return Verdict(gold, answer["answer"] or "(no answer)", f1, answer["probability"])

    def metrics(self) -> dict[str, float]:
        """Return the means over all questions, and over both kinds where both occur."""
        known, none = self._sums.values()
        count = known[2] + none[2]
        metrics = {
            "f1": (known[0] + none[0]) / count,
            "exact_match": (known[1] + none[1]) / count,
        }
        if known[2] and none[2]:
            metrics |= {
                "answerable_f1": known[0] / known[2],
                "answerable_exact_match": known[1] / known[2],
                "unanswerable_accuracy": none[0] / none[2],
            }
        return metrics


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
