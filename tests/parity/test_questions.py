"""Questions and choices beside the classes of transformers: the same logits, both ways."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from bertworks.core.artifact import Origin
from bertworks.core.batch import Target
from bertworks.data.packing import Features
from bertworks.model.config import EncoderConfig
from bertworks.serving.model_folder import open_model, save_model
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel

ALLOWED = 1e-5
FAMILIES = ("bert", "roberta", "distilbert", "albert", "electra", "modernbert", "mpnet")
KINDS = {"ForQuestionAnswering": "answer", "ForMultipleChoice": "choose"}
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
EVERY_FAMILY = pytest.mark.parametrize("family", FAMILIES)


@pytest.fixture
def logits(flat, padded, draw_texts) -> Any:
    """Return our logits and theirs: two of each token, or one of each text."""

    @torch.no_grad()
    def both(ours: TaskModel, theirs: Any) -> tuple[Tensor, Tensor]:
        texts: list[Features] = draw_texts((23, 1, 17, 17), seed=6)
        (name,) = ours.tasks
        batch = flat(texts)
        asked = Target(batch.tokens) if name == "answer" else Target(torch.zeros(len(texts)))
        found = ours.logits(replace(batch, targets={name: asked}), name)
        inputs = padded(texts, theirs.config.pad_token_id)
        if getattr(theirs.config, "type_vocab_size", 1) == 1:
            inputs.pop("token_type_ids")
        if name == "choose":
            inputs = {key: rows[None] for key, rows in inputs.items()}
            return found, theirs(**inputs).logits[0, :, None]
        told = theirs(**inputs)
        rows = torch.stack([told.start_logits, told.end_logits], dim=-1)
        return found, rows[inputs["attention_mask"].bool()]

    return both


@EVERY_KIND
@EVERY_FAMILY
def test_their_models_give_the_same_logits_here_and_go_back(
    family: str, kind: str, make_theirs, open_ours, logits, largest_gap, pieces_of, tmp_path: Path
) -> None:
    theirs = make_theirs(family, kind, seed=5)
    opened = open_ours(theirs)
    assert tuple(opened.model.tasks) == (KINDS[kind],)
    assert opened.account.unexpected == ()
    assert all(name.startswith("encoder.pooler.") for name in opened.account.missing)
    ours, told = logits(opened.model, theirs)
    assert largest_gap(ours, told) <= ALLOWED
    assert largest_gap(ours, ours.roll(1, 0)) > 1e-2  # else nothing was compared
    save_model(tmp_path / "ours", opened.model, pieces_of(family), origin=Origin())
    back, info = getattr(transformers, f"AutoModel{kind}").from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert type(back) is type(theirs)
    assert not any(info.values()), info
    ours, told = logits(opened.model, back.eval())
    assert largest_gap(ours, told) <= ALLOWED


@EVERY_KIND
@EVERY_FAMILY
def test_what_was_made_here_opens_there_and_here(
    family: str, kind: str, roughen, logits, largest_gap, pieces_of, tmp_path: Path
) -> None:
    config = replace(EncoderConfig.named(f"{family}-2x64"), vocab_size=97, max_positions=43)
    options = {"nullable": True, "threshold": 0.5} if kind == "ForQuestionAnswering" else {}
    task = make_task(KINDS[kind], stride=7, **options)
    ours = roughen(TaskModel(config, [task]), seed=4)
    save_model(tmp_path / "ours", ours, pieces_of(family), origin=Origin())
    theirs = getattr(transformers, f"AutoModel{kind}").from_pretrained(tmp_path / "ours").eval()
    found, told = logits(ours, theirs)
    assert largest_gap(found, told) <= ALLOWED
    again = open_model(tmp_path / "ours").model.eval()
    assert again.tasks[task.name].options == task.options
    assert largest_gap(found, logits(again, theirs)[0]) == 0


@pytest.mark.parametrize("said", ["cls", "mean"])
def test_choices_are_pooled_as_a_folder_says(
    said: str, make_theirs, open_ours, logits, largest_gap
) -> None:
    theirs = make_theirs("modernbert", "ForMultipleChoice", seed=5, classifier_pooling=said)
    ours, told = logits(open_ours(theirs).model, theirs)
    assert largest_gap(ours, told) <= ALLOWED
