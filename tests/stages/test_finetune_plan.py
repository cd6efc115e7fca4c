"""Which flags fit which tasks, and what few examples get when nobody says."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from bertworks.core.artifact import Origin
from bertworks.core.errors import UsageError
from bertworks.core.settings import Ramp, make_settings, read_values
from bertworks.model.config import Dropout, EncoderConfig
from bertworks.serving.model_folder import OpenModel, open_model, save_model
from bertworks.stages.finetune_plan import plan_of, recipe_for, regularize_plan
from bertworks.stages.setting_groups import RegularizeSettings
from bertworks.stages.settings import FinetuneSettings
from bertworks.tasks.catalog import make_task
from bertworks.tasks.classify import Emphasis
from bertworks.tasks.task import TaskModel
from bertworks.training.adversary import Adversary
from bertworks.training.log import read_log
from bertworks.training.lora import LoraPlan
from bertworks.training.regularize import Regularize

Words = Callable[..., list[Any]]
Run = Callable[..., Any]
LABELS = ("a", "b")


def plan(*tasks: Any, **asked: Any) -> Regularize:
    return regularize_plan(RegularizeSettings(**asked), tasks or [make_task("classify", LABELS)])


def test_by_default_nothing_is_added() -> None:
    assert plan() == Regularize()


def test_what_is_asked_for_comes_with_its_defaults() -> None:
    asked = plan(adversary="pgd", lora=4, label_smoothing=Ramp(0.1, 0), mixout=0.2)
    assert asked.adversary == Adversary(name="pgd", radius=0.1, moves=3)
    assert asked.lora == LoraPlan(rank=4, alpha=8.0, on="attention")
    assert (asked.smoothing, asked.mixout) == (Ramp(0.1, 0), 0.2)
    told = plan(adversary="fgm", adversary_radius=0.5, lora=4, lora_alpha=3.0, lora_on="all")
    assert told.adversary == Adversary(name="fgm", radius=0.5)
    assert told.lora == LoraPlan(rank=4, alpha=3.0, on="all")


@pytest.mark.parametrize(
    ("task", "asked", "said"),
    [
        (make_task("embed", pooling="mean"), {"r_drop": 1.0}, "embed gives none"),
        (make_task("score"), {"label_smoothing": Ramp(0.1, 0.1)}, "score does not learn"),
        (make_task("tag", ("B-X", "O"), crf=True), {"label_smoothing": Ramp(0.1, 0)}, "tag does"),
        (make_task("tag", ("B-X", "O")), {"piece_dropout": 0.1}, "tag looks for places"),
        (make_task("answer", name="faq"), {"piece_dropout": 0.1}, "faq looks for places"),
        (make_task("relate", LABELS), {"piece_dropout": 0.1}, "relate looks for places"),
        (make_task("classify", LABELS, emphasis=Emphasis(focal=2.0)), {"r_drop": 1.0}, "--focal"),
        (
            make_task("classify", LABELS, emphasis=Emphasis(focal=2.0)),
            {"label_smoothing": Ramp(0.0, 0.1)},
            "hides it; drop one",
        ),
        (make_task("classify", LABELS), {"adversary_radius": 1.0}, "says more of --adversary"),
        (make_task("classify", LABELS), {"lora_on": "all"}, "says more of --lora"),
        (make_task("classify", LABELS), {"adversary": "fgm", "adversary_moves": 2}, "one move"),
        (make_task("classify", LABELS), {"mixout": 0.1, "parameter_dropout": 0.1}, "leave one out"),
    ],
)
def test_what_does_not_fit_is_refused(task: Any, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        plan(task, **asked)


def test_the_same_flags_fit_tasks_that_know_them() -> None:
    smooth = {"label_smoothing": Ramp(0.1, 0.0), "r_drop": 1.0}
    assert plan(make_task("tag", ("B-X", "O")), make_task("choose"), **smooth).r_drop == 1.0
    assert plan(make_task("score"), r_drop=1.0).r_drop == 1.0
    without_places = [make_task(kind) for kind in ("generate", "choose", "score")]
    assert plan(make_task("embed", pooling="mean"), *without_places, piece_dropout=0.1)


def test_few_examples_are_seen_more_often_unless_somebody_says(
    finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    words = finetune_words(tmp_path / "run", batch_size=48)
    del words[words.index("--epochs") : words.index("--epochs") + 2]
    ended = command(*words)
    assert ended.code == 0, ended.err
    assert "few examples (48, below 5,000): 20 epochs; --epochs and --reinit" in ended.err
    steps = [entry for entry in read_log(tmp_path / "run") if "lr" in entry]
    assert len(steps) == 20  # one batch an epoch
    told = command(*finetune_words(tmp_path / "told", epochs=1, reinit=0))
    assert told.code == 0
    assert "few examples" not in told.err
    assert json.loads((tmp_path / "told" / "manifest.json").read_text())["settings"]["epochs"] == 1


def test_blocks_are_drawn_afresh_where_that_is_asked_for(
    finetune_words: Words, classifier: Path, tmp_path: Path, command: Run
) -> None:
    flags = {"model": classifier, "lr": 1e-12, "epochs": 1, "reinit": 1}
    assert command(*finetune_words(tmp_path / "drawn", **flags)).code == 0
    before, after = (
        load_file(folder / "model.safetensors") for folder in (classifier, tmp_path / "drawn")
    )
    far = {name for name in before if float((before[name] - after[name]).abs().max()) > 1e-4}
    tops = ("bert.encoder.layer.1.", "bert.pooler.")
    assert all(name.startswith(tops) for name in far)
    assert all(any(name.startswith(top) for name in far) for top in tops)
    said = command(*finetune_words(tmp_path / "no", reinit=3)).refusal(2)
    assert "--reinit is 3, but" in said
    assert "has 2 blocks" in said


INGREDIENTS = {
    "plain": {"no_bias_correction": True},
    "toward": {"decay_toward": "pretrained", "weight_decay": 0.5},
    "mixout": {"mixout": 0.3},
    "zeroed": {"parameter_dropout": 0.2},
    "twice": {"r_drop": 1},
    "moved": {"adversary": "freelb", "adversary_moves": 2},
    "soft": {"label_smoothing": "0.2..0"},
    "last": {"average_last": 2, "epochs": 3},
    "thin": {"lora": 2, "lora_on": "all"},
}


@pytest.mark.parametrize("name", INGREDIENTS)
def test_every_ingredient_makes_another_model_that_opens_as_any(
    name: str, classifier: Path, finetune_words: Words, labelled: dict[str, Path], tmp_path: Path,
    command: Run,
) -> None:  # fmt: skip
    ended = command(*finetune_words(tmp_path / "run", **INGREDIENTS[name]))
    assert ended.code == 0, ended.err
    weights = [folder / "model.safetensors" for folder in (tmp_path / "run", classifier)]
    assert weights[0].read_bytes() != weights[1].read_bytes()
    words = ["evaluate", "--model", tmp_path / "run", "--data", labelled["dev"]]
    scored = command(*words, "--out", tmp_path / "report", "--json")
    assert scored.code == 0, scored.err
    told = json.loads((tmp_path / "run" / "bertworks.json").read_text())["dev"]
    assert json.loads(scored.out)["accuracy"] == pytest.approx(told["accuracy"])


def test_lora_and_freeze_exclude_each_other(
    finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    said = command(*finetune_words(tmp_path / "run", lora=2, freeze="1")).refusal(2)
    assert "--lora freezes all but its own matrices" in said


@pytest.fixture
def judge_of_moods(tokenizer, tmp_path: Path) -> Path:
    """Save a small network of six blocks with a head."""
    config = EncoderConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=12,
        num_layers=6,
        num_heads=3,
        feed_forward_size=17,
        max_positions=24,
        dropout=0.0,
        attention_dropout=0.0,
    )
    network = TaskModel(config, [make_task("classify", ("bad", "good"), name="mood")], seed=3)
    save_model(tmp_path / "model", network, tokenizer, origin=Origin())
    return tmp_path / "model"


def asked_for(**flags: Any) -> FinetuneSettings:
    files = {"model": "model", "train": "train", "dev": "dev", "out": "out"}
    values = read_values(FinetuneSettings, {**files, **flags}, where="here")
    return make_settings(FinetuneSettings, values, command="finetune")


def planned(opened: OpenModel, **flags: Any) -> Any:
    names = dict.fromkeys(opened.model.tasks, 1.0)
    return plan_of(asked_for(**flags), opened, names, num_examples=50, steps_per_epoch=2)


NEW = make_task("classify", ("large", "small"), name="size")
KNOWN = make_task("classify", ("bad", "good"), name="mood")


@pytest.mark.parametrize(
    ("tasks", "drawn"), [([NEW], 1), ([KNOWN], 0), ([NEW, KNOWN], 0), ([make_task("embed")], 0)]
)
def test_no_block_is_drawn_below_a_head_that_goes_on_or_is_kept(
    tasks: list[Any], drawn: int, judge_of_moods: Path
) -> None:
    opened = open_model(judge_of_moods, tasks=tasks)
    recipe = recipe_for(asked_for(), opened, num_examples=50, steps_per_epoch=2)
    assert recipe.reinit == drawn


@pytest.mark.parametrize("way", ["copied", "shared", "fresh", "prefix"])
def test_no_block_of_a_network_that_writes_is_drawn_unless_somebody_says(
    way: str, judge_of_moods: Path, capsys
) -> None:
    for tasks in ([make_task("generate", decoder=way)], [NEW, make_task("generate", decoder=way)]):
        opened = open_model(judge_of_moods, tasks=tasks)
        recipe = recipe_for(asked_for(), opened, num_examples=50, steps_per_epoch=2)
        assert (recipe.reinit, recipe.epochs) == (0, 20)
        assert "few examples (50, below 5,000): 20 epochs; --epochs" in capsys.readouterr().err
        asked = recipe_for(asked_for(reinit=2), opened, num_examples=50, steps_per_epoch=2)
        assert asked.reinit == 2


def test_a_recipe_is_said_only_where_it_decides_something(judge_of_moods: Path, capsys) -> None:
    opened = open_model(judge_of_moods, tasks=[KNOWN])
    for flags, is_said in (({"epochs": 4}, False), ({}, True), ({"reinit": 0}, True)):
        recipe_for(asked_for(**flags), opened, num_examples=50, steps_per_epoch=2)
        assert ("few examples" in capsys.readouterr().err) == is_said
    both = open_model(judge_of_moods, tasks=[NEW])
    recipe_for(asked_for(epochs=4), both, num_examples=50, steps_per_epoch=2)
    assert "4 epochs, top blocks drawn afresh: 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "is_drawn"),
    [
        ({}, True),
        ({"freeze": "5"}, True),
        ({"freeze": "6"}, False),
        ({"freeze": "all"}, False),
        ({"freeze": "all", "thaw_every": 1.0}, False),
        ({"freeze": "all", "reinit": 1}, True),
        ({"lora": 2}, False),
    ],
)
def test_what_is_frozen_is_not_drawn_unless_somebody_says(
    flags: dict[str, Any], is_drawn: bool, judge_of_moods: Path
) -> None:
    fresh = planned(open_model(judge_of_moods, tasks=[NEW]), **flags).layers.fresh
    assert any(name.startswith("encoder.blocks.5.") for name in fresh) == is_drawn
    assert not any(name.startswith("encoder.blocks.4.") for name in fresh)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"decay_toward": "pretrained", "weight_decay": 0.0}, "give one above 0"),
        ({"r_drop": 1.0}, "has none; give --dropout"),
        ({"lora": 2, "thaw_every": 1.0}, "--thaw-every lets whole layers learn"),
        ({"fresh": True, "mixout": 0.2}, "--mixout is about pre-trained weights"),
        ({"fresh": True, "lora": 2}, "--lora is about"),
        ({"fresh": True, "reinit": 1}, "--reinit is about"),
        ({"fresh": True, "decay_toward": "pretrained"}, "--decay-toward pretrained is about"),
        ({"size": "tiny", "lora": 2}, "--lora is about .* a fresh network of --size lacks"),
        ({"size": "tiny", "reinit": 1}, "--reinit is about"),
    ],
)
def test_flags_that_would_do_nothing_are_refused(
    flags: dict[str, Any], said: str, judge_of_moods: Path
) -> None:
    opened = open_model(judge_of_moods, tasks=[NEW], fresh=flags.get("fresh", False))
    with pytest.raises(UsageError, match=said):
        planned(opened, **flags)


def test_two_passes_differ_where_some_dropout_is_left(judge_of_moods: Path) -> None:
    only_head = make_task("classify", ("large", "small"), name="size", dropout=0.3)
    assert planned(open_model(judge_of_moods, tasks=[only_head]), r_drop=1.0).regularize.r_drop
    opened = open_model(judge_of_moods, tasks=[NEW], dropout=Dropout(0.1))
    assert planned(opened, r_drop=1.0, dropout=0.1).regularize.r_drop == 1.0
