"""Models with loud weights, so that different texts get clearly different answers."""

from collections.abc import Callable

import pytest
import torch

from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel

LABELS = ("cold", "mild", "warm")


@pytest.fixture(scope="session")
def make_model(config) -> Callable[..., TaskModel]:
    """Make a model for tasks by name, with no weight left at its plain beginning."""

    def make(*names: str, labels: tuple[str, ...] = LABELS, seed: int = 1) -> TaskModel:
        tasks = [make_task(name, labels) for name in names]
        model = TaskModel(config, tasks, seed=seed, deviation=0.3)
        random = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=random), alpha=0.2)
        return model

    return make
