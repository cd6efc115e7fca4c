"""Folders as they were written over the years: other names, other settings, copies and shards."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import ModernBertForSequenceClassification

from bertworks.core.batch import Batch, Target
from bertworks.data.packing import flatten
from bertworks.model.weights import read_tensors, write_tensors
from bertworks.serving.model_folder import open_model
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel
from bertworks.training.optimizer import make_optimizer

ALLOWED = 1e-5
WEIGHTS = "model.safetensors"
FAMILIES = ("bert", "roberta", "distilbert", "albert", "electra", "modernbert", "mpnet")
# The families whose fill-mask head has a bias beside the decoder, and one inside it.
TWO_BIASES = {
    "bert": ("cls.predictions.bias", "cls.predictions.decoder.bias"),
    "roberta": ("lm_head.bias", "lm_head.decoder.bias"),
    "albert": ("predictions.bias", "predictions.decoder.bias"),
    "mpnet": ("lm_head.bias", "lm_head.decoder.bias"),
}
Tensors = dict[str, Tensor]


@pytest.fixture
def reopen(tmp_path: Path, open_ours) -> Callable[..., TaskModel]:
    """Save their model, change its files, and open what they are then."""

    def opened(
        theirs: Any,
        change: Callable[[Tensors], Tensors] = dict,
        settings: Callable[[dict[str, Any]], dict[str, Any]] = dict,
    ) -> TaskModel:
        open_ours(theirs, tmp_path)
        tensors = change(read_tensors(tmp_path / WEIGHTS))
        write_tensors(tmp_path / WEIGHTS, {name: t.clone() for name, t in tensors.items()})
        written = settings(json.loads((tmp_path / "config.json").read_text()))
        (tmp_path / "config.json").write_text(json.dumps(written))
        made = open_model(tmp_path)
        assert made.account.unexpected == ()
        return made.model.eval()

    return opened


def old_norms(tensors: Tensors) -> Tensors:
    renamed = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in tensors.items()
    }
    assert renamed.keys() != tensors.keys()
    return renamed


@pytest.mark.parametrize("family", ["bert", "albert", "electra", "roberta", "distilbert", "mpnet"])
def test_the_old_names_of_norms_open_as_the_new_ones(
    family: str, make_theirs, reopen, draw_texts, gaps
) -> None:
    theirs = make_theirs(family, "ForMaskedLM", seed=1)
    ours = reopen(theirs, old_norms)
    assert max(gaps(ours, theirs, draw_texts((9, 31), seed=1)).values()) <= ALLOWED


@pytest.mark.parametrize("family", FAMILIES)
def test_a_prefix_on_a_bare_encoder_changes_nothing(
    family: str, make_theirs, reopen, draw_texts, gaps
) -> None:
    theirs = make_theirs(family, "Model", seed=2)
    prefix = f"{theirs.base_model_prefix}."
    ours = reopen(theirs, lambda tensors: {prefix + name: t for name, t in tensors.items()})
    assert max(gaps(ours, theirs, draw_texts((9, 31), seed=2)).values()) <= ALLOWED


@pytest.mark.parametrize("family", FAMILIES)
def test_copies_and_buffers_beside_the_weights_are_passed_over(
    family: str, make_theirs, reopen, draw_texts, gaps
) -> None:
    theirs = make_theirs(family, "ForMaskedLM", seed=3)
    prefix = theirs.base_model_prefix

    def with_copies(tensors: Tensors) -> Tensors:
        copies = {copy: tensors[of] for copy, of in theirs._tied_weights_keys.items()}
        buffers = {f"{prefix}.embeddings.position_ids": torch.arange(43).unsqueeze(0)}
        return {**tensors, **copies, **buffers}

    ours = reopen(theirs, with_copies)
    assert max(gaps(ours, theirs, draw_texts((9, 31), seed=3)).values()) <= ALLOWED


@pytest.mark.parametrize("family", TWO_BIASES)
def test_a_tied_head_may_keep_its_bias_in_either_place(
    family: str, make_theirs, reopen, tmp_path: Path, draw_texts, gaps
) -> None:
    theirs = make_theirs(family, "ForMaskedLM", seed=4)
    beside, inside = TWO_BIASES[family]
    ours = reopen(
        theirs,
        lambda tensors: {inside if name == beside else name: t for name, t in tensors.items()},
    )
    again = type(theirs).from_pretrained(tmp_path)
    assert torch.equal(again.get_parameter(beside), theirs.get_parameter(beside))
    assert max(gaps(ours, theirs, draw_texts((9, 31), seed=4)).values()) <= ALLOWED


@pytest.mark.parametrize("family", FAMILIES)
def test_a_decoder_of_its_own_is_kept_with_the_bias_it_uses(
    family: str, make_theirs, reopen, draw_texts, gaps
) -> None:
    theirs = make_theirs(family, "ForMaskedLM", seed=5, tie_word_embeddings=False)
    decoder = theirs.get_output_embeddings()
    assert not torch.equal(decoder.weight, theirs.get_input_embeddings().weight)
    if family in TWO_BIASES:
        assert not torch.equal(theirs.get_parameter(TWO_BIASES[family][0]), decoder.bias)
    ours = reopen(theirs)
    assert torch.equal(ours.heads["fill_mask"].decoder, decoder.weight)
    assert max(gaps(ours, theirs, draw_texts((9, 31), seed=5)).values()) <= ALLOWED


@pytest.mark.parametrize("family", FAMILIES)
def test_pickled_weights_are_imported_as_they_are(
    family: str, tmp_path: Path, make_theirs, pieces, command, draw_texts, gaps
) -> None:
    theirs = make_theirs(family, "ForMaskedLM", seed=12)
    old, out = tmp_path / "old", tmp_path / "out"
    theirs.config.architectures = [type(theirs).__name__]
    theirs.config.save_pretrained(old)
    pieces.save(old)
    torch.save(theirs.state_dict(), old / "pytorch_model.bin")  # tied copies and all
    ended = command("import", old, "--out", out)
    assert ended.code == 0, ended.err
    ours = open_model(out).model.eval()
    assert max(gaps(ours, theirs, draw_texts((9, 31), seed=12)).values()) <= ALLOWED


def test_weights_in_many_parts_open_as_one(tmp_path: Path, make_theirs, pieces, draw_texts, gaps):
    theirs = make_theirs("roberta", "ForMaskedLM", seed=6)
    theirs.save_pretrained(tmp_path, max_shard_size="5KB")
    pieces.save(tmp_path)
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 3
    assert not (tmp_path / WEIGHTS).exists()
    ours = open_model(tmp_path).model.eval()
    assert max(gaps(ours, theirs, draw_texts((9, 31), seed=6)).values()) <= ALLOWED


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("family", ["electra", "modernbert"])
def test_half_precision_is_read_as_what_it_stands_for(
    family: str, dtype: torch.dtype, make_theirs, reopen, tmp_path: Path, draw_texts, gaps
) -> None:
    halves = make_theirs(family, "ForSequenceClassification", seed=7).to(dtype)
    ours = reopen(halves)
    assert {tensor.dtype for tensor in read_tensors(tmp_path / WEIGHTS).values()} == {dtype}
    assert {parameter.dtype for parameter in ours.parameters()} == {torch.float32}
    how = {"dtype": torch.float32, "attn_implementation": "eager"}
    theirs = type(halves).from_pretrained(tmp_path, **how).eval()
    assert max(gaps(ours, theirs, draw_texts((9, 31), seed=7)).values()) <= ALLOWED


def test_the_old_settings_of_modernbert_mean_the_new_ones(
    make_theirs, reopen, draw_texts, gaps
) -> None:
    old = {
        "global_rope_theta": 777.0,
        "local_rope_theta": 33.0,
        "global_attn_every_n_layers": 2,
        "num_hidden_layers": 5,
    }

    def before_tables(written: dict[str, Any]) -> dict[str, Any]:
        kept = {k: v for k, v in written.items() if k not in ("layer_types", "rope_parameters")}
        return kept | old

    theirs = make_theirs("modernbert", "ForMaskedLM", seed=8, **old)
    texts = draw_texts((9, 31, 43), seed=8)
    assert max(gaps(reopen(theirs, dict, before_tables), theirs, texts).values()) <= ALLOWED
    for key in ("global_rope_theta", "local_rope_theta", "global_attn_every_n_layers"):
        other = make_theirs("modernbert", "ForMaskedLM", seed=8, **old | {key: 3})
        assert max(gaps(reopen(theirs, dict, before_tables), other, texts).values()) > ALLOWED


@pytest.mark.parametrize("kind", ["Model", "ForMaskedLM", "ForSequenceClassification"])
@pytest.mark.parametrize("family", ["xlm-roberta", "camembert"])
def test_other_names_of_roberta_open_as_roberta(
    family: str, kind: str, make_theirs, open_ours, draw_texts, gaps
) -> None:
    theirs = make_theirs(family, kind, seed=9)
    ours = open_ours(theirs).model
    assert ours.config.family == "roberta"
    assert max(gaps(ours, theirs, draw_texts((9, 31), seed=9)).values()) <= ALLOWED


@pytest.mark.parametrize("kind", ["ForTokenClassification", "ForQuestionAnswering"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_head_that_is_not_known_is_named_and_left_out(
    family: str, kind: str, make_theirs, open_ours, draw_texts, gaps
) -> None:
    theirs = make_theirs(family, kind, seed=11)
    known = type(theirs)
    theirs.__class__ = type(known.__name__.replace("For", "ForOther"), (known,), {})
    opened = open_ours(theirs)
    assert opened.model.tasks == {}
    prefix = f"{theirs.base_model_prefix}."
    head = {name for name, _ in theirs.named_parameters() if not name.startswith(prefix)}
    assert set(opened.account.unexpected) == head
    assert max(gaps(opened.model, theirs, draw_texts((9, 31), seed=11)).values()) <= ALLOWED


@pytest.mark.parametrize("kind", ["Model", "ForMaskedLM"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_fresh_task_learns_from_other_peoples_weights(
    family: str, kind: str, make_theirs, open_ours, draw_texts
) -> None:
    theirs = make_theirs(family, kind, seed=10)
    opened = open_ours(theirs, tasks=[make_task("classify", ("a", "b"))])
    fresh = {"heads.classify.output.weight", "heads.classify.output.bias"}
    if getattr(theirs.base_model, "pooler", None) is None:
        pooler = opened.model.encoder.pooler
        fresh |= {name for name, _ in pooler.named_parameters("encoder.pooler")}
    if (family, kind) == ("modernbert", "ForMaskedLM"):  # the head that filled masks becomes it
        fresh = {name for name in fresh if not name.startswith("encoder.pooler.")}
    assert set(opened.account.missing) == fresh
    assert bool(opened.account.unexpected) == (kind == "ForMaskedLM")
    own = open_ours(theirs).model
    for name in opened.account.matched:
        assert torch.equal(opened.model.get_parameter(name), own.get_parameter(name)), name
    target = Target(torch.tensor([1, 0, 1]))
    batch = replace(flatten(draw_texts((9, 31, 2), seed=10)), targets={"classify": target})
    before, after = learn(opened.model.train(), batch)
    assert after < before


def test_a_classifier_starts_from_as_much_of_a_masked_model_as_it_does_there(
    make_theirs, open_ours, tmp_path: Path
) -> None:
    theirs = make_theirs("modernbert", "ForMaskedLM", seed=12, tie_word_embeddings=True)
    opened = open_ours(theirs, tmp_path, tasks=[make_task("classify", ("a", "b"))])
    there, info = ModernBertForSequenceClassification.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert set(info["missing_keys"]) == {"classifier.weight", "classifier.bias"}
    fresh = {name.replace("heads.classify.output", "classifier") for name in opened.account.missing}
    assert fresh == set(info["missing_keys"])
    pooler = opened.model.encoder.pooler
    assert torch.equal(pooler.dense.weight, there.head.dense.weight)
    assert torch.equal(pooler.norm.weight, there.head.norm.weight)


def learn(model: TaskModel, batch: Batch) -> tuple[float, float]:
    """Take one step; return the loss before and after."""
    optimizer = make_optimizer(model, lr=1e-3, weight_decay=0.0)
    before = model(batch)["classify"]
    before.backward()
    optimizer.step()
    return float(before.detach()), float(model(batch)["classify"].detach())
