"""What a fine-tuning is asked to do: its flags as the loop wants them, where they fit its tasks."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from torch import nn

from bertworks.core.errors import UsageError
from bertworks.core.progress import say
from bertworks.core.settings import Ramp
from bertworks.serving.model_folder import OpenModel
from bertworks.stages.idle_flags import say_idle
from bertworks.stages.learning_plan import learning_plan
from bertworks.stages.setting_groups import RegularizeSettings
from bertworks.stages.settings import FinetuneSettings
from bertworks.tasks.task import Task, Writer
from bertworks.training.adversary import Adversary
from bertworks.training.few_samples import FEW, Recipe, default_rate, default_recipe
from bertworks.training.layers import Layers, count_blocks, reinitialize
from bertworks.training.lora import LoraPlan
from bertworks.training.plan import TrainingPlan
from bertworks.training.regularize import Regularize

WITHOUT_CHANCES = {"embed"}  # kinds whose logits are vectors
WITHOUT_LABELS = {"embed", "score"}
WITH_PLACES = {"answer", "intent_slots", "relate", "tag"}  # kinds that ask where in a text
# Flags that change something which only another flag begins.
BELONGS_TO = {
    "adversary_radius": "adversary",
    "adversary_moves": "adversary",
    "lora_alpha": "lora",
    "lora_on": "lora",
}


def plan_of(
    settings: FinetuneSettings,
    opened: OpenModel,
    weights: Mapping[str, float],
    *,
    num_examples: int,
    steps_per_epoch: int,
) -> TrainingPlan:
    """Return the plan of tasks with these weights; what is to begin anew is drawn on the way."""
    tasks = [opened.model.tasks[name] for name in weights]
    say_idle(settings, opened.model.config)
    _refuse_idle(settings, opened)
    regularize = regularize_plan(settings.regularize, tasks)
    layers = _layers(settings, opened, steps_per_epoch)
    recipe = recipe_for(
        settings,
        opened,
        num_examples=num_examples,
        steps_per_epoch=steps_per_epoch,
        num_frozen=layers.num_frozen,
    )
    drawn = reinitialize(opened.model, recipe.reinit, seed=settings.seed)
    steps = recipe.epochs * steps_per_epoch
    warmup = round(settings.warmup * steps)
    return TrainingPlan(
        steps=steps,
        lr=settings.lr or default_rate(opened.model.config.hidden_size),
        **learning_plan(
            settings.learning, warmup=warmup, corrects=settings.regularize.bias_correction
        ),
        weight_decay=settings.weight_decay,
        layers=replace(layers, fresh=layers.fresh | drawn),
        regularize=regularize,
        clip=settings.clip,
        weights={name: Ramp(weight, weight) for name, weight in weights.items()},
        seed=settings.seed,
        workers=settings.workers,
        checkpoint_every=settings.checkpoint_every,
        evaluate_every=steps_per_epoch,
        patience=settings.choice.patience or 0,
    )


def regularize_plan(asked: RegularizeSettings, tasks: Collection[Task]) -> Regularize:
    """Return what is asked for as the loop wants it; what a task cannot do is refused."""
    _refuse_unfit(asked, tasks)
    adversary = lora = None
    if asked.adversary:
        radius, moves = asked.adversary_radius or 0.1, asked.adversary_moves or 3
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
    settings: FinetuneSettings,
    opened: OpenModel,
    *,
    num_examples: int,
    steps_per_epoch: int,
    num_frozen: int = 0,
) -> Recipe:
    """Return what is asked for, or what so many examples get; the latter is said.

    By default no frozen block is drawn afresh, nor any below a head that goes on or is kept, nor
    any of a network that is to write: its top names hidden pieces, and that is how it begins.
    """
    asked, num_blocks = settings.regularize.reinit, count_blocks(opened.model)
    usual = default_recipe(
        num_examples,
        steps_per_epoch=steps_per_epoch,
        num_blocks=num_blocks,
        has_fresh_head=all(_begins_alone(task, opened) for task in opened.model.tasks.values()),
    )
    most = max(num_blocks + 1 - num_frozen, 0)
    recipe = Recipe(
        settings.epochs or usual.epochs, min(usual.reinit, most) if asked is None else asked
    )
    if opened.model.config.sharing is not None and not asked:
        recipe = Recipe(recipe.epochs, 0)  # its blocks are one
    _refuse_reinit(settings, opened, recipe.reinit, num_blocks)
    if num_examples < FEW and (settings.epochs is None or (asked is None and recipe.reinit)):
        drawn = f", top blocks drawn afresh: {recipe.reinit}" if recipe.reinit else ""
        say(
            f"few examples ({num_examples:,}, below {FEW:,}): {recipe.epochs} epoch"
            f"{'s' * (recipe.epochs > 1)}{drawn}; "
            "--epochs and --reinit change it, docs/stability.md tells why"
        )
    return recipe


def _begins_alone(task: Task, opened: OpenModel) -> bool:
    """Tell whether the head of a task was missing in the model, and goes on with nothing of it."""
    missing = opened.account.missing if opened.account else ()
    is_missing = any(lost.startswith(f"heads.{task.name}.") for lost in missing)
    return is_missing and not isinstance(task, Writer)


def _layers(settings: FinetuneSettings, opened: OpenModel, steps_per_epoch: int) -> Layers:
    """Return which layers learn; those frozen are counted from the embeddings up."""
    chosen, num_blocks = settings.layers, count_blocks(opened.model)
    if chosen.freeze and settings.regularize.lora:
        raise UsageError("--lora freezes all but its own matrices and the head; drop --freeze")
    if chosen.thaw_every and settings.regularize.lora:
        raise UsageError("--thaw-every lets whole layers learn, --lora never; leave one out")
    word = chosen.freeze or ("all" if settings.regularize.lora else "none")
    known = {"none": 0, "embeddings": 1, "all": num_blocks + 2}
    known |= {str(count): count + 1 for count in range(num_blocks + 1)}
    if word not in known:
        raise UsageError(
            f"--freeze is {word!r}, but it must be embeddings, all, or a number of the "
            f"{num_blocks} blocks of {settings.model}"
        )
    if chosen.thaw_every and not known[word]:
        raise UsageError("--thaw-every thaws what is frozen; add --freeze all, or leave it out")
    return Layers(
        num_frozen=known[word],
        thaw_every=max(round(chosen.thaw_every * steps_per_epoch), 1) if chosen.thaw_every else 0,
        decay=chosen.layer_decay,
        fresh=frozenset(opened.account.missing if opened.account else ()),
    )


def _refuse_unfit(asked: RegularizeSettings, tasks: Collection[Task]) -> None:
    for name, other in BELONGS_TO.items():
        if getattr(asked, name) is not None and getattr(asked, other) is None:
            flag = name.replace("_", "-")
            raise UsageError(f"--{flag} says more of --{other}; give that too, or leave it out")
    if asked.adversary == "fgm" and asked.adversary_moves is not None:
        raise UsageError("--adversary fgm makes one move; leave out --adversary-moves")
    for task in tasks:
        _refuse_for(task, asked)


def _refuse_for(task: Task, asked: RegularizeSettings) -> None:
    smooths = asked.label_smoothing.start or asked.label_smoothing.end
    focal = getattr(getattr(task, "emphasis", None), "focal", 0.0)
    if asked.r_drop and task.kind in WITHOUT_CHANCES:
        raise UsageError(f"--r-drop compares chances, but {task.name} gives none; leave it out")
    if asked.r_drop and focal:
        raise UsageError("--r-drop compares whole losses, not --focal ones; leave one out")
    if asked.piece_dropout and task.kind in WITH_PLACES:
        raise UsageError(
            f"--piece-dropout cuts words elsewhere each time, but {task.name} looks for places in "
            "a text; leave it out"
        )
    if smooths and focal:
        raise UsageError("--focal asks how sure gold is, --label-smoothing hides it; drop one")
    if smooths and (task.kind in WITHOUT_LABELS or task.options.get("crf")):
        raise UsageError(
            f"--label-smoothing is for single labels, which {task.name} does not learn here; "
            "leave it out"
        )


def _refuse_idle(settings: FinetuneSettings, opened: OpenModel) -> None:
    """Stop where a flag would change nothing in this model, or not what it says."""
    asked, model = settings.regularize, opened.model
    if asked.decay_toward == "pretrained" and not settings.weight_decay:
        raise UsageError("--decay-toward says where --weight-decay draws weights; give one above 0")
    of_the_past = {
        "--mixout": asked.mixout,
        "--decay-toward pretrained": asked.decay_toward == "pretrained",
        "--lora": asked.lora,
        "--reinit": asked.reinit,
    }
    for flag in (flag for flag, is_given in of_the_past.items() if is_given):
        if settings.fresh or settings.size:
            without = "--fresh forgets" if settings.fresh else "a fresh network of --size lacks"
            raise UsageError(f"{flag} is about pre-trained weights, which {without}; drop one")
    rates = [module.p for module in model.modules() if isinstance(module, nn.Dropout)]
    if asked.r_drop and not any((*rates, model.config.dropout, model.config.attention_dropout)):
        raise UsageError(
            f"--r-drop compares passes with other dropout, but {settings.model} has none; give "
            "--dropout, such as 0.1"
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
