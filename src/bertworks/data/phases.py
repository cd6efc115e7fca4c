"""Length phases: most of a run on short texts, the rest on long ones, as BERT was trained."""

from collections.abc import Sequence

from bertworks.core.batch import Batch
from bertworks.data.corpus_batches import CorpusBatches


class PhasedBatches:
    """The batches of a run whose texts grow: each phase begins where its plan says."""

    def __init__(self, phases: Sequence[CorpusBatches]) -> None:
        self.phases = tuple(phases)

    def at(self, step: int, parts: Sequence[int] | None = None) -> list[Batch]:
        """Return the parts of one step's batch, from the phase that it lies in."""
        return self.phase_of(step).at(step, parts)

    def phase_of(self, step: int) -> CorpusBatches:
        """Return the last phase that has begun at a step."""
        begun = [phase for phase in self.phases if phase.plan.first_step <= step]
        return begun[-1]
