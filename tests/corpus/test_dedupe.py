"""Duplicates: the first of several is kept, copies and near copies are found, others are not."""

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.corpus import dedupe
from bertworks.corpus.dedupe import Duplicates, Fingerprinter, Fingerprints, folded_hash
from bertworks.corpus.minhash import likeness, shingles

WORDS = ["".join(random.Random(n).choices("abcdefghij", k=5)) for n in range(3000)]


def judge(
    folder: Path, texts: list[str], *, similarity: float = 0.8, batch: int = 7, places: int = 128
) -> list[str]:
    """Judge texts in batches."""
    folder.mkdir(exist_ok=True)
    found = Duplicates(folder, similarity=similarity, num_permutations=places)
    fingerprinter = Fingerprinter(places)
    verdicts: list[str] = []
    for first in range(0, len(texts), batch):
        verdicts += found.judge(fingerprinter.take(texts[first : first + batch]))
    return verdicts


def draw(chance: random.Random, count: int) -> list[str]:
    """Draw the words of a document."""
    return chance.choices(WORDS, k=count)


def edited(words: list[str], num_edits: int, chance: random.Random) -> list[str]:
    """Change words at places that are far enough apart to cost five shingles each."""
    changed = list(words)
    for place in chance.sample(range(5, len(words) - 5, 6), num_edits):
        changed[place] = "new" + changed[place]
    return changed


def pairs_of(chance: random.Random, *, count: int, num_edits: int) -> tuple[list[str], float]:
    """Draw documents, each followed by an edited copy, and tell the similarity of the pairs."""
    texts = []
    for _ in range(count):
        words = draw(chance, 244)
        texts += [" ".join(words), " ".join(edited(words, num_edits, chance))]
    sets = [set(shingles(text).tolist()) for text in texts[:2]]
    return texts, len(sets[0] & sets[1]) / len(sets[0] | sets[1])


@pytest.mark.parametrize(
    ("num_edits", "similarity", "least", "most"),
    [(1, 0.96, 1.0, 1.0), (3, 0.88, 0.97, 1.0), (8, 0.71, 0.0, 0.06), (14, 0.55, 0.0, 0.0)],
)
def test_near_copies_above_the_threshold_are_found_and_those_below_stay(
    num_edits: int, similarity: float, least: float, most: float, tmp_path: Path
) -> None:
    texts, true = pairs_of(random.Random(5), count=120, num_edits=num_edits)
    assert true == pytest.approx(similarity, abs=0.01)
    verdicts = judge(tmp_path / "work", texts, batch=50)
    assert set(verdicts[::2]) == {"kept"}
    assert least <= verdicts[1::2].count("near duplicate") / 120 <= most


def test_near_copies_of_chinese_text_are_found(tmp_path: Path) -> None:
    chance = random.Random(8)
    text = "".join(chr(chance.randint(0x4E00, 0x9FA5)) for _ in range(400))
    other = "".join(chr(chance.randint(0x4E00, 0x9FA5)) for _ in range(400))
    near = text[:200] + "了" + text[200:]
    assert judge(tmp_path / "work", [text, other, near]) == ["kept", "kept", "near duplicate"]


def test_exact_copies_are_found_whatever_their_case_and_spaces(tmp_path: Path) -> None:
    texts = ["The cat sat.", "the  CAT\nsat. ", "The cat sat!", "The cat sat."]
    exact = ["kept", "exact duplicate", "kept", "exact duplicate"]
    assert judge(tmp_path / "exact", texts, similarity=1, places=0) == exact
    near = ["kept", "exact duplicate", "near duplicate", "exact duplicate"]
    assert judge(tmp_path / "near", texts) == near
    assert folded_hash("ß a") == folded_hash("SS\t A") != folded_hash("s a")


