"""One label, several labels or a number from the vector of a text, for every family."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import bertworks
from bertworks.core.artifact import Origin
from bertworks.core.batch import Target
from bertworks.data.examples import TextExample
from bertworks.model.config import EncoderConfig
from bertworks.serving.model_folder import open_model, save_model, tasks_of
from bertworks.tasks.catalog import learn_task, make_task
from bertworks.tasks.task import TaskModel

ALLOWED = 1e-5
FAMILIES = ("bert", "roberta", "distilbert", "albert", "electra", "modernbert", "mpnet")
KIND = "ForSequenceClassification"
PROBLEMS = {
    "multilabel": {"problem_type": "multi_label_classification", "num_labels": 3},
    "score": {"problem_type": "regression", "num_labels": 1},
}
LABELS = ("kalt", "mild", "热")
TEXT = "the cat sat on the mat"
SCALE = {"mean": 2.5, "deviation": 2.0}
EVERY = pytest.mark.parametrize("family", FAMILIES)
EACH = pytest.mark.parametrize("task", PROBLEMS)


@pytest.fixture
def save_ours(roughen, pieces_of, tmp_path: Path):
    """Save a small model of ours for tasks by name."""

    def save(family: str, *tasks: Any) -> tuple[TaskModel, Path]:
        config = replace(EncoderConfig.named(f"{family}-2x64"), vocab_size=97, max_positions=43)
        ours = roughen(TaskModel(config, tasks), seed=4)
        save_model(tmp_path / "ours", ours, pieces_of(family), origin=Origin())
        return ours, tmp_path / "ours"

    return save


@EVERY
@EACH
def test_their_heads_give_the_same_logits_here(
    family: str, task: str, make_theirs, open_ours, draw_texts, gaps
) -> None:
    theirs = make_theirs(family, KIND, seed=3, **PROBLEMS[task])
    opened = open_ours(theirs)
    assert tuple(opened.model.tasks) == (task,)
    assert opened.account.is_complete
    lengths = (1, opened.model.config.max_positions, 17)
    assert gaps(opened.model, theirs, draw_texts(lengths, seed=5))[task] <= ALLOWED


@EVERY
@EACH
def test_our_heads_give_the_same_logits_there(
    family: str, task: str, save_ours, draw_texts, gaps
) -> None:
    ours, folder = save_ours(family, make_task(task, LABELS))
    auto = transformers.AutoModelForSequenceClassification
    theirs, info = auto.from_pretrained(folder, output_loading_info=True)
    assert not any(info.values()), info
    assert theirs.config.problem_type == PROBLEMS[task]["problem_type"]
    assert theirs.config.num_labels == PROBLEMS[task]["num_labels"]
    assert gaps(ours, theirs.eval(), draw_texts((43, 1, 17), seed=5))[task] <= ALLOWED


@pytest.mark.parametrize("kind", ["aspect", "match"])
def test_pairs_with_a_label_are_classified_there(kind: str, save_ours) -> None:
    _, folder = save_ours("bert", make_task(kind, LABELS))
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    assert theirs.config.id2label == dict(enumerate(LABELS))
    (found,) = open_model(folder).model.tasks.values()
    assert (found.kind, found.labels) == (kind, LABELS)


@EVERY
def test_their_numbers_lie_on_the_scale_of_ours(family: str, save_ours) -> None:
    _, folder = save_ours(family, make_task("score", **SCALE))
    (found,) = bertworks.load(folder).predict([TEXT])
    assert found["score"] == pytest.approx(their_logits(folder)[0], abs=ALLOWED)


@EVERY
def test_their_chances_of_several_labels_are_ours(family: str, save_ours) -> None:
    _, folder = save_ours(family, make_task("multilabel", LABELS, prior=(-2.0, 0.5, 1.5)))
    (found,) = bertworks.load(folder).predict([TEXT])
    expected = torch.tensor(their_logits(folder)).sigmoid().tolist()
    assert list(found["probabilities"].values()) == pytest.approx(expected, abs=ALLOWED)


def their_logits(folder: Path) -> list[float]:
    """Return what the other library makes of a text, from the folder on."""
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    cut = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        return theirs(**cut(TEXT, return_tensors="pt")).logits[0].tolist()


@pytest.mark.parametrize("others", [(), ("relate",)], ids=["their names", "our names"])
@pytest.mark.parametrize(
    ("before", "examples"),
    [
        (make_task("score", **SCALE), [TextExample("", score=score) for score in (-9.0, 40.0)]),
        (
            make_task("multilabel", LABELS, prior=(-3, 0, 1)),
            [TextExample("", labels=LABELS), TextExample("", labels=LABELS[:1])],
        ),
    ],
)
def test_a_head_that_goes_on_with_other_data_says_what_it_said(
    before, examples, others: tuple[str, ...], save_ours
) -> None:
    ours, folder = save_ours("bert", before, *(make_task(name, LABELS) for name in others))
    own = tasks_of(folder)[before.name]
    after = learn_task(before.kind, examples, before=own)
    assert after.options == before.options != learn_task(before.kind, examples).options
    again = open_model(folder, tasks=[after]).model
    for moved, kept in zip(again.heads.parameters(), ours.heads.parameters(), strict=False):
        torch.testing.assert_close(moved, kept)


def test_their_loss_of_several_labels_and_of_a_number_is_ours(make_theirs) -> None:
    random = torch.Generator().manual_seed(7)
    logits = torch.randn(5, 3, generator=random)
    gold = (torch.rand(5, 3, generator=random) < 0.5).float()
    config = make_theirs("bert", KIND, **PROBLEMS["multilabel"]).config
    loss = transformers.loss.loss_utils.ForSequenceClassificationLoss
    ours = make_task("multilabel", LABELS).loss(logits, Target(gold)) / 5
    torch.testing.assert_close(ours, loss(gold, logits, config))
    config = make_theirs("bert", KIND, **PROBLEMS["score"]).config
    ours = make_task("score").loss(logits[:, :1], Target(gold[:, 0])) / 5
    torch.testing.assert_close(ours, loss(gold[:, 0], logits[:, :1], config))


@pytest.mark.parametrize(
    "tasks", [("relate",), ("classify", "score"), ("fill_mask", "multilabel")], ids="+".join
)
@EVERY
def test_of_tasks_that_they_do_not_know_they_open_the_encoder(
    family: str, tasks: tuple[str, ...], save_ours, draw_texts, flat, padded, largest_gap
) -> None:
    made = [make_task(name, LABELS, **SCALE if name == "score" else {}) for name in tasks]
    ours, folder = save_ours(family, *made)
    theirs, info = transformers.AutoModel.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["mismatched_keys"]
    own = ("heads.", "pooler.", "encoder.pooler.", f"{theirs.base_model_prefix}.pooler.")
    assert all(name.startswith(own) for name in info["unexpected_keys"])
    texts = draw_texts((43, 1, 17), seed=5)
    inputs = padded(texts, theirs.config.pad_token_id)
    is_real = inputs["attention_mask"].bool()
    if getattr(theirs.config, "type_vocab_size", 1) == 1:
        inputs.pop("token_type_ids")
    with torch.no_grad():
        expected = theirs.eval()(**inputs).last_hidden_state[is_real]
        found = ours.encoder(flat(texts))
    assert largest_gap(found, expected) <= ALLOWED
    again = open_model(folder)
    assert list(again.model.tasks) == list(tasks)
    assert again.account.is_complete
    weights = dict(again.model.named_parameters())
    assert [n for n, p in ours.named_parameters() if not torch.equal(p, weights[n])] == []


def test_a_scale_that_is_forgotten_would_be_noticed(save_ours) -> None:
    ours, folder = save_ours("bert", make_task("score", **SCALE))
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    plain = ours.heads["score"].output
    assert torch.equal(theirs.classifier.weight, plain.weight * SCALE["deviation"])
    assert theirs.classifier.bias.item() - plain.bias.item() > 1
