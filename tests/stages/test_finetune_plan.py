"""Which flags fit which tasks, and what few examples get when nobody says."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from bertworks.core.errors import UsageError
from bertworks.core.settings import Ramp
from bertworks.stages.finetune_plan import regularize_plan
from bertworks.stages.setting_groups import RegularizeSettings
from bertworks.tasks.catalog import make_task
from bertworks.tasks.classify import Emphasis
from bertworks.training.adversary import Adversary
from bertworks.training.lora import LoraPlan
from bertworks.training.regularize import Regularize
from bertworks.training.run import read_log

Words = Callable[..., list[Any]]
Run = Callable[..., Any]
LABELS = ("a", "b")


def plan(*tasks: Any, **asked: Any) -> Regularize:
    return regularize_plan(RegularizeSettings(**asked), tasks or [make_task("classify", LABELS)])


def test_by_default_nothing_is_added() -> None:
    assert plan() == Regularize()


def test_what_is_asked_for_comes_with_its_defaults() -> None:
    asked = plan(adversary="pgd", lora=4, label_smoothing=Ramp(0.1, 0), mixout=0.2)
    assert asked.adversary == Adversary(name="pgd", radius=1.0, moves=3)
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
        (make_task("classify", LABELS, emphasis=Emphasis(focal=2.0)), {"r_drop": 1.0}, "--focal"),
        (make_task("classify", LABELS), {"adversary_radius": 1.0}, "says more of --adversary"),
        (make_task("classify", LABELS), {"lora_on": "all"}, "says more of --lora"),
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