def mixture(chance: random.Random, count: int) -> list[str]:
    """Draw documents of which many are copies or near copies of others."""
    originals = [draw(chance, 120) for _ in range(count // 3)]
    texts = []
    for _ in range(count):
        words = chance.choice(originals)
        texts.append(" ".join(edited(words, chance.choice((0, 0, 1, 2, 4)), chance)))
    return texts


@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=5), seed=st.integers(0, 5))
@settings(max_examples=15)
def test_the_verdicts_do_not_depend_on_how_documents_are_batched_or_taken_up_again(
    sizes: list[int], seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    texts = mixture(random.Random(seed), 90)
    whole = judge(tmp_path_factory.mktemp("whole"), texts, batch=len(texts))
    assert set(whole) == {"kept", "near duplicate", "exact duplicate"}
    folder, fingerprinter = tmp_path_factory.mktemp("parts"), Fingerprinter(128)
    found: list[str] = []
    while len(found) < len(texts):
        size = sizes[len(found) % len(sizes)]
        resumed = Duplicates(folder, similarity=0.8, num_permutations=128)
        found += resumed.judge(fingerprinter.take(texts[len(found) : len(found) + size]))
    assert found == whole


def families(chance: random.Random, *, count: int, size: int, num_edits: int) -> list[str]:
    """Draw documents that were each edited from one of a few, in any order."""
    texts = []
    for _ in range(count):
        words = draw(chance, 244)
        texts += [" ".join(edited(words, num_edits, chance)) for _ in range(size)]
    chance.shuffle(texts)
    return texts


@pytest.mark.parametrize(("size", "num_edits"), [(13, 3), (13, 4), (50, 3)])
def test_in_families_hardly_more_near_copies_are_missed_than_of_pairs(
    size: int, num_edits: int, tmp_path: Path
) -> None:
    texts = families(random.Random(4), count=900 // size, size=size, num_edits=num_edits)
    verdicts = judge(tmp_path / "work", texts, batch=97)
    signatures = Fingerprinter(128).take(texts).signatures
    kept: list[int] = []
    num_near = num_missed = 0
    for row, verdict in enumerate(verdicts):
        is_near = bool((likeness(signatures[row], signatures[kept]) >= 0.8).any())
        num_near += is_near
        num_missed += is_near and verdict == "kept"
        if verdict == "kept":
            kept.append(row)
    assert num_near > 150
    assert num_missed <= dedupe.MOST_MISSED / 2 * num_near


@pytest.mark.parametrize("most", [1, 2, 8])
def test_the_verdicts_on_families_do_not_depend_on_batches(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dedupe, "MOST_OWNERS", most)
    texts = families(random.Random(6), count=5, size=40, num_edits=4)
    alone = judge(tmp_path / "alone", texts, batch=1)
    assert judge(tmp_path / "together", texts, batch=len(texts)) == alone
    half = judge(tmp_path / "halves", texts[:111], batch=17)
    assert half + judge(tmp_path / "halves", texts[111:], batch=19) == alone


def test_the_verdicts_do_not_depend_on_the_growth_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = mixture(random.Random(3), 150)
    roomy = judge(tmp_path / "roomy", texts)
    monkeypatch.setattr(dedupe, "LEAST_PLACES", 2)
    monkeypatch.setattr(dedupe, "BLOCK", 5)
    assert judge(tmp_path / "narrow", texts) == roomy


def test_memory_and_disk_hold_what_is_said(tmp_path: Path) -> None:
    random_numbers = np.random.default_rng(1)
    found = Duplicates(tmp_path, similarity=0.8, num_permutations=128)
    for _ in range(9):
        found.judge(
            Fingerprints(
                random_numbers.integers(0, 2**63, 1000).astype(np.uint64),
                random_numbers.integers(0, 2**16, (1000, 128)).astype(np.uint16),
            )
        )
        table = found.table
        assert (table.keys.nbytes + table.owners.nbytes) / found.num_kept <= 310
    assert found.num_kept == 9000
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) == 9000 * (8 + 256)


def test_no_documents_are_no_trouble(tmp_path: Path) -> None:
    for places in (0, 128):
        found = Duplicates(tmp_path, similarity=0.8, num_permutations=places)
        assert found.judge(Fingerprinter(places).take([])) == []


# The control


def test_a_blind_comparison_would_be_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dedupe, "likeness", lambda signature, others: np.ones(len(others)))
    texts, _ = pairs_of(random.Random(5), count=120, num_edits=8)
    assert judge(tmp_path / "work", texts).count("near duplicate") > 0.06 * 120
