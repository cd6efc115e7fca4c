"""Networks and tasks in Hugging Face's words and in our own: read as meant, or refused."""

import json
from dataclasses import asdict
from typing import Any

import pytest

from bertworks.core.errors import ArtifactError
from bertworks.interop.descriptions import (
    TaskNote,
    config_from_hugging_face,
    config_to_hugging_face,
    own_words,
    pad_id_of,
    tasks_from_hugging_face,
)
from bertworks.interop.dialect import OF_TEXTS
from bertworks.interop.families import ALIASES, DIALECTS
from bertworks.model.config import Bucketed, Learned, Local, Rotary, Sharing

CLASSES = [(family, tasks) for family, dialect in DIALECTS.items() for tasks in dialect.classes]
IN_CLASSES = pytest.mark.parametrize(("family", "tasks"), CLASSES)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_act": "sine"}, r"'sine' is not known; known are gelu, "),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'"),
        ({"is_decoder": True}, "is_decoder is True"),
        ({"hidden_size": 25}, "hidden_size 25 cannot be shared by 3 heads"),
        ({"num_attention_heads": 0}, "num_heads is 0"),
        ({"vocab_size": "many"}, "vocab_size is 'many'"),
        ({"hidden_size": 24.0}, r"hidden_size is 24\.0"),
        ({"hidden_dropout_prob": 2.0}, r"dropout is 2\.0"),
        ({"hidden_dropout_prob": "much"}, "dropout is 'much'; it must lie from 0"),
        ({"layer_norm_eps": "1e-12"}, "norm_epsilon is '1e-12'; it must lie between"),
    ],
)
def test_a_network_that_is_not_ours_is_refused_with_the_reason(
    change: dict[str, Any], message: str, their_words
) -> None:
    with pytest.raises(ArtifactError, match=message):
        config_from_hugging_face(their_words(**change))


@pytest.mark.parametrize("kind", ["gpt2", "", None, 3, ["bert"]])
def test_another_family_is_refused_with_those_that_are_known(kind: Any, their_words) -> None:
    message = r"model_type .* is of no family that is known here; known are bert, .*camembert"
    with pytest.raises(ArtifactError, match=message):
        config_from_hugging_face(their_words(model_type=kind))


@IN_CLASSES
def test_the_class_of_a_model_is_written_into_its_config(
    family: str, tasks: tuple[str, ...], small, notes, specials
) -> None:
    theirs = config_to_hugging_face(small(family), tasks=notes(*tasks), specials=specials)
    assert theirs["architectures"] == [DIALECTS[family].classes[tasks]]
    assert theirs["model_type"] == family
    assert theirs["pad_token_id"] == 3


@IN_CLASSES
def test_the_class_that_saved_a_folder_tells_its_tasks(
    family: str, tasks: tuple[str, ...], their_words
) -> None:
    architecture = DIALECTS[family].classes[tasks]
    found = tasks_from_hugging_face(their_words(family, architectures=[architecture]))
    # The class of what reads a whole text says no more than that, and an encoder no task at all.
    named = ("classify" if name in OF_TEXTS else name for name in tasks if name != "embed")
    assert tuple(found) == tuple(named)
    if "classify" in found:
        assert found["classify"].labels == ("LABEL_0", "LABEL_1")


@pytest.mark.parametrize("architectures", [["BertForOther"], ["Other"], [], None])
def test_a_class_that_is_not_known_tells_no_task(architectures: Any, their_words) -> None:
    assert tasks_from_hugging_face(their_words(architectures=architectures)) == {}


@pytest.mark.parametrize("task", ["classify", "match"])
def test_labels_stand_where_other_libraries_look_for_them(task: str, small, specials) -> None:
    told = {task: TaskNote(("不", "ja", "<no>"), {"pooling": None, "dropout": None})}
    theirs = config_to_hugging_face(small("bert"), tasks=told, specials=specials)
    assert theirs["architectures"] == ["BertForSequenceClassification"]
    assert theirs["id2label"] == {"0": "不", "1": "ja", "2": "<no>"}
    assert theirs["label2id"] == {"不": 0, "ja": 1, "<no>": 2}


