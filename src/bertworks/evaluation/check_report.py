"""The page about labelled data: what was found in it, with the rows concerned."""

from collections.abc import Mapping, Sequence
from typing import Any

from bertworks.data.examples import TaggedExample
from bertworks.evaluation.example_views import texts_of
from bertworks.evaluation.findings import SEVERITIES, Finding, Severity
from bertworks.evaluation.report import Page

HEADINGS: dict[Severity, str] = {
    "error": "Errors: training cannot be scored",
    "warning": "Warnings",
    "note": "Notes",
}
LONGEST_SHOWN = 200  # characters of a text
Texts = Mapping[tuple[str, int], str]  # by file and line


def check_page(
    findings: Sequence[Finding], files: Sequence[Mapping[str, Any]], texts: Texts, *, command: str
) -> str:
    """Return the page: the files, and all findings, the worst first."""
    page = Page("A look at labelled data")
    page.text(summary(findings))
    header = [name.replace("_", " ") for name in files[0]]
    page.table(header, [tuple(map(_cell, file.values())) for file in files])
    for severity in SEVERITIES:
        own = [finding for finding in findings if finding.severity == severity]
        if own:
            page.heading(HEADINGS[severity])
            page.table(
                ("what", "rows", "found", "remedy"),
                [(f.check, f"{f.places.count:,}", f.said, f.remedy) for f in own],
            )
    for finding in findings:
        if finding.places.first or finding.details:
            _show(page, finding, texts)
    page.heading("Made with")
    page.code(command)
    return page.html()


def summary(findings: Sequence[Finding]) -> str:
    """Say in one sentence whether training may begin."""
    num_errors, num_warnings = (
        sum(finding.severity == severity for finding in findings) for severity in SEVERITIES[:2]
    )
    if num_errors:
        return f"{_number(num_errors, 'error')} to mend before training."
    if num_warnings:
        return f"No errors; {_number(num_warnings, 'warning')} to look at."
    return "Nothing to worry about was found."


def shown(example: Any) -> str:
    """Return the texts and the label of an example, cut to what a table can hold."""
    text = " ‖ ".join(texts_of(example))
    short = text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"
    label = getattr(example, "intent" if isinstance(example, TaggedExample) else "label", None)
    return short if label is None else f"{short} → {label}"


def _show(page: Page, finding: Finding, texts: Texts) -> None:
    page.heading(finding.check.capitalize())
    page.text(f"{finding.said}.")
    if finding.places.first:
        places = finding.shown_places()
        rows = [(part, f"{line:,}", texts.get((part, line), "")) for part, line in places]
        page.table(("file", "line", "what stands there"), rows)
    if finding.details:
        header = tuple(finding.details[0])
        page.table(header, [[_cell(row.get(n, "")) for n in header] for row in finding.details])


def _cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _number(count: int, of: str) -> str:
    return f"{count} {of}{'s' * (count != 1)}"
