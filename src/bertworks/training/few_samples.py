"""How a model is fine-tuned where nobody says: otherwise when examples are few.

After arXiv 2006.05987: with bias correction and warm-up, which are always on by default, few
examples want more passes than the usual three, and the top of the network afresh. Narrow networks
want longer steps, however many examples there are (ELECTRA's small, base and large networks were
published with 3e-4, 1e-4 and 5e-5). The numbers are those that `benchmarks/few_sample.py` compares.
"""

from dataclasses import dataclass

FEW = 5_000  # examples below which these rules hold
USUAL_EPOCHS = 3
MOST_EPOCHS = 20
ENOUGH_STEPS = 1_000  # or as many as the most epochs have
BLOCKS_PER_FRESH_ONE = 6  # of as many blocks the topmost is drawn afresh
NARROW = 512  # width below which a network takes the higher rate
RATE, RATE_OF_NARROW = 5e-5, 1e-4


@dataclass(frozen=True)
class Recipe:
    """What is decided by the number of examples."""

    epochs: int = USUAL_EPOCHS
    reinit: int = 0


def default_recipe(
    num_examples: int, *, steps_per_epoch: int, num_blocks: int, has_fresh_head: bool
) -> Recipe:
    """Return the recipe for so many examples.

    A network whose head goes on has learned its task with all of its blocks, so none is drawn.
    """
    if num_examples >= FEW:
        return Recipe()
    wanted = -(-ENOUGH_STEPS // steps_per_epoch)
    epochs = min(max(wanted, USUAL_EPOCHS), MOST_EPOCHS)
    return Recipe(epochs, num_blocks // BLOCKS_PER_FRESH_ONE if has_fresh_head else 0)


def default_rate(width: int) -> float:
    """Return the highest learning rate for a network of this width."""
    return RATE_OF_NARROW if width < NARROW else RATE
