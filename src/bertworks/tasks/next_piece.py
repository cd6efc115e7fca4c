"""Next piece: in some steps a network reads from left to right and says what follows."""

from dataclasses import replace

from torch import Tensor, nn

from bertworks.core.batch import Batch
from bertworks.core.errors import UsageError
from bertworks.tasks.task import Judged, Task, TaskModel, losses_of


class WithNextPiece(nn.Module):
    """A model whose fill-mask head names the next piece where a batch is causal."""

    def __init__(self, model: TaskModel) -> None:
        super().__init__()
        config = model.config
        if config.mixer != "attention" or config.local is not None:
            kind = config.mixer if config.mixer != "attention" else "local attention"
            raise UsageError(
                f"next_piece needs attention to whole texts, which can be told not to look ahead, "
                f"but this network has {kind}; leave next_piece out or choose another --size"
            )
        self.model = model
        self.tasks: dict[str, Task] = {**model.tasks, "next_piece": model.tasks["fill_mask"]}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return each task's loss, summed over its targets."""
        return losses_of(self, batch)

    def judged(self, batch: Batch) -> Judged:
        """Return the logits of each task that the batch asks for, and their target."""
        if not batch.is_causal:
            return self.model.judged(batch)
        asked = replace(batch, targets={"fill_mask": batch.targets["next_piece"]})
        return {"next_piece": self.model.judged(asked)["fill_mask"]}
