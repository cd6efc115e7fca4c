"""Folders travel both ways: what transformers saves opens here, what is saved here opens there."""

import json
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import torch
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertForMaskedLM,
    BertForNextSentencePrediction,
    BertForPreTraining,
    BertForSequenceClassification,
    BertModel,
)

import bertworks
from bertworks.core.artifact import Origin
from bertworks.model.config import EncoderConfig
from bertworks.model.weights import read_tensors, write_tensors
from bertworks.serving.model_folder import open_model, save_model
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel

LABELS = ("kalt", "mild", "热")
CONFIG = EncoderConfig(
    vocab_size=97,
    hidden_size=21,
    num_layers=5,
    num_heads=3,
    feed_forward_size=37,
    activation="gelu_tanh",
    norm_epsilon=1e-5,
)
OURS = [
    ((), BertModel),
    (("fill_mask",), BertForMaskedLM),
    (("next_sentence",), BertForNextSentencePrediction),
    (("fill_mask", "next_sentence"), BertForPreTraining),
    (("classify",), BertForSequenceClassification),
    (("match",), BertForSequenceClassification),
]
TEXTS = ["the cat", "A dog ran from the man!", "北京", "the mat " * 30]


@pytest.fixture
def save_ours(tmp_path: Path, pieces, roughen):
    """Save a model of ours for tasks by name."""

    def saved(*names: str) -> tuple[TaskModel, Path]:
        model = TaskModel(CONFIG, [make_task(name, LABELS) for name in names], seed=3)
        save_model(tmp_path / "ours", roughen(model, seed=4), pieces, origin=Origin())
        return model, tmp_path / "ours"

    return saved


@pytest.fixture
def save_theirs(tmp_path: Path, pieces, roughen, draw_config):
    """Save a model of transformers with our vocabulary beside it."""

    def saved(cls, **changes):
        config = draw_config(2, hidden_size=21, num_attention_heads=3, **changes)
        theirs = roughen(cls(config), seed=5)
        theirs.save_pretrained(tmp_path / "theirs")
        pieces.save(tmp_path / "theirs")
        return theirs, tmp_path / "theirs"

    return saved


@pytest.mark.parametrize(("names", "cls"), OURS)
def test_transformers_opens_what_we_save_without_a_tensor_amiss(names, cls, save_ours) -> None:
    model, folder = save_ours(*names)
    theirs, info = cls.from_pretrained(folder, output_loading_info=True)
    assert {key: list(found) for key, found in info.items()} == {
        "missing_keys": [],
        "unexpected_keys": [],
        "mismatched_keys": [],
        "error_msgs": [],
    }
    assert theirs.dtype == torch.float32
    counted = sum(parameter.numel() for parameter in model.parameters())
    if cls is BertForMaskedLM:  # has no pooler
        counted -= sum(p.numel() for p in model.encoder.pooler.parameters())
    assert sum(parameter.numel() for parameter in theirs.parameters()) == counted


@pytest.mark.parametrize(("names", "cls"), OURS)
def test_what_we_save_gives_the_same_numbers_there(
    names, cls, save_ours, draw_texts, flat, padded, largest_gap
) -> None:
    model, folder = save_ours(*names)
    theirs = cls.from_pretrained(folder).eval()
    texts = draw_texts((1, 40, 9, 9, 512), seed=8)
    inputs = padded(texts)
    with torch.no_grad():
        told = theirs(**inputs, output_hidden_states=True).hidden_states[-1]
        hidden = model.encoder(flat(texts))
    assert largest_gap(hidden, told[inputs["attention_mask"].bool()]) <= 1e-5


@pytest.mark.parametrize(
    ("names", "auto", "cls"),
    [
        ((), AutoModel, BertModel),
        (("fill_mask",), AutoModelForMaskedLM, BertForMaskedLM),
        (("fill_mask", "next_sentence"), AutoModelForPreTraining, BertForPreTraining),
        (("match",), AutoModelForSequenceClassification, BertForSequenceClassification),
    ],
)
def test_the_automatic_classes_find_theirs(names, auto, cls, save_ours) -> None:
    assert type(auto.from_pretrained(save_ours(*names)[1])) is cls


def test_a_tensor_that_we_forgot_would_be_reported(save_ours) -> None:
    folder = save_ours("classify")[1]
    tensors = read_tensors(folder / "model.safetensors")
    tensors["somewhere.else"] = tensors.pop("classifier.bias")
    write_tensors(folder / "model.safetensors", tensors)
    _, info = BertForSequenceClassification.from_pretrained(folder, output_loading_info=True)
    assert set(info["missing_keys"]) == {"classifier.bias"}
    assert set(info["unexpected_keys"]) == {"somewhere.else"}


def test_labels_travel_to_transformers_and_back(save_ours, tmp_path: Path, pieces) -> None:
    theirs = BertForSequenceClassification.from_pretrained(save_ours("classify")[1])
    assert theirs.config.id2label == dict(enumerate(LABELS))
    assert theirs.config.label2id == {label: n for n, label in enumerate(LABELS)}
    theirs.save_pretrained(tmp_path / "back")
    pieces.save(tmp_path / "back")
    assert open_model(tmp_path / "back").model.tasks["classify"].labels == LABELS


