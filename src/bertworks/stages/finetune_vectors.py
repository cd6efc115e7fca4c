"""How a fine-tuning makes vectors: as the model that it saves will make them."""

from collections.abc import Sequence
from dataclasses import replace

from bertworks.serving.model_folder import OpenModel
from bertworks.stages.finetune_data import TaskData
from bertworks.tasks.embed import Embed


def settle_vectors(read: Sequence[TaskData], opened: OpenModel) -> list[TaskData]:
    """Return the tasks with the cut that the saved folder has; the open model has them too."""
    longest = opened.model.config.max_positions
    settled = []
    for one in read:
        task = one.task
        if isinstance(task, Embed):
            task = task.reading(task.recipe.changed(max_length=longest))
            opened.model.add(task)
        settled.append(replace(one, task=task))
    return settled
