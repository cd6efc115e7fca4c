"""How a family is written down: what goes without saying, and the words that most share."""

from dataclasses import FrozenInstanceError, fields
from typing import get_args

import pytest

from bertworks.interop.dialect import (
    ACTIVATIONS,
    BERT_ENCODER,
    COMMON_KEYS,
    EMBEDDINGS,
    OF_TEXTS,
    PROBLEMS,
    Dialect,
    classes_of,
    text_heads,
)
from bertworks.model.config import Activation, EncoderConfig


def test_a_family_need_only_say_what_sets_it_apart(small) -> None:
    plain = Dialect(prefix="own.", keys={}, encoder={}, heads={}, classes=classes_of("Own"))
    assert [plain.skipped_places(pad_id) for pad_id in (0, 1, 7)] == [0, 0, 0]
    assert plain.only_pad_id is None
    assert plain.read({"hidden_size": 24}) == {}
    assert plain.write(small("bert")) == {}
    with pytest.raises(FrozenInstanceError):
        plain.prefix = "other."  # type: ignore[misc]


def test_every_family_has_a_class_for_each_of_these_tasks() -> None:
    found = classes_of("Bert")
    assert found[()] == "BertModel"
    assert found[("fill_mask",)] == "BertForMaskedLM"
    assert {found[(kind,)] for kind in OF_TEXTS} == {"BertForSequenceClassification"}


def test_tasks_that_read_a_whole_text_have_the_same_rows_under_their_own_names() -> None:
    rows = {"encoder.pooler.dense": ("pre",), "heads.TASK.output": ("classifier", "other")}
    found = text_heads(rows)
    assert tuple(found) == OF_TEXTS
    assert set(PROBLEMS) < set(OF_TEXTS)
    assert found["match"] == {
        "encoder.pooler.dense": ("pre",),
        "heads.match.output": ("classifier", "other"),
    }


def test_shared_keys_mean_fields_that_there_are() -> None:
    ours = list(COMMON_KEYS.values())
    assert len(ours) == len(set(ours))
    assert set(ours) <= {field.name for field in fields(EncoderConfig)}


def test_every_activation_has_a_name_elsewhere() -> None:
    assert set(ACTIVATIONS.values()) == set(get_args(Activation))


def test_shared_rows_are_numbered_alike_on_both_sides() -> None:
    assert EMBEDDINGS.items() <= BERT_ENCODER.items()
    for ours, theirs in BERT_ENCODER.items():
        assert {"{i}" in name for name in theirs} == {"{i}" in ours}
