"""Small models of every task with loud weights, opened and as folders, to be served."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from bertworks.core.artifact import Origin
from bertworks.data.forms import make_example
from bertworks.serving.model_folder import OpenModel, save_model
from bertworks.serving.predictor import Predictor
from bertworks.tasks.catalog import KINDS, learn_task, make_task
from bertworks.tasks.task import TaskModel


@pytest.fixture(scope="session")
def draw_tasks(config, make_samples) -> Callable[..., TaskModel]:
    """Draw a model for some kinds of tasks, whose heads speak up."""

    def task_of(kind: str) -> Any:
        if KINDS[kind].learn is None:
            return make_task(kind)
        rows = make_samples(17).rows(kind, 45)
        form = KINDS[kind].form
        return learn_task(kind, [make_example(row, 1, form=form, labelled=True) for row in rows])

    def draw(*kinds: str, seed: int = 23) -> TaskModel:
        model = TaskModel(config, [task_of(kind) for kind in kinds], seed=seed, deviation=0.3)
        with torch.no_grad():
            for parameter in model.heads.parameters():
                parameter.mul_(3.0)
        return model.eval()

    return draw


@pytest.fixture(scope="session")
def predictor_of(draw_tasks, tokenizer, machine) -> Callable[..., Predictor]:
    """Open a model for some kinds of tasks."""

    def make(*kinds: str, seed: int = 23) -> Predictor:
        return Predictor(OpenModel(draw_tasks(*kinds, seed=seed), tokenizer, None), machine)

    return make


@pytest.fixture(scope="session")
def model_folder(draw_tasks, tokenizer, tmp_path_factory) -> Callable[..., Path]:
    """Save a model for some kinds of tasks as a folder."""

    def save(*kinds: str, seed: int = 23) -> Path:
        folder = tmp_path_factory.mktemp("served") / "-".join(kinds or ("bare",))
        save_model(folder, draw_tasks(*kinds, seed=seed), tokenizer, origin=Origin())
        return folder

    return save
