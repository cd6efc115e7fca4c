"""compare: two reports of the same examples -> by how much they differ, and how sure that is."""

import json
from typing import Any

from bertworks.core.artifact import Origin, refuse_existing, saving
from bertworks.core.settings import as_command, as_json
from bertworks.evaluation.comparison import compare
from bertworks.evaluation.comparison_report import comparison_rows, markdown
from bertworks.evaluation.verdicts import open_verdicts
from bertworks.stages.settings import CompareSettings


def run(settings: CompareSettings) -> dict[str, Any]:
    """Compare two reports and write the tables if a folder is wanted."""
    if settings.out is not None:
        refuse_existing(settings.out)
    sides = [open_verdicts(folder) for folder in (settings.first, settings.second)]
    result = comparison_rows(compare(sides[0], sides[1], seed=settings.seed))
    result = {"first": str(settings.first), "second": str(settings.second), **result}
    if settings.out is None:
        return result
    origin = Origin(
        command=as_command("compare", settings),
        settings=as_json(settings),
        seed=settings.seed,
        inputs={"first": settings.first, "second": settings.second},
    )
    with saving(settings.out, kind="report", origin=origin) as folder:
        told = json.dumps(result, indent=1, ensure_ascii=False)
        (folder / "comparison.json").write_text(told, encoding="utf-8")
        page = markdown(result, first=str(settings.first), second=str(settings.second))
        (folder / "comparison.md").write_text(page, encoding="utf-8")
    return {"report": str(settings.out), **result}
