"""The optimizers by name, and their memory as named tensors."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from bertworks.training.adam import BertAdam
from bertworks.training.lamb import Lamb
from bertworks.training.muon import Muon, hidden_matrices
from bertworks.training.sharding import fitted

OptimizerName = Literal["adamw", "lamb", "muon"]


@dataclass(frozen=True, kw_only=True)
class Adam:
    """The numbers of Adam, which the other optimizers have too."""

    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-6
    corrects: bool = True  # for means that begin at zero; off: as the original BERT


USUAL = Adam()


def make_optimizer(
    model: nn.Module,
    *,
    lr: float,
    weight_decay: float,
    name: OptimizerName = "adamw",
    adam: Adam = USUAL,
    in_half: bool = False,
) -> torch.optim.Optimizer:
    """Return an optimizer with decoupled decay, none on norms and biases.

    `in_half` lets products of muon be of half precision on a CPU, as they are on a GPU.
    """
    numbers: dict[str, Any] = {"betas": adam.betas, "eps": adam.epsilon}
    if name == "lamb":
        matrices, vectors = _groups(model.parameters(), weight_decay)
        return Lamb([matrices, vectors | {"trusts": False}], lr=lr, **numbers)
    hidden = hidden_matrices(model) if name == "muon" else {}
    groups = _groups((p for p in model.parameters() if p not in hidden), weight_decay)
    if not adam.corrects:
        return BertAdam(groups, lr=lr, **numbers)
    adamw = torch.optim.AdamW(groups, lr=lr, fused=True, **numbers)
    if not hidden:
        return adamw
    return Muon(hidden, adamw, lr=lr, weight_decay=weight_decay, in_half=in_half)


def set_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Set the learning rate of every group, or its share of it."""
    for group in optimizer.param_groups:
        group["lr"] = lr * group.get("share", 1.0)


def share_rate(optimizer: torch.optim.Optimizer, shares: Mapping[Tensor, float]) -> None:
    """Part the groups so that each parameter has its own share of the rate that is set."""
    optimizer.param_groups[:] = [
        {**group, "params": [p for p in group["params"] if shares[p] == share], "share": share}
        for group in optimizer.param_groups
        for share in sorted({shares[p] for p in group["params"]})
    ]


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimizer's memory as named tensors: `parameter:entry`."""
    return {
        f"{name}:{entry}": value
        for name, parameter in model.named_parameters()
        for entry, value in optimizer.state[parameter].items()
    }


def restore_optimizer(
    model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    """Put named tensors back into the optimizer's memory, in place of what it remembers now."""
    parameters = dict(model.named_parameters())
    optimizer.state.clear()
    for key, value in tensors.items():
        name, _, entry = key.rpartition(":")
        parameter = parameters[name]
        optimizer.state[parameter][entry] = fitted(value, parameter).to(parameter.device)


def _groups(parameters: Iterable[nn.Parameter], weight_decay: float) -> list[dict[str, Any]]:
    """Part matrices, which decay, from vectors, which do not."""
    given = list(parameters)
    return [
        {"params": [p for p in given if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in given if p.dim() < 2], "weight_decay": 0.0},
    ]
