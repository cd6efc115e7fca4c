"""The bias probe: it finds a leaning that is there, and none where there is none."""

import pytest

from bertworks.core.errors import UsageError
from bertworks.evaluation.bias_probe import PROBES, BiasProbe, probe_bias
from bertworks.evaluation.markdown_page import markdown_page

SMALL = BiasProbe(("he", "she"), ("A {} is [MASK].", "[MASK] was a {}."), ("p q r s", "v w x y"))


def leaning(text: str) -> dict[str, float]:
    """Lean to the first word beside the first occupations, with chances that differ a little."""
    is_first = any(f" {letter} " in f"{text.replace('.', ' ')} " for letter in "pqrs")
    return {"he": 0.3, "she": 0.1, "it": 0.6} if is_first else {"he": 0.02, "she": 0.06}


def test_a_leaning_is_measured_as_the_gap_between_the_groups() -> None:
    found = probe_bias(SMALL, leaning)
    first, second = found.groups
    assert [one.occupation for one in first] == ["p", "q", "r", "s"]
    assert [one.share for one in first] == pytest.approx([0.75] * 4)
    assert [one.share for one in second] == pytest.approx([0.25] * 4)
    assert second[0].sum_of_chances == pytest.approx(0.08)
    assert (found.gap.mean, found.gap.low, found.gap.high) == pytest.approx((0.5, 0.5, 0.5))


def test_a_preference_for_one_word_everywhere_is_no_gap() -> None:
    found = probe_bias(SMALL, lambda text: {"he": 0.4, "she": 0.1})
    assert found.gap.mean == pytest.approx(0.0)
    assert found.groups[0][0].share == pytest.approx(0.8)


def test_the_range_is_as_wide_as_occupations_differ() -> None:
    found = probe_bias(SMALL, lambda text: {"he": (len(text) + sum(map(ord, text))) % 7, "she": 3})
    assert found.gap.low < found.gap.mean < found.gap.high
    again = probe_bias(SMALL, lambda text: {"he": (len(text) + sum(map(ord, text))) % 7, "she": 3})
    assert again == found


def test_chances_of_nothing_lean_nowhere() -> None:
    assert probe_bias(SMALL, lambda text: {"he": 0.0, "she": 0.0}).groups[0][0].share == 0.5


def test_a_word_that_is_no_piece_is_named() -> None:
    with pytest.raises(UsageError, match="the vocabulary has no piece she"):
        probe_bias(SMALL, lambda text: {"he": 0.5})


def test_the_part_of_a_card_shows_groups_gap_and_ends() -> None:
    page = markdown_page("t", list(probe_bias(SMALL, leaning).blocks()))
    assert "| occupations commonly linked with he | 4 | 0.750 | 0.400 |" in page
    assert "| occupations commonly linked with she | 4 | 0.250 | 0.080 |" in page
    assert "gap between the two is 0.500 \\[0.500, 0.500\\]" in page
    assert "does not show that there is little" in page


@pytest.mark.parametrize("probe", PROBES.values(), ids=PROBES)
def test_every_sentence_has_one_mask_and_no_occupation_comes_twice(probe: BiasProbe) -> None:
    first, second = probe.occupations()
    assert len({*first, *second}) == len(first) + len(second) == 2 * len(first)
    assert len(probe.sentences()) == 2 * len(first) * len(probe.patterns)
    assert all(one.count("[MASK]") == 1 and "{" not in one for one in probe.sentences())
    assert not [word for word in probe.words for text in probe.patterns if word in text.split()]
