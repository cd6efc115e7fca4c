"""The model that a fine-tuning begins with: a pre-trained one, or a fresh one of some size."""

from collections.abc import Mapping, Sequence

from bertworks.core.errors import UsageError
from bertworks.core.progress import say
from bertworks.core.shipped import shown
from bertworks.model.config import Dropout
from bertworks.serving.model_folder import OpenModel, make_model, open_model, tasks_of
from bertworks.stages.settings import FinetuneSettings
from bertworks.tasks.catalog import KINDS
from bertworks.tasks.embed import Embed
from bertworks.tasks.task import Task

DEFAULT_LONGEST = 512  # pieces that a fresh network reads


def own_tasks(settings: FinetuneSettings) -> dict[str, Task]:
    """Return the tasks that the model has already."""
    return {} if settings.size else tasks_of(settings.model)


def open_for(
    settings: FinetuneSettings, learned: Sequence[Task], own: Mapping[str, Task]
) -> OpenModel:
    """Open the model with a head for each task: its own where it fits, or a fresh one."""
    tasks = {task.name: task for task in learned}
    if settings.size:
        return _make(settings, learned)
    others = {name: task for name, task in own.items() if name not in tasks}
    kept = others if settings.several.keep_tasks else {}
    opened = open_model(
        settings.model,
        tasks=[*tasks.values(), *kept.values()],
        dropout=Dropout(**vars(settings.dropping)),
        fresh=settings.fresh or (tasks.keys() if settings.several.new_head else False),
        seed=settings.seed,
    )
    say(f"weights: {opened.account or 'fresh, nothing loaded'}")
    missing = opened.account.missing if opened.account else ()
    for name in (name for name in tasks if name in own):
        is_new = settings.fresh or any(lost.startswith(f"heads.{name}.") for lost in missing)
        said = "begins with a fresh head, in place of the model's" if is_new else "goes on"
        say(f"task {name}: {said}")
    if kept:
        say(f"warning: {', '.join(kept)} may score otherwise beside an encoder that has moved")
    lost = [name for name, task in others.items() if name not in kept and KINDS[task.kind].learn]
    if lost:
        say(f"the model's heads for {', '.join(lost)} are left out; --keep-tasks keeps them")
    return opened


def _make(settings: FinetuneSettings, tasks: Sequence[Task]) -> OpenModel:
    """Make a network of the size that is asked for, which nothing was learned by."""
    assert settings.size is not None
    made = make_model(
        settings.model,
        settings.size,
        tasks,
        longest=settings.longest or DEFAULT_LONGEST,
        dropout=Dropout(**vars(settings.dropping)),
        seed=settings.seed,
    )
    count = sum(parameter.numel() for parameter in made.model.parameters())
    say(f"weights: fresh, {count:,} parameters of {settings.size}")
    return made


def longest_of(settings: FinetuneSettings, opened: OpenModel) -> int:
    """Return the longest window, which the network must be able to read."""
    limit = opened.model.config.max_positions
    if settings.longest and settings.longest > limit:
        raise UsageError(
            f"--longest is {settings.longest}, but {shown(settings.model)} reads {limit} pieces; "
            f"give --longest {limit} or less"
        )
    return settings.longest or limit


def refuse_vain_lessons(
    settings: FinetuneSettings, learned: Sequence[Task], opened: OpenModel
) -> None:
    """Stop where vectors would be compared with nothing, or with themselves."""
    config, num_together = opened.model.config, settings.batch_size // settings.accumulate
    for task in (task for task in learned if isinstance(task, Embed)):
        if num_together < 2:
            raise UsageError(
                f"{task.name} compares the rows of a part with each other, but --batch-size "
                f"{settings.batch_size} in {settings.accumulate} parts leaves {num_together} in "
                "each; raise --batch-size or lower --accumulate"
            )
        if task.lesson.loss == "simcse" and not (config.dropout or config.attention_dropout):
            raise UsageError(
                "--vector-loss simcse learns from what dropout makes of a text twice, and this "
                "network has none; give --dropout 0.1"
            )
