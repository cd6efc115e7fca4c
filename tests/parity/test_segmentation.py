"""Chinese words are mostly those that people mark, and far more so than single characters.

The public test sets are compared only where `shared/data/tagging/segmentation-zh` lies beside the
repository. A few sentences that were cut by hand are always compared.
"""

import lzma
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from bertworks.tokenizer.boundaries import find_starts, load_segmenter

SETS = Path(__file__).parents[3] / "shared" / "data" / "tagging" / "segmentation-zh"
REAL = [name for name in ("pku", "msr") if SETS.is_dir()]
BY_HAND = """
我们 昨天 下午 在 公园 里 散步 。
北京 的 冬天 很 冷 ， 但是 阳光 很 好 。
他 买 了 三 本 书 和 一 张 地图 。
老师 告诉 学生 ， 明天 没有 考试 。
这 家 公司 生产 汽车 和 飞机 。
""".strip()


def read(name: str) -> list[list[str]]:
    """Return sentences as lists of words."""
    if name == "by hand":
        return [line.split() for line in BY_HAND.splitlines()]
    with lzma.open(SETS / f"{name}_test_gold.utf8.xz", "rt", encoding="utf-8") as lines:
        return [words for line in lines if (words := line.split())]


def spans(starts: np.ndarray) -> set[tuple[int, int]]:
    return set(pairwise([*np.flatnonzero(starts).tolist(), len(starts)]))


def f1_of(sentences: list[list[str]], segment: Callable[[str], list[str]] | None) -> float:
    """Return the F1 of the words found; a word counts if it begins and ends where it should."""
    num_right = num_found = num_gold = 0
    for words in sentences:
        gold = np.zeros(sum(map(len, words)), dtype=bool)
        gold[np.cumsum([0, *map(len, words[:-1])])] = True
        found = spans(find_starts("".join(words), segment))
        num_right += len(found & spans(gold))
        num_found, num_gold = num_found + len(found), num_gold + len(words)
    return 2 * num_right / (num_found + num_gold)


@pytest.mark.parametrize("name", ["by hand", *REAL])
def test_words_are_mostly_those_that_people_mark(name: str) -> None:
    sentences = read(name)
    assert f1_of(sentences, load_segmenter()) > 0.8
    assert f1_of(sentences, None) < 0.6
