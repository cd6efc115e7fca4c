"""What can go wrong in a way that a user can mend; each message says what, where and how."""

from typing import Any


class BertworksError(Exception):
    """Something failed; the message is one sentence with the remedy."""

    exit_code = 1


class UsageError(BertworksError):
    """A command, flag or recipe that cannot be meant."""

    exit_code = 2


class DataError(BertworksError):
    """A file or row that cannot be used."""


class FoundError(DataError):
    """Data that were looked at and cannot be used; what was found is shown all the same."""

    def __init__(self, message: str, *, result: dict[str, Any]) -> None:
        super().__init__(message)
        self.result = result


class ArtifactError(BertworksError):
    """A folder that is missing, torn, or of another kind."""


class MissingPackageError(BertworksError):
    """An optional package that this feature needs."""


class TrainingError(BertworksError):
    """A run that must not go on."""

    told_code = 3  # by which a process tells it to the one that has started it


class FullMemoryError(BertworksError):
    """A process that had too little memory; whoever has started it knows the remedy."""

    told_code = 4


class InterruptedRunError(BertworksError):
    """A signal ended the run after its checkpoint was saved."""

    def __init__(self, message: str, *, signal_number: int) -> None:
        super().__init__(message)
        # Shells know this form: 130 for an interrupt, 143 for a termination.
        self.exit_code = 128 + signal_number
