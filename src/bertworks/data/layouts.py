"""In which layout a file of labelled data is, and which of its columns are ours."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bertworks.core.errors import BertworksError, DataError, UsageError
from bertworks.core.file_pairs import is_pair, require_sides
from bertworks.core.lines import COMPRESSIONS, STANDARD_INPUT, plain_suffix, require_content
from bertworks.core.quarantine import Quarantine
from bertworks.data.bare_tables import guess_columns, guess_form
from bertworks.data.columns import (
    Columns,
    cannot_tell,
    choose_form,
    form_of,
    is_header,
    match_names,
    missing_inputs,
    must_be_told,
)
from bertworks.data.first_lines import read_head
from bertworks.data.forms import FORMS
from bertworks.data.json_documents import json_layout, read_dream, read_list, read_squad
from bertworks.data.line_groups import is_aspects, read_aspects, read_intents, require_intents
from bertworks.data.parallel_files import read_pair
from bertworks.data.tables import (
    Table,
    Wanted,
    csv_reader,
    is_parted,
    names_columns,
    open_cells,
    open_objects,
    read_jsonl,
    read_parquet_rows,
    read_tsv,
    read_whole_lines,
)
from bertworks.data.tagged_lines import (
    has_short_lines,
    is_conll,
    is_conllu,
    is_segmented,
    read_conll,
    read_conllu,
    read_segmented,
)
from bertworks.data.telling_values import (
    has_character_tags,
    has_spans,
    refuse_decimals,
    refuse_other_mark,
    refuse_shorter,
    with_spans,
)

Rows = Iterator[tuple[int, dict[str, Any]]]
SUFFIXES = (".jsonl", ".tsv", ".csv", ".parquet", ".json", ".conll", ".conllu")
OF_TEXTS = ("label", "labels", "score", "tags", "intent_slots")  # which may ask of one text alone
CONLL_SUFFIXES = (".conll", ".bio", ".iob", ".iob2", ".bmes", ".bioes", ".bilou")


@dataclass(frozen=True)
class Layout:
    """An official layout whose rows have our columns."""

    name: str
    form: str
    read: Callable[[Path, Quarantine, Columns], Rows]
    chooses: tuple[str, ...] = ()  # columns of ours that --columns may take from elsewhere


CONLL = Layout("CoNLL: the token first, its tag last", "tags", read_conll, ("tokens", "tags"))
CONLLU = Layout("CoNLL-U", "tags", read_conllu, ("tags",))
SEGMENTED = Layout("words with two spaces between them", "tags", read_segmented, ("tags",))
ASPECTS = Layout("aspects in three lines each", "aspect", read_aspects)
INTENTS = Layout("utterances, slots and intents in three files", "intent_slots", read_intents)
SQUAD = Layout("SQuAD JSON", "answers", read_squad)
DREAM = Layout("DREAM JSON", "choice", read_dream)
PARALLEL = Layout("parallel lines of two files", "target", read_pair)


@dataclass(frozen=True)
class Source:
    """A file of labelled data, understood."""

    form: str
    columns: Columns
    read: Callable[[Quarantine], Rows]
    note: str | None = None  # what was guessed


def open_source(
    file: Path, *, form: str | None, columns: Columns | None = None, labelled: bool = True
) -> Source:
    """Find out how the rows of a file are read; without a form, the one it speaks of."""
    given = columns or {}
    found = _find(file, form, given, labelled=labelled)
    if isinstance(found, Layout):
        return _layout_source(file, found, form, given)
    with _naming(file):
        return _table_source(file, found, form, given, labelled=labelled)


def require_source(file: Path) -> None:
    """Stop when a file is missing or empty, or a folder holds no layout of several files."""
    if file.is_dir():
        require_intents(file)
    elif file != STANDARD_INPUT:
        for own in require_sides(file):
            require_content(own)


def tell_form(file: Path, given: Columns, *, among: Sequence[str] | None = None) -> str:
    """Return the form that a file speaks of; of several, the one that it has the columns of."""
    if among is not None and len(among) == 1:
        return among[0]
    hint = next((form for form in ("tags", "texts") if among and form in among), None)
    found = _find(file, hint, given)
    with _naming(file):
        form = found.form if isinstance(found, Layout) else _table_form(found, given, among)
        if not isinstance(found, Layout) and among is None and found.sample:
            _require_told(found, form, given)
    return form if not among or form in among else among[0]


def open_table(file: Path) -> Table:
    """Return the columns and rows of a file that must be a table."""
    found = _find(file, None, {})
    if isinstance(found, Layout):
        raise DataError(f"{file} holds {found.name}; give a table with named columns")
    return found


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Put the name of a file before what is wrong with its columns."""
    try:
        yield
    except BertworksError as error:
        raise type(error)(f"{file} {error}") from error


