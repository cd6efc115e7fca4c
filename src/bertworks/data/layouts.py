"""Which layout a file of labelled data has: rules that are asked from the first to the last."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from bertworks.core.errors import UsageError
from bertworks.core.file_pairs import is_pair, require_sides
from bertworks.core.lines import COMPRESSIONS, STANDARD_INPUT, plain_suffix, require_content
from bertworks.core.quarantine import Quarantine
from bertworks.data.columns import Columns, is_header
from bertworks.data.first_lines import read_head
from bertworks.data.json_documents import (
    JsonLayout,
    json_layout,
    read_dream,
    read_list,
    read_squad,
)
from bertworks.data.line_groups import is_aspects, read_aspects, read_intents, require_intents
from bertworks.data.parallel_files import read_pair
from bertworks.data.tables import (
    Table,
    csv_reader,
    is_parted,
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

Rows = Iterator[tuple[int, dict[str, Any]]]
SUFFIXES = (".jsonl", ".tsv", ".csv", ".parquet", ".json", ".conll", ".conllu")
JSONL_SUFFIXES = (".jsonl", ".ndjson")
CONLL_SUFFIXES = (".conll", ".bio", ".iob", ".iob2", ".bmes", ".bioes", ".bilou")
OF_TEXTS = ("label", "labels", "score", "tags", "intent_slots")  # which may ask of one text alone


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
class Sight:
    """What is known of a file before any of its rows is read."""

    file: Path
    form: str | None  # that somebody asks for
    given: Columns
    labelled: bool = True
    head: Sequence[str] = ()  # its first lines, once they were read

    @cached_property
    def suffix(self) -> str:
        """The end of its name, without that of a compression."""
        return plain_suffix(self.file)

    @cached_property
    def json(self) -> JsonLayout | None:
        """What a file of JSON holds."""
        return json_layout(self.head) if self.suffix == ".json" else None

    @cached_property
    def has_tabs(self) -> bool:
        """Whether there is a tab anywhere."""
        return any("\t" in line for line in self.head)

    @cached_property
    def has_header(self) -> bool:
        """Whether the first line is cells that name columns."""
        first, *below = (line.split("\t") for line in self.head or [""])
        return self.has_tabs and is_header(first, self.given, below)

    @cached_property
    def is_texts(self) -> bool:
        """Whether nothing but texts is asked for, and the name says no more than that."""
        asks_texts = self.form == "texts" or (self.form in OF_TEXTS and not self.labelled)
        return asks_texts and self.suffix == ".txt"

    @cached_property
    def is_bare_texts(self) -> bool:
        """Whether each line is a text, with the tabs that it may hold."""
        return self.is_texts and not self.given and not self._is_table

    @cached_property
    def is_conll(self) -> bool:
        """Whether lines are tokens with tags; tags of any kind where tags are asked for."""
        may_be = not self.is_texts or bool(self.given) or has_short_lines(self.head)
        return is_conll(self.head, any_tags=self.form == "tags" and may_be)

    @property
    def _is_table(self) -> bool:
        """Whether lines have columns, by a header of several or by as many tabs in each."""
        lines = [line for line in self.head if line.strip()]
        first, *below = (line.split("\t") for line in lines or [""])
        return (len(first) > 1 and is_header(first, {}, below)) or is_parted(lines, "\t")


def _json_lines(seen: Sight) -> Table:
    return open_objects(seen.file, read_jsonl)


def _json_list(seen: Sight) -> Table:
    return open_objects(seen.file, read_list)


def _parquet(seen: Sight) -> Table:
    return open_objects(seen.file, read_parquet_rows)


def _csv(seen: Sight) -> Table:
    return open_cells(seen.file, csv_reader(seen.head, seen.given), seen.given)


def _tsv(seen: Sight) -> Table:
    return open_cells(seen.file, read_tsv, seen.given)


def _whole_lines(seen: Sight) -> Table:
    return open_cells(seen.file, read_whole_lines, seen.given)


def _nothing_known(seen: Sight) -> Table:
    raise UsageError(
        f"{seen.file} has no known format; its name should end with {', '.join(SUFFIXES)}, which "
        f"may be followed by {', '.join(COMPRESSIONS)}, or its lines have tabs or tags; bare texts "
        "to predict from are a .txt or a .tsv of one column, and train.en with train.de is "
        "train.en-de"
    )


Rule = tuple[Callable[[Sight], bool], Layout | Callable[[Sight], Table]]
# Of each table the first rule that fits is taken. These look at the path alone:
BY_PATH: tuple[Rule, ...] = (
    (lambda seen: seen.file == STANDARD_INPUT, _json_lines),
    (lambda seen: seen.file.is_dir(), INTENTS),
    (lambda seen: is_pair(seen.file), PARALLEL),
    (lambda seen: seen.suffix == ".parquet", _parquet),
)
# And these at its first lines too, where no rule above fits:
BY_LINES: tuple[Rule, ...] = (
    (lambda seen: seen.suffix in JSONL_SUFFIXES, _json_lines),
    (lambda seen: seen.json == "squad", SQUAD),
    (lambda seen: seen.json == "dream", DREAM),
    (lambda seen: seen.json == "lines", _json_lines),
    (lambda seen: seen.json == "list", _json_list),
    (lambda seen: seen.suffix == ".csv", _csv),
    (lambda seen: seen.form == "target", _tsv),  # no layout below is for it: bare lines are sources
    (lambda seen: seen.suffix == ".conllu" or is_conllu(seen.head), CONLLU),
    (lambda seen: seen.suffix in CONLL_SUFFIXES, CONLL),
    (lambda seen: is_aspects(seen.head), ASPECTS),
    (lambda seen: seen.has_header, _tsv),
    (lambda seen: not seen.has_tabs and is_segmented(seen.head), SEGMENTED),
    (lambda seen: seen.is_conll, CONLL),
    (lambda seen: seen.is_bare_texts, _whole_lines),
    (lambda seen: seen.suffix == ".tsv" or seen.is_texts or seen.has_tabs, _tsv),
)


def find_layout(
    file: Path, form: str | None, given: Columns, *, labelled: bool = True
) -> Layout | Table:
    """Return the official layout of a file, or the table that it is."""
    require_source(file)
    seen = Sight(file, form, given, labelled)
    found = _first_fitting(BY_PATH, seen)
    if found is None:
        seen = replace(seen, head=read_head(file))
        found = _first_fitting(BY_LINES, seen) or _nothing_known
    return found if isinstance(found, Layout) else found(seen)


def require_source(file: Path) -> None:
    """Stop when a file is missing or empty, or a folder holds no layout of several files."""
    if file.is_dir():
        require_intents(file)
    elif file != STANDARD_INPUT:
        for own in require_sides(file):
            require_content(own)


def _first_fitting(rules: Sequence[Rule], seen: Sight) -> Layout | Callable[[Sight], Table] | None:
    return next((found for fits, found in rules if fits(seen)), None)
