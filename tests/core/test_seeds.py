"""Every draw is a function of a seed and a place, and of nothing else."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.seeds import bytes_at, derive, random_at

PLACES = [(), ("mask",), ("mask", 0), ("mask", 1), ("mask", 10), ("epoch", 0), ("epoch", 1), (1,)]


def test_a_place_always_gives_the_same_draws() -> None:
    first = random_at(7, "mask", 3).random(5)
    random_at(7, "mask", 4).random(11)
    np.random.default_rng(0).random(3)
    assert np.array_equal(random_at(7, "mask", 3).random(5), first)


def test_the_derivation_never_changes_between_versions() -> None:
    assert derive(7, "mask", 3) == 1597061166603106656
    assert random_at(7, "mask", 3).integers(1000, size=5).tolist() == [785, 917, 542, 964, 315]
    assert list(bytes_at(7, "mask", 3, count=5)) == [199, 151, 151, 97, 180]


def test_bytes_of_a_place_are_many_even_and_its_own() -> None:
    counts = np.bincount(list(bytes_at(7, "mask", 3, count=25_600)), minlength=256)
    assert ((counts - 100) ** 2 / 100).sum() < 330  # chi-square, of which 255 is the mean
    assert bytes_at(7, "mask", 3, count=9) == bytes_at(7, "mask", 3, count=25)[:9]
    places = {bytes_at(seed, *place, count=9) for seed in range(13) for place in PLACES}
    assert len(places) == 13 * len(PLACES)


def test_seeds_and_places_all_differ() -> None:
    seeds = [derive(seed, *place) for seed in range(13) for place in PLACES]
    assert len(set(seeds)) == len(seeds)


@given(st.integers(), st.lists(st.integers() | st.text(st.characters(codec="utf-8"))))
def test_a_derived_seed_fits_63_bits(seed: int, place: list[int | str]) -> None:
    assert 0 <= derive(seed, *place) < 2**63


def test_neighbouring_places_draw_independently() -> None:
    draws = np.array([random_at(5, "step", step).random(4001) for step in range(7)])
    related = [abs(np.corrcoef(a, b)[0, 1]) for a, b in pairwise(draws)]
    assert max(related) < 0.06
    assert abs(np.corrcoef(draws[0], draws[0] + 0.1 * draws[1])[0, 1]) > 0.06
