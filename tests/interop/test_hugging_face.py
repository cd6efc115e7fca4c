"""Hugging Face folders: what is written is read again, and what cannot be meant is refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bertworks.core.errors import ArtifactError
from bertworks.interop.descriptions import TaskNote
from bertworks.interop.families import DIALECTS
from bertworks.interop.hugging_face import (
    encoder_obstacle,
    is_expressible,
    open_folder,
    write_folder,
)
from bertworks.model.config import STYLES, Bucketed, EncoderConfig, Learned, Local, Rotary, Sharing
from bertworks.model.weights import read_tensors, write_tensors

CLASSES = [(family, tasks) for family, dialect in DIALECTS.items() for tasks in dialect.classes]


@pytest.fixture
def write_config(tmp_path: Path, their_words) -> Callable[..., Path]:
    """Write a folder that has nothing but a config.json."""

    def write(family: str = "bert", **changes: Any) -> Path:
        theirs = their_words(family, **changes)
        (tmp_path / "config.json").write_text(json.dumps(theirs), encoding="utf-8")
        return tmp_path

    return write


@pytest.mark.parametrize(("family", "tasks"), CLASSES)
def test_a_folder_is_read_as_it_was_written(
    tmp_path: Path,
    family: str,
    tasks: tuple[str, ...],
    small,
    notes,
    draw_weights,
    specials,
    read_back,
    assert_equal_tensors,
) -> None:
    config, told, pad_id = small(family), notes(*tasks), DIALECTS[family].only_pad_id or 3
    ours = draw_weights(config, told)
    known = replace(specials, pad=pad_id)
    write_folder(
        tmp_path, config, ours, tasks=told, specials=known, extra={"dev": {"accuracy": 0.5}}
    )
    folder = open_folder(tmp_path)
    assert (folder.config, folder.tasks, folder.model_type) == (config, told, family)
    assert folder.pad_id == pad_id
    if DIALECTS[family].classes[tasks] not in DIALECTS[family].with_pooler:
        ours = read_back(ours, family)
    assert_equal_tensors(folder.tensors(), ours)
    assert json.loads((tmp_path / "bertworks.json").read_text())["dev"] == {"accuracy": 0.5}
    # The folder says the same to those who do not know our file.
    (tmp_path / "bertworks.json").unlink()
    bare = open_folder(tmp_path)
    assert bare.config == config
    if tasks not in (("match",), ("aspect",), ("embed",)):
        assert list(bare.tasks) == list(told)
        for name in told.keys() & {"fill_mask", "classify", "replaced_token"}:
            options = dict(told[name].options)
            options.pop("temperature", None)  # which no other library knows
            assert bare.tasks[name] == replace(told[name], options=options)


def test_tasks_stand_in_our_file_with_labels_and_options(
    tmp_path: Path, small, draw_weights, specials
) -> None:
    told = {"classify": TaskNote(("a", "b", "c"), {"pooling": None, "dropout": 0.25})}
    config = small("bert")
    write_folder(tmp_path, config, draw_weights(config, told), tasks=told, specials=specials)
    ours = json.loads((tmp_path / "bertworks.json").read_text())
    assert ours == {
        "tasks": {"classify": {"labels": ["a", "b", "c"], "options": told["classify"].options}}
    }
    theirs = json.loads((tmp_path / "config.json").read_text())
    assert theirs["classifier_dropout"] == 0.25


def test_labels_are_written_as_they_are_read_by_people(
    tmp_path: Path, small, draw_weights, specials
) -> None:
    told = {"match": TaskNote(("不", "ja"), {"pooling": None, "dropout": None})}
    config = small("bert")
    write_folder(tmp_path, config, draw_weights(config, told), tasks=told, specials=specials)
    assert '"0": "不"' in (tmp_path / "config.json").read_text(encoding="utf-8")
    assert "classifier.weight" in read_tensors(tmp_path / "model.safetensors")


# What no other library knows


@pytest.mark.parametrize(
    ("family", "changes", "names", "options"),
    [
        ("bert", {"gated": True}, (), {}),
        ("bert", {"positions": Rotary(base=7.0)}, ("classify",), {}),
        ("bert", {"local": Local(window=5, full_every=2)}, (), {}),
        ("bert", {"sharing": Sharing(group_size=2)}, (), {}),
        ("modernbert", {"positions": Learned()}, ("fill_mask",), {}),
        ("recurrent", {}, ("fill_mask", "classify"), {}),
        ("convolution", {}, ("match",), {}),
        ("mean", {}, (), {}),
        ("bert", {"positions": None}, (), {}),
        ("bert", {"positions": None}, ("relate", "classify"), {}),
        ("mpnet", {}, ("fill_mask",), {}),  # the padding piece is another than MPNet's
    ],
)
def test_what_no_other_library_knows_is_saved_under_our_own_names(
    tmp_path: Path,
    family: str,
    changes: dict[str, Any],
    names: tuple[str, ...],
    options: dict[str, Any],
    small,
    notes,
    draw_weights,
    specials,
    assert_equal_tensors,
) -> None:
    config, told = small(family, **changes), notes(*names, **options)
    ours = draw_weights(config, told)
    write_folder(tmp_path, config, ours, tasks=told, specials=specials)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "bertworks"
    folder = open_folder(tmp_path)
    assert (folder.config, folder.tasks) == (config, told)
    assert_equal_tensors(folder.tensors(), ours)
    assert_equal_tensors(read_tensors(tmp_path / "model.safetensors"), ours)
    (tmp_path / "bertworks.json").unlink()
    assert open_folder(tmp_path).tasks == {}


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (("relate",), {}),
        (("classify",), {"pooling": "max"}),
        (("classify", "match"), {}),
        (("fill_mask", "classify"), {}),
        (("score", "relate", "fill_mask"), {}),
    ],
)
@pytest.mark.parametrize("family", DIALECTS)
def test_of_tasks_that_no_other_library_knows_it_opens_the_encoder(
    tmp_path: Path,
    family: str,
    names: tuple[str, ...],
    options: dict[str, Any],
    small,
    notes,
    draw_weights,
    specials,
    assert_equal_tensors,
) -> None:
    config, told = small(family), notes(*names, **options)
    ours = draw_weights(config, told)
    known = replace(specials, pad=DIALECTS[family].only_pad_id or 3)
    write_folder(tmp_path, config, ours, tasks=told, specials=known)
    folder = open_folder(tmp_path)
    assert (folder.config, folder.tasks, folder.model_type) == (config, told, family)
    assert_equal_tensors(folder.tensors(), ours)
    theirs = json.loads((tmp_path / "config.json").read_text())
    assert theirs["architectures"] == [DIALECTS[family].classes[()]]
    written = read_tensors(tmp_path / "model.safetensors")
    assert {name for name in ours if name.startswith("heads.")} <= written.keys()
    prefix = DIALECTS[family].prefix
    assert sum(name.startswith(prefix) for name in written) > 20
    (tmp_path / "bertworks.json").unlink()
    assert open_folder(tmp_path).tasks == {}


def test_a_task_is_known_elsewhere_by_its_kind(
    tmp_path: Path, small, draw_weights, specials, assert_equal_tensors
) -> None:
    config, plain = small("bert"), {"classify": TaskNote(("a", "b"), {"pooling": None})}
    named = draw_weights(config, plain)
    ours = {name.replace(".classify.", ".mood."): tensor for name, tensor in named.items()}
    told = {"mood": TaskNote(("a", "b"), {"pooling": None}, "classify")}
    write_folder(tmp_path, config, ours, tasks=told, specials=specials)
    assert "classifier.weight" in read_tensors(tmp_path / "model.safetensors")
    folder = open_folder(tmp_path)
    assert folder.tasks == told
    assert_equal_tensors(folder.tensors(), ours)


def test_a_score_is_given_on_its_own_scale_elsewhere(
    tmp_path: Path, small, draw_weights, specials
) -> None:
    config = small("roberta")
    told = {"score": TaskNote((), {"mean": 2.7, "deviation": 0.25}, "score")}
    ours = draw_weights(config, told)
    write_folder(tmp_path, config, ours, tasks=told, specials=specials)
    written = read_tensors(tmp_path / "model.safetensors")
    weight, bias = ours["heads.score.output.weight"], ours["heads.score.output.bias"]
    torch.testing.assert_close(written["classifier.out_proj.weight"], weight * 0.25)
    torch.testing.assert_close(written["classifier.out_proj.bias"], bias * 0.25 + 2.7)
    again = open_folder(tmp_path).tensors()
    assert torch.equal(again["heads.score.output.weight"], weight)
    torch.testing.assert_close(again["heads.score.output.bias"], bias)


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_size": 0},
        {"color": "red"},
        {"positions": {"kind": "stars"}},
        {"positions": 3},
        {"local": {"window": 0}},
        {"sharing": [1]},
        {"mixer": "fourier"},
    ],
)
def test_a_network_in_our_own_words_that_cannot_be_is_refused(
    tmp_path: Path, change: dict[str, Any], small, draw_weights, specials
) -> None:
    config = small("bert", gated=True)
    write_folder(tmp_path, config, draw_weights(config, {}), tasks={}, specials=specials)
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(ArtifactError, match=r"config\.json"):
        open_folder(tmp_path)


@pytest.mark.parametrize("style", sorted(set(STYLES) - {""}))
def test_the_presets_can_be_said_in_the_words_of_their_families(style: str) -> None:
    config = EncoderConfig.named(f"{style}-tiny")
    assert is_expressible(config, {}, pad_id=1) is (config.family != "bertworks")


# Fields that the words of no family, or not of this one, can say.
UNSAID: dict[str, dict[str, Any]] = {
    "gated": {"gated": True},
    "biases": {"biases": False},
    "norm_place": {"norm_place": "before"},
    "rotary": {"positions": Rotary()},
    "bucketed": {"positions": Bucketed(), "local": None},
    "buckets": {"positions": Bucketed(num_buckets=8), "local": None},
    "local": {"local": Local(window=5), "positions": Rotary()},
    "mixer": {"mixer": "mean"},
    "sharing": {"sharing": Sharing()},
    "narrow": {"embedding_size": 10},
    "learned": {"positions": Learned()},
    "unshared": {"sharing": None},
    "wide": {"embedding_size": None},
    "as wide": {"embedding_size": 24},
    "segments": {"num_segments": 2},
    "epsilon": {"norm_epsilon": 1e-5},
}
SAID = {
    "bert": {"learned", "unshared", "wide", "segments", "epsilon"},
    "roberta": {"learned", "unshared", "wide", "segments", "epsilon"},
    "distilbert": {"learned", "unshared", "wide"},
    "albert": {"narrow", "sharing", "as wide", "learned", "segments", "epsilon"},
    "electra": {"narrow", "learned", "unshared", "wide", "segments", "epsilon"},
    "mpnet": {"bucketed", "unshared", "wide", "epsilon"},
    "modernbert": {
        "gated",
        "biases",
        "norm_place",
        "rotary",
        "local",
        "unshared",
        "wide",
        "epsilon",
    },
}


@pytest.mark.parametrize("family", DIALECTS)
@pytest.mark.parametrize("change", UNSAID)
def test_what_the_words_of_a_family_cannot_say_is_not_expressible(
    family: str, change: str, small
) -> None:
    changes = UNSAID[change]
    if (family, change) == ("albert", "local"):
        changes = {**changes, "sharing": Sharing(num_groups=2)}  # groups of blocks cannot be local
    config = small(family, **changes)
    assert is_expressible(config, {}, pad_id=1) is (change in SAID[family])


@pytest.mark.parametrize("family", DIALECTS)
@pytest.mark.parametrize("pooling", [None, "first", "mean", "max"])
def test_only_one_family_has_a_word_for_how_a_classifier_pools(
    family: str, pooling: str | None, small, notes
) -> None:
    known = {None, "first", "mean"} if family == "modernbert" else {None, "first"}
    told = notes("classify", pooling=pooling)
    assert is_expressible(small(family), told, pad_id=1) is (pooling in known)


@pytest.mark.parametrize(
    ("family", "tasks", "can"),
    [
        ("bert", ("classify", "match"), False),
        ("bert", ("fill_mask", "classify"), False),
        ("bert", ("fill_mask", "next_sentence"), True),
        ("roberta", ("fill_mask", "next_sentence"), False),
        ("albert", ("fill_mask", "sentence_order"), True),
        ("modernbert", ("fill_mask", "classify"), False),
        ("electra", ("fill_mask", "replaced_token"), False),
        ("electra", ("replaced_token",), True),
    ],
)
def test_heads_that_no_class_has_together_are_not_expressible(
    family: str, tasks: tuple[str, ...], can: bool, small, notes
) -> None:
    assert is_expressible(small(family), notes(*tasks), pad_id=1) is can


@pytest.mark.parametrize("family", DIALECTS)
@pytest.mark.parametrize("pad_id", [0, 1, 3])
def test_only_one_family_knows_no_padding_piece_but_its_own(
    family: str, pad_id: int, small
) -> None:
    can = family != "mpnet" or pad_id == 1
    assert is_expressible(small(family), {}, pad_id=pad_id) is can
    why = encoder_obstacle(small(family), pad_id=pad_id)
    assert why is None if can else f"and its vocabulary has that as piece {pad_id}" in why


# Folders that cannot be meant


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_act": "sine"}, r"config\.json: the activation 'sine' is not known"),
        ({"model_type": "gpt2"}, r"config\.json: model_type 'gpt2' is of no family"),
        ({"pad_token_id": "pad"}, r"config\.json or .* of no known form"),
        ({"architectures": 3}, r"config\.json or .* of no known form"),
    ],
)
def test_a_config_that_cannot_be_meant_is_refused_with_its_file(
    change: dict[str, Any], message: str, write_config
) -> None:
    with pytest.raises(ArtifactError, match=message):
        open_folder(write_config(**change))


def test_a_pooling_that_is_not_known_is_refused_with_its_folder(write_config) -> None:
    architectures = ["ModernBertForSequenceClassification"]
    folder = write_config("modernbert", architectures=architectures, classifier_pooling="max")
    with pytest.raises(ArtifactError, match="classifier_pooling 'max' is not known"):
        open_folder(folder)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"no model folder .*nowhere"):
        open_folder(tmp_path / "nowhere")
    with pytest.raises(ArtifactError, match=r"has no config\.json"):
        open_folder(tmp_path)


@pytest.mark.parametrize("content", [b"{", b"", b"\xff\xfe", b"[1]", b"null", b'"bert"'])
def test_a_torn_config_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ArtifactError, match=r"config\.json is not"):
        open_folder(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"",
        b"[1]",
        b"{}",
        b'{"tasks": 3}',
        b'{"tasks": {"classify": ["a"]}}',
        b'{"tasks": {"classify": {"labels": 3, "options": {}}}}',
        b'{"tasks": {"classify": {"labels": ["a"], "options": 3}}}',
    ],
)
def test_a_torn_file_of_ours_is_named(content: bytes, write_config) -> None:
    folder = write_config()
    (folder / "bertworks.json").write_bytes(content)
    with pytest.raises(ArtifactError, match=r"bertworks\.json"):
        open_folder(folder)


def test_weights_that_are_only_pickled_are_not_opened(write_config) -> None:
    folder = write_config()
    (folder / "pytorch_model.bin").write_bytes(b"anything")
    with pytest.raises(ArtifactError, match=r"may run any code; .*bertworks import .* --out"):
        open_folder(folder).tensors()


def test_weights_that_are_not_there_are_named(write_config) -> None:
    with pytest.raises(ArtifactError, match=r"no .*model\.safetensors; .*safetensors only"):
        open_folder(write_config()).tensors()


def test_weights_in_parts_are_opened_as_one(
    tmp_path: Path, small, notes, draw_weights, specials, assert_equal_tensors
) -> None:
    config, told = small("bert"), notes("fill_mask", "next_sentence")
    ours = draw_weights(config, told)
    write_folder(tmp_path, config, ours, tasks=told, specials=specials)
    theirs = read_tensors(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    places = {name: f"model-{number % 3}.safetensors" for number, name in enumerate(theirs)}
    for file in set(places.values()):
        own = {name: tensor for name, tensor in theirs.items() if places[name] == file}
        write_tensors(tmp_path / file, own)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": places}))
    assert_equal_tensors(open_folder(tmp_path).tensors(), ours)
