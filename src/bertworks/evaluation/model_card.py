"""A model's card: what it is, what it learned from, what it scored, and where to be careful."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

from bertworks.core.errors import UsageError
from bertworks.core.lineage import Lineage
from bertworks.evaluation.full_report import Part
from bertworks.evaluation.markdown_page import markdown_page
from bertworks.evaluation.report_blocks import Block, Code, Heading, Table, Text, number


@dataclass(frozen=True)
class DataNote:
    """A source of text that a model learned from."""

    name: str
    about: str
    license: str


@dataclass(frozen=True)
class CardNotes:
    """What a person has to say of a model, as no file does."""

    about: str
    language: str
    license: str
    data: tuple[DataNote, ...]
    limits: tuple[str, ...]

    @classmethod
    def read(cls, told: Mapping[str, Any], *, where: str) -> Self:
        """Take notes from a table of TOML; what is missing, unknown or empty is named."""
        _require(told, cls, where)
        rows = told["data"]
        if not isinstance(rows, list) or not rows or not all(isinstance(r, dict) for r in rows):
            raise UsageError(
                f"{where}: data must be tables, each under [[data]]; write one or more"
            )
        for row in rows:
            _require(row, DataNote, f"{where} [[data]]")
        limits = told["limits"]
        if not isinstance(limits, list) or not limits or not all(map(_is_text, limits)):
            raise UsageError(f"{where}: limits must be a list of sentences; write one or more")
        words = {name: told[name] for name in ("about", "language", "license")}
        for name, value in [*words.items(), *(item for row in rows for item in row.items())]:
            if not _is_text(value):
                raise UsageError(f"{where}: {name} is {value!r}, but it must be a text; write it")
        data = tuple(DataNote(**row) for row in rows)
        return cls(**words, data=data, limits=tuple(limits))


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """All that stands in a card."""

    name: str
    facts: Mapping[str, Any]  # shape and size
    notes: CardNotes
    model: Mapping[str, Any]  # its manifest
    run: Mapping[str, Any]  # the manifest of the run that trained it
    before: Lineage = field(default_factory=Lineage)  # what made that which the run learned from
    training: Part | None = None  # how long the run took
    compared: Mapping[str, Any] | None = None  # with what it was before its weights were rounded
    parts: Sequence[Part]  # scores, speed and the probe, as reports have them

    def markdown(self) -> str:
        """Return the card as a page, with what other libraries look for at its beginning."""
        notes = self.notes
        head = {"language": notes.language, "license": notes.license, "library_name": "bertworks"}
        lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()]
        return "\n".join(["---", *lines, "---", "", markdown_page(self.name, list(self._blocks()))])

    def _blocks(self) -> Iterator[Block]:
        yield Text(self.notes.about)
        yield Code(f'import bertworks\n\nmodel = bertworks.load("{self.name}")')
        yield Heading("What it is")
        facts = {name.replace("_", " "): value for name, value in self.facts.items()}
        yield Table(("", "value"), [(name, _shown(value)) for name, value in facts.items()])
        yield from self._making()
        for part in self.parts:
            yield from part.blocks()
        yield from self._rounding()
        yield Heading("Limits")
        for sentence in self.notes.limits:
            yield Text(sentence)
        yield Heading("Files")
        files = self.model["files"].items()
        rows = [(name, number(told["size"]), told["sha256"]) for name, told in files]
        yield Table(("file", "bytes", "sha256"), rows)

    def _making(self) -> Iterator[Block]:
        yield Heading("Data")
        rows = [(one.name, one.about, one.license) for one in self.notes.data]
        yield Table(("text", "what it is", "licence"), rows)
        yield Heading("Recipe")
        commands = [*self.before.commands, self.run["command"]]
        words = "these commands" if len(commands) > 1 else "this command"
        yield Text(f"Made by bertworks {self.run['version']} with {words}:")
        yield Code("\n".join(commands))
        if lost := ", ".join(self.before.lost):
            yield Text(f"What had made {lost} is not known here.")
        told = [(key, _shown(value)) for key, value in self.run["settings"].items()]
        yield Table(("setting", "value"), [row for row in told if row[1] != "–"])
        if self.training is not None:
            yield from (block for block in self.training.blocks() if isinstance(block, Table))
        if self.model["sha256"] != self.run["sha256"]:
            yield Text("And what is here was made of it with this one:")
            yield Code(self.model["command"])

    def _rounding(self) -> Iterator[Block]:
        if self.compared is None:
            return
        yield Heading("Weights")
        kept = f"They are kept in {self.compared.get('precision')} and opened in single precision."
        if base := self.compared.get("base"):
            kept = (
                f"They are kept as how far they are from those of {base}, and opened together with "
                "that, in single precision."
            )
        yield Text(f"{kept} Beside the model that they were made of:")
        told = self.compared.items()
        rows = [
            (name.replace("_", " "), f"{value:.6g}")
            for name, value in told
            if isinstance(value, int | float)
        ]
        yield Table(("", "value"), rows)
        before, after = (self.compared.get(f"scores_{side}") or {} for side in ("before", "after"))
        if before:
            scores = [(name, f"{before[name]:.4f}", f"{after[name]:.4f}") for name in before]
            yield Table(("score", "before", "after"), scores)


def _require(told: Mapping[str, Any], kind: type, where: str) -> None:
    """Stop where a table lacks a key, or has one that nobody reads."""
    known = [item.name for item in fields(kind)]
    for name in known:
        if name not in told:
            raise UsageError(f"{where} has no {name}; a card needs {', '.join(known)}")
    for name in told:
        if name not in known:
            raise UsageError(
                f"{where} has {name!r}, which no card shows; it has {', '.join(known)}"
            )


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _shown(value: Any) -> str:
    if value is None or value == []:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return number(value) if isinstance(value, int) else str(value)
