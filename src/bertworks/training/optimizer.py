"""AdamW with bias correction and decoupled decay, none on norms and biases."""

import torch
from torch import Tensor, nn

BETAS = (0.9, 0.999)
EPSILON = 1e-6


def make_optimizer(model: nn.Module, *, lr: float, weight_decay: float) -> torch.optim.AdamW:
    """Return the optimizer; matrices decay, vectors do not."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr, betas=BETAS, eps=EPSILON, fused=True)


def set_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Set the learning rate of every group."""
    for group in optimizer.param_groups:
        group["lr"] = lr


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimizer's memory as named tensors: `parameter:entry`."""
    return {
        f"{name}:{entry}": value
        for name, parameter in model.named_parameters()
        for entry, value in optimizer.state[parameter].items()
    }


def restore_optimizer(
    model: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]
) -> None:
    """Put named tensors back into the optimizer's memory."""
    parameters = dict(model.named_parameters())
    for key, value in tensors.items():
        name, _, entry = key.rpartition(":")
        parameter = parameters[name]
        device = "cpu" if entry == "step" and not parameter.is_cuda else parameter.device
        optimizer.state[parameter][entry] = value.to(device)
