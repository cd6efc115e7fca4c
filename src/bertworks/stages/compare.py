"""compare: two reports of the same examples -> by how much they differ, and how sure that is."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bertworks.core.artifact import ESCAPED, Origin, refuse_existing, saving
from bertworks.core.settings import as_command, as_json
from bertworks.evaluation.answer_parts import Differences
from bertworks.evaluation.comparison import compare
from bertworks.evaluation.comparison_report import comparison_rows
from bertworks.evaluation.full_report import Report, again, fingerprint
from bertworks.evaluation.statistics import CONFIDENCE
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
        (folder / "comparison.json").write_text(told, encoding="utf-8", errors=ESCAPED)
        _report(settings, result, origin).write(folder)
    return {"report": str(settings.out), **result}


def _report(settings: CompareSettings, result: Mapping[str, Any], origin: Origin) -> Report:
    """Return the differences of both in pictures and tables."""
    rows = {
        "scores": [
            {**row, "score": row["score"].replace("_", " "), "note": _tested(row)}
            for row in result["scores"]
        ],
        "labels": result.get("labels"),
        "slices": result.get("slices"),
    }
    parts = [Differences.of_rows(key, key.capitalize(), own) for key, own in rows.items() if own]
    parts[-1] = replace(parts[-1], notes=tuple(result["notes"]))
    counted = f"{result['examples']:,} examples about {result['texts']:,} texts"
    return Report(
        title=f"{settings.first.name} and {settings.second.name}",
        summary=f"{counted}: {result['verdict']}.",
        parts=[*parts, fingerprint(origin), again(origin)],
    )


def _tested(row: Mapping[str, Any]) -> str:
    """Say how a score was tested, and how many more texts would tell."""
    is_open = row["more_texts"] and row["p"] >= 1 - CONFIDENCE
    more = f"; {row['more_texts']:,} more texts would tell" if is_open else ""
    return f"{row['test']}{more}"