def _find(file: Path, form: str | None, given: Columns, *, labelled: bool = True) -> Layout | Table:
    require_source(file)
    if file == STANDARD_INPUT:
        return open_objects(file, read_jsonl)
    if file.is_dir():
        return INTENTS
    if is_pair(file):
        return PARALLEL
    suffix = plain_suffix(file)
    if suffix == ".parquet":
        return open_objects(file, read_parquet_rows)
    head = read_head(file)
    if suffix in (".jsonl", ".ndjson"):
        return open_objects(file, read_jsonl)
    if suffix == ".json":
        return _json(file, head)
    if suffix == ".csv":
        return open_cells(file, csv_reader(head, given), given)
    reads_texts = form == "texts" or (form in OF_TEXTS and not labelled)
    return _lines(file, head, form, given, reads_texts=reads_texts)


def _lines(
    file: Path, head: Sequence[str], form: str | None, given: Columns, *, reads_texts: bool
) -> Layout | Table:
    if form == "target":  # no layout of lines is for it, and bare lines are sources
        return open_cells(file, read_tsv, given)
    suffix = plain_suffix(file)
    is_texts = reads_texts and suffix == ".txt"
    any_tags = form == "tags" and (not is_texts or bool(given) or has_short_lines(head))
    found = _line_layout(suffix, head, given, any_tags=any_tags)
    return found or _tabbed(file, head, given, is_texts=is_texts)


def _tabbed(file: Path, head: Sequence[str], given: Columns, *, is_texts: bool) -> Table:
    if is_texts and not given and not _has_columns(head):
        return open_cells(file, read_whole_lines, given)
    if plain_suffix(file) == ".tsv" or is_texts or any("\t" in line for line in head):
        return open_cells(file, read_tsv, given)
    raise UsageError(
        f"{file} has no known format; its name should end with {', '.join(SUFFIXES)}, which "
        f"may be followed by {', '.join(COMPRESSIONS)}, or its lines have tabs or tags; bare texts "
        "to predict from are a .txt or a .tsv of one column, and train.en with train.de is "
        "train.en-de"
    )


def _has_columns(head: Sequence[str]) -> bool:
    """Tell whether lines are a table, by its header or by as many tabs in each."""
    lines = [line for line in head if line.strip()]
    first, *below = (line.split("\t") for line in lines or [""])
    return (len(first) > 1 and is_header(first, {}, below)) or is_parted(lines, "\t")


def _json(file: Path, head: Sequence[str]) -> Layout | Table:
    match json_layout(head):
        case "squad":
            return SQUAD
        case "dream":
            return DREAM
        case "lines":
            return open_objects(file, read_jsonl)
        case "list":
            return open_objects(file, read_list)


def _line_layout(
    suffix: str, head: Sequence[str], given: Columns, *, any_tags: bool
) -> Layout | None:
    """Return the layout of plain lines, or None where they are a table."""
    if suffix == ".conllu" or is_conllu(head):
        return CONLLU
    if suffix in CONLL_SUFFIXES:
        return CONLL
    if is_aspects(head):
        return ASPECTS
    has_tabs = any("\t" in line for line in head)
    if has_tabs:
        first, *below = (line.split("\t") for line in head)
        if is_header(first, given, below):
            return None
    if not has_tabs and is_segmented(head):
        return SEGMENTED
    return CONLL if is_conll(head, any_tags=any_tags) else None


def _layout_source(file: Path, layout: Layout, form: str | None, given: Columns) -> Source:
    others = {ours: theirs for ours, theirs in given.items() if ours not in layout.chooses}
    if form not in (None, layout.form) and not others:
        raise UsageError(
            f"{file} holds {layout.name}, which is for the form {layout.form!r}, not for {form!r}; "
            "name another --task or give another file"
        )

    def read(quarantine: Quarantine) -> Rows:
        return layout.read(file, quarantine, given)

    return Source(form or layout.form, others, read, f"{file.name} is read as {layout.name}")


def _table_form(table: Table, given: Columns, among: Sequence[str] | None = None) -> str:
    given = _by_name(given, table)
    if has_spans(table):
        return "tags"
    if table.has_names or not table.sample:
        form = choose_form(table.names, given, among or ()) or form_of(table.names, given)
        if form == "label" and not among:
            refuse_decimals(table, given)
            is_told = "label" in match_names(table.names, form, given)
            return form if is_told or not has_character_tags(table, given) else "tags"
        return form
    if given:
        names = [*given.values()]
        return choose_form(names, given, among or ()) or form_of(names, given)
    columns = [table.column(name) for name in table.names]
    by_gold = sorted(among or (), key=lambda form: not FORMS[form].gold)
    fitting = [form for form in by_gold if guess_columns(columns, form, labelled=True)]
    is_sure = len([form for form in fitting if FORMS[form].gold]) < 2
    return fitting[0] if fitting and is_sure else guess_form(columns)


def _table_source(
    file: Path, table: Table, form: str | None, given: Columns, *, labelled: bool
) -> Source:
    given = _by_name(given, table)
    form = form or _table_form(table, given)
    if not table.sample:
        return Source(form, given, table.read)
    if table.has_names:
        columns: Columns = _named_columns(table, form, given, labelled=labelled)
        if "text" in columns and "text" not in given:
            refuse_shorter(table, columns)
    else:
        columns = _bare_columns(table, form, given, labelled=labelled)
        if plain_suffix(file) == ".csv" and len(table.names) == 1 and not given:
            refuse_other_mark(table)
    if missing_inputs(form, columns):
        raise cannot_tell(table.names, form, labelled=labelled)
    note = _note(file, form, columns, given) or _header_warning(file, table, given)
    return Source(form, columns, _reader(table, form, columns, labelled=labelled), note)


