"""Model folders: what was saved is what is opened, and nothing damaged is."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bertworks.core.artifact import Origin, saving
from bertworks.core.errors import ArtifactError, UsageError
from bertworks.model.config import STYLES, Dropout, EncoderConfig
from bertworks.model.weights import read_tensors, write_tensors
from bertworks.serving.model_folder import open_model, save_model, tasks_of
from bertworks.tasks.catalog import make_task
from bertworks.tasks.resize import with_rows
from bertworks.tasks.task import TaskModel
from bertworks.tokenizer.learn import learn_wordpiece

TASKS = [(), ("fill_mask", "next_sentence"), ("next_sentence",), ("classify",), ("match",)]
FAMILIES = [style for style in STYLES if style]
WEIGHTS = "model.safetensors"
FILES = ["config.json", "bertworks.json", WEIGHTS, "tokenizer.json", "vocab.txt"]


@pytest.fixture
def saved(tmp_path, make_model, tokenizer) -> Path:
    """Save a classifier of three labels."""
    save_model(tmp_path / "model", make_model("classify"), tokenizer, origin=Origin(seed=3))
    return tmp_path / "model"


@pytest.fixture
def bare(saved: Path) -> Path:
    """Turn the folder into one that another library could have written."""
    (saved / "manifest.json").unlink()
    (saved / "bertworks.json").unlink()
    return saved


def differing(first: nn.Module, second: nn.Module) -> list[str]:
    others = dict(second.named_parameters())
    return [n for n, p in first.named_parameters() if not torch.equal(p, others[n])]


@pytest.mark.parametrize("names", TASKS, ids="+".join)
def test_what_was_saved_is_what_is_opened(
    tmp_path: Path, make_model, tokenizer, names: tuple[str, ...]
) -> None:
    model = make_model(*names)
    save_model(tmp_path / "model", model, tokenizer, origin=Origin())
    opened = open_model(tmp_path / "model")
    assert opened.model.config == model.config
    assert list(opened.model.tasks) == list(names)
    assert [t.labels for t in opened.model.tasks.values()] == [
        t.labels for t in model.tasks.values()
    ]
    assert differing(model, opened.model) == []
    assert opened.account is not None
    assert (opened.account.missing, opened.account.unexpected) == ((), ())
    texts = ["The cat, 北京 läuft!", "[MASK]"]
    assert opened.tokenizer.ids_of(texts) == tokenizer.ids_of(texts)


def test_a_masked_language_model_is_opened_with_a_fresh_pooler(
    tmp_path: Path, make_model, tokenizer
) -> None:
    save_model(tmp_path / "model", make_model("fill_mask"), tokenizer, origin=Origin())
    opened = open_model(tmp_path / "model", seed=9)
    assert opened.account is not None
    pooler = {"encoder.pooler.dense.weight", "encoder.pooler.dense.bias"}
    assert set(opened.account.missing) == pooler
    fresh = TaskModel(opened.model.config, [make_task("fill_mask")], seed=9)
    assert torch.equal(opened.model.encoder.pooler.dense.weight, fresh.encoder.pooler.dense.weight)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("names", [("replaced_token",), ("replaced_token", "fill_mask")])
def test_what_learned_by_pieces_alone_is_saved_without_the_pooler_that_nothing_trained(
    tmp_path: Path, draw_model, family: str, names: tuple[str, ...]
) -> None:
    model, tokenizer = draw_model(family, *map(make_task, names))
    save_model(tmp_path / "model", model, tokenizer, origin=Origin())
    assert not [name for name in read_tensors(tmp_path / "model" / WEIGHTS) if "pooler" in name]
    opened = open_model(tmp_path / "model", tasks=[make_task("classify", ("a", "b"))], seed=9)
    assert opened.account is not None
    missing = {name for name in opened.account.missing if not name.startswith("heads.")}
    assert missing == {name for name, _ in model.named_parameters() if "pooler" in name}


@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert"])
def test_a_pooler_that_came_with_the_weights_stays_whatever_is_learned_now(
    tmp_path: Path, draw_model, family: str
) -> None:
    model, tokenizer = draw_model(family, make_task("sentence_order"))
    save_model(tmp_path / "before", model, tokenizer, origin=Origin())
    onward = open_model(tmp_path / "before", tasks=[make_task("replaced_token")]).model
    save_model(tmp_path / "onward", onward, tokenizer, origin=Origin())
    opened = open_model(tmp_path / "onward")
    assert opened.account is not None
    assert opened.account.missing == ()
    rows = [(row,) for row in range(opened.model.config.vocab_size)]
    resized = with_rows(opened.model, "vocab_size", rows)
    save_model(tmp_path / "again", resized, tokenizer, origin=Origin())
    classifier = open_model(tmp_path / "again", tasks=[make_task("classify", ("a", "b"))]).model
    for name, own in classifier.encoder.pooler.named_parameters():
        assert torch.equal(own, model.encoder.pooler.get_parameter(name))


def test_a_pooler_that_was_drawn_when_a_folder_was_opened_is_not_saved(
    tmp_path: Path, draw_model
) -> None:
    for family in ("bert", "modernbert"):  # whose pooler starts as what filled masks
        model, tokenizer = draw_model(family, make_task("fill_mask"))
        save_model(tmp_path / family, model, tokenizer, origin=Origin())
        onward = open_model(tmp_path / family, tasks=[make_task("replaced_token")]).model
        save_model(tmp_path / f"{family}-on", onward, tokenizer, origin=Origin())
        names = read_tensors(tmp_path / f"{family}-on" / WEIGHTS)
        assert not [name for name in names if "pooler" in name]


def test_a_pooler_that_a_task_reads_through_is_saved(tmp_path: Path, draw_model) -> None:
    tasks = [make_task("replaced_token"), make_task("sentence_order")]
    model, tokenizer = draw_model("modernbert", *tasks)
    save_model(tmp_path / "model", model, tokenizer, origin=Origin())
    opened = open_model(tmp_path / "model")
    assert opened.account is not None
    assert opened.account.missing == ()
    assert differing(model, opened.model) == []


@pytest.mark.parametrize("kind", ["tag", "answer", "embed"])
def test_a_task_of_any_name_opens_without_the_pooler_that_it_never_used(
    kind: str, tmp_path: Path, make_model, tokenizer
) -> None:
    labels = ("B-LOC", "O") if kind == "tag" else ()
    task = make_task(kind, labels, name="mine")
    model = TaskModel(make_model("fill_mask").config, [task], seed=0)
    save_model(tmp_path / "model", model, tokenizer, origin=Origin())
    opened = open_model(tmp_path / "model")
    assert [name for name in differing(model, opened.model) if "pooler" not in name] == []


def test_a_classifier_without_its_pooler_is_refused(bare: Path) -> None:
    tensors = read_tensors(bare / "model.safetensors")
    kept = {name: t for name, t in tensors.items() if "pooler" not in name}
    write_tensors(bare / "model.safetensors", kept)
    with pytest.raises(ArtifactError, match=r"lack encoder\.pooler\.dense\.weight"):
        open_model(bare)


def test_a_weight_that_is_missing_is_named(bare: Path) -> None:
    tensors = read_tensors(bare / "model.safetensors")
    del tensors["bert.encoder.layer.1.output.dense.bias"]
    write_tensors(bare / "model.safetensors", tensors)
    with pytest.raises(ArtifactError, match=r"lack encoder\.blocks\.1\.feed_forward\.contract\.b"):
        open_model(bare)


def test_the_labels_of_a_foreign_folder_are_those_of_its_config(bare: Path) -> None:
    assert open_model(bare).model.tasks["classify"].labels == ("cold", "mild", "warm")


def test_another_task_gets_a_fresh_head_on_the_same_encoder(saved: Path) -> None:
    task = make_task("match", ("no", "yes"))
    opened = open_model(saved, tasks=[task], seed=7)
    fresh = TaskModel(opened.model.config, [task], seed=7)
    assert differing(opened.model.heads, fresh.heads) == []
    assert differing(opened.model.encoder, open_model(saved).model.encoder) == []
    assert opened.account is not None
    assert opened.account.missing == ("heads.match.output.weight", "heads.match.output.bias")
    assert len(opened.account.unexpected) == 2


def test_a_task_that_goes_on_keeps_its_head(saved: Path) -> None:
    opened = open_model(saved, tasks=[make_task("classify", ("cold", "mild", "warm"))])
    assert differing(opened.model, open_model(saved).model) == []


@pytest.mark.parametrize("labels", [("a", "b"), ("a", "b", "c"), ("warm", "mild", "cold")])
def test_a_head_for_other_labels_starts_fresh(saved: Path, labels: tuple[str, ...]) -> None:
    task = make_task("classify", labels)
    opened = open_model(saved, tasks=[task], seed=7)
    fresh = TaskModel(opened.model.config, [task], seed=7)
    assert differing(opened.model.heads, fresh.heads) == []
    assert differing(opened.model.encoder, open_model(saved).model.encoder) == []
    assert opened.account is not None
    assert opened.account.missing == ("heads.classify.output.weight", "heads.classify.output.bias")
    assert opened.account.unexpected == ()


def test_a_head_that_is_named_starts_fresh_though_it_would_fit(saved: Path) -> None:
    task = make_task("classify", ("cold", "mild", "warm"))
    opened = open_model(saved, tasks=[task], fresh={"classify"}, seed=7)
    fresh = TaskModel(opened.model.config, [task], seed=7)
    assert differing(opened.model.heads, fresh.heads) == []
    assert differing(opened.model.encoder, open_model(saved).model.encoder) == []


def test_a_head_of_the_same_name_for_another_kind_of_task_starts_fresh(saved: Path) -> None:
    labels = ("cold", "mild", "warm")
    task = make_task("aspect", labels, name="classify")
    opened = open_model(saved, tasks=[task], seed=7)
    assert opened.account is not None
    assert opened.account.missing == ("heads.classify.output.weight", "heads.classify.output.bias")


def test_a_head_with_other_parts_than_the_folders_starts_fresh(
    tmp_path: Path, config: Any, tokenizer: Any
) -> None:
    labels = ("O", "B-A")
    model = TaskModel(config, [make_task("tag", labels)], seed=3)
    save_model(tmp_path / "model", model, tokenizer, origin=Origin())
    opened = open_model(tmp_path / "model", tasks=[make_task("tag", labels, crf=True)], seed=7)
    assert opened.account is not None
    heads = {name for name, _ in opened.model.named_parameters() if name.startswith("heads.")}
    assert heads == {name for name in opened.account.missing if name.startswith("heads.")}


def test_the_tasks_of_a_folder_are_told_without_its_weights(saved: Path) -> None:
    (task,) = tasks_of(saved).values()
    assert (task.kind, task.name, task.labels) == ("classify", "classify", ("cold", "mild", "warm"))


def test_a_fresh_model_takes_nothing_but_the_shape(saved: Path) -> None:
    opened = open_model(saved, fresh=True, seed=5)
    untrained = TaskModel(opened.model.config, list(opened.model.tasks.values()), seed=5)
    assert opened.account is None
    assert differing(opened.model, untrained) == []
    assert differing(opened.model, open_model(saved).model) != []


def test_dropout_is_chosen_when_a_model_is_opened(saved: Path, config) -> None:
    assert open_model(saved).model.config.dropout == config.dropout
    opened = open_model(saved, dropout=Dropout(0.25)).model
    assert (opened.config.dropout, opened.config.attention_dropout) == (0.25, 0.25)
    assert opened.encoder.blocks[0].dropout == 0.25


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "delete"])
def test_a_damaged_folder_of_ours_is_not_opened(saved: Path, name: str, damage: str) -> None:
    file = saved / name
    whole = bytearray(file.read_bytes())
    if damage == "delete":
        file.unlink()
    elif damage == "flip":
        whole[len(whole) // 2] ^= 1
        file.write_bytes(whole)
    else:
        file.write_bytes(whole[: -3 if damage == "cut" else 0])
    with pytest.raises(ArtifactError, match=name):
        open_model(saved)


def test_a_folder_of_another_kind_is_refused(tmp_path: Path, tokenizer) -> None:
    with saving(tmp_path / "pieces", kind="tokenizer", origin=Origin()) as folder:
        tokenizer.save(folder)
    with pytest.raises(ArtifactError, match="holds a tokenizer, but a model is needed"):
        open_model(tmp_path / "pieces")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="nowhere"):
        open_model(tmp_path / "nowhere")


def test_a_tokenizer_of_another_model_is_refused(bare: Path) -> None:
    config = json.loads((bare / "config.json").read_text())
    config["vocab_size"] -= 1
    (bare / "config.json").write_text(json.dumps(config))
    with pytest.raises(ArtifactError, match="belong to different models"):
        open_model(bare)


def test_a_tokenizer_with_fewer_pieces_than_the_network_is_fine(bare: Path) -> None:
    words = learn_wordpiece(lambda: ["the cat sat"] * 3, size=30, cased=False)
    words.save(bare)
    assert open_model(bare).tokenizer.vocab_size < open_model(bare).model.config.vocab_size


def test_a_folder_without_a_tokenizer_is_refused(bare: Path) -> None:
    (bare / "tokenizer.json").unlink()
    assert open_model(bare).tokenizer.vocab_size  # from vocab.txt
    (bare / "vocab.txt").unlink()
    with pytest.raises(ArtifactError, match="holds no tokenizer"):
        open_model(bare)


def test_a_model_is_never_written_over_another(saved: Path, make_model, tokenizer) -> None:
    before = {file.name: file.read_bytes() for file in saved.iterdir()}
    with pytest.raises(UsageError, match="exists already"):
        save_model(saved, make_model("fill_mask"), tokenizer, origin=Origin())
    assert {file.name: file.read_bytes() for file in saved.iterdir()} == before


def test_provenance_is_saved_beside_the_weights(tmp_path: Path, make_model, tokenizer) -> None:
    origin = Origin(command="bertworks finetune", settings={"lr": 0.1}, seed=3)
    extra = {"dev": {"accuracy": 0.5}}
    save_model(tmp_path / "m", make_model("classify"), tokenizer, origin=origin, extra=extra)
    ours = json.loads((tmp_path / "m" / "bertworks.json").read_text())
    options = {"pooling": None, "dropout": None, "temperature": 1.0}
    told = {"classify": {"labels": ["cold", "mild", "warm"], "options": options}}
    assert ours == {"tasks": told, "dev": {"accuracy": 0.5}}
    manifest = json.loads((tmp_path / "m" / "manifest.json").read_text())
    assert (manifest["command"], manifest["settings"]) == ("bertworks finetune", {"lr": 0.1})


def alike(first: TaskModel, second: TaskModel) -> list[str]:
    """Return the parameters that are the same, bit for bit."""
    others = dict(second.named_parameters())
    return [
        name
        for name, p in first.named_parameters()
        if p.detach().numpy().tobytes() == others[name].detach().numpy().tobytes()
    ]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("names", [(), ("fill_mask",), ("classify",), ("classify", "match")])
def test_a_model_of_every_family_is_opened_as_it_was_saved(
    tmp_path: Path, draw_model, family: str, names: tuple[str, ...]
) -> None:
    model, tokenizer = draw_model(family, *(make_task(name, ("a", "b")) for name in names))
    save_model(tmp_path / "model", model, tokenizer, origin=Origin())
    opened, again = (open_model(tmp_path / "model", seed=9) for _ in range(2))
    assert opened.model.config == model.config
    assert opened.account is not None
    assert opened.account.unexpected == ()
    # What the file lacks is drawn, and nothing is left as it lay in the memory.
    everything = [name for name, _ in model.named_parameters()]
    fresh = TaskModel(model.config, list(model.tasks.values()), seed=9)
    assert set(opened.account.missing) <= {n for n in everything if n.startswith("encoder.pooler.")}
    assert set(opened.account.missing) <= set(alike(opened.model, fresh))
    borrowed = set()
    if model.config.family == "modernbert" and names == ("fill_mask",):
        head, pooler = opened.model.heads["fill_mask"], opened.model.encoder.pooler
        assert torch.equal(pooler.dense.weight, head.transform.weight)
        assert torch.equal(pooler.norm.weight, head.norm.weight)
        borrowed = {"encoder.pooler.dense.weight", "encoder.pooler.norm.weight"}
    assert set(opened.account.matched) - borrowed <= set(alike(opened.model, model))
    assert {*opened.account.matched, *opened.account.missing} == set(everything)
    assert alike(opened.model, again.model) == everything


def test_opening_draws_nothing_from_the_global_source(saved: Path) -> None:
    before = torch.get_rng_state()
    open_model(saved, tasks=[make_task("match", ("no", "yes"))])
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("option", [{"tied": False}, {"tied": True}])
def test_the_options_of_a_task_are_saved_with_the_model(
    tmp_path: Path, config, tokenizer, option: dict[str, Any]
) -> None:
    more = {"pooling": None, "dropout": 0.25, "temperature": 2.5}
    tasks = [make_task("fill_mask", **option), make_task("next_sentence", **more)]
    model = TaskModel(config, tasks, seed=3, deviation=0.3)
    save_model(tmp_path / "model", model, tokenizer, origin=Origin())
    opened = open_model(tmp_path / "model").model
    assert opened.tasks["fill_mask"].options == option
    assert opened.tasks["next_sentence"].options == more
    assert opened.heads["next_sentence"].dropout.p == 0.25
    assert differing(model, opened) == []


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_a_classifier_that_pools_in_its_own_way_is_opened_again(
    tmp_path: Path, config, tokenizer, pooling: str
) -> None:
    model = TaskModel(config, [make_task("classify", ("a", "b"), pooling=pooling)], seed=3)
    save_model(tmp_path / "model", model, tokenizer, origin=Origin())
    opened = open_model(tmp_path / "model").model
    assert opened.heads["classify"].pooling == pooling
    assert differing(model, opened) == []


Damage = Callable[[dict[str, Tensor]], dict[str, Tensor]]
DAMAGES: dict[str, tuple[Damage, str]] = {
    "a surplus layer": (
        lambda t: {**t, "bert.encoder.layer.3.output.dense.bias": torch.zeros(21)},
        r"without a place for bert\.encoder\.layer\.3\.output\.dense\.bias",
    ),
    "no embeddings": (
        lambda t: {name: v for name, v in t.items() if "word_embeddings" not in name},
        r"lack encoder\.embeddings\.pieces\.weight",
    ),
    "no classifier": (
        lambda t: {name: v for name, v in t.items() if not name.startswith("classifier")},
        r"lack heads\.classify\.output\.weight",
    ),
    "no key": (
        lambda t: {name: v for name, v in t.items() if "layer.2.attention.self.key" not in name},
        r"lack encoder\.blocks\.2\.mixer\.qkv\.weight|without a place for",
    ),
    "another width": (
        lambda t: {**t, "classifier.weight": torch.zeros(3, 22)},
        r"heads\.classify\.output\.weight has shape \[3, 22\] .* needs \[3, 21\]",
    ),
    "more pieces": (
        lambda t: {**t, "bert.embeddings.word_embeddings.weight": torch.zeros(999, 21)},
        r"encoder\.embeddings\.pieces\.weight has shape \[999, 21\]",
    ),
    "another prefix": (
        lambda t: {name.replace("bert.", "roberta."): v for name, v in t.items()},
        "the weights lack encoder",
    ),
    "nothing": (lambda t: {"other": torch.zeros(1)}, "the weights lack encoder"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_weights_of_another_network_are_refused_by_name(bare: Path, damage: str) -> None:
    change, message = DAMAGES[damage]
    file = bare / "model.safetensors"
    write_tensors(file, change(read_tensors(file)))
    with pytest.raises(ArtifactError, match=message):
        open_model(bare)


@pytest.mark.parametrize("change", [{"vocab_size": 311}, {"max_position_embeddings": 66}])
def test_a_config_of_another_network_is_refused(bare: Path, change: dict[str, int]) -> None:
    config = json.loads((bare / "config.json").read_text())
    (bare / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(ArtifactError, match=r"embeddings\..* has shape .* another network"):
        open_model(bare)


def test_weights_that_are_only_pickled_are_refused_with_the_way_to_import_them(bare: Path) -> None:
    tensors = read_tensors(bare / "model.safetensors")
    (bare / "model.safetensors").unlink()
    torch.save(tensors, bare / "pytorch_model.bin")
    with pytest.raises(ArtifactError, match=r"as a pickle .*bertworks import"):
        open_model(bare)


def test_an_unknown_option_in_our_file_is_named(bare: Path) -> None:
    note = {"labels": ["a", "b"], "options": {"color": "red"}}
    (bare / "bertworks.json").write_text(json.dumps({"tasks": {"classify": note}}))
    with pytest.raises(UsageError, match=r"task classify cannot be made with .*color"):
        open_model(bare)


def test_others_learn_how_many_pieces_are_read_and_whether_pairs_are_told_apart(
    tmp_path: Path, draw_model
) -> None:
    for family, has_segments in (("bert", True), ("roberta", False), ("modernbert", False)):
        model, tokenizer = draw_model(family)
        save_model(tmp_path / family, model, tokenizer, origin=Origin())
        told = json.loads((tmp_path / family / "tokenizer_config.json").read_text())
        assert told["model_max_length"] == 67
        assert ("token_type_ids" in told["model_input_names"]) is has_segments


@pytest.mark.parametrize(
    ("changes", "goes_on"),
    [
        ({}, True),
        ({"writing": {"beams": 4}}, True),
        ({"decoder": "shared"}, False),
        ({"decoder": "fresh"}, False),
        ({"decoder": "prefix"}, False),
        ({"decoder_layers": 1}, False),
    ],
)
def test_another_decoder_than_that_of_the_folder_begins_anew(
    tmp_path: Path, make_model, tokenizer, changes: dict[str, Any], goes_on: bool
) -> None:
    model = make_model("generate")
    save_model(tmp_path / "model", model, tokenizer, origin=Origin())
    task = make_task("generate", **{**model.tasks["generate"].options, **changes})
    opened = open_model(tmp_path / "model", tasks=[task])
    assert opened.account is not None
    assert (not any(n.startswith("heads.") for n in opened.account.missing)) == goes_on


@pytest.mark.parametrize(("family", "is_said"), [("roberta", True), ("bert", False)])
def test_a_padding_piece_that_is_another_to_the_network_is_said(
    tmp_path: Path, config, tokenizer, capsys, family: str, is_said: bool
) -> None:
    named = replace(EncoderConfig.named(f"{family}-2x64"), vocab_size=config.vocab_size)
    model = TaskModel(named, [], seed=1)
    save_model(tmp_path / "model", model, tokenizer, origin=Origin())
    for name in ("manifest.json", "bertworks.json"):
        (tmp_path / "model" / name).unlink()
    open_model(tmp_path / "model")
    assert "for padding" not in capsys.readouterr().err
    file = tmp_path / "model" / "config.json"
    said = json.loads(file.read_text())
    assert said["pad_token_id"] == tokenizer.specials.pad == 0
    places = said["max_position_embeddings"] + (1 if is_said else 0)
    file.write_text(json.dumps(said | {"pad_token_id": 1, "max_position_embeddings": places}))
    if is_said:  # a network that skips one place more has one row more
        weights = read_tensors(tmp_path / "model" / "model.safetensors")
        name = next(name for name in weights if name.endswith("position_embeddings.weight"))
        weights[name] = torch.cat([weights[name][:1], weights[name]])
        write_tensors(tmp_path / "model" / "model.safetensors", weights)
    open_model(tmp_path / "model")
    assert ("takes piece 1 for padding" in capsys.readouterr().err) is is_said
