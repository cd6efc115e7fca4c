"""Options of requests: known ones with sensible values, each ability its own."""

from typing import Any

import pytest

from bertworks.core.errors import DataError
from bertworks.service.asked import TAKEN, Asked, query_pairs
from bertworks.service.failures import Failure


def test_what_is_not_given_is_the_models_own_way() -> None:
    assert Asked.of("embed", {}) == Asked.of("embed", {"dims": None, "truncate": None}) == Asked()


@pytest.mark.parametrize("ability", [*TAKEN, "classify"])
def test_every_ability_may_cut_what_is_too_long(ability: str) -> None:
    assert not Asked.of(ability, {"truncate": False}).truncate


@pytest.mark.parametrize(
    ("ability", "options", "message"),
    [
        ("embed", {"labels": ["a"]}, "embed has no option 'labels'; it has dims, normalize"),
        ("classify", {"dims": 3}, "classify has no option 'dims'; it has task, threshold, top_k"),
        ("rerank", {"prompt": "a"}, "rerank has no option 'prompt'; it has truncate"),
        ("embed", {"dims": 0}, "dims is 0; give a whole number from 1 to 100000"),
        ("embed", {"dims": True}, "dims is True"),
        ("fill_mask", {"top_k": 2.5}, "top_k is 2.5"),
        ("fill_mask", {"num_candidates": "3"}, "num_candidates is '3'"),
        ("embed", {"truncate": "no"}, "truncate is 'no'; give true or false"),
        ("embed", {"normalize": 1}, "normalize is 1; give true or false"),
        ("embed", {"prompt": ["a"]}, "prompt is .*give a string"),
        ("zero_shot", {"labels": "abc"}, "labels is 'abc'; give a list of texts, or a table"),
        ("zero_shot", {"labels": ["a", 3]}, "labels is .*give a list of texts"),
        ("zero_shot", {"labels": {"a": None}}, "labels is .*give a list of texts"),
        ("zero_shot", {"labels": {3: "a"}}, "labels is .*give a list of texts"),
        ("zero_shot", {"calibrate": "yes"}, "calibrate is 'yes'; give true or false"),
        ("classify", {"threshold": True}, "threshold is True"),
        ("zero_shot", {"labels": 7}, "labels is 7"),
        ("fill_mask", {"top_k": 10**30}, "top_k is 1000"),
        ("classify", {"threshold": 1.5}, "threshold is 1.5; give a number from 0 to 1"),
        ("classify", {"threshold": float("nan")}, "threshold is nan"),
        ("generate", {"threshold": 0.5}, "generate has no option 'threshold'; it has beams, begin"),
        ("generate", {"beams": 17}, "beams is 17; give a whole number from 1 to 16"),
        ("generate", {"beams": 2.0}, "beams is 2.0; give a whole number from 1 to 16"),
        ("generate", {"longest_reply": 0}, "longest_reply is 0; give a whole number from 1 to 256"),
        ("generate", {"no_repeat": -1}, "no_repeat is -1; give a whole number from 0 to 256"),
        ("generate", {"length_penalty": 1e300}, "length_penalty is 1e.300; give a number from -5"),
        ("generate", {"temperature": float("inf")}, "temperature is inf; give a number from 0.01"),
        ("generate", {"top_p": 0}, "top_p is 0; give a number from 0.001 to 1"),
        ("generate", {"begin": 3}, "begin is 3; give a string of at most 1000 characters"),
        ("generate", {"begin": "a" * 1001}, "give a string of at most 1000 characters"),
        ("generate", {"draw_seed": 1 << 32}, "draw_seed is 4294967296; give a whole number from 0"),
    ],
)
def test_an_odd_option_is_named(ability: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(Failure, match=message) as failed:
        Asked.of(ability, options)
    assert failed.value.code == "bad_value"


def test_pairs_are_two_texts_each() -> None:
    assert query_pairs([["a", "b"], ("c", "")]) == [("a", "b"), ("c", "")]
    for wrong in ("ab", ["a"], ["a", None], ["a", "half \ud83d"], {"a": 1, "b": 2}):
        with pytest.raises(DataError, match="input 2 is"):
            query_pairs([["a", "b"], wrong])