def _named_columns(table: Table, form: str, given: Columns, *, labelled: bool) -> dict[str, str]:
    found = match_names(table.names, form, given, labelled=labelled)
    return with_spans(found, table, given) if form == "tags" else found


def _require_told(table: Table, form: str, given: Columns) -> None:
    """Stop where nobody named a task, and the columns do not tell one either."""
    given = _by_name(given, table)
    if not table.has_names:
        _bare_columns(table, form, given, labelled=True, has_task=False)
        return
    found = _named_columns(table, form, given, labelled=True)
    is_sought = bool(found.keys() & {*FORMS[form].gold})
    if missing_inputs(form, found) or ({*table.names} - {*found.values()} and not is_sought):
        raise must_be_told(table.names, form)


def _reader(
    table: Table, form: str, columns: Columns, *, labelled: bool
) -> Callable[[Quarantine], Rows]:
    """Return how to read a table whose rows may lack cells that a form does without."""
    if not table.has_places:
        return table.read
    wanted = {*FORMS[form].inputs, *(FORMS[form].gold if labelled else ())} - {"choices"}
    needed = {columns[ours] for ours in wanted if ours in columns}
    return partial(table.read, wanted=Wanted(needed, has_blank=not labelled))


def _by_name(given: Columns, table: Table) -> dict[str, str]:
    """Return the columns that are given by their numbers under their names."""
    if not table.has_places:
        return dict(given)
    stripped = {name.strip(): name for name in reversed(table.names)}

    def named(theirs: str) -> str:
        at = int(theirs) if theirs.isdecimal() else 0
        is_number = theirs not in table.names and 0 < at <= len(table.names)
        return table.names[at - 1] if is_number else stripped.get(theirs, theirs)

    return {
        ours: theirs if theirs in table.names else ",".join(map(named, theirs.split(",")))
        for ours, theirs in given.items()
    }


def _bare_columns(
    table: Table, form: str, given: Columns, *, labelled: bool, has_task: bool = True
) -> Mapping[str, str]:
    """Return the columns of a table without a header: all given, or all guessed."""
    if given:
        gold = set(FORMS[form].gold)
        has_gold = not gold or not labelled or gold & given.keys()
        if missing_inputs(form, given) or not has_gold:
            raise _unknown(table, form, labelled=labelled, has_task=has_task)
        return given
    if form in OF_TEXTS and not labelled and len(table.names) == 1:
        return {"text": table.names[0]}
    _require_columns(table, is_enough=not (labelled and FORMS[form].gold))
    try:
        found = guess_columns([table.column(name) for name in table.names], form, labelled=labelled)
    except DataError as error:
        told = _unknown(table, form, labelled=labelled, has_task=has_task)
        raise DataError(f"{error}: it {told}") from error
    if found is None:
        raise _unknown(table, form, labelled=labelled, has_task=has_task)
    return found


def _require_columns(table: Table, *, is_enough: bool) -> None:
    """Stop where rows seem to be parted at the wrong marks; one column may be enough."""
    first = str(table.sample[0]["1"])
    if not table.is_even:
        raise DataError(
            "has no known header and rows of different widths; quote texts that hold the mark "
            "between columns, or give --columns by number"
        )
    if len(table.names) == 1 and (not is_enough or names_columns(first)):
        raise DataError(
            f"has one column only, which begins with {first!r:.30}; columns are parted by commas "
            "in .csv (by semicolons only below a header of known names) and by tabs in .tsv; "
            "rename the file, or write it with them"
        )


def _header_warning(file: Path, table: Table, given: Columns) -> str | None:
    """Return what to say where columns are given by number and the first row may be a header."""
    is_odd = (table.column(name).begins_with_name for name in given.values() if name in table.names)
    if table.has_names or not any(is_odd):
        return None
    first = ", ".join(f"{value!r:.30}" for value in table.sample[0].values())
    return (
        f"warning: the first row of {file.name} ({first}) is read as an example; if it is a "
        "header, give --columns by name"
    )


def _unknown(table: Table, form: str, *, labelled: bool, has_task: bool) -> DataError:
    first = table.sample[0]
    shown = [f"{name} ({first[name]!r:.30})" for name in table.names]
    if not has_task:
        return must_be_told(shown, form, has_names=False)
    return cannot_tell(shown, form, has_names=False, labelled=labelled)


def _note(file: Path, form: str, columns: Columns, given: Columns) -> str | None:
    guessed = {ours: theirs for ours, theirs in columns.items() if ours not in given}
    if all(ours == theirs for ours, theirs in guessed.items()):
        return None
    ordered = dict.fromkeys((*FORMS[form].inputs, *FORMS[form].gold, *columns))
    pairs = " ".join(f"{ours}={columns[ours]}" for ours in ordered if ours in columns)
    return f"columns of {file.name}: {pairs} (guessed)"
