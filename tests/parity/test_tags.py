"""Tags beside the classes of transformers: the same logits and the same answers, both ways."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers import AutoModel, AutoModelForTokenClassification, AutoTokenizer

import bertworks
from bertworks.core.artifact import Origin
from bertworks.core.batch import Target
from bertworks.model.config import EncoderConfig
from bertworks.serving.model_folder import open_model, save_model
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel

ALLOWED = 1e-5
TAGS = ("O", "B-PER", "I-PER", "B-地", "I-地")
FAMILIES = ("bert", "roberta", "distilbert", "albert", "electra", "modernbert", "mpnet")
EVERY_FAMILY = pytest.mark.parametrize("family", FAMILIES)
SENTENCES = [["the", "cat", "sat"], ["A", "dog's", "Hunde", "!", "北京", "über"], ["mat"]]


@pytest.fixture
def logits(flat, padded, draw_texts) -> Any:
    """Return our logits and theirs of every token."""

    @torch.no_grad()
    def both(ours: TaskModel, theirs: Any) -> tuple[Tensor, Tensor]:
        texts = draw_texts((23, 1, 17, 17), seed=6)
        batch = flat(texts)
        found = ours.logits(replace(batch, targets={"tag": Target(batch.tokens)}), "tag")
        inputs = padded(texts, theirs.config.pad_token_id)
        if getattr(theirs.config, "type_vocab_size", 1) == 1:
            inputs.pop("token_type_ids")
        return found, theirs(**inputs).logits[inputs["attention_mask"].bool()]

    return both


@EVERY_FAMILY
def test_their_models_give_the_same_logits_here_and_go_back(
    family: str, make_theirs, open_ours, logits, largest_gap, pieces_of, tmp_path: Path
) -> None:
    theirs = make_theirs(family, "ForTokenClassification", seed=5, id2label=dict(enumerate(TAGS)))
    opened = open_ours(theirs)
    assert opened.model.tasks["tag"].labels == TAGS
    assert opened.model.tasks["tag"].options["scheme"] == "bio"
    assert opened.account.unexpected == ()
    assert all(name.startswith("encoder.pooler.") for name in opened.account.missing)
    ours, told = logits(opened.model, theirs)
    assert largest_gap(ours, told) <= ALLOWED
    assert largest_gap(ours, ours.roll(1, 0)) > 1e-2  # else nothing was compared
    save_model(tmp_path / "ours", opened.model, pieces_of(family), origin=Origin())
    back, info = AutoModelForTokenClassification.from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert type(back) is type(theirs)
    assert not any(info.values()), info
    assert back.config.id2label == dict(enumerate(TAGS))
    ours, told = logits(opened.model, back.eval())
    assert largest_gap(ours, told) <= ALLOWED


@EVERY_FAMILY
def test_what_was_made_here_opens_there_and_here(
    family: str, roughen, logits, largest_gap, pieces_of, tmp_path: Path
) -> None:
    config = replace(EncoderConfig.named(f"{family}-2x64"), vocab_size=97, max_positions=43)
    ours = roughen(TaskModel(config, [make_task("tag", TAGS, dropout=0.25)]), seed=4)
    save_model(tmp_path / "ours", ours, pieces_of(family), origin=Origin())
    theirs = AutoModelForTokenClassification.from_pretrained(tmp_path / "ours").eval()
    found, told = logits(ours, theirs)
    assert largest_gap(found, told) <= ALLOWED
    again = open_model(tmp_path / "ours").model.eval()
    assert again.tasks["tag"].options == ours.tasks["tag"].options
    assert largest_gap(found, logits(again, theirs)[0]) == 0


def test_words_get_the_tags_that_transformers_gives_their_first_pieces(
    make_theirs, pieces, tmp_path: Path
) -> None:
    theirs = make_theirs(
        "bert", "ForTokenClassification", seed=5, id2label=dict(enumerate(("N", "V", "A")))
    )
    theirs.save_pretrained(tmp_path)
    pieces.save(tmp_path)
    found = bertworks.load(tmp_path).predict([{"tokens": words} for words in SENTENCES])
    cut = AutoTokenizer.from_pretrained(tmp_path)
    for words, answer in zip(SENTENCES, found, strict=True):
        inputs = cut(words, is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            chances = theirs(**inputs).logits[0].softmax(-1)
        owners = inputs.word_ids(0)
        firsts = [owners.index(number) for number in range(len(words))]
        best = chances[firsts].max(-1)
        assert answer["tokens"] == words
        assert answer["tags"] == [theirs.config.id2label[int(n)] for n in best.indices]
        assert answer["probabilities"] == pytest.approx(best.values.tolist(), abs=1e-5)


@pytest.mark.parametrize(
    ("kind", "options"), [("tag", {"crf": True}), ("intent_slots", {"num_intents": 2})]
)
def test_of_tasks_that_transformers_does_not_know_it_opens_the_encoder(
    kind: str, options: dict[str, Any], roughen, pieces, padded, draw_texts, flat, tmp_path: Path
) -> None:
    config = replace(EncoderConfig.named("bert-2x64"), vocab_size=97, max_positions=43)
    ours = roughen(TaskModel(config, [make_task(kind, TAGS, **options)]), seed=4)
    save_model(tmp_path / "ours", ours, pieces, origin=Origin())
    told = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert told["architectures"] == ["BertModel"]
    theirs = AutoModel.from_pretrained(tmp_path / "ours").eval()
    assert type(theirs) is transformers.BertModel
    texts = draw_texts((23, 1, 17), seed=6)
    inputs = padded(texts)
    with torch.no_grad():
        hidden = theirs(**inputs).last_hidden_state[inputs["attention_mask"].bool()]
        torch.testing.assert_close(ours.encoder(flat(texts)), hidden, atol=ALLOWED, rtol=0)
    opened = open_model(tmp_path / "ours")
    assert opened.account is not None
    assert opened.account.is_complete
    assert opened.model.tasks[kind].options == ours.tasks[kind].options
    for name, parameter in ours.named_parameters():
        assert torch.equal(parameter, opened.model.get_parameter(name))
