"""A look at labelled data before training: the checks that are made, and what stops a training."""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from bertworks.core.errors import DataError
from bertworks.core.progress import say
from bertworks.core.quarantine import LARGEST_SHARE, Quarantine
from bertworks.evaluation.copy_checks import CopyCheck, PassageCheck
from bertworks.evaluation.findings import Check, Finding, Places, rows_of, worst_first
from bertworks.evaluation.gold_checks import AnswerCheck, ChoiceCheck, ScoreCheck, TagCheck
from bertworks.evaluation.label_checks import LabelCheck
from bertworks.evaluation.target_checks import TargetCheck
from bertworks.evaluation.text_checks import CharacterCheck, LengthCheck

E = TypeVar("E")
RARE = 5  # examples of a label, below which it is rare
_VARYING = re.compile(r"'[^']*'|\"[^\"]*\"|\(.*\)|\d[\d,.]*")


def make_checks(
    *, rare: int = RARE, similarity: float = 1.0, all_labels: bool = True, copies: bool = True
) -> list[Check]:
    """Return all checks that need no tokenizer; with a similarity below 1 near copies are found.

    With `all_labels` the first file has all labels that there are. The checks for copies remember
    every row, so whoever reads a file of any size leaves them out.
    """
    of_copies: list[Check] = [CopyCheck(similarity=similarity), PassageCheck()] if copies else []
    return [
        LabelCheck(rare=rare, all_labels=all_labels),
        ScoreCheck(),
        AnswerCheck(),
        ChoiceCheck(),
        TagCheck(),
        TargetCheck(),
        *of_copies,
        CharacterCheck(),
        LengthCheck(),
    ]


def look(parts: Mapping[str, Iterable[Any]], checks: Sequence[Check]) -> list[Finding]:
    """Let all checks look at the examples of files, the first of which is to train on."""
    for part, examples in parts.items():
        for _ in watched(part, examples, checks):
            pass
    return found_by(checks)


def watched(part: str, examples: Iterable[E], checks: Sequence[Check]) -> Iterator[E]:
    """Let all checks look at the examples of a file on their way."""
    for example in examples:
        for check in checks:
            check.add(part, example)
        yield example


def found_by(checks: Sequence[Check]) -> list[Finding]:
    """Return what checks have found, the worst first."""
    return worst_first(finding for check in checks for finding in check.findings())


def bad_rows(part: str, quarantine: Quarantine) -> Iterator[Finding]:
    """Yield what is to be said of the rows of a file that could not be used."""
    total = quarantine.num_bad + quarantine.num_good
    if not total:
        yield Finding(
            severity="error",
            check="no rows",
            said=f"{part} holds no rows",
            remedy="give a file with examples in it",
        )
    if not quarantine.num_bad:
        return
    places = Places(quarantine.num_bad, [(part, row.line) for row in quarantine.rows[:5]])
    reasons = Counter(_VARYING.sub("…", row.reason) for row in quarantine.rows)
    is_too_many = quarantine.num_bad > LARGEST_SHARE * total
    yield Finding(
        severity="error" if is_too_many else "warning",
        check="unusable rows",
        said=f"{rows_of(quarantine.num_bad)} of {total:,} in {part} cannot be used, the first: "
        f"{quarantine.rows[0].reason}",
        remedy="mend the file, or name its columns with --columns",
        places=places,
        details=tuple({"reason": why, "rows": f"{n:,}"} for why, n in reasons.most_common()),
    )


def check_before_training(
    train: Path, dev: Path, examples: Sequence[Sequence[Any]], *, flags: Sequence[str] = ()
) -> list[Finding]:
    """Stop when what is trained could not be scored, say what is worrying, and return it all.

    The flags are those by which the files are read.
    """
    files = [str(train), f"{dev} (as dev)" if dev == train else str(dev)]
    # A model that is trained again may know more labels, so the task judges which are unknown.
    checks = make_checks(all_labels=False)
    findings = look(dict(zip(files, examples, strict=True)), checks)
    for finding in findings:
        if finding.severity == "error":
            raise DataError(str(finding))
    worrying = [finding for finding in findings if finding.severity == "warning"]
    for finding in worrying:
        say(f"warning: {finding}")
    if worrying:
        others = ["--against", str(dev)] if dev != train else []
        say(f"more: {shlex.join(['bertworks', 'check', str(train), *others, *flags])}")
    return findings
