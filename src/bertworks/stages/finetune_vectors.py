"""How a fine-tuning makes vectors: as the folder that it begins with, and the one that it saves."""

from collections.abc import Sequence
from dataclasses import replace

from bertworks.core.errors import UsageError
from bertworks.core.progress import say
from bertworks.model.embedding import EmbeddingRecipe
from bertworks.serving.model_folder import OpenModel
from bertworks.stages.finetune_data import TaskData
from bertworks.stages.settings import FinetuneSettings
from bertworks.tasks.embed import Embed


def settle_vectors(
    settings: FinetuneSettings, read: Sequence[TaskData], opened: OpenModel
) -> list[TaskData]:
    """Return the tasks with vectors made as the model's folder says, where no flag says otherwise.

    The tasks of the open model make them so too, for a model makes vectors in one way.
    """
    learned = [one for one in read if isinstance(one.task, Embed)]
    if not learned:
        return list(read)
    recipe = _recipe(settings, learned, opened)
    if opened.recipe is not None:
        _tell(settings, recipe, opened.recipe)
    tasks = opened.model.tasks
    for task in [task for task in tasks.values() if isinstance(task, Embed)]:
        opened.model.add(task.reading(recipe))
    return [replace(one, task=tasks[one.task.name]) for one in read]


def _recipe(
    settings: FinetuneSettings, learned: Sequence[TaskData], opened: OpenModel
) -> EmbeddingRecipe:
    """Return how vectors are made."""
    asked = dict.fromkeys(one.source.flags.get("pooling") for one in learned)
    poolings = [pooling for pooling in asked if pooling is not None]
    if len(poolings) > 1:
        names = ", ".join(one.task.name for one in learned)
        raise UsageError(
            f"{names} ask for the poolings {', '.join(poolings)}, but a model makes vectors in one "
            "way; give all of them one pooling"
        )
    pooling, limit = next(iter(poolings), None), opened.model.config.max_positions
    before = opened.recipe
    if before is None:
        (first, *_) = (one.task.recipe for one in learned if isinstance(one.task, Embed))
        return first.changed(pooling=pooling, max_length=limit)
    return before.changed(
        pooling=pooling,
        max_length=max(before.max_length or limit, settings.longest or 0),
        layers=() if settings.fresh else None,
        similarity="cosine",
    )


def _tell(settings: FinetuneSettings, recipe: EmbeddingRecipe, before: EmbeddingRecipe) -> None:
    """Say what is taken over from a folder, and what of it nothing is learned with."""
    prompt, count = recipe.default_prompt, len(recipe.layers)
    pooling = f"the pooling {recipe.pooling}{_instead(recipe.pooling, before.pooling)}"
    cut = f"{recipe.max_length} pieces{_instead(recipe.max_length, before.max_length)}"
    steps = {
        pooling: True,
        f"the prompt {recipe.prompt_text(None)!r}": prompt is not None,
        f"the cut after {cut}": True,
        "1 dense layer, which stays as it is": count == 1,
        f"{count} dense layers, which stay as they are": count > 1,
    }
    taken = "; ".join(step for step, is_taken in steps.items() if is_taken)
    say(f"vectors are made as {settings.model} says: {taken}")
    if others := [name for name in recipe.prompts if name != prompt]:
        say(f"nothing is learned of the prompts {', '.join(others)}, but they stay with the model")
    if before.layers and not recipe.layers:
        say("warning: --fresh leaves the dense layers behind, which follow other weights")


def _instead(now: str | int | None, before: str | int | None) -> str:
    return "" if now == before else f" in place of {before}"
