"""The pieces with a meaning of their own, and the target that is none."""

from dataclasses import asdict, dataclass

IGNORE = -100  # the target value that no loss looks at; torch's cross-entropy knows it too


@dataclass(frozen=True, kw_only=True)
class SpecialIds:
    """Where a vocabulary keeps its special pieces."""

    pad: int
    unknown: int
    first: int
    separator: int
    mask: int
    num_between: int = 1  # separators between the texts of a pair
    second_segment: int = 1  # the number of a pair's second text; 0: it is not told apart

    def num_added(self, *, pair: bool) -> int:
        """Return how many special pieces stand around a text, or around and between a pair."""
        return 2 + self.num_between * pair

    def as_tuple(self) -> tuple[int, ...]:
        """Return the ids in BERT's order."""
        return (self.pad, self.unknown, self.first, self.separator, self.mask)

    def as_json(self) -> dict[str, int]:
        """Return what a folder keeps of them."""
        return asdict(self)
