"""Bad rows: set aside with their line and the reason, counted, never silently dropped."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from bertworks.core.errors import DataError

LARGEST_SHARE = 0.1  # more bad rows than this, and the file is probably not what it seems
COUNTING = Lock()  # rows are read in one thread and judged in another
MOST_KEPT = 10_000  # beyond this rows are counted but no longer kept


@dataclass(frozen=True)
class BadRow:
    """One row that could not be used."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file} line {self.line}: {self.reason}"


@dataclass
class Quarantine:
    """The rows set aside while reading, and how many were fine."""

    rows: list[BadRow] = field(default_factory=list)
    _num_bad: int = field(default=0, init=False)
    _num_good: int = field(default=0, init=False)

    @property
    def num_bad(self) -> int:
        """How many rows were set aside."""
        return self._num_bad

    @property
    def num_good(self) -> int:
        """How many rows were fine."""
        return self._num_good

    def pass_good(self, count: int = 1) -> None:
        """Count rows that are fine."""
        with COUNTING:
            self._num_good += count

    def add(self, file: Path, line: int, reason: str) -> None:
        """Set one row aside."""
        with COUNTING:
            self._num_bad += 1
            if len(self.rows) < MOST_KEPT:
                self.rows.append(BadRow(str(file), line, reason))

    def recall(self, file: Path, line: int, reason: str) -> None:
        """Set a row aside that was taken for a good one."""
        self.pass_good(-1)
        self.add(file, line, reason)

    def recall_unnamed(self, count: int) -> None:
        """Count rows as bad that were taken for good ones and are kept nowhere."""
        with COUNTING:
            self._num_good -= count
            self._num_bad += count

    def take(self, other: "Quarantine") -> None:
        """Add what was read and set aside elsewhere."""
        with COUNTING:
            self._num_good += other.num_good
            self._num_bad += other.num_bad
            self.rows += other.rows[: MOST_KEPT - len(self.rows)]

    def check(self, *, remedy: str = "mend the file and try again") -> None:
        """Stop when too much is bad to trust the rest."""
        total = self.num_bad + self.num_good
        if self.num_bad > LARGEST_SHARE * total:
            raise DataError(
                f"{self.num_bad} of {total} rows cannot be used, the first at {self.rows[0]}; "
                f"{remedy}"
            )

    def summary(self) -> str | None:
        """Return one sentence about what was set aside, or None."""
        if not self.num_bad:
            return None
        rows = "1 row was" if self.num_bad == 1 else f"{self.num_bad} rows were"
        return f"{rows} set aside in quarantine.jsonl; the first: {self.rows[0]}"

    def write(self, folder: Path, name: str = "quarantine.jsonl") -> None:
        """Write the rows into a folder, if there are any."""
        if self.rows:
            lines = [json.dumps(vars(row), ensure_ascii=False) + "\n" for row in self.rows]
            text = "".join(lines).encode(errors="backslashreplace")  # of names that are not Unicode
            (folder / name).write_bytes(text)
