"""How the learning rate moves over a run."""


def warmup_linear(step: int, *, warmup: int, total: int) -> float:
    """Rise from 0 to 1 in `warmup` steps, then fall in a line to 0 just after the last step."""
    if step <= warmup:
        return step / max(warmup, 1)
    return max(0.0, (total + 1 - step) / max(total + 1 - warmup, 1))