def test_labels_are_taken_in_the_order_of_their_numbers(their_words) -> None:
    names = {str(number): f"label {number}" for number in (10, 2, 0, 1, 9, 8, 7, 6, 5, 4, 3)}
    theirs = their_words(architectures=["BertForSequenceClassification"], id2label=names)
    expected = tuple(f"label {number}" for number in range(11))
    assert tasks_from_hugging_face(theirs)["classify"].labels == expected


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({}, "classify"),
        ({"problem_type": "single_label_classification"}, "classify"),
        ({"problem_type": "multi_label_classification"}, "multilabel"),
        ({"problem_type": "multi_label_classification", "num_labels": 1}, "multilabel"),
        ({"id2label": {"0": "LABEL_0"}}, "score"),
        ({"problem_type": "regression", "num_labels": 1}, "score"),
        ({"problem_type": "regression"}, None),  # several numbers
        ({"problem_type": "single_label_classification", "num_labels": 1}, None),
        ({"problem_type": "riddle"}, None),
    ],
)
def test_the_config_tells_what_is_read_from_the_vector_of_a_text(
    change: dict[str, Any], kind: str | None, their_words
) -> None:
    theirs = their_words(architectures=["BertForSequenceClassification"], **change)
    found = tasks_from_hugging_face(theirs)
    assert list(found) == ([] if kind is None else [kind])
    count = change.get("num_labels", 2)
    expected = () if kind == "score" else tuple(f"LABEL_{n}" for n in range(count))
    assert all(note.labels == expected for note in found.values())


@pytest.mark.parametrize(
    ("kind", "labels", "said", "problem"),
    [
        ("aspect", ("bad", "good"), {"0": "bad", "1": "good"}, None),
        ("multilabel", ("a",), {"0": "a"}, "multi_label_classification"),
        ("score", (), {"0": "score"}, "regression"),
    ],
)
def test_what_a_classifier_is_for_stands_where_others_look_for_it(
    kind: str, labels: tuple[str, ...], said: dict[str, str], problem: str | None, small, specials
) -> None:
    told = {"mine": TaskNote(labels, {}, kind)}
    theirs = config_to_hugging_face(small("bert"), tasks=told, specials=specials)
    assert theirs["architectures"] == ["BertForSequenceClassification"]
    assert (theirs["id2label"], theirs.get("problem_type")) == (said, problem)
    assert theirs["label2id"] == {label: int(number) for number, label in said.items()}


@pytest.mark.parametrize(
    ("family", "change", "options"),
    [
        ("bert", {"classifier_dropout": 0.25}, {"pooling": None, "dropout": 0.25}),
        ("distilbert", {"seq_classif_dropout": 0.25}, {"pooling": None, "dropout": 0.25}),
        ("albert", {"classifier_dropout_prob": 0.25}, {"pooling": None, "dropout": 0.25}),
        ("modernbert", {"classifier_pooling": "mean"}, {"pooling": "mean", "dropout": None}),
        ("modernbert", {"classifier_pooling": "cls"}, {"pooling": "first", "dropout": None}),
    ],
)
def test_the_config_tells_how_a_classifier_is_made(
    family: str, change: dict[str, Any], options: dict[str, Any], their_words, small, specials
) -> None:
    architecture = DIALECTS[family].classes[("classify",)]
    found = tasks_from_hugging_face(their_words(family, architectures=[architecture], **change))
    assert found["classify"].options == options
    theirs = config_to_hugging_face(small(family), tasks=found, specials=specials)
    assert theirs.items() >= change.items()


def test_a_pooling_that_is_not_known_is_refused_by_its_key(their_words) -> None:
    architectures = ["ModernBertForSequenceClassification"]
    theirs = their_words("modernbert", architectures=architectures, classifier_pooling="max")
    with pytest.raises(ValueError, match=r"classifier_pooling 'max' is not known; known are"):
        tasks_from_hugging_face(theirs)


@pytest.mark.parametrize("said", [None, True, False])
def test_the_config_tells_whether_a_decoder_is_tied(said: bool | None, their_words) -> None:
    theirs = their_words(architectures=["BertForMaskedLM"], tie_word_embeddings=said)
    found = tasks_from_hugging_face(theirs)
    assert found["fill_mask"].options == {"tied": said is not False}


@pytest.mark.parametrize(("alias", "family"), ALIASES.items())
def test_a_family_under_another_name_is_the_same(
    alias: str, family: str, their_words, small
) -> None:
    assert config_from_hugging_face(their_words(family, model_type=alias)) == small(family)


@pytest.mark.parametrize(
    ("theirs", "pad_id"),
    [
        ({"model_type": "bert", "pad_token_id": 7}, 7),
        ({"model_type": "bert"}, 0),
        ({"model_type": "roberta"}, 1),
        ({"model_type": "xlm-roberta", "pad_token_id": None}, 1),
        ({"model_type": "bertworks"}, 0),
    ],
)
def test_the_padding_piece_is_the_one_that_is_said_or_the_familys(
    theirs: dict[str, Any], pad_id: int
) -> None:
    assert pad_id_of(theirs) == pad_id


