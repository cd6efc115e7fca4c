"""Every family and class of transformers: the same numbers, and folders that travel both ways."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from bertworks.core.artifact import Origin
from bertworks.interop.descriptions import config_from_hugging_face
from bertworks.model.config import EncoderConfig
from bertworks.serving.model_folder import open_model, save_model
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel

ALLOWED = 1e-5
TASKS = {
    "Model": (),
    "ForMaskedLM": ("fill_mask",),
    "ForNextSentencePrediction": ("next_sentence",),
    "ForSequenceClassification": ("classify",),
}
PRE_TRAINING = {
    "bert": ("fill_mask", "next_sentence"),
    "albert": ("fill_mask", "sentence_order"),
    "electra": ("replaced_token",),
}
FAMILIES = ("bert", "roberta", "distilbert", "albert", "electra", "modernbert", "mpnet")
KINDS = [
    *((family, kind) for family in FAMILIES for kind in TASKS if "Next" not in kind),
    ("bert", "ForNextSentencePrediction"),
    *((family, "ForPreTraining") for family in PRE_TRAINING),
]
AUTO = {
    "Model": "AutoModel",
    "ForMaskedLM": "AutoModelForMaskedLM",
    "ForPreTraining": "AutoModelForPreTraining",
    "ForNextSentencePrediction": "AutoModelForNextSentencePrediction",
    "ForSequenceClassification": "AutoModelForSequenceClassification",
}
EVERY_KIND = pytest.mark.parametrize(("family", "kind"), KINDS)


@st.composite
def shapes(draw, family: str, kind: str) -> dict[str, Any]:
    """Draw a small network of odd sizes, and what its family alone can choose."""
    heads = draw(st.integers(2, 5))
    head_sizes = (6, 8, 10) if family == "modernbert" else (5, 7, 9)
    layers = draw(st.integers(1, 5))
    shape = {
        "vocab_size": draw(st.integers(97, 131)),
        "hidden_size": heads * draw(st.sampled_from(head_sizes)),
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "intermediate_size": draw(st.integers(9, 61)),
        "max_position_embeddings": draw(st.integers(41, 61)),
        "type_vocab_size": draw(st.integers(1, 3)),
        "hidden_act": draw(st.sampled_from(("gelu", "gelu_new", "relu", "silu"))),
        "layer_norm_eps": draw(st.sampled_from((1e-12, 1e-5))),
        "tie_word_embeddings": draw(st.booleans()),
    }
    if kind == "ForSequenceClassification":
        shape["num_labels"] = draw(st.integers(2, 5))
    return shape | draw(OWN_CHOICES.get(family, lambda shape: st.just({}))(shape))


# What only one family can choose, by what its shape is otherwise.
OWN_CHOICES = {
    "roberta": lambda shape: st.fixed_dictionaries({"pad_token_id": st.integers(0, 4)}),
    "albert": lambda shape: st.fixed_dictionaries(
        {
            "embedding_size": st.sampled_from((7, 13, shape["hidden_size"])),
            "num_hidden_groups": st.integers(1, shape["num_hidden_layers"]),
            "inner_group_num": st.integers(1, 2),
        }
    ),
    "electra": lambda shape: st.fixed_dictionaries(
        {"embedding_size": st.sampled_from((7, 13, shape["hidden_size"]))}
    ),
    "modernbert": lambda shape: st.fixed_dictionaries(
        {
            "local_attention": st.integers(2, 30),
            "global_attn_every_n_layers": st.integers(1, 4),
            "global_rope_theta": st.sampled_from((160_000.0, 777.0)),
            "local_rope_theta": st.sampled_from((10_000.0, 33.0)),
            "classifier_pooling": st.sampled_from(("cls", "mean")),
        }
    ),
}


@EVERY_KIND
@settings(max_examples=3, phases=[Phase.generate])
@given(data=st.data(), seed=st.integers(0, 99))
def test_random_networks_agree(
    family: str, kind: str, data, seed: int, make_theirs, open_ours, draw_texts, gaps
) -> None:
    theirs = make_theirs(family, kind, seed=seed, **data.draw(shapes(family, kind)))
    opened = open_ours(theirs)
    tasks = PRE_TRAINING[family] if kind == "ForPreTraining" else TASKS[kind]
    assert tuple(opened.model.tasks) == tasks
    assert opened.account.unexpected == ()
    assert all(name.startswith("encoder.pooler.") for name in opened.account.missing)
    lengths = (1, opened.model.config.max_positions, 17, 17)
    found = gaps(opened.model, theirs, draw_texts(lengths, seed=seed))
    assert {"hidden", *tasks} <= found.keys()
    assert max(found.values()) <= ALLOWED, found


@EVERY_KIND
@settings(max_examples=2, phases=[Phase.generate])
@given(data=st.data(), seed=st.integers(0, 99))
def test_what_we_save_opens_there_without_a_tensor_amiss(
    family: str,
    kind: str,
    data,
    seed: int,
    make_theirs,
    open_ours,
    draw_texts,
    gaps,
    pieces_of,
    tmp_path_factory,
) -> None:
    theirs = make_theirs(family, kind, seed=seed, **data.draw(shapes(family, kind)))
    ours = open_ours(theirs).model
    folder = tmp_path_factory.mktemp("ours") / "saved"
    save_model(folder, ours, pieces_of(family), origin=Origin())
    back, info = getattr(transformers, AUTO[kind]).from_pretrained(folder, output_loading_info=True)
    assert type(back) is type(theirs)
    assert {key: list(found) for key, found in info.items()} == {
        "missing_keys": [],
        "unexpected_keys": [],
        "mismatched_keys": [],
        "error_msgs": [],
    }
    texts = draw_texts((ours.config.max_positions, 1, 17), seed=seed)
    assert max(gaps(ours, back.eval(), texts).values()) <= ALLOWED
    assert weights_used(back) == weights_used(theirs)


def weights_used(theirs: Any) -> int:
    """Count all weights but the rows of positions that no text reaches."""
    return sum(
        parameter.numel()
        for name, parameter in theirs.named_parameters()
        if not name.endswith("position_embeddings.weight")
    )


@pytest.mark.parametrize("task", ["fill_mask", "classify"])
@pytest.mark.parametrize("style", [*FAMILIES, "modern"])
def test_what_was_made_here_opens_there(
    style: str, task: str, roughen, draw_texts, gaps, pieces_of, tmp_path: Path
) -> None:
    config = replace(EncoderConfig.named(f"{style}-2x64"), vocab_size=97, max_positions=43)
    ours = roughen(TaskModel(config, [make_task(task, ("kalt", "mild", "热"))]), seed=4)
    save_model(tmp_path / "ours", ours, pieces_of(style), origin=Origin())
    kind = next(kind for kind, tasks in TASKS.items() if tasks == (task,))
    theirs = getattr(transformers, AUTO[kind]).from_pretrained(tmp_path / "ours").eval()
    assert theirs.config.model_type == config.family
    assert max(gaps(ours, theirs, draw_texts((43, 1, 17), seed=4)).values()) <= ALLOWED


@pytest.mark.parametrize("style", ["bert", "albert", "modern"])
def test_rounded_weights_open_there_once_they_are_written_as_float(
    style: str, command, roughen, draw_texts, gaps, pieces_of, tmp_path: Path
) -> None:
    config = replace(EncoderConfig.named(f"{style}-2x64"), vocab_size=97, max_positions=43)
    ours = roughen(TaskModel(config, [make_task("fill_mask")]), seed=4)
    save_model(tmp_path / "ours", ours, pieces_of(style), origin=Origin())
    steps = [("ours", "bertworks", "small"), ("small", "hugging-face", "plain")]
    for start, to, end in steps:
        words = ["--model", tmp_path / start, "--to", to, "--out", tmp_path / end]
        more = ["--precision", "int8"] if to == "bertworks" else []
        ended = command("export", *words, *more)
        assert ended.code == 0, ended.err
    auto = transformers.AutoModelForMaskedLM
    with pytest.raises(
        OSError, match=r"model\.safetensors"
    ):  # rather than whole numbers as weights
        auto.from_pretrained(tmp_path / "small")
    theirs, info = auto.from_pretrained(tmp_path / "plain", output_loading_info=True)
    assert not any(info.values())
    rounded, texts = open_model(tmp_path / "small").model.eval(), draw_texts((43, 1, 17), seed=4)
    assert max(gaps(rounded, theirs.eval(), texts).values()) <= ALLOWED
    assert max(gaps(ours, theirs, texts).values()) > ALLOWED  # they were rounded indeed


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "electra"])
def test_what_their_classes_cannot_be_is_kept_in_our_own_words(
    family: str, pieces, tmp_path: Path
) -> None:
    config = replace(EncoderConfig.named(f"{family}-2x64"), vocab_size=97, num_segments=0)
    save_model(tmp_path / "ours", TaskModel(config, []), pieces, origin=Origin())
    assert json.loads((tmp_path / "ours" / "config.json").read_text())["model_type"] == "bertworks"
    assert open_model(tmp_path / "ours").model.config == config


@EVERY_KIND
def test_the_second_journey_changes_no_byte(
    family: str, kind: str, make_theirs, open_ours, pieces_of, tmp_path: Path
) -> None:
    ours, pieces = open_ours(make_theirs(family, kind, seed=3)).model, pieces_of(family)
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    save_model(first, ours, pieces, origin=Origin())
    getattr(transformers, AUTO[kind]).from_pretrained(first).save_pretrained(second)
    pieces.save(second)
    save_model(third, open_model(second).model, pieces, origin=Origin())
    for name in ("config.json", "model.safetensors"):
        assert (third / name).read_bytes() == (first / name).read_bytes()
    for name, tensor in open_model(third).model.named_parameters():
        if not name.startswith("encoder.pooler."):
            assert torch.equal(tensor, ours.get_parameter(name)), name


@pytest.mark.parametrize("family", FAMILIES)
def test_a_weight_that_is_slightly_off_is_noticed(
    family: str, make_theirs, open_ours, draw_texts, gaps
) -> None:
    theirs = make_theirs(family, "ForSequenceClassification", seed=1, num_hidden_layers=2)
    ours = open_ours(theirs).model
    texts = draw_texts((5, 23), seed=3)
    assert max(gaps(ours, theirs, texts).values()) <= ALLOWED
    for name, parameter in ours.named_parameters():
        with torch.no_grad():
            before = parameter.clone()
            parameter += 1e-2 * torch.randn(before.shape, generator=torch.manual_seed(2))
            noticed = max(gaps(ours, theirs, texts, alone=False).values()) > 10 * ALLOWED
            parameter.copy_(before)
        assert noticed, name


@pytest.mark.parametrize("family", FAMILIES)
def test_a_setting_that_is_left_out_means_what_it_means_there(family: str, make_theirs) -> None:
    usual = type(make_theirs(family, "Model").config)().to_dict()
    assert config_from_hugging_face({"model_type": family}) == config_from_hugging_face(usual)