@pytest.mark.parametrize("count", [2, 3, 11])
def test_labels_without_names_get_their_numbers(save_theirs, count: int) -> None:
    _, folder = save_theirs(BertForSequenceClassification, num_labels=count)
    expected = tuple(f"LABEL_{number}" for number in range(count))
    assert open_model(folder).model.tasks["classify"].labels == expected


@pytest.mark.parametrize(("names", "cls"), [row for row in OURS if row[0] != ("match",)])
def test_weights_come_back_from_transformers_bit_for_bit(
    names, cls, save_theirs, pieces, tmp_path: Path
) -> None:
    _, folder = save_theirs(cls)
    opened = open_model(folder)
    assert tuple(opened.model.tasks) == names
    assert opened.account is not None
    assert opened.account.unexpected == ()
    save_model(tmp_path / "again", opened.model, pieces, origin=Origin())
    before = read_tensors(folder / "model.safetensors")
    after = read_tensors(tmp_path / "again" / "model.safetensors")
    prefix = "bert." if cls is BertModel else ""  # which they write only for models with a head
    assert after.keys() == {prefix + name for name in before}
    assert all(torch.equal(after[prefix + name], before[name]) for name in before)


def test_their_tokenizer_cuts_texts_as_ours_does(save_ours, pieces) -> None:
    folder = save_ours("classify")[1]
    theirs = AutoTokenizer.from_pretrained(folder)
    first, last = pieces.specials.first, pieces.specials.separator
    texts = [*TEXTS, "", "über UBER", "un[MASK]seen [MASK] ?", "xyz" * 50]
    for text, ids in zip(texts, pieces.ids_of(texts), strict=True):
        assert theirs(text)["input_ids"] == [first, *ids, last]
    pair = theirs("the cat", "a dog")
    (a, b) = pieces.ids_of(["the cat", "a dog"])
    assert pair["input_ids"] == [first, *a, last, *b, last]
    assert pair["token_type_ids"] == [0] * (len(a) + 2) + [1] * (len(b) + 1)
    assert theirs.mask_token_id == pieces.specials.mask


def test_the_tokenizer_file_alone_frames_a_text_too(save_ours, pieces) -> None:
    engine = tokenizers.Tokenizer.from_file(str(save_ours()[1] / "tokenizer.json"))
    encoded = engine.encode("the cat", "a dog")
    assert encoded.tokens == ["[CLS]", "the", "cat", "[SEP]", "a", "dog", "[SEP]"]
    assert encoded.type_ids == [0, 0, 0, 0, 1, 1, 1]


def test_predictions_equal_those_of_transformers_from_the_text_on(save_theirs) -> None:
    theirs, folder = save_theirs(
        BertForSequenceClassification,
        id2label=dict(enumerate(LABELS)),
        label2id={label: n for n, label in enumerate(LABELS)},
    )
    pairs = [(text, "the cat sat") for text in TEXTS]
    answers = bertworks.load(folder).predict([*TEXTS, *pairs])
    cut = AutoTokenizer.from_pretrained(folder)
    for item, answer in zip([*TEXTS, *pairs], answers, strict=True):
        texts = (item,) if isinstance(item, str) else item
        with torch.no_grad():
            expected = theirs(**cut(*texts, return_tensors="pt")).logits.softmax(-1)[0]
        found = list(answer["probabilities"].values())
        np.testing.assert_allclose(found, expected.numpy(), atol=1e-5)
        assert answer["label"] == LABELS[int(expected.argmax())]


def test_filled_masks_equal_those_of_transformers(save_theirs) -> None:
    theirs, folder = save_theirs(BertForMaskedLM)
    text = "the [MASK] sat on the [MASK]!"
    found = bertworks.load(folder).fill_mask(text, num_candidates=7)
    cut = AutoTokenizer.from_pretrained(folder)
    inputs = cut(text, return_tensors="pt")
    with torch.no_grad():
        logits = theirs(**inputs).logits[0][inputs["input_ids"][0] == cut.mask_token_id]
    assert len(cut) < theirs.config.vocab_size  # no candidate comes from the rows to spare
    for candidates, row in zip(found, logits.softmax(-1), strict=True):
        best = row[: len(cut)].topk(7)
        np.testing.assert_allclose(
            [candidate.probability for candidate in candidates], best.values.numpy(), atol=1e-5
        )
        named = cut.convert_ids_to_tokens(best.indices.tolist())
        assert [candidate.token for candidate in candidates] == named


def test_the_description_travels_back_as_it_was(save_ours) -> None:
    folder = save_ours("classify")[1]
    theirs = BertForSequenceClassification.from_pretrained(folder)
    theirs.save_pretrained(folder.parent / "back")
    written = json.loads((folder.parent / "back" / "config.json").read_text())
    ours = json.loads((folder / "config.json").read_text())
    changed = {key for key in ours if written.get(key, ours[key]) != ours[key]}
    assert changed == set()
