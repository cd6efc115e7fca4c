"""Files of labelled data as examples, whatever layout they have."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bertworks.core.errors import DataError, UsageError
from bertworks.core.progress import say
from bertworks.core.quarantine import Quarantine
from bertworks.data.cells import arrange
from bertworks.data.columns import Columns
from bertworks.data.forms import COLUMNS, FORMS, ORIGINS, make_example
from bertworks.data.sources import open_source, open_table, tell_form
from bertworks.data.tables import UNEVEN, Rows

REMEDY = "mend the file, or name its columns with --columns"
UNEVEN_REMEDY = "give each row as many columns, with quotes around texts that hold a comma in .csv"


def read_examples(
    file: Path,
    quarantine: Quarantine,
    *,
    form: str = "label",
    columns: Columns | None = None,
    labelled: bool = True,
) -> list[Any]:
    """Return the examples of a file; rows that cannot be used go to the quarantine."""
    own = Quarantine()  # each file must be mostly good, however long the others are
    examples = list(stream_examples(file, own, form=form, columns=columns, labelled=labelled))
    is_uneven = any(UNEVEN.match(row.reason) for row in own.rows[:1])
    own.check(remedy=UNEVEN_REMEDY if is_uneven else REMEDY)
    if not examples:
        raise DataError(f"{file} holds no rows; give a file with examples in it")
    quarantine.take(own)
    return examples


def only_pairs(file: Path, examples: Sequence[Any], quarantine: Quarantine) -> list[Any]:
    """Return the examples that have a second text; the others go to the quarantine of the file."""
    reason = "no 'text_b', but the task reads two texts"
    alone = ((example, reason) for example in examples if example.text_b is None)
    set_aside(file, alone, quarantine, remedy=REMEDY)
    return [example for example in examples if example.text_b is not None]


def set_aside(
    file: Path,
    refused: Iterable[tuple[Any, str]],
    quarantine: Quarantine,
    *,
    remedy: str = "mend the file and try again",
) -> None:
    """Move examples that seemed good into the quarantine of their file, each with its reason."""
    for example, reason in refused:
        quarantine.recall(file, example.line, reason)
    quarantine.check(remedy=remedy)


def stream_examples(
    file: Path,
    quarantine: Quarantine,
    *,
    form: str = "label",
    columns: Columns | None = None,
    labelled: bool = True,
    tells: bool = True,
) -> Iterator[Any]:
    """Yield the examples of a file, or of JSON lines from standard input, one by one.

    It tells a person how the file is read, unless that was told before.
    """
    source = open_source(file, form=form, columns=columns, labelled=labelled)
    if source.note and tells:
        say(source.note)
    wanted = {*FORMS[form].inputs, *(FORMS[form].gold if labelled else ())}
    wanted |= {"spans"} if "tags" in wanted else set()
    for line, values in source.read(quarantine):
        try:
            row = arrange(values, source.columns, wanted)
            found = make_example(row, line, form=form, columns=source.columns, labelled=labelled)
        except DataError as error:
            quarantine.add(file, line, str(error))
        else:
            quarantine.pass_good()
            yield found


def find_form(
    file: Path, columns: Columns | None = None, *, among: Sequence[str] | None = None
) -> str:
    """Return the form that a file speaks of, by its layout or its columns, perhaps of several."""
    return tell_form(file, columns or {}, among=among)


def read_rows(file: Path, quarantine: Quarantine) -> Rows:
    """Yield the lines and the rows of a table as they are, under the names it gives its columns."""
    return open_table(file).read(quarantine)


def parse_columns(pairs: tuple[str, ...], *, where: str = "--columns") -> dict[str, str]:
    """Read `text=sentence` as: the column `sentence` holds the text."""
    columns, known = {}, tuple(dict.fromkeys((*COLUMNS, *ORIGINS)))
    for pair in pairs:
        ours, equals, theirs = pair.partition("=")
        if not equals or ours not in known or not theirs:
            raise UsageError(f"{where} takes NAME=COLUMN with {', '.join(known)}; got {pair!r}")
        columns[ours] = theirs
    return columns
