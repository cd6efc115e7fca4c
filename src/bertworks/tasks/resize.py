"""Models with more or fewer pieces or positions: every new row is a mean of old ones."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor

from bertworks.model.weights import load_weights
from bertworks.tasks.electra import add_generator, parted
from bertworks.tasks.task import TaskModel

Sources = Sequence[Sequence[int]]  # for each new row, the old rows whose mean it is
Counted = Literal["vocab_size", "max_positions"]


def with_rows(model: TaskModel, counted: Counted, sources: Sources, **changes: Any) -> TaskModel:
    """Return a model whose tables of pieces, or of positions, have other rows.

    `changes` are other fields of its description; all other weights stay as they are.
    """
    model, generator = parted(model)
    made = _with_rows(model, counted, sources, changes)
    if generator is not None:
        add_generator(made, _with_rows(generator, counted, sources, changes))
    return made


def _with_rows(
    model: TaskModel, counted: Counted, sources: Sources, changes: dict[str, Any]
) -> TaskModel:
    config = replace(model.config, **{**changes, counted: len(sources)})
    tables = _tables(model, counted)
    tensors = {
        name: mean_rows(tensor.detach(), sources) if name in tables else tensor.detach().clone()
        for name, tensor in model.named_parameters()
    }
    made = TaskModel.without_weights(config, list(model.tasks.values()))
    load_weights(made, tensors)
    made.encoder.keeps_pooler = model.encoder.keeps_pooler
    return made.train(model.training)


def mean_rows(table: Tensor, sources: Sources) -> Tensor:
    """Return a table whose rows are means of rows of another; the mean of one row is that row."""

    @cache
    def mean(source: tuple[int, ...] | range) -> Tensor:
        return table[torch.tensor(source)].mean(dim=0)

    made = table[torch.tensor([source[0] for source in sources])]
    for row, source in enumerate(sources):
        if len(source) > 1:
            made[row] = mean(source if isinstance(source, range) else tuple(source))
    return made


def _tables(model: TaskModel, counted: Counted) -> set[str]:
    """Return the parameters with a row for each piece, or for each position."""
    change: dict[str, Any] = {counted: getattr(model.config, counted) + 1}
    larger = replace(model.config, **change)
    with torch.device("meta"):
        other = TaskModel(larger, list(model.tasks.values()))
    shapes = {name: parameter.shape for name, parameter in other.named_parameters()}
    return {name for name, p in model.named_parameters() if p.shape != shapes[name]}