@pytest.mark.parametrize(
    ("family", "change"),
    [
        ("bert", {"gated": True}),
        ("bert", {"positions": Rotary(base=7.0), "local": Local(window=5, full_every=2)}),
        ("mpnet", {"positions": Bucketed(num_buckets=8)}),
        ("albert", {"sharing": Sharing(group_size=2), "embedding_size": 10}),
        ("recurrent", {}),
        ("mean", {}),
        ("bert", {"positions": None}),
        ("modernbert", {"positions": Learned(), "local": Local(window=5)}),
    ],
)
def test_our_own_words_can_say_every_network(family: str, change: dict[str, Any], small) -> None:
    config = small(family, **change)
    said = json.loads(json.dumps(own_words(config)))
    assert said.keys() == {"model_type", *asdict(config)}
    assert config_from_hugging_face(said) == config


@pytest.mark.parametrize(
    ("said", "labels"),
    [
        ({"num_labels": 3}, ("LABEL_0", "LABEL_1", "LABEL_2")),
        ({"id2label": {"1": "b", "0": "a"}}, ("a", "b")),
        ({"id2label": {0: "a", 1: "b"}}, ("a", "b")),
        ({"id2label": {"0": 3, "1": True}}, ("3", "True")),
        ({}, ("LABEL_0", "LABEL_1")),
    ],
)
def test_labels_come_in_the_order_of_their_numbers(said, labels) -> None:
    theirs = {"model_type": "bert", "architectures": ["BertForSequenceClassification"], **said}
    assert tasks_from_hugging_face(theirs)["classify"].labels == labels


@pytest.mark.parametrize(
    "labels",
    [{"0": "a", "1": "a", "2": "b"}, {"0": "a", "1": "b", "5": "c"}, {"0": "a", "00": "b"}],
)
def test_labels_that_are_not_numbered_one_by_one_are_refused(labels) -> None:
    theirs = {"model_type": "bert", "architectures": ["BertForSequenceClassification"]}
    with pytest.raises(ValueError, match="does not number different labels"):
        tasks_from_hugging_face({**theirs, "id2label": labels})


def test_only_modernbert_says_how_a_classifier_pools() -> None:
    for family, name in (("bert", "Bert"), ("modernbert", "ModernBert")):
        theirs = {
            "model_type": family,
            "architectures": [f"{name}ForSequenceClassification"],
            "classifier_pooling": "mean",
        }
        pooling = tasks_from_hugging_face(theirs)["classify"].options["pooling"]
        assert pooling == ("mean" if family == "modernbert" else None)


@pytest.mark.parametrize("rate", ["x", 5, -0.1, 1.0])
def test_a_dropout_that_is_no_rate_is_refused_by_its_key(rate) -> None:
    theirs = {"model_type": "bert", "architectures": ["BertForSequenceClassification"]}
    with pytest.raises(ValueError, match="classifier_dropout is"):
        tasks_from_hugging_face({**theirs, "classifier_dropout": rate})


@pytest.mark.parametrize(
    "said",
    [
        {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
        {"sliding_window": 17},
        {"global_attn_every_n_layers": 0},
        {"global_rope_theta": -5.0},
        {"global_rope_theta": "x"},
        {"num_hidden_layers": 1_000_000},
        {"hidden_size": 10**19},
        {"intermediate_size": True},
        {"norm_eps": float("inf")},
    ],
)
def test_a_modernbert_that_cannot_be_is_refused(said) -> None:
    with pytest.raises(ArtifactError, match="no network that can be built"):
        config_from_hugging_face({"model_type": "modernbert", **said})


def test_answers_with_more_than_two_ends_are_refused_by_their_number(their_words) -> None:
    theirs = their_words(architectures=["BertForQuestionAnswering"])
    assert tasks_from_hugging_face(theirs) == {"answer": TaskNote()}
    with pytest.raises(ValueError, match="num_labels is 3; answers have two ends"):
        tasks_from_hugging_face({**theirs, "num_labels": 3})
    stale = {"_num_labels": 3, "id2label": {"0": "A", "1": "A"}}  # which nobody looks at
    assert tasks_from_hugging_face({**theirs, **stale}) == {"answer": TaskNote()}
