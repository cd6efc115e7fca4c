"""What keeps a fine-tuning from collapsing: flags that fit its tasks, and what few examples get."""

from collections.abc import Collection

from bertworks.core.errors import UsageError
from bertworks.core.progress import say
from bertworks.serving.model_folder import OpenModel
from bertworks.stages.setting_groups import RegularizeSettings
from bertworks.stages.settings import FinetuneSettings
from bertworks.tasks.task import Task
from bertworks.training.adversary import Adversary
from bertworks.training.few_samples import FEW, Recipe, default_recipe
from bertworks.training.layers import count_blocks
from bertworks.training.lora import LoraPlan
from bertworks.training.regularize import Regularize

WITHOUT_CHANCES = {"embed"}  # kinds whose logits are vectors
WITHOUT_LABELS = {"embed", "score"}
# Flags that change something which only another flag begins.
BELONGS_TO = {
    "adversary_radius": "adversary",
    "adversary_moves": "adversary",
    "lora_alpha": "lora",
    "lora_on": "lora",
}


def regularize_plan(asked: RegularizeSettings, tasks: Collection[Task]) -> Regularize:
    """Return what is asked for as the loop wants it; what a task cannot do is refused."""
    _refuse_unfit(asked, tasks)
    adversary = lora = None
    if asked.adversary:
        radius, moves = asked.adversary_radius or 1.0, asked.adversary_moves or 3
        adversary = Adversary(name=asked.adversary, radius=radius, moves=moves)
    if asked.lora:
        alpha, place = asked.lora_alpha or 2.0 * asked.lora, asked.lora_on or "attention"
        lora = LoraPlan(rank=asked.lora, alpha=alpha, on=place)
    return Regularize(
        decay_toward=asked.decay_toward,
        mixout=asked.mixout,
        parameter_dropout=asked.parameter_dropout,
        r_drop=asked.r_drop,
        smoothing=asked.label_smoothing,
        average_last=asked.average_last,
        adversary=adversary,
        lora=lora,
    )


def recipe_for(
    settings: FinetuneSettings, opened: OpenModel, *, num_examples: int, steps_per_epoch: int
) -> Recipe:
    """Return what is asked for, or what so many examples get; the latter is said."""
    asked, num_blocks = settings.regularize.reinit, count_blocks(opened.model)
    missing = opened.account.missing if opened.account else ()
    usual = default_recipe(
        num_examples,
        steps_per_epoch=steps_per_epoch,
        num_blocks=num_blocks,
        has_fresh_head=any(name.startswith("heads.") for name in missing),
    )
    recipe = Recipe(settings.epochs or usual.epochs, usual.reinit if asked is None else asked)
    if opened.model.config.sharing is not None and not asked:
        recipe = Recipe(recipe.epochs, 0)  # its blocks are one
    _refuse_reinit(settings, opened, recipe.reinit, num_blocks)
    if num_examples < FEW and (settings.epochs is None or asked is None):
        drawn = f", top blocks drawn afresh: {recipe.reinit}" if recipe.reinit else ""
        say(
            f"few examples ({num_examples:,} of less than {FEW:,}): {recipe.epochs} epochs{drawn}; "
            "--epochs and --reinit change it, docs/stability.md tells why"
        )
    return recipe


def _refuse_unfit(asked: RegularizeSettings, tasks: Collection[Task]) -> None:
    for name, other in BELONGS_TO.items():
        if getattr(asked, name) is not None and getattr(asked, other) is None:
            flag = name.replace("_", "-")
            raise UsageError(f"--{flag} says more of --{other}; give that too, or leave it out")
    smooths = asked.label_smoothing.start or asked.label_smoothing.end
    for task in tasks:
        if asked.r_drop and task.kind in WITHOUT_CHANCES:
            raise UsageError(f"--r-drop compares chances, but {task.name} gives none; leave it out")
        if asked.r_drop and getattr(getattr(task, "emphasis", None), "focal", 0.0):
            raise UsageError("--r-drop compares whole losses, not --focal ones; leave one out")
        if smooths and (task.kind in WITHOUT_LABELS or task.options.get("crf")):
            raise UsageError(
                f"--label-smoothing is for single labels, which {task.name} does not learn here; "
                "leave it out"
            )


def _refuse_reinit(
    settings: FinetuneSettings, opened: OpenModel, count: int, num_blocks: int
) -> None:
    if count > num_blocks:
        raise UsageError(f"--reinit is {count}, but {settings.model} has {num_blocks} blocks")
    if count and opened.model.config.sharing is not None:
        raise UsageError(
            f"--reinit {count} would draw all blocks of {settings.model}: they are one"
        )
