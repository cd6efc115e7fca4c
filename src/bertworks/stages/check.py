"""check: labelled data -> what is wrong with them, before anything is trained."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bertworks.core.artifact import ESCAPED, Origin, check_artifact, refuse_existing, saving
from bertworks.core.errors import DataError, FoundError, UsageError
from bertworks.core.file_pairs import require_sides
from bertworks.core.lines import require_file
from bertworks.core.progress import Meter, progress
from bertworks.core.quarantine import Quarantine
from bertworks.core.settings import as_command, as_json
from bertworks.data.rows import find_form, parse_columns, stream_examples
from bertworks.evaluation.check_report import check_page, shown
from bertworks.evaluation.copy_checks import CopyCheck
from bertworks.evaluation.data_check import bad_rows, look, make_checks
from bertworks.evaluation.findings import Check, Finding, worst_first
from bertworks.evaluation.piece_checks import PieceCheck
from bertworks.evaluation.target_checks import TargetPieceCheck
from bertworks.stages.settings import CheckSettings
from bertworks.tasks.catalog import KINDS
from bertworks.tasks.classify import OF_PAIRS, lacks_second
from bertworks.tokenizer.tokenizer import Tokenizer


def run(settings: CheckSettings) -> dict[str, Any]:
    """Look at every row, tell what was found, and write a report if one is wanted."""
    if settings.out is not None:
        refuse_existing(settings.out)
    reader = _Reader(settings)
    checks = _checks(settings)
    with progress("checking", total=None, unit="rows") as meter:
        parts = {name: reader.examples(name, meter) for name in reader.files}
        findings = look(parts, checks)
    findings = worst_first([*reader.findings(), *findings])
    result: dict[str, Any] = {
        "files": reader.told(),
        "findings": [
            {"severity": f.severity, "check": f.check, "rows": f.places.count, "finding": str(f)}
            for f in findings
        ],
    }
    if settings.out is not None:
        _write(settings, reader, findings, checks)
        result = {"report": str(settings.out), **result}
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        count = f"{len(errors)} errors, the first: " if len(errors) > 1 else ""
        raise FoundError(f"{count}{errors[0]}", result=result)
    return result


class _Reader:
    """Reads the files, and keeps apart what is wrong with each."""

    def __init__(self, settings: CheckSettings) -> None:
        self.files = _named((settings.data, *settings.against))
        for file in self.files.values():
            for own in require_sides(file):
                if not own.is_dir():  # some layouts are folders
                    require_file(own)
        self.columns = parse_columns(settings.columns)
        self.among = KINDS[settings.task].forms() if settings.task else None
        self.task = settings.task
        self.torn: dict[str, Finding] = {}
        self.form = self._tell_form(settings.data)
        self.quarantines = {name: Quarantine() for name in self.files}

    def examples(self, name: str, meter: Meter) -> Iterator[Any]:
        """Yield the examples of a file; where it cannot be read on, that is a finding."""
        if self.form is None:
            return
        try:
            for example in self._stream(name, self.quarantines[name]):
                meter.advance()
                if self.task in OF_PAIRS and example.text_b is None:
                    reason = str(lacks_second(self.task))
                    self.quarantines[name].recall(self.files[name], example.line, reason)
                else:
                    yield example
        except DataError as error:
            self._tear(name, error)

    def findings(self) -> list[Finding]:
        """Return what was found by reading alone."""
        whole = {name: own for name, own in self.quarantines.items() if name not in self.torn}
        bad = [finding for name, own in whole.items() for finding in bad_rows(name, own)]
        return [*self.torn.values(), *bad]

    def told(self) -> list[dict[str, Any]]:
        """Return the files with their numbers of rows."""
        return [
            {
                "file": name,
                "form": self.form,
                "examples": own.num_good,
                "bad_rows": own.num_bad,
            }
            for name, own in self.quarantines.items()
        ]

    def texts_at(self, wanted: set[tuple[str, int]]) -> dict[tuple[str, int], str]:
        """Read again what stands on some lines; of a row that cannot be read, tell why."""
        bad = ((name, row) for name, own in self.quarantines.items() for row in own.rows)
        found = {(name, row.line): row.reason for name, row in bad}
        for name in self.files:
            lines = {line for part, line in wanted - set(found) if part == name}
            if not lines:
                continue
            for example in self._stream(name, Quarantine(), tells=False):
                if example.line in lines:
                    found[name, example.line] = shown(example)
                if example.line >= max(lines):
                    break
        return found

    def _tell_form(self, file: Path) -> str | None:
        """Return what the rows hold; where the file does not tell it, that is what is found."""
        try:
            return find_form(file, self.columns, among=self.among)
        except DataError as error:
            name = next(iter(self.files))
            self.files = {name: file}  # nobody knows what to look for in the others
            self._tear(name, error)
            return None

    def _tear(self, name: str, error: DataError) -> None:
        self.torn[name] = Finding(severity="error", check="unreadable file", said=str(error))

    def _stream(self, name: str, quarantine: Quarantine, *, tells: bool = True) -> Iterator[Any]:
        assert self.form is not None  # else no row is read
        file, form = self.files[name], self.form
        if self.among is not None:
            form = find_form(file, self.columns, among=self.among)
        columns = self.columns
        return stream_examples(file, quarantine, form=form, columns=columns, tells=tells)


def _named(files: tuple[Path, ...]) -> dict[str, Path]:
    """Return files by the names that tell them apart, short if they do."""
    for file in files:
        if files.count(file) > 1:
            raise UsageError(f"{file} is given twice; leave it out once")
    is_short = len({file.name for file in files}) == len(files)
    return {file.name if is_short else str(file): file for file in files}


def _checks(settings: CheckSettings) -> list[Check]:
    checks = make_checks(rare=settings.look.rare, similarity=settings.look.similarity)
    if settings.look.tokenizer is not None:
        check_artifact(settings.look.tokenizer, "tokenizer", "model")
        tokenizer = Tokenizer.open(settings.look.tokenizer)
        checks.append(PieceCheck(tokenizer, longest=settings.look.longest))
        checks.append(TargetPieceCheck(tokenizer, longest=settings.look.longest))
    return checks


def _write(
    settings: CheckSettings, reader: _Reader, findings: list[Finding], checks: list[Check]
) -> None:
    assert settings.out is not None  # else there is nothing to write
    origin = Origin(
        command=as_command("check", settings),
        settings=as_json(settings),
        inputs=reader.files,
    )
    texts = reader.texts_at({place for finding in findings for place in finding.shown_places()})
    told = {"files": reader.told(), "findings": [finding.as_json() for finding in findings]}
    quarantine = Quarantine()
    for own in reader.quarantines.values():
        quarantine.take(own)
    with saving(settings.out, kind="report", origin=origin) as folder:
        text = json.dumps(told, indent=1, ensure_ascii=False)
        (folder / "check.json").write_text(text, encoding="utf-8", errors=ESCAPED)
        page = check_page(findings, told["files"], texts, command=origin.command)
        (folder / "report.html").write_text(page, encoding="utf-8", errors=ESCAPED)
        quarantine.write(folder)
        copies = [row for c in checks if isinstance(c, CopyCheck) for row in c.listed]
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in copies)
        (folder / "copies.jsonl").write_text(lines, encoding="utf-8", errors=ESCAPED)
